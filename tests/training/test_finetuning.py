from pathlib import Path

import numpy as np
import polars as pl
import pytest
from small_students import static_block

from pipeline.artifacts import pairs
from pipeline.artifacts.texts import text_id
from pipeline.core.errors import UserError
from pipeline.core.params.students import Finetune
from pipeline.students import static
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.finetuning import Finetuning, chosen_triplets

TRIPLETS = [
    ("a small tame cat", "kitten", ["tiger", "puppy"]),
    ("a young dog", "puppy", ["wolf", "tiger"]),
    ("water from clouds", "rain", []),
]
"""`puppy` is the second anchor's positive, so no hard negative; `tiger` is one, once."""
TEXTS = sorted({text for anchor, positive, hard in TRIPLETS for text in (anchor, positive, *hard)})
TEMPERATURE = 0.1


@pytest.fixture
def student(parts) -> static.Static:
    return static.build(static_block(), parts)


def triplets(task: str = "mine") -> pl.DataFrame:
    columns = {
        "left_id": [text_id(anchor) for anchor, _, _ in TRIPLETS],
        "right_id": [text_id(positive) for _, positive, _ in TRIPLETS],
        "negative_ids": [[text_id(text) for text in hard] for _, _, hard in TRIPLETS],
    }
    return pairs.make(task, "train", columns)


def texts() -> pl.DataFrame:
    table = {"text_id": [text_id(text) for text in TEXTS], "text": TEXTS}
    return pl.DataFrame(table, schema={"text_id": pl.UInt64, "text": pl.String}).sort("text_id")


def params(**changes) -> Finetune:
    base = {"data": ["mine"], "epochs": 1, "batch_size": 3, "lr": 0.05, "evaluations": 1}
    return Finetune.model_validate({**base, **changes})


def run(student, scores, checkpoint: Path, **changes):
    finetuning = Finetuning(student, triplets(), texts(), TEMPERATURE)
    left = iter(scores)
    return finetuning.run("tiny", params(**changes), lambda: next(left), Checkpoint(checkpoint), 1e9)


def own_vectors(student: static.Static, wanted: list[str]) -> np.ndarray:
    return student.vectors(student.tokenise(wanted)).detach().double().numpy()


def loss_by_hand(student: static.Static, rows: list[int]) -> float:
    positives = [TRIPLETS[row][1] for row in rows]
    hard = {text for row in rows for text in TRIPLETS[row][2]} - set(positives)
    costs = []
    for row in rows:
        anchor, *candidates = own_vectors(
            student, [TRIPLETS[row][0], TRIPLETS[row][1], *positives, *sorted(hard)]
        )
        cosines = [anchor @ other / np.linalg.norm(anchor) / np.linalg.norm(other) for other in candidates]
        powers = np.exp(np.array(cosines) / TEMPERATURE)
        costs.append(-np.log(powers[0] / powers[1:].sum()))
    return float(np.mean(costs))


def test_the_loss_of_a_batch_is_infonce_over_its_positives_and_hard_negatives(student, tmp_path):
    expected = loss_by_hand(student, [0, 1, 2])
    curve = run(student, [0.0, 0.0], tmp_path / "state")
    assert curve[-1].train_loss == pytest.approx(expected, rel=1e-5)


def test_only_the_batchs_own_triplets_count(student, tmp_path):
    splits = [([0, 1], [2]), ([0, 2], [1]), ([1, 2], [0])]
    expected = {round(np.mean([loss_by_hand(student, batch) for batch in split]), 4) for split in splits}
    curve = run(student, [0.0, 0.0], tmp_path / "state", batch_size=2, lr=1e-12)
    assert round(curve[-1].train_loss, 4) in expected
    assert len(expected) == 3


def test_training_brings_anchors_to_their_positives(student, tmp_path):
    before = loss_by_hand(student, [0, 1, 2])
    run(student, [0.0, 1.0], tmp_path / "state", epochs=15)
    assert loss_by_hand(student, [0, 1, 2]) < 0.5 * before


@pytest.mark.parametrize(
    ("scores", "changed"), [([0.5, 0.5], False), ([0.5, 0.4], False), ([0.5, 0.6], True)]
)
def test_the_distilled_weights_are_kept_unless_the_dev_score_rises(student, tmp_path, scores, changed):
    before = own_vectors(student, TEXTS)
    curve = run(student, scores, tmp_path / "state")
    assert [-point.dev_value for point in curve] == scores
    assert (own_vectors(student, TEXTS).tobytes() != before.tobytes()) == changed


def test_only_the_chosen_data_is_taken():
    table = pl.concat([triplets("mine"), triplets("other"), triplets("third")])
    chosen = chosen_triplets(table, params(data=["mine", "third"]), Path("t"))
    assert chosen["task"].unique().sort().to_list() == ["mine", "third"]
    assert len(chosen) == 6


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_triplets_name_the_file_and_the_data(rows):
    table = pl.concat([triplets("mine").head(rows), triplets("other")])
    expected = rf"^corpus/triplets.parquet has {rows} triplets of mine, third; at least 2 are needed"
    with pytest.raises(UserError, match=expected):
        chosen_triplets(table, params(data=["mine", "third"]), Path("corpus/triplets.parquet"))
