"""`teacher.finetune`, `students.NAME.finetune` and `.whitening`: what comes before and after distillation."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pipeline.core.machine import Precision
from pipeline.params.base import Block, Count, Fraction, Name, Positive, Seed
from pipeline.params.losses import HsicLoss
from pipeline.params.mixture import Texts


class WeightedHsic(Block):
    """HSIC with its weight."""

    weight: Positive = 0.5
    loss: HsicLoss


class Replay(Block):
    """Distillation that goes on beside fine-tuning, so that labels cost less of what the student knew."""

    weight: Positive
    """Of the student's own `loss` on a batch of texts, which is added to the loss of the labelled batch."""
    batch_size: Annotated[int, Field(ge=2)] | None = None
    """Texts an optimizer step, two at least, since one has no other to be compared with; null: as many as
    there are triplets."""
    texts: Texts | None = Field(default=None, min_length=1)
    """As `train.texts`, of which these are some or all; null: as they are there."""


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"names {twice[0]} twice; remove one")
    return names


class Contrast(Block):
    """Supervised InfoNCE with in-batch and given hard negatives (IBKD eq. 10, HPD eq. 1)."""

    data: Annotated[tuple[Name, ...], Field(min_length=1, strict=False), AfterValidator(_once)]
    """Names under `finetune.data`."""
    epochs: Count = 1
    """Passes over the triplets."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Triplets an optimizer step: the other positives of a batch are negatives."""
    micro_batch: Count | None = None
    """Texts in memory at a time, where a step is too large for it: the gradients are those of the whole step
    (GradCache). null: all at once."""
    lr: Positive = 2e-5
    """Peak learning rate of AdamW, linear warm-up and decay."""
    warmup: Fraction = 0.1
    """Share of the steps in which the learning rate rises to `lr`."""
    temperature: Positive = 0.05
    """Divides the cosines."""
    negatives: Annotated[int, Field(ge=0)] = 8
    """Most hard negatives of an anchor: given ones first, then, for students, mined ones."""
    precision: Precision = "auto"
    """Of the forward and backward passes, and of those that dev tasks are scored with, as in `train`."""
    interpolation: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the fine-tuned weights in those that are scored and kept; the others are those before
    (WiSE-FT, Wortsman et al. 2022). Below 1 more is left of what fine-tuning costs elsewhere."""
    evaluations: Count = 4
    """How often the dev score is taken; the best weights are kept, those before if none is better."""
    seed: Seed = 0
    """Seed of the order of the triplets."""


class Finetune(Contrast):
    """How a student is fine-tuned once it is distilled."""

    loss: Literal["contrast", "cosines"] = "contrast"
    """`contrast`: InfoNCE, as above. `cosines`: the mean square of the difference between student and teacher
    in the cosine of each anchor to its positive and to its hard negatives (SRA sec. 5.5). The positives are
    then no positives, only the other text of a pair: no label is read."""
    hsic: WeightedHsic | None = None
    """IBKD's regulariser beside the contrast (eq. 9): weight 0.5 in the paper."""
    projection: Count | None = None
    """Dimension that a linear layer, trained along and shipped, brings the vectors down to (IBKD eq. 11), and
    which ships even where no dev score rises; null: there is none."""
    replay: Replay | None = None
    """null: the labelled batches alone are trained on."""
    select: Literal["tasks", "agreement"] = "tasks"
    """What the dev score is: the mean over the dev tasks; or, without labels, the share of a dev text's ten
    nearest texts that are the teacher's too."""


class TeacherFinetune(Contrast):
    """How the teacher is fine-tuned before it encodes anything (HPD eq. 1); dev tasks choose the weights."""


class Whitening(Block):
    """PCA-whitening of a student's own vectors (Su et al. 2021; HPD's rows `+Whitening`)."""

    dim: Count
    """Principal components that are kept, those of the largest variance, each brought to variance 1."""
    max_rows: Annotated[int, Field(ge=2)] = 100_000
    """Corpus texts that it is fitted on, the first by text id."""
