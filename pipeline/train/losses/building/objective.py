"""The objective of a student's block `loss`: of distillation, and of its replay in fine-tuning."""

from dataclasses import replace

from pipeline.core.registry import implementation
from pipeline.params.losses import Loss as LossParams
from pipeline.params.losses import terms_of
from pipeline.params.students import StudentBlock
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.objective import Objective, Term


def import_losses(loss: LossParams) -> None:
    """Import the code of every loss in a block."""
    for params in (loss, *terms_of(loss)):
        implementation("train.losses", params.kind)


def build_objective(block: StudentBlock, context: LossContext, weight: float = 1.0) -> Objective:
    """The losses of a student's block: every term, on the whole vectors and on every Matryoshka prefix.

    Args:
        block: the student's.
        context: what they are built for.
        weight: of all of them together.
    """
    assert block.loss is not None
    prefixes = (*block.training.matryoshka, block.width)
    terms, whole = [], None
    for prefix in prefixes:
        target_dim = context.target_dim if block.training.target == "full" else prefix
        whole = implementation("train.losses", block.loss.kind).build(
            block.loss, replace(context, dim=prefix, target_dim=target_dim)
        )
        for own, loss in getattr(whole, "terms", [(1.0, whole)]):
            if loss.of_vectors:
                terms.append(Term(weight * own / len(prefixes), loss, prefix, target_dim))
            elif prefix == block.width:
                terms.append(Term(weight * own, loss, prefix, target_dim))
    return Objective(terms, whole)
