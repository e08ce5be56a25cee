import pytest
import torch
from torch import Tensor, nn

from pipeline.train.loop.optimizers import Optimizers, clip_gradients, sparse_parameters

ROWS = [3, 1, 3, 7, 3]
"""A token that is met again and again has one gradient: the sum."""


class Bag(nn.Module):
    """A table, of which few rows are met, and a dense layer."""

    def __init__(self, *, sparse: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Embedding.from_pretrained(
            torch.randn(10, 4, generator=generator), freeze=False, sparse=sparse
        )
        self.linear = nn.Linear(4, 3)
        nn.init.normal_(self.linear.weight, generator=generator)
        nn.init.zeros_(self.linear.bias)

    def forward(self, rows: Tensor) -> Tensor:
        return self.linear(self.table(rows))


def bag(*, sparse: bool, scale: float = 1.0, rows: list[int] = ROWS) -> Bag:
    """With the gradients of a loss of these rows."""
    module = Bag(sparse=sparse)
    backward(module, rows, scale)
    return module


def backward(module: Bag, rows: list[int], scale: float = 1.0) -> None:
    for half in (rows[:2], rows[2:]):
        (scale * module(torch.tensor(half)).square().sum()).backward()


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad.to_dense() for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e4])
def test_clipping_is_torchs_and_sparse_gradients_are_clipped_as_dense_ones(sparse, scale):
    module, reference = bag(sparse=sparse, scale=scale), bag(sparse=False, scale=scale)
    clip_gradients(module.parameters(), 0.5)
    nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
    assert module.table.weight.grad.is_sparse == sparse
    torch.testing.assert_close(gradients(module), gradients(reference), rtol=1e-5, atol=1e-12)
    length = torch.cat([one.flatten() for one in gradients(module).values()]).norm()
    assert length == pytest.approx(0.5, rel=1e-4) if scale >= 1 else length < 0.5


def test_parameters_without_a_gradient_do_not_count():
    module = bag(sparse=True)
    module.linear.weight.grad = None
    expected = gradients(bag(sparse=False))
    clip_gradients(module.parameters(), 0.5)
    length = torch.cat([expected["table.weight"].flatten(), expected["linear.bias"]]).norm()
    torch.testing.assert_close(module.linear.bias.grad, 0.5 / length * expected["linear.bias"])
    clip_gradients(nn.Linear(2, 2).parameters(), 0.5)


def test_dense_parameters_get_adamw_and_sparse_tables_sparse_adam():
    module, reference = bag(sparse=True), bag(sparse=True)
    optimizers = Optimizers(module, lr=0.1, weight_decay=0.2, sparse=True)
    others = [
        torch.optim.AdamW(reference.linear.parameters(), lr=0.05, weight_decay=0.2),
        torch.optim.SparseAdam([reference.table.weight], lr=0.05),
    ]
    optimizers.set_rate(0.05)
    for rows in (ROWS, [0, 1, 2], [3, 3, 4]):
        optimizers.zero_grad()
        for other in others:
            other.zero_grad()
        backward(module, rows)
        backward(reference, rows)
        for stepping in (optimizers, *others):
            stepping.step()
    torch.testing.assert_close(module.state_dict(), reference.state_dict(), rtol=1e-5, atol=1e-6)


def test_rows_that_no_step_meets_keep_their_bits():
    module = bag(sparse=True)
    before = module.table.weight.detach().clone()
    Optimizers(module, lr=0.1, weight_decay=0.2, sparse=True).step()
    met = (module.table.weight != before).any(dim=1)
    assert met.nonzero().flatten().tolist() == sorted(set(ROWS))


def test_a_first_step_on_a_sparse_table_is_adams():
    module, reference = bag(sparse=True), bag(sparse=False)
    Optimizers(module, lr=0.1, weight_decay=0.0, sparse=True).step()
    torch.optim.Adam(reference.parameters(), lr=0.1).step()
    torch.testing.assert_close(module.state_dict(), reference.state_dict(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_restored_optimizers_go_on_as_the_saved_ones(sparse):
    steps = [ROWS, [0, 1, 2], [3, 3, 4], [9, 9, 1]]
    undisturbed, stopped = Bag(sparse=sparse), Bag(sparse=sparse)
    whole = Optimizers(undisturbed, lr=0.1, weight_decay=0.2, sparse=sparse)
    first = Optimizers(stopped, lr=0.1, weight_decay=0.2, sparse=sparse)
    for rows in steps:
        take(whole, undisturbed, rows)
    for rows in steps[:2]:
        take(first, stopped, rows)
    saved = {name: tensor.clone() for name, tensor in first.tensors().items()}
    resumed = Bag(sparse=sparse)
    resumed.load_state_dict(stopped.state_dict())
    second = Optimizers(resumed, lr=0.1, weight_decay=0.2, sparse=sparse)
    second.restore(saved)
    for rows in steps[2:]:
        take(second, resumed, rows)
    exactly = {"rtol": 0, "atol": 0}
    torch.testing.assert_close(resumed.state_dict(), undisturbed.state_dict(), **exactly)
    torch.testing.assert_close(second.tensors(), whole.tensors(), **exactly)


def test_before_the_first_step_there_is_nothing_to_restore():
    module = Bag(sparse=True)
    optimizers = Optimizers(module, lr=0.1, weight_decay=0.0, sparse=True)
    assert optimizers.tensors() == {}
    optimizers.restore({})
    take(optimizers, module, ROWS)


def take(optimizers: Optimizers, module: Bag, rows: list[int]) -> None:
    optimizers.zero_grad()
    backward(module, rows)
    optimizers.step()


def test_frozen_parameters_are_left_out():
    module = bag(sparse=True)
    module.table.weight.requires_grad_(False)
    module.linear.bias.requires_grad_(False)
    before = module.table.weight.clone(), module.linear.bias.clone()
    assert sparse_parameters(module) == []
    Optimizers(module, lr=0.1, weight_decay=0.5, sparse=True).step()
    assert torch.equal(module.table.weight, before[0])
    assert torch.equal(module.linear.bias, before[1])
