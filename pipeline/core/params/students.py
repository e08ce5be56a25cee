"""`students:`: one block a student."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.params.base import Block, Count, Fraction, Name, NonNegative, Positive, Seed
from pipeline.core.params.teacher import View

TextSet = Literal["seed", "wordnet"]


class MseLoss(Block):
    """Mean squared distance to the target (HPD eq. 2)."""

    kind: Literal["mse"]
    variant: Literal["fixed", "paper", "code"] = "fixed"
    """`fixed` and `paper` sum over the dimensions, the released `code` averages over them."""


class CosineLoss(Block):
    """One minus the cosine to the target, plus a penalty on large outputs (tokenlearn's blog post)."""

    kind: Literal["cosine"]
    norm_penalty: NonNegative = 1.0
    """Weight of the mean squared output."""


class ContrastiveLoss(Block):
    """In-batch contrast of student vectors and targets (tokenlearn's present code)."""

    kind: Literal["contrastive"]
    temperature: Positive = 0.07
    """Divides the cosines."""


Loss = Annotated[MseLoss | CosineLoss | ContrastiveLoss, Field(discriminator="kind")]


class Train(Block):
    """How a student is trained on the cached vectors."""

    texts: Annotated[tuple[TextSet, ...], Field(min_length=1, strict=False)] = ("seed", "wordnet")
    """The text sets that it is trained on."""
    whiten: bool = False
    """Scale the target's principal components to variance 1, at the teacher's own dimension too."""
    epochs: Count
    """Most passes over the texts."""
    batch_size: Count
    """Sentences an optimizer step."""
    lr: Positive
    """Peak learning rate of AdamW."""
    weight_decay: NonNegative = 0.0
    """Of AdamW."""
    schedule: Literal["linear", "cosine", "plateau"] = "linear"
    """After the warm-up: to zero by the last step, or halved where the dev loss stands still."""
    warmup: Fraction = 0.1
    """Share of the steps in which the learning rate rises to `lr`."""
    clip_norm: Positive | None = 1.0
    """Longest gradient; null: not clipped."""
    evaluations: Count = 10
    """How often the dev loss is taken; the best weights so far are kept."""
    patience: Count | None = None
    """Stop after this many evaluations without a better dev loss; null: never."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the forward and backward passes; weights and optimizer stay float32."""
    seed: Seed = 0
    """Seed of the order of the texts and of random weights."""


class Finetune(Block):
    """Supervised InfoNCE with in-batch and given hard negatives (IBKD eq. 10, HPD eq. 1)."""

    data: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Names under `finetune.data`."""
    epochs: Count = 1
    """Passes over the triplets."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Triplets an optimizer step: the other positives of a batch are negatives."""
    lr: Positive = 2e-5
    """Peak learning rate of AdamW, linear warm-up and decay."""
    warmup: Fraction = 0.1
    """Share of the steps in which the learning rate rises to `lr`."""
    temperature: Positive = 0.05
    """Divides the cosines."""
    evaluations: Count = 4
    """How often the dev tasks are scored; the best weights are kept, the distilled ones if none is better."""
    seed: Seed = 0
    """Seed of the order of the triplets."""


class StudentBlock(Block):
    """What every student has: all keys are required, since dvc.yaml tracks them one by one."""

    view: View
    """The teacher's column that is the target."""
    dim: Count
    """Dimension of the student's vectors; below the teacher's, the target is reduced by PCA."""
    loss: Loss
    train: Train
    finetune: Finetune | None
    """null: the distilled weights are final."""


class TransformerInit(Block):
    """Where a transformer student starts."""

    layers: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, strict=False)]
    """The teacher's encoder layers that it keeps, in order, counted from 0."""
    projection: Literal["ridge", "random"] = "ridge"
    """`ridge` solves the output projection on a sample of cached texts; `random` is the papers'."""
    ridge_rows: Count = 4096
    """Size of that sample."""
    ridge_lambda: Positive = 1e-3
    """Ridge penalty, relative to the mean variance of the pooled outputs."""
    activation: Literal["none", "tanh"] = "none"
    """After the projection: HPD's paper has none, its released code a tanh."""
    max_length: Annotated[int, Field(ge=3)] = 128
    """Tokens a text, special tokens included; longer texts are cut."""


class TransformerStudent(StudentBlock):
    """A small transformer, mean pooling, and a linear projection (HPD)."""

    kind: Literal["transformer"]
    init: TransformerInit


class StaticInit(Block):
    """Where a static student starts: the vocabulary vectors, PCA, Zipf weights (model2vec)."""

    sif: Positive | None = 1e-4
    """SIF coefficient of the Zipf weights by rank in the vocabulary; null: no weights."""
    projection: Literal["ridge", "none"] = "ridge"
    """`ridge` maps the table to targets on a sample of cached texts; `none` starts where model2vec ends."""
    ridge_rows: Count = 20_000
    """Size of that sample."""
    ridge_lambda: Positive = 1e-3
    """Ridge penalty, relative to the mean variance of the sentence vectors."""


class Regularise(Block):
    """What is done to a static table after training (tokenlearn)."""

    pca: bool = True
    """Rotate the rows to their principal components, centred."""
    sif: Positive | None = 1e-3
    """Weights a / (a + p), p the token's frequency in the training texts; null: no weights."""


class StaticTrain(Train):
    """How a static student is trained, and what follows."""

    regularise: Regularise | None = Regularise()
    """null: the trained table is final."""


class StaticStudent(StudentBlock):
    """A table of token vectors: a text is the mean of its tokens' (model2vec, POTION)."""

    kind: Literal["static"]
    init: StaticInit
    train: StaticTrain


Student = Annotated[TransformerStudent | StaticStudent, Field(discriminator="kind")]
