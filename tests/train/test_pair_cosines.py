"""Fine-tuning to the teacher's cosines of given pairs, against the equation in float64."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from finetune_runs import ANIMALS, TRIPLETS, finetune, finetune_params, write_inputs, write_replayed
from published_sets import write_set
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_params import small_params
from small_students import own_vectors, static_block, transformer_block

from pipeline.core import seal
from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.params.finetune import Finetune
from pipeline.params.load import check
from pipeline.tasks import pairs
from pipeline.train.finetuning.pair_cosines import PairCosines
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.students.kinds import static, transformer

ROWS = [
    ("a small tame cat", "kitten", ["tiger", "puppy"]),
    ("a young dog", "puppy", ["wolf", "tiger"]),
    ("water from clouds", "rain", []),
    ("kitten", "a small tame cat", ["rain"]),
]
TEXTS = sorted({text for left, right, hard in ROWS for text in (left, right, *hard)}, key=text_id)
TUNED = {"data": ["mine"], "loss": "cosines"}


def cosine(vectors: np.ndarray, known: list[str], left: str, right: str) -> float:
    one, other = (vectors[known.index(text)].astype(np.float64) for text in (left, right))
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def teacher(known: list[str]) -> np.ndarray:
    """Vectors of no unit length, in the order of the texts: of one animal they are near each other."""
    noise = np.random.default_rng(len(known)).normal(0.2, 0.4, (len(known), 24))
    return (noise + [[3.0 * (one in text) for one in (*ANIMALS, *18 * "#")] for text in known]).astype(
        np.float16
    )


def write_teacher(known: list[str], view: str = "sentence", cuts: tuple[int, ...] = (3,)):
    known = sorted(known, key=text_id)
    ids = np.array([text_id(text) for text in known], np.uint64)
    return write_set(Path("vectors/finetune"), ids, {view: teacher(known)}, cuts), known


def loss_by_hand(student, rows: list[int], most: int = 8) -> float:
    """The mean of (cos_s - cos_t)^2 over the pairs of these triplets, in float64."""
    found = [
        (left, right) for left, first, hard in (ROWS[row] for row in rows) for right in (first, *hard[:most])
    ]
    own, theirs = own_vectors(student, TEXTS), teacher(TEXTS)
    gaps = [cosine(own, TEXTS, *pair) - cosine(theirs, TEXTS, *pair) for pair in found]
    return float(np.mean(np.square(gaps)))


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Fine-tune a student on the rows; its curve."""
    monkeypatch.chdir(tmp_path)
    made, _ = write_teacher(TEXTS)

    def train(student, scores, **changes):
        base = {"epochs": 1, "batch_size": len(ROWS), "lr": 0.02, "evaluations": 1, **TUNED}
        params = Finetune.model_validate({**base, **changes})
        columns = {
            "left_id": [text_id(left) for left, _, _ in ROWS],
            "right_id": [text_id(right) for _, right, _ in ROWS],
            "negative_ids": [[text_id(text) for text in hard] for *_, hard in ROWS],
        }
        known = pl.DataFrame({"text_id": [text_id(text) for text in TEXTS], "text": TEXTS})
        known = known.cast({"text_id": pl.UInt64})
        table, left = pairs.make("mine", "train", columns), iter(scores)
        tuning = PairCosines(student, table, [known], params, Path("mined"), made, "sentence", tmp_path)
        number = len([*tmp_path.glob("state*")])
        return tuning.run("tiny", lambda: next(left), Checkpoint(tmp_path / f"state{number}"), 1e9)

    return train


@pytest.mark.parametrize("most", [0, 1, 8])
def test_the_loss_is_the_mean_square_of_the_cosines_differences(trained, parts, most):
    student = static.build(static_block(), parts)
    expected = loss_by_hand(student, [0, 1, 2, 3], most)
    assert trained(student, [0.0, 0.0], negatives=most)[-1].train_loss == pytest.approx(expected, rel=1e-4)


def test_a_batch_has_the_pairs_of_its_own_triplets(trained, parts):
    student = static.build(static_block(), parts)
    order = np.random.default_rng([0, 0]).permutation(len(ROWS)).tolist()
    expected = np.mean([loss_by_hand(student, order[:2]), loss_by_hand(student, order[2:])])
    curve = trained(student, [0.0, 0.0], batch_size=2, lr=1e-12)
    assert curve[-1].train_loss == pytest.approx(expected, rel=1e-4)


def test_training_lowers_it_and_small_parts_give_the_same_weights(trained, parts):
    vectors = []
    for micro_batch in (None, 2):
        student = transformer.build(transformer_block(), parts)
        before = loss_by_hand(student, [0, 1, 2, 3])
        trained(student, [0.0, 1.0], epochs=30, micro_batch=micro_batch)
        assert loss_by_hand(student, [0, 1, 2, 3]) < 0.3 * before
        vectors.append(own_vectors(student, TEXTS))
    np.testing.assert_allclose(vectors[0], vectors[1], atol=2e-3)


def write(parts, tuned: dict, **changes: object) -> list[str]:
    """The stage's inputs, with the teacher's vectors; the texts in their order."""
    write_inputs("transformer", finetune_params(**tuned), parts, {"negatives": 0}, **changes)
    return write_teacher(texts.read_labelled(Path("finetune.parquet"))["text"].to_list())[1]


def gap(folder: str, known: list[str]) -> float:
    """Of a saved student, over all pairs."""
    own, theirs = SentenceTransformer(folder, device="cpu").encode(known), teacher(known)
    found = [(row[0], row[side]) for row in TRIPLETS for side in (1, 2)]
    return float(np.mean([(cosine(own, known, *one) - cosine(theirs, known, *one)) ** 2 for one in found]))


@pytest.mark.parametrize("start", [{}, {"train": None, "loss": None}], ids=["distilled", "untrained"])
@pytest.mark.parametrize("projection", [None, 4])
def test_the_stage_brings_a_student_to_the_teachers_cosines(folder, parts, start, projection):
    known = write(parts, {"loss": "cosines", "projection": projection}, **start)
    finetune(finetune_vectors=Path("vectors/finetune"))
    metrics = seal.read_json(Path("metrics.json"), "finetune")
    assert metrics["kept"] == "finetuned"
    assert metrics["triplets"] == len(TRIPLETS)
    assert gap("out", known) < 0.5 * gap("distilled", known)
    card = Path("out/README.md").read_text()
    assert "Then fine-tuned to the cosines that `a hashing teacher` gives pairs of texts: mine." in card


def test_the_distillation_goes_on_beside_the_cosines(folder, parts):
    distilled = {"epochs": 1, "batch_size": 4, "lr": 0.01, "texts": ["corpus", "wordnet"]}
    known = write(parts, {"loss": "cosines", "replay": {"weight": 0.1, "batch_size": 5}}, train=distilled)
    write_replayed()
    finetune(finetune_vectors=Path("vectors/finetune"))
    curve = pl.read_csv("curve.tsv", separator="\t")
    assert curve["replay_loss"].to_list()[-1] < curve["replay_loss"].to_list()[1]
    assert gap("out", known) < 0.5 * gap("distilled", known)


def test_a_text_without_a_vector_names_the_stage(folder, parts):
    known = write(parts, {"loss": "cosines"})
    write_teacher(known[:-1])
    with refuses("vectors/finetune", "1 texts", "`dvc repro -f encode@finetune`"):
        finetune(finetune_vectors=Path("vectors/finetune"))


def params_with(tuned: dict, **finetuning: object) -> dict:
    params = small_params()
    params["evaluate"]["tasks"] |= {
        "dev": {"kind": "sts", "path": "pairs.tsv", "split": "dev"},
        "twins": {"kind": "pair_classification", "train": "a.tsv", "test": "b.tsv"},
        "moods": {"kind": "classification", "train": "a.tsv", "test": "b.tsv"},
    }
    params["finetune"] = {"data": {"mine": {"kind": "task", "task": "twins"}}, "mine": {"negatives": 0}}
    params["finetune"] |= finetuning
    params["students"]["tiny"] |= {"kind": "transformer", "init": {"layers": [0]}}
    params["students"]["tiny"]["finetune"] = {**TUNED, **tuned}
    return params


@pytest.mark.parametrize(
    ("tuned", "finetuning", "named"),
    [
        ({"hsic": {"loss": {"kind": "hsic"}}}, {}, ("students.tiny.finetune.hsic", "contrast")),
        ({"temperature": 0.1}, {}, ("students.tiny.finetune.temperature", "contrast")),
        ({}, {"mine": None}, ("students.tiny.finetune.loss", "cosines", "finetune.mine to {negatives: 0}")),
        ({"loss": "contrast"}, {}, ("students.tiny.finetune.data", "'mine'", "nobody calls positives")),
        ({}, {"data": {"mine": {"kind": "task", "task": "moods"}}}, ("data.mine.task", "'moods'", "twins")),
        ({}, {"data": {"mine": {"kind": "task", "task": "gone"}}}, ("data.mine.task", "'gone'", "twins")),
    ],
)
def test_what_does_not_go_together_is_refused(tuned, finetuning, named):
    check(params_with({"projection": 4, "micro_batch": 8}), Path("params.yaml"))
    with refuses("params.yaml", *named):
        check(params_with(tuned, **finetuning), Path("params.yaml"))


def test_no_negatives_to_mine_need_no_view_to_mine_by():
    params = params_with({})
    params["encode"]["views"] = ["cls"]
    params["students"]["tiny"]["view"] = "cls"
    check(params, Path("params.yaml"))
