"""Whatever is wrong with a task's files, of any kind and layout, one line says in which file and row."""

import bad_glue_files
import bad_labelled_files
import bad_retrieval_files
import bad_similarity_files
import pytest
from bad_glue_files import MNLI, MRPC, QQP, SST2
from bad_labelled_files import CLASS, PAIR
from bad_retrieval_files import BEIR, MARCO
from named_keys import named_keys
from refusals import refuses

from pipeline.params.evaluate import Evaluate
from pipeline.prepare.tasks import evaluation

CASES = (
    bad_similarity_files.CASES | bad_retrieval_files.CASES | bad_labelled_files.CASES | bad_glue_files.CASES
)


def whole(block):
    """Files that are in order; a case replaces some."""
    if block["kind"] == "retrieval":
        return bad_retrieval_files.WHOLE[block.get("layout", "beir")]
    return (bad_labelled_files.WHOLE | bad_glue_files.WHOLE).get(block["kind"], {})


def read(tmp_path, monkeypatch, block, files):
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        if content is not None:
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return evaluation(Evaluate.model_validate({"tasks": {"mine": block}}).tasks, None)


@pytest.mark.parametrize("case", CASES)
def test_one_line_names_the_file_and_the_row(tmp_path, monkeypatch, case):
    block, files, named = CASES[case]
    with refuses(*named) as error:
        read(tmp_path, monkeypatch, block, whole(block) | files)
    assert "\n" not in str(error.value)
    named_keys(error.value, {"mine": block})


@pytest.mark.parametrize(
    "block", [BEIR, MARCO, CLASS, PAIR, SST2, MRPC, QQP, MNLI], ids=lambda block: str(block)
)
def test_the_files_without_the_fault_make_a_task(tmp_path, monkeypatch, block):
    assert len(read(tmp_path, monkeypatch, block, whole(block)).pairs)
