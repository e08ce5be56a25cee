"""What a step adds to the gradients, against the losses written out in float64 over transformers' forward."""

import copy
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_distillation import (
    CRD,
    DIM,
    HSIC,
    INFONCE,
    MSE,
    RELATIONAL,
    TOKENS,
    block_of,
    examples_of,
    gradients,
    objective_of,
    student_of,
    sum_of,
)
from small_students import TEXTS
from torch import Tensor

from pipeline.data.teacher_parts import read_encoder
from pipeline.train.loop.data import Examples
from pipeline.train.loop.objective import Step
from pipeline.train.loop.world import World

LOSSES = {
    "mse": MSE,
    "infonce": INFONCE,
    "mse and infonce": sum_of(MSE, INFONCE),
    "infonce and hsic": sum_of(INFONCE, HSIC),
    "mse and hsic, paper": sum_of(MSE, {**HSIC, "variant": "paper", "gamma": 0.01}),
    "mse and tokens": sum_of(MSE, TOKENS),
    "mse and relational": sum_of(MSE, RELATIONAL, weights=(0.5, 3.0)),
    "all": sum_of(MSE, INFONCE, HSIC, TOKENS, weights=(0.5, 1.0, 2.0, 0.25)),
}
PARTS = {"one by one": 1, "threes": 3, "whole": None}
ROWS = np.array([5, 0, 2, 7, 3, 1, 6])
ALONE = World()


class Written:
    """A transformer student and its teacher in float64, through transformers' own forward with padding."""

    def __init__(self, student, objective, parts, rows: np.ndarray) -> None:
        self.module = copy.deepcopy(student.module).double()
        self.losses = copy.deepcopy(objective).double()
        ids, mask = student.tokenise([TEXTS[row] for row in rows]).padded(0)
        self.inputs = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        self.kept = self.inputs["attention_mask"].unsqueeze(2)
        out = self.module[0].model(**self.inputs, output_hidden_states=True)
        self.embedded = out.hidden_states[0]
        self.vectors = self.module[2].linear(self.mean(out.last_hidden_state))
        self.teacher = read_encoder(parts).double()

    def mean(self, states: Tensor) -> Tensor:
        return (states * self.kept).sum(1) / self.kept.sum(1)

    def loss(self, params: dict, vectors: Tensor, targets: Tensor, number: int = 0) -> Tensor:
        """Of params' loss, which is the objective's `number`-th."""
        if params["kind"] == "sum":
            terms = enumerate(params["terms"])
            return sum(term["weight"] * self.loss(term["loss"], vectors, targets, at) for at, term in terms)
        if params["kind"] == "mse":
            return ((vectors - targets) ** 2).sum(1).mean()
        if params["kind"] == "infonce":
            projected = vectors @ self.losses.losses[number].projection.weight.T
            lengths = projected.norm(dim=1)[:, None] * targets.norm(dim=1)[None, :]
            powers = torch.exp(projected @ targets.T / lengths / 0.2)
            return -torch.log(powers.diagonal() / powers.sum(1)).mean()
        if params["kind"] == "relational":
            own, theirs = (self.neighbours(side, params["temperature"]) for side in (vectors, targets))
            return (theirs * torch.log(theirs / own)).sum(1).mean()
        if params["kind"] == "hsic":
            sides = (self.kernel(side, params) for side in (self.mean(self.embedded), vectors))
            centre = torch.eye(len(vectors), dtype=torch.float64) - 1 / len(vectors)
            one, other = sides
            return torch.trace(one @ centre @ other @ centre) / len(vectors) ** 2
        assert params["kind"] == "token_embedding"
        theirs = self.teacher(**self.inputs, output_hidden_states=True).hidden_states[0].detach()
        squares = (self.embedded - theirs) ** 2 * self.kept
        return squares.sum() / self.kept.sum() / squares.shape[2]

    @staticmethod
    def neighbours(vectors: Tensor, temperature: float) -> Tensor:
        """Each sentence's shares of the others, (n, n - 1)."""
        cosines = vectors @ vectors.T / torch.outer(vectors.norm(dim=1), vectors.norm(dim=1))
        others = ~torch.eye(len(vectors), dtype=torch.bool)
        powers = torch.exp(cosines / temperature)[others].view(len(vectors), -1)
        return powers / powers.sum(1, keepdim=True)

    @staticmethod
    def kernel(vectors: Tensor, params: dict) -> Tensor:
        if params.get("variant") != "paper":
            vectors = vectors / vectors.norm(dim=1, keepdim=True)
        squares = ((vectors[:, None] - vectors[None, :]) ** 2).sum(2)
        pairs = squares[~torch.eye(len(vectors), dtype=torch.bool)].detach().sort().values
        return torch.exp(-params.get("gamma", 1 / (2 * float(pairs[(len(pairs) - 1) // 2]))) * squares)


def step_of(parts, loss: dict, kind: str = "transformer", micro_batch: int | None = None, **changes):
    block = block_of(kind, loss, **changes)
    student, objective = student_of(block, parts), objective_of(block, parts, len(TEXTS))
    bfloat16 = block.train.precision == "bfloat16"
    examples = examples_of(student, block, TEXTS)
    return Step(student, objective, examples, ALONE, micro_batch, bfloat16=bfloat16)


def gradients_of(step: Step) -> dict[str, Tensor]:
    return gradients(step.student.module, step.objective)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], share: float) -> None:
    """All gradients, up to this share of the largest number in any of them."""
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for name in found.keys() | expected.keys():
        one, other = (side.get(name, torch.zeros(1)).double() for side in (found, expected))
        assert float((one - other).abs().max()) <= share * largest, name


@pytest.mark.parametrize("parts_of", PARTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_steps_gradients_are_those_of_the_equation_however_it_is_cut(parts, loss, parts_of):
    step = step_of(parts, LOSSES[loss], micro_batch=PARTS[parts_of])
    written = Written(step.student, step.objective, parts, ROWS)
    expected = written.loss(
        LOSSES[loss], written.vectors, torch.from_numpy(step.examples.targets[ROWS]).double()
    )
    expected.backward()
    assert step.backward(ROWS)["loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert_same(gradients_of(step), gradients(written.module, written.losses), 1e-5)
    if "infonce" in loss:
        assert any(name.endswith("projection.weight") for name in gradients_of(step))


@pytest.mark.parametrize("loss", ["infonce", "all", "crd"])
def test_parts_of_any_size_add_up_to_the_whole_step(parts, loss):
    params, changes = LOSSES.get(loss, CRD), {"select": "agreement"}
    whole = step_of(parts, params, **changes)
    told = of_the_step(whole.backward(ROWS))
    for size in (1, 3, 100):
        step = step_of(parts, params, micro_batch=size, **changes)
        assert of_the_step(step.backward(ROWS)) == pytest.approx(told, rel=1e-5)
        assert_same(gradients_of(step), gradients_of(whole), 2e-6)
        buffers = [dict(one.objective.named_buffers()) for one in (step, whole)]
        torch.testing.assert_close(*buffers)


@pytest.mark.parametrize("loss", ["infonce", "all"])
def test_the_value_is_the_loss_of_the_whole_step_in_parts_of_any_size(parts, loss):
    changes = {"select": "agreement"}
    expected = step_of(parts, LOSSES[loss], **changes).backward(ROWS)["loss"]
    for size in (None, 1, 3):
        found = step_of(parts, LOSSES[loss], micro_batch=size, **changes).value(ROWS)
        assert not found.requires_grad
        assert float(found) == pytest.approx(expected, rel=1e-5)


def of_the_step(told: dict[str, float]) -> dict[str, float]:
    """Without the terms' values, which are those of the last part."""
    return {name: value for name, value in told.items() if not name.startswith("loss_")}


@pytest.mark.parametrize("sparse", [False, True])
def test_parts_add_up_for_a_table_too(parts, sparse):
    loss = sum_of(MSE, INFONCE)
    whole = step_of(parts, loss, "static", sparse=sparse)
    whole.backward(ROWS)
    for size in (1, 3):
        step = step_of(parts, loss, "static", micro_batch=size, sparse=sparse)
        step.backward(ROWS)
        assert step.student.module["table"].weight.grad.is_sparse == sparse
        assert_same(gradients_of(step), gradients_of(whole), 2e-6)


def test_gradients_are_added_to_what_is_there(parts):
    for size in (None, 3):
        step = step_of(parts, sum_of(MSE, INFONCE), micro_batch=size)
        step.backward(ROWS)
        once = gradients_of(step)
        step.backward(ROWS)
        assert_same(gradients_of(step), {name: 2 * gradient for name, gradient in once.items()}, 1e-6)


@pytest.mark.parametrize("parts_of", PARTS)
@pytest.mark.parametrize(
    "loss", ["mse", "infonce", "mse and infonce", "mse and tokens", "mse and relational"]
)
def test_matryoshka_is_the_mean_of_the_losses_of_prefixes(parts, loss, parts_of):
    prefixes = (2, 5)
    step = step_of(parts, LOSSES[loss], micro_batch=PARTS[parts_of], matryoshka=prefixes)
    written = Written(step.student, step.objective, parts, ROWS)
    targets = torch.from_numpy(step.examples.targets[ROWS]).double()
    terms, values = len(step.objective.losses) // 3, []
    for place, dim in enumerate((*prefixes, DIM)):
        losses = [term["loss"] for term in LOSSES[loss].get("terms", [{"loss": LOSSES[loss]}])]
        weights = [term["weight"] for term in LOSSES[loss].get("terms", [{"weight": 1.0}])]
        values += [
            weight * written.loss(one, written.vectors[:, :dim], targets[:, :dim], place * terms + at) / 3
            for at, (weight, one) in enumerate(zip(weights, losses, strict=True))
        ]
    expected = sum(values)
    expected.backward()
    assert step.backward(ROWS)["loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert_same(gradients_of(step), gradients(written.module, written.losses), 1e-5)


def test_full_targets_are_contrasted_in_their_own_dimension(parts):
    step = step_of(parts, INFONCE, target="full", micro_batch=3)
    assert step.objective.losses[0].projection.weight.shape == (32, DIM)
    written = Written(step.student, step.objective, parts, ROWS)
    targets = torch.from_numpy(step.examples.targets[ROWS]).double()
    written.loss(INFONCE, written.vectors, targets).backward()
    step.backward(ROWS)
    assert_same(gradients_of(step), gradients(written.module, written.losses), 1e-5)


def test_full_targets_are_related_in_their_own_dimension(parts):
    step = step_of(parts, RELATIONAL, target="full", micro_batch=3)
    targets = torch.from_numpy(step.examples.targets[ROWS]).double()
    assert targets.shape[1] == 32 > DIM
    written = Written(step.student, step.objective, parts, ROWS)
    written.loss(RELATIONAL, written.vectors, targets).backward()
    step.backward(ROWS)
    assert_same(gradients_of(step), gradients(written.module, written.losses), 1e-5)


@pytest.mark.parametrize("micro_batch", [None, 3])
def test_what_the_losses_tell_is_of_the_whole_step(parts, micro_batch):
    told = step_of(parts, LOSSES["infonce and hsic"], micro_batch=micro_batch).backward(ROWS)
    step = step_of(parts, LOSSES["infonce and hsic"])
    kernel = Written.kernel(Written(step.student, step.objective, parts, ROWS).vectors, HSIC)
    mean = (kernel.sum() - len(ROWS)) / (len(ROWS) * (len(ROWS) - 1))
    assert told["kernel_vectors"] == pytest.approx(mean.item(), rel=1e-5)
    assert 0 < told["kernel_inputs"] < 1


@pytest.mark.parametrize("micro_batch", [None, 3])
def test_bfloat16_is_of_the_passes_and_not_of_the_losses_or_the_weights(parts, micro_batch):
    loss = sum_of(MSE, INFONCE)
    step = step_of(parts, loss, micro_batch=micro_batch, precision="bfloat16")
    reference, given, looked_at = step_of(parts, loss), [], []
    step.student.module[2].register_forward_hook(
        lambda _module, _inputs, output: given.append(output["sentence_embedding"].dtype)
    )
    for one in step.objective.losses:
        one.register_forward_pre_hook(lambda _loss, inputs: looked_at.append(inputs[0].vectors.dtype))
    told = step.backward(ROWS)
    assert set(given) == {torch.bfloat16}
    assert set(looked_at) == {torch.float32}
    assert {one.dtype for one in step.student.module.parameters()} == {torch.float32}
    assert {one.dtype for one in gradients_of(step).values()} == {torch.float32}
    assert told["loss"] == pytest.approx(reference.backward(ROWS)["loss"], rel=0.02)
    assert_same(gradients_of(step), gradients_of(reference), 0.05)
    with pytest.raises(AssertionError):
        assert_same(gradients_of(step), gradients_of(reference), 1e-4)


def test_no_parts_embeddings_are_kept_for_the_losses_over_the_batch(parts):
    step, embedded, alive = step_of(parts, LOSSES["all"], micro_batch=1), [], []
    encode = step.student.encode

    def noted(tokens, **how):
        found = encode(tokens, **how)
        embedded.append(weakref.ref(found.embedded))
        return found

    step.student.encode = noted
    batch_loss = next(term.loss for term in step.objective.terms if term.loss.over == "batch")
    batch_loss.register_forward_pre_hook(lambda *_: alive.append([e for e in embedded if e() is not None]))
    step.backward(ROWS)
    step.value(ROWS)
    assert len(embedded) == 3 * len(ROWS)
    assert [len(each) <= 1 for each in alive] == [True, True]


def test_embeddings_are_asked_for_only_where_a_loss_looks_at_them(parts):
    for loss, needed in (("mse", False), ("infonce and hsic", True), ("mse and tokens", True)):
        assert objective_of(block_of("transformer", LOSSES[loss]), parts, 8).needs_embedded == needed


def test_a_process_reads_ahead_what_it_will_take(parts, monkeypatch):
    step, asked = step_of(parts, MSE), []
    monkeypatch.setattr(Examples, "read_ahead", lambda _, rows: asked.append(rows.tolist()))
    for world in (ALONE, World(1, 2), World(1, 9)):
        replace(step, world=world).read_ahead(np.array([4, 0, 3]))
    assert asked == [[4, 0, 3], [0], [4, 0, 3]]
