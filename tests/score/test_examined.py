import numpy as np
import polars as pl
import pytest
from refusals import refuses
from safetensors.numpy import save_file

from pipeline.data.common.files import metrics
from pipeline.score.statistics import examined
from pipeline.score.statistics.examined import Disagreement, Nearest, Neighbour, TaskExamples

ITEMS = pl.DataFrame(
    {
        "task": ["a"] * 2 + ["b"],
        "measure": ["cosine"] * 2 + ["resolved"],
        "subset": [""] * 3,
        "run": [0] * 3,
        "item": [0, 1, 0],
        "left_id": [1, 2, 3],
        "right_id": [4, 5, None],
        "value": [0.1, 0.2, 1],
        "gold": [3.0, 4, None],
    }
)
SCORES = pl.concat(ITEMS.with_columns(pl.lit(model).alias("model")) for model in examined.MODELS)
NEAR = Neighbour(text="near", cosine=0.5, relevant=True)
EXAMPLES = {
    "a": TaskExamples(
        nearest=(
            Nearest(query="q", subset="", relevant=("near",), belonging=1, teacher=(NEAR,), student=()),
        ),
        pairs=2,
        disagreements=(
            Disagreement(
                left="l",
                right="r",
                gold=None,
                teacher_cosine=0.25,
                student_cosine=0.5,
                teacher_rank=1,
                student_rank=2,
            ),
        ),
    )
}
CORRELATION = {"teacher": np.eye(3), "finetuned": np.ones((2, 2))}


@pytest.fixture
def folder(tmp_path):
    examined.write(SCORES, EXAMPLES, CORRELATION, tmp_path / "hpd")
    return tmp_path / "hpd"


def test_all_of_it_comes_back(folder):
    scores = examined.read_scores(folder, "hpd")
    assert scores.schema == pl.Schema(examined.SCORES_SCHEMA)
    assert scores.equals(SCORES.select(pl.col(n).cast(t) for n, t in examined.SCORES_SCHEMA.items()))
    assert examined.read_examples(folder, "hpd") == EXAMPLES
    found = examined.read_correlation(folder, "hpd")
    assert {name: matrix.dtype for name, matrix in found.items()} == dict.fromkeys(
        examined.MODELS, np.float32
    )
    np.testing.assert_array_equal(found["finetuned"], np.ones((2, 2)))


def test_equal_contents_give_equal_bytes(folder, tmp_path):
    examined.write(SCORES, EXAMPLES, dict(reversed(CORRELATION.items())), tmp_path / "again")
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


READERS = {
    examined.SCORES: examined.read_scores,
    examined.EXAMPLES: examined.read_examples,
    examined.CORRELATION: examined.read_correlation,
}


@pytest.mark.parametrize("name", READERS)
def test_a_missing_or_broken_file_names_its_stage(folder, name):
    (folder / name).write_bytes(b"?")
    with refuses(folder / name, "`dvc repro -f evaluate@hpd`"):
        READERS[name](folder, "hpd")
    (folder / name).unlink()
    with refuses(folder / name, "`dvc repro evaluate@hpd`"):
        READERS[name](folder, "hpd")


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda table: table[:-1], "same items"),
        (lambda table: table.with_columns(item=pl.int_range(pl.len())), "same items"),
        (lambda table: table.clear(), "same items"),
        (lambda table: table.with_columns(model=pl.lit("else")), "same items"),
        (lambda table: table.with_columns(value=pl.lit(None)), "value"),
        (lambda table: table.with_columns(value=pl.lit(float("nan"))), "value"),
    ],
)
def test_items_that_cannot_be_resampled(folder, spoil, fault):
    examined.write(spoil(SCORES), EXAMPLES, CORRELATION, folder)
    with refuses(folder / examined.SCORES, fault, "`dvc repro -f evaluate@hpd`"):
        examined.read_scores(folder, "hpd")


def test_examples_of_another_form(folder):
    document = metrics.read(folder / examined.EXAMPLES, "evaluate")
    document["a"]["pairs"] = "many"
    metrics.write(document, folder / examined.EXAMPLES)
    with refuses(folder / examined.EXAMPLES, "a.pairs:", "`dvc repro -f evaluate@hpd`"):
        examined.read_examples(folder, "hpd")


@pytest.mark.parametrize("tensors", [{"teacher": np.eye(2)}, {**CORRELATION, "teacher": np.ones((2, 3))}])
def test_correlations_of_another_form(folder, tensors):
    save_file(tensors, folder / examined.CORRELATION)
    with refuses(folder / examined.CORRELATION, "square matrix", "`dvc repro -f evaluate@hpd`"):
        examined.read_correlation(folder, "hpd")
