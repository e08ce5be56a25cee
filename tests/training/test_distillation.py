import numpy as np
import pytest
import torch
from small_students import TEXTS, static_block, teacher, transformer_block

from pipeline.core.params.students import CosineLoss, MseLoss, Train
from pipeline.losses import cosine, mse
from pipeline.students import static, transformer
from pipeline.training import distillation
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.data import Examples
from pipeline.training.distillation import Distillation

DEV = ["a dog slept", "forty cats", "the quiet mat"]
STUDENTS = {"static": (static, static_block()), "transformer": (transformer, transformer_block())}


def targets(texts: list[str]) -> np.ndarray:
    return teacher().encode(texts, ["sentence"])["sentence"][:, :8].astype(np.float32)


def distillation_of(kind, parts, loss=mse.sum_over_dimensions):
    module, block = STUDENTS[kind]
    torch.manual_seed(0)
    student = module.build(block, parts)
    tokens = student.tokenise(TEXTS)
    dev = Examples(DEV, targets(DEV))
    return student, Distillation(student, loss, tokens, targets(TEXTS), dev)


def own_vectors(student, texts: list[str]) -> np.ndarray:
    return student.vectors(student.tokenise(texts)).detach().numpy()


def squared_distance(vectors: np.ndarray, texts: list[str]) -> float:
    return float(np.square(vectors.astype(np.float64) - targets(texts)).sum(axis=1).mean())


def train(**changes) -> Train:
    base = {"epochs": 10, "batch_size": 3, "lr": 0.05, "evaluations": 6}
    return Train.model_validate({**base, **changes})


@pytest.mark.parametrize("kind", STUDENTS)
def test_training_lowers_the_dev_loss_and_keeps_the_best_weights(kind, parts, tmp_path):
    student, trainer = distillation_of(kind, parts)
    untrained = squared_distance(own_vectors(student, DEV), DEV)
    curve = trainer.run("tiny", train(), Checkpoint(tmp_path / "state"), 1e9)
    values = [point.dev_value for point in curve]
    assert values[0] == pytest.approx(untrained, rel=1e-5)
    assert min(values) < 0.9 * untrained
    assert squared_distance(own_vectors(student, DEV), DEV) == pytest.approx(min(values), rel=1e-5)


@pytest.mark.parametrize("kind", STUDENTS)
def test_each_text_is_compared_with_its_own_target(kind, parts, tmp_path):
    student, trainer = distillation_of(kind, parts)
    expected = squared_distance(own_vectors(student, TEXTS), TEXTS)
    once = train(epochs=1, batch_size=len(TEXTS), evaluations=1)
    curve = trainer.run("tiny", once, Checkpoint(tmp_path / "state"), 1e9)
    assert curve[-1].train_loss == pytest.approx(expected, rel=1e-5)
    assert curve[-1].sentences == len(TEXTS)


def test_the_dev_vectors_do_not_depend_on_how_many_are_computed_at_a_time(parts, monkeypatch):
    student, trainer = distillation_of("static", parts)
    monkeypatch.setattr(distillation, "DEV_ROWS_AT_A_TIME", 2)
    np.testing.assert_array_equal(trainer.dev_vectors(), own_vectors(student, DEV))


def test_the_mean_predictor_gives_every_dev_text_the_mean_training_target(parts):
    mean = targets(TEXTS).astype(np.float64).mean(axis=0)
    _, trainer = distillation_of("static", parts, mse.build(MseLoss(kind="mse")))
    expected = np.mean([np.sum((mean - target) ** 2) for target in targets(DEV)])
    assert trainer.mean_predictor_loss() == pytest.approx(expected, rel=1e-5)
    _, trainer = distillation_of("static", parts, cosine.build(CosineLoss(kind="cosine", norm_penalty=0.5)))
    directions = targets(DEV) / np.linalg.norm(targets(DEV), axis=1, keepdims=True)
    expected = np.mean(1 - directions @ mean / np.linalg.norm(mean)) + 0.5 * np.mean(mean**2)
    assert trainer.mean_predictor_loss() == pytest.approx(expected, rel=1e-5)


def test_two_runs_give_the_same_bits(parts, tmp_path):
    found = []
    for _ in range(2):
        student, trainer = distillation_of("static", parts)
        trainer.run("tiny", train(), Checkpoint(tmp_path / "state"), 1e9)
        found.append(own_vectors(student, TEXTS))
    assert found[0].tobytes() == found[1].tobytes()


def test_an_interrupted_distillation_ends_where_the_undisturbed_one_does(parts, tmp_path):
    student, trainer = distillation_of("static", parts)
    curve = trainer.run("tiny", train(epochs=3), Checkpoint(tmp_path / "state"), 1e9)
    undisturbed = own_vectors(student, TEXTS)
    student, trainer = distillation_of("static", parts)
    student.module["table"].register_hook(_killer(after=5))
    with pytest.raises(KeyboardInterrupt):
        trainer.run("tiny", train(epochs=3), Checkpoint(tmp_path / "state"), 0)
    student, trainer = distillation_of("static", parts)
    torch.nn.init.zeros_(student.module["table"])
    assert repr(trainer.run("tiny", train(epochs=3), Checkpoint(tmp_path / "state"), 0)) == repr(curve)
    assert own_vectors(student, TEXTS).tobytes() == undisturbed.tobytes()


def _killer(after: int):
    calls = iter(range(after))

    def hook(gradient):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return gradient

    return hook
