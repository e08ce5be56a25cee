"""`students.NAME.train`: how a student is trained on the cached vectors."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.machine import Precision
from pipeline.params.base import Block, Count, Fraction, NonNegative, Positive, Seed
from pipeline.params.mixture import Texts


class Average(Block):
    """An exponential moving average of the weights."""

    decay: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """Share of the average that a step leaves; after step t no more than (1 + t) / (10 + t)."""


class Train(Block):
    """How a student is trained on the cached vectors."""

    texts: Texts = Field(default={"corpus": 1.0, "wordnet": 1.0, "back_translation": 1.0}, min_length=1)
    """The text sets that it is trained on, each with how often an epoch reads a text of it: with `{corpus: 1,
    wordnet: 0.5}` an epoch reads half of the WordNet texts and the next one the others, with 2 it reads each
    of them twice. A list such as `[corpus, wordnet]` stands for 1 each."""
    target: Literal["pca", "full"] = "pca"
    """`pca`: the teacher's vectors, reduced to the student's dimension where that is smaller. `full`: as they
    are; the loss has to map one dimension to the other (infonce with a learned projection, crd) or to compare
    none (relational)."""
    whiten: bool = False
    """Scale the target's principal components to variance 1, at the teacher's own dimension too."""
    shrinkage: Fraction = 0.0
    """Of `whiten`: how far variances are first brought to their mean; 1 leaves the components as they are but
    for one factor."""
    centre: bool = False
    """Subtract the corpus' mean from the target, where it is the teacher's vectors as they are; principal
    components are centred by `pca.centre`."""
    matryoshka: Annotated[tuple[Count, ...], Field(strict=False)] = ()
    """Shorter prefixes of the vectors that are trained along: the loss is the mean over them and the
    whole."""
    epochs: Positive
    """Most passes over the texts, as often as `texts` says; 0.5 is half of them, chosen by the seed."""
    batch_size: Count
    """Sentences an optimizer step."""
    micro_batch: Count | None = None
    """Sentences in memory at a time, where a step is too large for it: the gradients are those of the whole
    step, losses over the batch included (GradCache). null: all at once."""
    lr: Positive
    """Peak learning rate of AdamW."""
    sparse: bool = False
    """Update only the token vectors that a step meets (SparseAdam): several times as fast for a static
    table."""
    weight_decay: NonNegative = 0.0
    """Of AdamW."""
    schedule: Literal["linear", "cosine", "plateau"] = "linear"
    """After the warm-up: to zero by the last step, or halved where the dev value stands still."""
    warmup: Fraction = 0.1
    """Share of the steps in which the learning rate rises to `lr`."""
    clip_norm: Positive | None = 1.0
    """Longest gradient; null: not clipped."""
    average: Average | None = None
    """The dev value is taken of the averaged weights, and they are kept; null: the weights of that step. It
    reads all weights every step, where `sparse` reads the few that the step meets."""
    interpolation: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the trained weights in those that the dev value is of and that are kept; the others are those
    at the start (WiSE-FT, Wortsman et al. 2022). Below 1 a student that starts from a trained encoder keeps
    more of what that knows of texts unlike the training ones."""
    evaluations: Count = 10
    """How often the dev value is taken; the best weights so far are kept."""
    select: Literal["loss", "agreement"] = "loss"
    """What the dev value is: the loss, or one minus the agreement, the Spearman correlation of the cosines
    of pairs of dev texts with their targets'."""
    patience: Count | None = None
    """Stop after this many evaluations without a better dev value; null: never."""
    precision: Precision = "auto"
    """Of the forward and backward passes, and of those that the dev value is taken with; weights and
    optimizer stay float32. `auto`: bfloat16 where this machine is faster in it, which is measured. A table is
    trained in float32, and so is a BiLSTM where torch has no LSTM of bfloat16."""
    seed: Seed = 0
    """Seed of the order of the texts and of random weights."""


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
