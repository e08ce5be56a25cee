"""Distillation that goes on beside fine-tuning: `finetune.replay`."""

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from finetune_runs import finetune, finetune_params, write_inputs, write_replayed
from refusals import refuses
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer
from small_corpus import SYNONYMS, TRAIN, components, teacher_vectors
from small_distillation import block_of, examples_of, student_of, targets
from test_finetuning import TEMPERATURE, TRIPLETS, finetuning
from torch.nn.functional import cross_entropy, normalize

from pipeline.core import seal
from pipeline.data.common.texts import text_id
from pipeline.params.finetune import Finetune
from pipeline.train.finetuning.replayed import Replayed, Reread
from pipeline.train.finetuning.shared.finetuning import CLIP_NORM
from pipeline.train.finetuning.shared.replay import Replay
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.mixture import Batches, Portion
from pipeline.train.loop.objective import Step
from pipeline.train.loop.world import World
from pipeline.train.losses.building.objective import build_objective
from pipeline.train.students.kinds import static

WEIGHT = 0.7
TEXTS = ["a quiet sea", "dogs bark", "rain falls", "the cat and the dog slept"]
DISTILLED = {"epochs": 1, "batch_size": 4, "lr": 0.01, "texts": {"corpus": 1, "wordnet": 0.5}}
COSINE = {"kind": "cosine", "norm_penalty": 0.0}
PLACES = Reread(*(Path("data") / name for name in ("corpus/corpus.parquet", "gated", "vectors", "pca")))


def gradient_of_both(student, block) -> tuple[torch.Tensor, float, float]:
    """By autograd in float64, of a copy of the student; both losses."""
    student.module.double()

    def vectors(of: list[str]) -> torch.Tensor:
        tokens = student.tokenise(of)
        if isinstance(student, static.Static):
            return student.encode(tokens).vectors
        ids = torch.from_numpy(tokens.ids).long().split(tokens.lengths.tolist())  # one by one: no padding
        given = [{"input_ids": one[None], "attention_mask": torch.ones_like(one)[None]} for one in ids]
        return torch.cat([student.module(one)["sentence_embedding"] for one in given])

    # Two triplets, without a hard negative that is another's positive.
    rows = [TRIPLETS[2], TRIPLETS[5]]
    anchors, positives = (normalize(vectors([row[side] for row in rows]), dim=1) for side in (0, 1))
    contrast = cross_entropy(anchors @ positives.T / TEMPERATURE, torch.arange(2))
    wanted = torch.from_numpy(targets(TEXTS, block)).double()
    distance = (vectors(TEXTS) - wanted).square().sum(dim=1).mean()
    (contrast + WEIGHT * distance).backward()
    return flat(student), contrast.item(), distance.item()


def flat(student) -> torch.Tensor:
    """The gradient of all weights, in float64."""
    found = [one.grad for one in student.module.parameters() if one.grad is not None]
    return torch.cat([(one.to_dense() if one.is_sparse else one).double().flatten() for one in found])


@pytest.mark.parametrize("micro_batch", [None, 3])
@pytest.mark.parametrize(("kind", "train"), [("transformer", {}), ("static", {"sparse": True})])
def test_the_gradient_of_a_step_is_the_sum_of_both(parts, tmp_path, kind, train, micro_batch):
    block = block_of(kind, **train)
    student, copy = (student_of(block, parts) for _ in range(2))
    assert any(getattr(one, "sparse", False) for one in student.module.modules()) == bool(train)
    examples = examples_of(student, block, TEXTS)
    objective = build_objective(block, LossContext(8, 8, 4, 9, Path(), 0), WEIGHT)
    step = Step(student, objective, examples, World(), micro_batch)
    replay = Replay(step, WEIGHT, Batches((Portion(4),), 4, 0))
    made = finetuning(student, batch_size=2, lr=1e-9, micro_batch=micro_batch)
    made._anchors, made._positives = made._anchors[[2, 5]], made._positives[[2, 5]]
    for part in ("_negative_starts", "_negative_counts"):
        setattr(made, part, getattr(made, part)[[2, 5]])
    scores = iter([1.0, 0.0])
    curve = made.run("tiny", lambda: next(scores), Checkpoint(tmp_path / "state"), 1e9, replay=replay)
    expected, contrast, distance = gradient_of_both(copy, block)
    expected *= min(1.0, CLIP_NORM / float(expected.norm()))
    torch.testing.assert_close(flat(student), expected, rtol=1e-4, atol=1e-6)
    assert curve[-1].measures["replay_loss"] == pytest.approx(distance, rel=1e-5)
    assert curve[-1].train_loss == pytest.approx(contrast + WEIGHT * distance, rel=1e-5)


def run(kind: str, parts: Path, replay: dict | None, loss: dict = COSINE, **changes: object) -> dict:
    """The metrics of the stage, from a student that was written before."""
    distilled = DISTILLED | ({"regularise": None, "sparse": True} if kind == "static" else {})
    block = finetune_params(replay=replay, **changes)
    write_inputs(kind, block, parts, train=distilled, loss=loss)
    finetune()
    return seal.read_json(Path("metrics.json"), "finetune")


def nearness(folder: str) -> float:
    """The mean cosine of a student's vectors of the corpus to their targets."""
    mean, rotation = components()
    wanted = ((teacher_vectors(TRAIN) - mean) @ rotation.T)[:, :8]
    found = SentenceTransformer(folder, device="cpu").encode(TRAIN)
    unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (found, wanted)]
    return float((unit[0] * unit[1]).sum(axis=1).mean())


@pytest.mark.parametrize("kind", ["static", "transformer", "compact", "bilstm"])
def test_with_it_a_student_is_nearer_to_its_targets(folder, parts, kind):
    write_replayed()
    lr = 0.1 if kind == "static" else 0.01
    without = run(kind, parts, None, lr=lr)
    assert without["kept"] == "finetuned"
    assert "replay_loss" not in without
    alone, before = nearness("out"), Path("distilled/model.safetensors").read_bytes()
    found = run(kind, parts, {"weight": 5.0, "batch_size": 20}, lr=lr)
    assert Path("distilled/model.safetensors").read_bytes() == before
    assert found["kept"] == "finetuned"
    assert nearness("out") > alone + 0.05
    curve = pl.read_csv("curve.tsv", separator="\t")
    assert curve["replay_loss"].to_list()[-1] < curve["replay_loss"].to_list()[1]
    card = Path("out/README.md").read_text()
    assert "fine-tuned on triplets: mine. Its distillation went on beside." in card
    assert not any(Path(".cache/training").glob("*"))


@pytest.mark.parametrize(
    "changes",
    [{"precision": "bfloat16", "micro_batch": 5}, {"interpolation": 0.5}, {"negatives": 0}],
    ids=lambda changes: next(iter(changes)),
)
def test_it_goes_with_the_other_settings(folder, parts, changes):
    write_replayed()
    whole = run("transformer", parts, {"weight": 1.0}, epochs=1, evaluations=1)["replay_loss"]
    found = run("transformer", parts, {"weight": 1.0}, epochs=1, evaluations=1, **changes)["replay_loss"]
    assert found == pytest.approx(whole, rel=0.1)
    precision = changes.get("precision", "float32")
    assert pl.read_csv("curve.tsv", separator="\t")["precision"].to_list()[-1] == precision


def test_the_terms_of_a_sum_are_in_the_curve(folder, parts):
    write_replayed()
    terms = [{"weight": 1.0, "loss": COSINE}, {"weight": 0.5, "loss": {"kind": "relational"}}]
    found = run("transformer", parts, {"weight": 2.0}, {"kind": "sum", "terms": terms}, epochs=1)
    parted = found["replay_loss_cosine"] + 0.5 * found["replay_loss_relational"]
    assert found["replay_loss"] == pytest.approx(parted, rel=1e-3)


def test_too_few_texts_and_missing_vectors_are_told(folder, parts):
    write_replayed(synonyms=[])
    write_inputs("transformer", finetune_params(replay={"weight": 1.0}), parts, train=DISTILLED)
    params = YAML().load(Path("params.yaml"))
    params["augment"]["wordnet"]["enabled"] = True
    params["students"]["tiny"]["finetune"]["replay"]["texts"] = ["wordnet"]
    YAML().dump(params, Path("params.yaml"))
    with refuses("students.tiny.finetune.replay.texts", "wordnet has 0 training texts", "add corpus"):
        finetune()
    shutil.rmtree("data/vectors/corpus")
    with refuses("data/vectors/corpus", "encode@corpus"):
        finetune()


def test_a_loss_with_weights_of_its_own_is_refused_of_whatever_kind(folder, parts):
    write_replayed()
    loss = {"kind": "infonce", "projection": "learned"}
    block = block_of("transformer", loss=loss, texts=["corpus"])  # past `student_faults`
    settings = Finetune.model_validate(finetune_params(replay={"weight": 1}))
    found = Replayed.of("tiny", block, settings, {}, PLACES)
    with refuses("students.tiny: finetune.replay", "of its own", "set replay to null"):
        found.replay(student_of(block, parts), folder / "inputs", "cpu", bfloat16=False)


def test_its_texts_have_the_prompts_that_the_student_ships(folder, parts):
    write_replayed()
    block = block_of("transformer", texts=["corpus", "wordnet"])
    settings = Finetune.model_validate(finetune_params(replay={"weight": 1, "texts": {"wordnet": 2}}))
    found = Replayed.of("tiny", block, settings, {"text": "say: "}, PLACES)
    (source,) = found.corpus.train
    assert (source.texts, source.proportion) == (Path("data/gated/wordnet.parquet"), 2)
    replay = found.replay(student := student_of(block, parts), folder / "inputs", "cpu", bfloat16=False)
    assert replay.batches == Batches((Portion(5, 2),), 12, 0)
    prompted = student.tokenise([f"say: {text}" for text in sorted(SYNONYMS, key=text_id)])
    np.testing.assert_array_equal(replay._step.examples.tokens.ids, prompted.ids)
    assert Replayed.of("tiny", block, settings.model_copy(update={"replay": None}), {}, PLACES) is None
