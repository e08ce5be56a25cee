"""The programs on the cards read JSON as UTF-8 where the user's locale has another encoding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.classifiers.shipped.card import PROGRAM
from pipeline.export.snippets import ONNX

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    "line", [line for program in (ONNX, PROGRAM) for line in program.splitlines() if "json.loads" in line]
)
def test_a_program_reads_utf8_in_any_locale(tmp_path: Path, line: str):
    for name in ("config.json", "classifier.json"):
        content = {"pad_token_id": 0, "labels": ["gr\u00f6\u00dfer"], "_name_or_path": "gr\u00f6\u00dfer"}
        (tmp_path / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    program = (
        f"import json\nfrom pathlib import Path\nfrom unittest.mock import Mock\ntokenizer = Mock()\n{line}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, **ASCII},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
