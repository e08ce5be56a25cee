"""What a student takes on this machine: it is built as `distill` does, and takes some of its steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.core.registry import implementation
from pipeline.params.load import Params
from pipeline.planning.clock import clocked, fastest
from pipeline.planning.sizes import tokens_of

if TYPE_CHECKING:
    from torch import nn

    from pipeline.params.students import Student

PARTS, VOCABULARY = "teacher", "vocabulary"
"""Folders of what students start from."""
FEWEST_TEXTS = 256


@dataclass(frozen=True)
class StudentSpeed:
    """Of one student, in seconds."""

    build: float = 0.0
    train: float = 0.0
    """A token of a training text, of a step as large as params say."""
    forward: float = 0.0
    """A token of a text that is encoded."""


def measure(
    block: "Student", folder: Path, sample: Sequence[str], target_dim: int, params: Params, most: float
) -> StudentSpeed:
    """Build a student as `distill` does, and take some of its steps.

    Args:
        block: the student's, without `auto`.
        folder: where PARTS and VOCABULARY lie.
        sample: real texts.
        target_dim: the dimension of its targets.
        params: params.yaml's.
        most: seconds that it may take, in about.
    """
    import torch

    from pipeline.train.loop.data import Examples
    from pipeline.train.loop.loss import LossContext
    from pipeline.train.loop.objective import Step, autocast
    from pipeline.train.loop.optimizers import Optimizers, clip_gradients
    from pipeline.train.loop.world import World
    from pipeline.train.losses.building.objective import build_objective, import_losses

    kind = implementation("train.students.kinds", block.kind)
    source = folder / (VOCABULARY if block.reads_vocabulary else PARTS)
    built, learner = clocked(lambda: kind.build(block, source))
    world = World.join(params.runtime.device)
    size = block.train.batch_size if block.train else FEWEST_TEXTS
    texts = [sample[i % len(sample)] for i in range(2 * size)]
    tokens = learner.tokenise(texts)
    target = np.random.default_rng(0).normal(size=(len(texts), target_dim)).astype(np.float32)
    examples = Examples(tokens, target)
    learner.module.to(world.device)
    bfloat16 = _bfloat16(block, learner.module, world.device)
    batches = [np.arange(len(texts))[i::2] for i in range(2)]
    a_step = tokens_of(texts) / 2
    train = 0.0
    if block.train is not None and block.loss is not None:
        import_losses(block.loss)
        kept = _without_states(block)
        context = LossContext(
            kept.width, target_dim, len(texts), int(tokens.lengths.max()), folder / PARTS, 0,
            getattr(learner, "token_table", None), getattr(learner, "teacher_ids", None),
            getattr(learner, "layers", 0), getattr(learner, "width", 0), None,
        )  # fmt: skip
        losses = build_objective(kept, context).to(world.device)
        everything = torch.nn.ModuleDict({"student": learner.module, "losses": losses})
        optimizers = Optimizers(everything, 1e-6, 0.0, sparse=block.train.sparse)
        step = Step(
            learner, losses, examples, World(device=world.device), block.train.micro_batch, bfloat16=bfloat16
        )

        def one_step(rows: np.ndarray) -> None:
            optimizers.zero_grad()
            step.backward(rows)
            if block.train and block.train.clip_norm:
                clip_gradients(everything.parameters(), block.train.clip_norm)
            optimizers.step()

        train = fastest(one_step, batches, most / 3) / a_step

    def one_pass(rows: np.ndarray) -> None:
        with torch.no_grad(), autocast(learner.module, bfloat16=bfloat16):
            for part in tokens.select(rows).in_parts():
                learner.encode(part)

    return StudentSpeed(built, train, fastest(one_pass, batches, most / 6) / a_step)


def _bfloat16(block: "Student", module: "nn.Module", device: str) -> bool:
    from pipeline.core.machine import chosen, precision

    key = "plan"
    wanted = block.train.precision if block.train else "auto"
    found = precision(wanted, module, device, key) == "bfloat16"
    chosen.pop(key, None)
    return found


def _without_states(block: "Student") -> "Student":
    """A block without the loss of hidden states, which the teacher gives in a later stage."""
    from pipeline.params.losses import terms_of

    loss = block.loss
    terms = [term for term in getattr(loss, "terms", ()) if term.loss.kind != "hidden_states"]
    if loss is None or len(terms) == len(terms_of(loss)) or not terms:
        return block
    copied = loss.model_copy(update={"terms": tuple(terms)})
    return block.model_copy(update={"loss": copied})
