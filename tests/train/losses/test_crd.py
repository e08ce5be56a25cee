from copy import deepcopy

import numpy as np
import pytest
import torch
from refusals import refuses
from small_batches import batch, context, vectors
from torch.nn.functional import normalize

from pipeline.params.losses import CrdLoss
from pipeline.train.losses.crd import Crd, build

VARIANTS = ("fixed", "paper", "code")


def crd(variant: str = "fixed", *, rows: int = 20, seed: int = 0, **params) -> Crd:
    """From students of 5 dimensions to teachers of 4, in float64."""
    given = {"kind": "crd", "variant": variant, "features": 3, "negatives": 7, "temperature": 0.3, **params}
    return build(CrdLoss.model_validate(given), context(5, 4, rows, seed=seed)).double()


def step(number: int = 0, size: int = 6, rows: int = 20):
    order = torch.from_numpy(np.random.default_rng(number).permutation(rows)[:size])
    return batch(vectors(size, 5, seed=number), vectors(size, 4, seed=number + 100), rows=order)


def state(loss: Crd) -> dict[str, np.ndarray]:
    return {name: tensor.clone().numpy() for name, tensor in loss.state_dict().items()}


def features(before: dict[str, np.ndarray], side: str, given: torch.Tensor) -> np.ndarray:
    mapped = given.numpy() @ before[f"{side}.weight"].T + before[f"{side}.bias"]
    return mapped / np.linalg.norm(mapped, axis=1)[:, None]


def by_hand(before, given, variant: str, constants=(None, None), seed=0) -> tuple[float, list[float]]:
    """The loss as the released code computes it: exp(score) / Z against K / M, Z from the batch."""
    student, teacher = features(before, "student", given.vectors), features(before, "teacher", given.targets)
    banks = before["student_bank"], before["teacher_bank"]
    drawn = np.random.default_rng([seed, int(before["step"])]).integers(len(banks[0]), size=7)
    total, used = 0.0, []
    directions = (student, teacher, banks[1]), (teacher, student, banks[0])
    for (anchors, own, bank), constant in zip(directions, constants, strict=True):
        positives = bank[given.rows] if variant == "code" else own
        scores = [
            np.exp(np.array([a @ p, *(a @ bank[j] for j in drawn)]) / 0.3)
            for a, p in zip(anchors, positives, strict=True)
        ]
        z = constant or np.mean(scores) * len(bank)
        noise = 7 / len(bank)
        for row in scores:
            chances = row / z / (row / z + noise)
            total -= (np.log(chances[0]) + np.log(1 - chances[1:]).sum()) / len(anchors)
        used.append(z)
    return total, used


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_equation_in_float64_with_z_from_the_first_batch(variant):
    loss, constants = crd(variant), (None, None)
    for number in range(3):
        before, given = state(loss), step(number)
        expected, constants = by_hand(before, given, variant, constants)
        assert loss(given).item() == pytest.approx(expected, rel=1e-9)


def test_the_banks_keep_moving_averages_at_length_1():
    loss, given = crd(momentum=0.3), step()
    before = state(loss)
    loss(given)
    for side, source in (("student", given.vectors), ("teacher", given.targets)):
        mixed = 0.3 * before[f"{side}_bank"][given.rows] + 0.7 * features(before, side, source)
        expected = before[f"{side}_bank"].copy()
        expected[given.rows] = mixed / np.linalg.norm(mixed, axis=1)[:, None]
        np.testing.assert_allclose(state(loss)[f"{side}_bank"], expected, rtol=1e-12)


def test_a_bank_starts_with_rows_of_length_1_on_average():
    bank = crd(rows=500, features=64).student_bank
    assert bank.square().sum(dim=1).mean().item() == pytest.approx(1, rel=0.02)


def test_shared_rows_hold_the_last_sentence_met():
    loss = crd(rows=20, bank_rows=8)
    before = state(loss)
    assert before["student_bank"].shape == (8, 3)
    given = batch(vectors(4, 5), vectors(4, 4), rows=torch.tensor([3, 19, 11, 9]))
    loss(given)
    student = features(before, "student", given.vectors)
    expected = before["student_bank"].copy()
    expected[3], expected[1] = student[2], student[3]
    np.testing.assert_allclose(state(loss)["student_bank"], expected, rtol=1e-12)


def test_code_has_to_have_a_row_for_every_sentence():
    with refuses("loss.variant", "code", "set loss.bank_rows (it is 8) to 20"):
        crd("code", rows=20, bank_rows=8)
    crd("code", rows=20, bank_rows=20)


def test_positives_that_the_bank_holds_already_are_as_good_as_own_ones():
    given = step()
    own, banked = crd("fixed"), crd("code")
    for loss in (own, banked):
        loss.student_bank[given.rows] = normalize(loss.student(given.vectors), dim=1).detach()
        loss.teacher_bank[given.rows] = normalize(loss.teacher(given.targets), dim=1).detach()
    values = own(given), banked(given)
    assert values[0].item() == pytest.approx(values[1].item(), rel=1e-12)
    for value in values:
        value.backward()
    for one, other in zip(own.parameters(), banked.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
        assert one.grad.abs().max() > 0


def test_gradients():
    """With positives from the bank: own ones have no gradient, but a finite difference moves them too."""
    fresh, given = crd("code"), step(size=3)
    fresh(step(1))

    def value(student, targets, *weights):
        loss = deepcopy(fresh)
        for name, weight in zip(("student", "teacher"), weights, strict=True):
            del loss.get_submodule(name).weight
            loss.get_submodule(name).weight = weight
        return loss(batch(student, targets, rows=given.rows))

    weights = [loss.weight.detach().clone() for loss in (fresh.student, fresh.teacher)]
    inputs = [tensor.requires_grad_() for tensor in (given.vectors, given.targets, *weights)]
    assert torch.autograd.gradcheck(value, inputs)


def test_what_is_drawn_depends_on_seed_and_step_alone():
    def first_and_second(seed: int, noise: int) -> list[list[int]]:
        torch.manual_seed(noise)
        loss, drawn = crd(seed=seed), []
        for number in range(2):
            drawn.append(loss._drawn().tolist())
            loss(step(number))
        return drawn

    first, second = first_and_second(1, 1)
    assert [first, second] == first_and_second(1, 2)
    assert first != second
    assert first != first_and_second(2, 1)[0]


def test_every_evaluation_draws_the_same():
    loss = crd()
    first = loss.eval()._drawn().tolist()
    loss.train()(step())
    assert loss.eval()._drawn().tolist() == first


def test_a_start_depends_on_the_seed_alone():
    torch.manual_seed(1)
    one, before = state(crd(seed=5)), torch.random.get_rng_state()
    torch.manual_seed(2)
    same, other = state(crd(seed=5)), state(crd(seed=6))
    for name in ("student.weight", "teacher.weight", "student_bank", "teacher_bank"):
        assert np.array_equal(one[name], same[name])
        assert not np.array_equal(one[name], other[name])
    torch.manual_seed(1)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("variant", VARIANTS)
def test_dev_batches_leave_no_trace_and_need_no_rows(variant):
    loss = crd(variant)
    loss(step())
    before = state(loss)
    loss.eval()
    value = loss(step(1)).item()
    no_rows = batch(step(1).vectors, step(1).targets, rows=torch.empty(0))
    assert loss(no_rows).item() == value
    for name, tensor in state(loss).items():
        np.testing.assert_array_equal(tensor, before[name], strict=True)


def test_the_dev_value_before_training_is_on_the_same_scale_as_later():
    loss, dev = crd(), step(1)
    before = loss.eval()(dev).item()
    loss.train()
    after, constants = by_hand(state(loss), dev, "fixed")
    assert before == pytest.approx(after, rel=1e-9)
    expected, _ = by_hand(state(loss), step(), "fixed", constants)
    assert loss(step()).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_resumed_training_comes_to_the_same_bits(variant):
    def train(loss, optimizer, numbers):
        for number in numbers:
            optimizer.zero_grad()
            loss(step(number)).backward()
            optimizer.step()

    whole = crd(variant)
    optimizer = torch.optim.AdamW(whole.parameters(), lr=0.05)
    train(whole, optimizer, range(3))
    saved = deepcopy((whole.state_dict(), optimizer.state_dict()))
    train(whole, optimizer, range(3, 6))

    resumed = crd(variant)
    optimizer = torch.optim.AdamW(resumed.parameters(), lr=0.05)
    resumed.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    train(resumed, optimizer, range(3, 6))
    for name, tensor in state(resumed).items():
        np.testing.assert_array_equal(tensor, state(whole)[name], strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", ["one", "equal", "zero"])
def test_degenerate_batches_have_finite_values_and_gradients(case, variant):
    size = 1 if case == "one" else 4
    student, targets = vectors(size, 5).float(), vectors(size, 4, seed=1).float()
    if case == "equal":
        student, targets = student[:1].repeat(4, 1), targets[:1].repeat(4, 1)
    if case == "zero":
        student[0], targets[1] = 0, 0
    loss = crd(variant).float()
    for _ in range(2):
        value = loss(batch(student.requires_grad_(), targets, rows=torch.arange(size)))
        value.backward()
    assert value.isfinite()
    assert student.grad.isfinite().all()
    assert all(torch.from_numpy(tensor).isfinite().all() for tensor in state(loss).values())


@pytest.mark.parametrize(("variant", "epochs"), [("fixed", 5), ("code", 15)])
def test_training_finds_each_sentences_own_teacher(variant, epochs):
    """An aligned problem: what the student reads holds the teacher's vector, rotated, and noise."""
    rows, targets = 64, vectors(64, 4)
    read = torch.cat([targets @ torch.linalg.qr(vectors(4, 4, seed=1))[0], vectors(64, 2, seed=2)], dim=1)
    student = torch.nn.Linear(6, 5).double()
    torch.nn.init.constant_(student.weight, 0.1)
    loss = crd(variant, rows=rows, features=4, negatives=32, temperature=0.1)

    def dev() -> tuple[float, float]:
        with torch.no_grad():
            found = student(read)
            similar = normalize(loss.student(found)) @ normalize(loss.teacher(targets)).T
            own = (similar.argmax(dim=1) == torch.arange(rows)).double().mean().item()
            return loss.eval()(batch(found, targets)).item(), own

    optimizer = torch.optim.Adam([*student.parameters(), *loss.parameters()], lr=0.03)
    (before, _), order = dev(), np.random.default_rng(0)
    for _ in range(epochs):
        for part in torch.from_numpy(order.permutation(rows)).split(8):
            optimizer.zero_grad()
            loss.train()(batch(student(read[part]), targets[part], rows=part)).backward()
            optimizer.step()
    after, own = dev()
    assert after < 0.6 * before
    assert own > 0.5
