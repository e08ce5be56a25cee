import numpy as np
import pytest
import torch
from refusals import refuses
from small_batches import batch, context, vectors
from torch.autograd import gradcheck

from pipeline.data.tokens.tokens import Tokens
from pipeline.params.losses import HiddenStatesLoss
from pipeline.train.distillation import states as states_file
from pipeline.train.distillation.states import TeacherStates, quantise
from pipeline.train.losses.hidden_states import build

KEPT = (4, 1, 3)
"""Tokens of the texts that have states, rows 2 to 4 of the training texts."""
LENGTHS = (5, 6, 5, 4)
"""Of the batch's texts, two special tokens each: what the teacher keeps of one may be less, or more."""
ROWS = (7, 2, 4, 3)
WIDTH, THEIRS, LAYERS = 3, 5, (1, 4, 8)


def ids_of(row: int, length: int) -> np.ndarray:
    """Any tokens, of a text the same however many are read."""
    return np.random.default_rng(row).integers(5, 40, size=20)[:length].astype(np.int32)


def stored(width: int = THEIRS, share: float = 0.25) -> TeacherStates:
    levels, scales = quantise(vectors(sum(KEPT), len(LAYERS), width, seed=3).float().numpy())
    tokens = np.concatenate([ids_of(row, count) for row, count in enumerate(KEPT, 2)])
    offsets = np.cumsum([0, *KEPT])
    return TeacherStates(LAYERS, width, 2, share, 1, 1, offsets, tokens, scales, levels)


def tokens_of(rows=ROWS, lengths=LENGTHS) -> Tokens:
    texts = [
        np.array([2, *ids_of(row, length - 2), 3], np.int32)
        for row, length in zip(rows, lengths, strict=True)
    ]
    return Tokens(np.concatenate(texts), np.cumsum([0, *lengths]))


def loss_of(teacher: TeacherStates | None = None, width: int = WIDTH, of: int = 6, pairs=None, **params):
    """Of a student of so many layers."""
    block = HiddenStatesLoss.model_validate({"kind": "hidden_states", "layers": pairs, **params})
    found = context(hidden=teacher or stored(), width=width, layers=of)
    return build(block, found).double()


def batch_of(states: dict[int, torch.Tensor], rows=ROWS, lengths=LENGTHS):
    given = {"tokens": tokens_of(rows, lengths), "states": states, "rows": torch.tensor(rows)}
    return batch(torch.zeros(len(rows), 4, dtype=torch.float64), **given)


def by_hand(loss, states, teacher, pairs, rows=ROWS, lengths=LENGTHS) -> float:
    """The equation text by text."""
    total, starts = 0.0, np.cumsum([0, *lengths])
    for own, theirs in pairs:
        matrix = (
            loss.matrices[pairs.index((own, theirs))].weight.detach().numpy() if loss.matrices else np.eye(5)
        )
        for place, row in enumerate(rows):
            if not 2 <= row < 5:
                continue
            count = min(KEPT[row - 2], lengths[place] - 2)
            h = states[own].detach().numpy()[starts[place] + 1 :][:count]
            at, column = teacher.offsets[row - 2], LAYERS.index(theirs)
            t = teacher.levels[at : at + count, column] * teacher.scales[
                at : at + count, column, None
            ].astype(float)
            total += np.mean((h @ matrix.T - t) ** 2) / len(pairs) / len(rows) / 0.25
    return total


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ([[0, 4]], [(0, 4)]),
        ([[0, 4], [5, 1]], [(0, 4), (5, 1)]),
        (None, [(1, 1), (3, 4), (5, 8)]),
    ],
)
def test_the_equation_in_float64(given, pairs):
    loss, teacher = loss_of(pairs=given), stored()
    states = {own: vectors(sum(LENGTHS), WIDTH, seed=own) for own, _ in pairs}
    assert loss.layers == tuple(sorted(states))
    found = loss(batch_of(states)).item()
    assert found == pytest.approx(by_hand(loss, states, teacher, pairs), rel=1e-6)


def test_without_a_matrix_and_with_the_identity():
    teacher, states, found = stored(), {5: vectors(sum(LENGTHS), THEIRS)}, []
    for projection in ("none", "learned"):
        loss = loss_of(teacher, width=THEIRS, projection=projection, pairs=[[5, 8]])
        found.append(loss(batch_of(states)).item())
        assert len(list(loss.parameters())) == (projection == "learned")
    expected = by_hand(loss, states, teacher, [(5, 8)])
    assert found == pytest.approx([expected, expected], rel=1e-6)


def test_gradients():
    loss = loss_of()
    inputs = [vectors(sum(LENGTHS), WIDTH, seed=own).requires_grad_() for own in loss.layers]
    assert gradcheck(lambda *given: loss(batch_of(dict(zip(loss.layers, given, strict=True)))), inputs)


def test_parts_of_a_batch_add_up():
    loss = loss_of()
    states = {own: vectors(sum(LENGTHS), WIDTH, seed=own) for own in loss.layers}
    whole, cut = loss(batch_of(states)), sum(LENGTHS[:1])
    parts = [
        ({own: found[:cut] for own, found in states.items()}, ROWS[:1], LENGTHS[:1]),
        ({own: found[cut:] for own, found in states.items()}, ROWS[1:], LENGTHS[1:]),
    ]
    assert loss.over == "sentences"
    shared = sum(loss(batch_of(*part)) * len(part[1]) / len(ROWS) for part in parts)
    assert shared.item() == pytest.approx(whole.item(), rel=1e-12)


def test_texts_without_states_cost_nothing_and_every_matrix_has_a_gradient():
    loss = loss_of()
    states = {own: vectors(9, WIDTH, seed=own).requires_grad_() for own in loss.layers}
    found = loss(batch_of(states, rows=(0, 9), lengths=(4, 5)))
    found.backward()
    assert found.item() == 0
    assert all(not matrix.weight.grad.any() for matrix in loss.matrices)
    assert all(not one.grad.any() for one in states.values())


def test_a_text_without_a_token_of_its_own():
    loss = loss_of()
    states = {own: vectors(2, WIDTH, seed=own) for own in loss.layers}
    assert loss(batch_of(states, rows=(2,), lengths=(2,))).item() == 0


def test_dev_texts_have_none():
    loss = loss_of().eval()
    assert loss(batch(torch.ones(2, 4))).item() == 0


def test_states_are_read_ahead_of_the_texts_that_have_some(monkeypatch):
    asked = []
    monkeypatch.setattr(
        states_file, "read_ahead", lambda part, starts, lengths: asked.append((part, starts, lengths))
    )
    teacher = stored()
    loss_of(teacher).read_ahead(np.array(ROWS))
    parts = (teacher.tokens, teacher.scales, teacher.levels)
    assert all(part is one for (part, *_), one in zip(asked, parts, strict=True))
    assert all(starts.tolist() == [0, 5, 4] and lengths.tolist() == [4, 3, 1] for _, starts, lengths in asked)


def test_what_it_looks_at():
    loss = loss_of()
    assert (loss.of_vectors, loss.needs_inputs, loss.needs_embedded) == (False, False, False)


def test_a_student_of_other_tokens_is_refused():
    loss = loss_of()
    states = {own: vectors(sum(LENGTHS), WIDTH, seed=own) for own in loss.layers}
    given = batch_of(states)
    given.tokens.ids[LENGTHS[0] + 1] += 1
    with refuses("hidden_states", "the teacher's tokens", "dvc repro -f hidden"):
        loss(given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"pairs": [[6, 4]]}, ("layer 6 of the student", "0 to 5")),
        ({"pairs": [[0, 2]]}, ("layer 2 of the teacher", "1, 4, 8")),
        ({"projection": "none"}, ("3 and 5 dimensions", "projection to learned")),
    ],
)
def test_layers_and_widths_that_are_not_there(given, named):
    with refuses("loss: hidden_states", *named):
        loss_of(**given)


def test_no_states_at_all():
    with refuses("hidden_states", "set encode.hidden"):
        build(HiddenStatesLoss(kind="hidden_states"), context())


@pytest.mark.parametrize(
    ("layers", "pairs"),
    [(12, [(3, 1), (7, 4), (11, 8)]), (3, [(0, 1), (1, 4), (2, 8)]), (2, [(0, 1), (1, 8)]), (1, [(0, 8)])],
)
def test_layers_at_equal_distances(layers, pairs):
    assert loss_of(of=layers)._pairs == pairs
