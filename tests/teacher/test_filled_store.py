"""Vectors that an earlier revision has stored are taken from there: moving code makes no vector invalid.

`filled_store` holds what revision 3ec1209 stored of four texts, by the hashing teacher and by a tiny BERT. A
change that fails here changes a recipe or the store's layout: users then encode all their texts again.
"""

import shutil
from pathlib import Path

import pytest
from encode_runs import encode, write_texts
from ruamel.yaml import YAML
from small_params import small_params

TEXTS = ["a stored text", "another one", "the third of four", "the last"]


@pytest.mark.parametrize(
    "teacher", [{"kind": "hashing", "dim": 4}, {"kind": "transformer", "model": "bert", "pooling": "mean"}]
)
@pytest.mark.parametrize("new", [[], ["a new text"]])
def test_nothing_that_is_stored_is_encoded_again(tmp_path, monkeypatch, capsys, teacher, new):
    shutil.copytree(Path(__file__).parent / "filled_store", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    views, runtime = {"views": ["sentence", "cls"]}, {"device": "cpu", "cache": "cache"}
    YAML().dump(small_params(teacher=teacher, encode=views, runtime=runtime), Path("params.yaml"))
    write_texts([*TEXTS, *new])
    encode()
    assert f"{len(new)} encoded, 4 taken from the store" in capsys.readouterr().err
