"""What a classifier is trained to lower, beside the labels: the distance to a task teacher."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, normalize

from pipeline.core.errors import UserError


def loss(
    logits: Tensor, classes: Tensor, taught: Tensor | None, alpha: float, temperature: float | None = None
) -> Tensor:
    """Cross-entropy, or alpha times it and 1 - alpha times the distance to a teacher's logits, ().

    Args:
        logits: z_s, (n, c).
        classes: (n,).
        taught: z_t, (n, c); None: the classes alone.
        alpha: weight of the cross-entropy.
        temperature: T of `softened`; None: the distance is `squared`.
    """
    if taught is None:
        return cross_entropy(logits, classes)
    distance = squared(logits, taught) if temperature is None else softened(logits, taught, temperature)
    return alpha * cross_entropy(logits, classes) + (1 - alpha) * distance if alpha else distance


def squared(logits: Tensor, taught: Tensor) -> Tensor:
    """The mean over the rows of ||z_t - z_s||^2, (): Tang et al. 2019, eq. 3."""
    return (logits - taught).square().sum(1).mean()


def softened(logits: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """KL(p_t || p_s) of the softmax of z / T, the mean over the rows, ().

    Its gradient is that of Sun et al. 2019, eq. 2, which is the cross-entropy of the same: they differ by the
    entropy of p_t.
    """
    student, teacher = (log_softmax(one / temperature, dim=1) for one in (logits, taught))
    return kl_div(student, teacher, reduction="batchmean", log_target=True)


def patience(states: Tensor, taught: Tensor) -> Tensor:
    """||h_s / ||h_s|| - h_t / ||h_t|| ||^2, the mean over rows and layers, (): Sun et al. 2019, eq. 7.

    Args:
        states: h_s of the first tokens, (n, layers, d).
        taught: h_t of the layers that they are matched with, of any length, (n, layers, d).
    """
    return (normalize(states, dim=2) - normalize(taught, dim=2)).square().sum(2).mean()


def matched(how: str, layers: int, of_teacher: int) -> tuple[int, ...]:
    """The teacher's layer that each of the student's learns from but its last one, counted from 0.

    Args:
        how: `skip`: every k-th of them; `last`: the last ones before the last.
        layers: the student's.
        of_teacher: the teacher's.

    Raises:
        UserError: the student has more layers, or one alone.
    """
    if layers < 2 or layers > of_teacher:
        raise UserError(
            f"kd.patience: the student has {layers} layers and the task teacher {of_teacher}; take a student "
            f"of 2 to {of_teacher}, or set patience to null"
        )
    if how == "last":
        return tuple(range(of_teacher - layers, of_teacher - 1))
    step = of_teacher // layers
    return tuple(step * (place + 1) - 1 for place in range(layers - 1))


def first_states(states: dict[int, Tensor], first: Tensor) -> Tensor:
    """The states of the first tokens, (n, layers, d), of the states (T, d) of layers by their numbers.

    Args:
        states: of all tokens.
        first: where each text begins, (n,).
    """
    return torch.stack([states[layer].index_select(0, first).float() for layer in sorted(states)], dim=1)
