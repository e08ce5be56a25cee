import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from small_distillation import (
    CRD,
    DEV,
    HSIC,
    INFONCE,
    MSE,
    TOKENS,
    block_of,
    distillation_of,
    run,
    sum_of,
    targets,
)
from small_students import TEXTS, own_vectors

from pipeline.data.tokens import tokens
from pipeline.train.loop.world import World

KINDS = ("static", "transformer", "compact", "bilstm")
KILLED = {
    "static": block_of("static", epochs=3),
    "sparse": block_of("static", sum_of(MSE, INFONCE), epochs=3, sparse=True),
    "transformer": block_of("transformer", sum_of(INFONCE, HSIC), epochs=2, micro_batch=2),
    "crd": block_of("transformer", CRD, epochs=2, select="agreement"),
}


def squared_distance(vectors: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.square(vectors.astype(np.float64) - wanted).sum(axis=1).mean())


def disagreement(vectors: np.ndarray, wanted: np.ndarray) -> float:
    """One minus the rank correlation of cosine distances."""
    own, theirs = (pdist(side.astype(np.float64), "cosine") for side in (vectors, wanted))
    return 1 - spearmanr(own, theirs).statistic


@pytest.mark.parametrize("select", ["loss", "agreement"])
@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_dev_value_and_keeps_the_best_weights(kind, select, parts, tmp_path):
    block = block_of(kind, select=select)
    dev_value = {"loss": squared_distance, "agreement": disagreement}[select]
    student, _, made = distillation_of(block, parts)
    untrained = dev_value(own_vectors(student, DEV), targets(DEV, block))
    values = [point.dev_value for point in run(made, tmp_path)]
    assert values[0] == pytest.approx(untrained, rel=1e-5)
    assert min(values) < 0.9 * untrained
    kept = dev_value(own_vectors(student, DEV), targets(DEV, block))
    assert kept == pytest.approx(min(values), rel=1e-5)
    assert len(set(values)) > 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["sparse", "transformer", "compact", "bilstm", "crd"])
def test_a_gpu_trains_as_the_cpu_does(kind, parts, tmp_path):
    block = KILLED.get(kind, block_of(kind))
    curves = []
    for device in ("cpu", "cuda"):
        student, objective, made = distillation_of(block, parts, World(device=device))
        student.module.to(device)
        objective.to(device)
        curves.append([point.dev_value for point in run(made, tmp_path / device)])
    assert curves[1] == pytest.approx(curves[0], rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_each_text_is_compared_with_its_own_target(kind, parts, tmp_path):
    block = block_of(kind, epochs=1, batch_size=len(TEXTS), evaluations=1)
    student, _, made = distillation_of(block, parts)
    expected = squared_distance(own_vectors(student, TEXTS), targets(TEXTS, block))
    curve = run(made, tmp_path)
    assert curve[-1].train_loss == pytest.approx(expected, rel=1e-5)
    assert curve[-1].examples == len(TEXTS)


def test_the_dev_vectors_do_not_depend_on_how_many_are_computed_at_a_time(parts, monkeypatch):
    student, _, made = distillation_of(block_of("static"), parts)
    monkeypatch.setattr(tokens, "PART", 2)
    np.testing.assert_array_equal(made.dev_vectors(), own_vectors(student, DEV))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_dev_loss_over_the_batch_is_that_of_batches_of_the_training_size(parts, tmp_path, precision):
    block = block_of("transformer", INFONCE, batch_size=3, micro_batch=1, precision=precision)
    student, objective, made = distillation_of(block, parts)
    projected = made.dev_vectors() @ objective.losses[0].projection.weight.detach().numpy().T
    sides = [side / np.linalg.norm(side, axis=1)[:, None] for side in (projected, targets(DEV, block))]
    costs = []
    for rows in (slice(0, 3), slice(3, 5)):
        logits = sides[0][rows] @ sides[1][rows].T / INFONCE["temperature"]
        costs += list(np.log(np.exp(logits).sum(axis=1)) - logits.diagonal())
    exact, near = own_vectors(student, DEV), made.dev_vectors()
    assert (near == exact).all() == (precision == "float32")
    np.testing.assert_allclose(near, exact, atol=0.02 * np.abs(exact).max())
    assert run(made, tmp_path)[0].dev_value == pytest.approx(
        np.mean(costs), rel=1e-5 if precision == "float32" else 1e-3
    )


def test_taking_the_dev_value_changes_neither_the_losses_nor_a_gradient(parts, tmp_path):
    block = block_of("transformer", sum_of(CRD, MSE), select="agreement")
    _, objective, made = distillation_of(block, parts)
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    assert made._dev_value() > 0
    made._params = made._params.model_copy(update={"select": "loss"})
    assert made._dev_value() > 0
    after = objective.state_dict()
    # The scores' level is set by the first batch, of whatever kind.
    names = [name for name in before if not name.endswith("levels")]
    assert all(torch.equal(after[name], before[name]) for name in names)
    assert objective.training
    assert all(parameter.grad is None for parameter in objective.parameters())


def test_the_mean_predictor_gives_every_dev_text_the_mean_training_target(parts):
    block = block_of("static")
    mean = targets(TEXTS, block).astype(np.float64).mean(axis=0)
    expected = np.mean([np.sum((mean - target) ** 2) for target in targets(DEV, block)])
    assert distillation_of(block, parts)[2].mean_predictor_loss() == pytest.approx(expected, rel=1e-5)
    block = block_of("static", {"kind": "cosine", "norm_penalty": 0.5})
    directions = targets(DEV, block) / np.linalg.norm(targets(DEV, block), axis=1, keepdims=True)
    expected = np.mean(1 - directions @ mean / np.linalg.norm(mean)) + 0.5 * np.mean(mean**2)
    assert distillation_of(block, parts)[2].mean_predictor_loss() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "loss", [INFONCE, sum_of(MSE, INFONCE), sum_of(MSE, TOKENS), sum_of(MSE, {**TOKENS, "reading": "table"})]
)
def test_losses_of_more_than_vectors_and_targets_have_no_mean_predictor(parts, loss):
    assert distillation_of(block_of("transformer", loss), parts)[2].mean_predictor_loss() is None


def test_what_a_loss_trains_along_is_trained_and_not_saved(parts, tmp_path):
    student, objective, made = distillation_of(block_of("transformer", INFONCE), parts)
    projection = objective.losses[0].projection.weight
    before, tensors = projection.detach().clone(), saved(student, tmp_path / "before")
    run(made, tmp_path)
    assert (projection - before).abs().min() > 0
    after = saved(student, tmp_path / "after")
    assert {name: tensor.shape for name, tensor in after.items()} == {
        name: tensor.shape for name, tensor in tensors.items()
    }
    assert any(not torch.equal(after[name], tensors[name]) for name in after)
    loaded = SentenceTransformer(str(tmp_path / "after"), device="cpu")
    np.testing.assert_allclose(loaded.encode(DEV), made.dev_vectors(), atol=1e-5)


def saved(student, folder) -> dict[str, torch.Tensor]:
    """All tensors that a student saves, by their file and name."""
    student.save(folder)
    files = sorted(folder.rglob("*.safetensors"))
    return {
        f"{file.relative_to(folder)}/{name}": tensor
        for file in files
        for name, tensor in load_file(file).items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_two_runs_give_the_same_bits(parts, tmp_path, kind):
    found = []
    for number in range(2):
        student, _, made = distillation_of(block_of(kind, sum_of(MSE, INFONCE), epochs=2), parts)
        run(made, tmp_path / str(number))
        found.append(own_vectors(student, TEXTS))
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("case", KILLED)
def test_an_interrupted_distillation_ends_where_the_undisturbed_one_does(parts, tmp_path, case):
    block = KILLED[case]
    student, _, made = distillation_of(block, parts)
    untrained = own_vectors(student, TEXTS).tobytes()
    curve = run(made, tmp_path)
    undisturbed = own_vectors(student, TEXTS).tobytes()
    assert undisturbed != untrained
    for after in (1, 4):
        cache = tmp_path / str(after)
        _, objective, made = distillation_of(block, parts)
        stop(objective, after)
        with pytest.raises(KeyboardInterrupt):
            run(made, cache, seconds=0)
        again, objective, made = distillation_of(block, parts)
        for parameter in (*again.module.parameters(), *objective.parameters()):
            torch.nn.init.zeros_(parameter)
        assert repr(run(made, cache, seconds=0)) == repr(curve)
        assert own_vectors(again, TEXTS).tobytes() == undisturbed


def stop(objective, after: int) -> None:
    """Stop a training in the step that follows `after` whole ones, in its loss."""
    left = iter(range(after))

    def interrupt(loss, _inputs):
        if loss.training and next(left, None) is None:
            raise KeyboardInterrupt

    objective.losses[0].register_forward_pre_hook(interrupt)
