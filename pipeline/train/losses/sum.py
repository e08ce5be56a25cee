"""A weighted sum of losses."""

from collections import Counter
from functools import partial

from torch import Tensor, nn

from pipeline.core.registry import implementation
from pipeline.params.losses import SumLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext


def build(params: SumLoss, context: LossContext) -> "Sum":
    """The loss of these params."""
    built: list[tuple[float, str, Loss]] = [
        (
            term.weight,
            term.loss.kind,
            implementation("train.losses", term.loss.kind).build(term.loss, context),
        )
        for term in params.terms
    ]
    return Sum(built)


class Sum(Loss):
    """IBKD's InfoNCE + HSIC (eq. 8), SimTDE's sentence and token distances (eq. 5).

    Args:
        terms: weight, kind and loss of each.
    """

    def __init__(self, terms: list[tuple[float, str, Loss]]) -> None:
        super().__init__()
        self.terms = [(weight, loss) for weight, _, loss in terms]
        """(weight, loss) of each term: callers run the terms one by one."""
        losses = [loss for _, loss in self.terms]
        self._losses = nn.ModuleList(losses)
        spans = {loss.over for loss in losses}
        self.over = spans.pop() if len(spans) == 1 else "batch"
        self.needs_inputs = any(loss.needs_inputs for loss in losses)
        self.needs_embedded = any(loss.needs_embedded for loss in losses)
        self.layers = tuple(sorted({layer for loss in losses for layer in loss.layers}))
        self._suffixes = _suffixes([kind for _, kind, _ in terms])
        self._values: dict[str, Tensor] = {}
        for (_, kind, loss), suffix in zip(terms, self._suffixes, strict=True):
            loss.register_forward_hook(partial(self._note, f"loss_{kind}{suffix}"))

    def measures(self) -> dict[str, float]:
        """The terms' measures, and each term's last value, unweighted, as loss_KIND.

        The second term of a kind has names that end in _2.
        """
        found = {name: value.item() for name, value in self._values.items()}
        for (_, loss), suffix in zip(self.terms, self._suffixes, strict=True):
            found |= {f"{name}{suffix}": value for name, value in loss.measures().items()}
        return found

    def _note(self, name: str, _loss: nn.Module, _inputs: tuple[Batch], value: Tensor) -> None:
        self._values[name] = value.detach()


def _suffixes(kinds: list[str]) -> list[str]:
    """Nothing for the first of a kind, _2 for the second."""
    seen: Counter[str] = Counter()
    suffixes = []
    for kind in kinds:
        seen[kind] += 1
        suffixes.append(f"_{seen[kind]}" if seen[kind] > 1 else "")
    return suffixes
