"""`students:`: one block a student."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pipeline.core.machine import Precision
from pipeline.params.base import Auto, Block, Count, Fraction, Name, Positive, Seed, allowed
from pipeline.params.layers import CutInit, LayeredInit, Share, StudentInit
from pipeline.params.losses import HsicLoss, Loss
from pipeline.params.teacher import View
from pipeline.params.train import StaticTrain, Train


class WeightedHsic(Block):
    """HSIC with its weight."""

    weight: Positive = 0.5
    loss: HsicLoss


class Finetune(Block):
    """Supervised InfoNCE with in-batch and given hard negatives (IBKD eq. 10, HPD eq. 1)."""

    data: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
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
    """Most hard negatives of an anchor: given ones first, then mined ones."""
    hsic: WeightedHsic | None = None
    """IBKD's regulariser beside the contrast (eq. 9): weight 0.5 in the paper."""
    projection: Count | None = None
    """Dimension that a linear layer, trained along and shipped, brings the vectors down to (IBKD eq. 11), and
    which ships even where no dev score rises; null: there is none."""
    precision: Precision = "auto"
    """Of the forward and backward passes, and of those that dev tasks are scored with, as in `train`."""
    interpolation: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the fine-tuned weights in those that are scored and kept; the others are the distilled ones
    (WiSE-FT, Wortsman et al. 2022). Below 1 more is left of what fine-tuning costs elsewhere."""
    select: Literal["tasks", "agreement"] = "tasks"
    """What the dev score is: the mean over the dev tasks; or, without labels, the share of a dev text's ten
    nearest texts that are the teacher's too."""
    evaluations: Count = 4
    """How often the dev score is taken; the best weights are kept, the distilled ones if none is better."""
    seed: Seed = 0
    """Seed of the order of the triplets."""


class StudentBlock(Block):
    """What every student has: all keys are required, since dvc.yaml tracks them one by one."""

    view: View
    """The teacher's column that is the target."""
    dim: Annotated[Count | Auto, allowed("auto, a number from 1 on")]
    """Dimension of the student's vectors; below the teacher's, the target is reduced by PCA. `auto`: the
    teacher's, or the most that a static student can have, or the encoder's without a projection."""
    loss: Loss
    train: Train
    init: StudentInit
    """Where it starts."""
    finetune: Finetune | None
    """null: the distilled weights are final."""

    reads_vocabulary: ClassVar[bool] = False
    """Whether a student of this kind starts from the teacher's vocabulary vectors instead of its layers."""

    @property
    def width(self) -> int:
        """`dim` of a block in which `auto` is resolved."""
        assert self.dim != "auto"
        return self.dim


class TransformerInit(LayeredInit):
    """Where a transformer student starts."""

    hidden: Count | None = None
    """Dimensions of the hidden states that are kept, those that the layers read most of; the heads stay as
    many: a narrow student, deep with `layers: null` (SimTDE's LMX-KD, MiniLM). null: all."""
    weights: Literal["encoder", "random"] = "encoder"
    """`encoder`: what is kept of the encoder's; `random`: a new model of the same shape, tokens included."""
    intermediate: Count | None = None
    """Neurons of each layer's feed-forward block that are kept, those with the largest weights; null: all."""
    projection: Literal["ridge", "random", "none"] = "ridge"
    """`ridge` solves the output projection on a sample of cached texts, `random` is the papers'; `none`:
    there is none, and the student has the encoder's dimension."""
    ridge_rows: Count = 4096
    """Size of that sample."""
    ridge_lambda: Positive = 1e-3
    """Ridge penalty, relative to the mean variance of the pooled outputs."""
    activation: Literal["none", "tanh"] = "none"
    """After the projection: HPD's paper has none, its released code a tanh."""
    tokens: Count | None = None
    """Most tokens of the vocabulary that are kept: the most frequent ones in the training texts,
    special ones, and all letters or bytes, of which rarer words are made. null: all."""


class TransformerStudent(StudentBlock):
    """A small transformer, mean pooling, and a linear projection (HPD)."""

    kind: Literal["transformer"]
    init: TransformerInit


class CompactInit(LayeredInit):
    """Where a compact student starts: narrow embeddings, some of the teacher's layers (SimTDE)."""

    table_dim: Annotated[Count | Share, allowed("a number from 1 on, a share between 0 and 1")]
    """Dimension of the token embeddings, or the share of the encoder's own that it is."""
    intermediate: Count | None = None
    """Neurons of each layer's feed-forward block that are kept, those with the largest weights; null: all."""
    table: Literal["svd", "random"] = "svd"
    """`svd` starts the embeddings from the truncated SVD of the teacher's, and solves their projection on a
    sample of texts; `random` is the paper's."""
    projection: Literal["ridge", "random", "none"] = "none"
    """After pooling; `none` (the paper): the student has the teacher's width."""
    ridge_rows: Count = 4096
    """Size of the sample of cached texts that `svd` and `ridge` are solved on; `svd` reads its first 65,536
    tokens."""
    ridge_lambda: Positive = 1e-3
    """Ridge penalty, relative to the mean variance of the inputs."""
    tokens: Count | None = None
    """Most tokens of the vocabulary that are kept: the most frequent ones in the training texts,
    special ones, and all letters or bytes, of which rarer words are made. null: all."""

    @property
    def table_width(self) -> int:
        """`table_dim` of a block in which a share is resolved."""
        assert isinstance(self.table_dim, int)
        return self.table_dim


class CompactStudent(StudentBlock):
    """Compact token embeddings under some of the teacher's layers (SimTDE)."""

    kind: Literal["compact"]
    init: CompactInit


class BilstmInit(CutInit):
    """Where a BiLSTM starts (SRA)."""

    prompts: Literal["none"] = "none"
    """The word embeddings of sentence-transformers put none before a text."""

    units: Count = 512
    """LSTM units a direction."""
    pooling: Literal["max", "mean", "last"] = "max"
    """How the states become one vector: their maximum, their mean, or both directions' last states. Of a text
    that is cut, `last` has the backward direction's alone."""
    embeddings: Literal["teacher", "file"] = "teacher"
    """Where the word vectors start: the teacher's token table, or a text file (the paper's GloVe)."""
    path: str | None = None
    """That file: a word and its numbers on a line (GloVe, word2vec text); .gz is read as such."""
    lowercase: bool = True
    """Texts are lowercased, and the file's words too; of those that become equal, the first counts."""
    max_words: Count = 100_000
    """Words of the file that are kept, those that the file has first."""
    tokens: Count | None = None
    """Most tokens of the teacher's vocabulary that are kept: the most frequent ones in the training texts,
    special ones, and all letters or bytes, of which rarer words are made. null: all."""
    projection: Literal["ridge", "random"] = "ridge"
    """`ridge` solves the output layer on a sample of cached texts; `random` is the paper's."""
    activation: Literal["none", "tanh"] = "tanh"
    """After the bias-free output layer: the paper has tanh."""
    ridge_rows: Count = 4096
    """Size of the sample of cached texts that `ridge` is solved on."""
    ridge_lambda: Positive = 1e-3
    """Ridge penalty, relative to the mean square of the pooled outputs."""


class BilstmStudent(StudentBlock):
    """Word vectors, a bidirectional LSTM, pooling and an output layer (SRA)."""

    kind: Literal["bilstm"]
    init: BilstmInit


class StaticInit(StudentInit):
    """Where a static student starts: the vocabulary vectors, PCA, Zipf weights (model2vec)."""

    sif: Positive | None = 1e-4
    """SIF coefficient of the Zipf weights by rank in the vocabulary; null: no weights."""
    projection: Literal["ridge", "none"] = "ridge"
    """`ridge` maps the table to targets on a sample of cached texts; `none` starts where model2vec ends."""
    ridge_rows: Count = 20_000
    """Size of that sample."""
    ridge_lambda: Positive = 1e-3
    """Ridge penalty, relative to the mean variance of the sentence vectors."""
    words: Annotated[int, Field(ge=0)] = 0
    """Most words of the training texts that become tokens of their own, the most frequent ones of those
    that the teacher's tokenizer splits; each starts as the mean of its pieces."""
    tokens: Count | None = None
    """Most tokens that are kept, `words` among them: the most frequent ones in the training texts, and all
    letters, of which rarer words are made. null: all."""
    min_count: Count = 20
    """How often such a word is in the training texts, at least: of a few, its vector does not learn more than
    its pieces know."""


class StaticStudent(StudentBlock):
    """A table of token vectors: a text is the mean of its tokens' (model2vec, POTION)."""

    kind: Literal["static"]
    init: StaticInit
    train: StaticTrain

    reads_vocabulary: ClassVar[bool] = True


Student = Annotated[
    TransformerStudent | CompactStudent | BilstmStudent | StaticStudent, Field(discriminator="kind")
]


def student_faults(name: str, student: Student) -> list[str]:
    """What does not go together in a student's block, a line each."""
    faults = [*_init_faults(student), *_train_faults(student), *_loss_faults(student)]
    if student.finetune:
        faults += _finetune_faults(student, student.finetune)
    return [f"students.{name}.{fault}" for fault in faults]


def _init_faults(student: Student) -> Iterator[str]:
    layers = getattr(student.init, "layers", None)
    if isinstance(layers, tuple) and len(set(layers)) != len(layers):
        yield f"init.layers is {list(layers)}; name each layer once"
    if isinstance(student, BilstmStudent) and (student.init.embeddings == "file") != bool(student.init.path):
        yield "init.path goes with `embeddings: file`, and the other way round"
    if isinstance(student, BilstmStudent) and student.init.embeddings == "file" and student.init.tokens:
        yield "init.tokens is of the teacher's vocabulary; set init.max_words for a file's, and remove it"
    if isinstance(student, BilstmStudent) and student.init.embeddings == "teacher":
        for name in ("lowercase", "max_words"):
            if getattr(student.init, name) != BilstmInit.model_fields[name].default:
                yield f"init.{name} is of a file of word vectors; set `embeddings: file`, or remove it"
    init = student.init
    if isinstance(init, TransformerInit | CompactInit) and init.revision and not init.model:
        yield "init.revision is that of init.model, which is not given; give it, or remove revision"


def _train_faults(student: Student) -> Iterator[str]:
    train = student.train
    if len(set(train.matryoshka)) != len(train.matryoshka):
        yield f"train.matryoshka is {list(train.matryoshka)}; name each prefix once"
    for prefix in train.matryoshka:
        if student.dim != "auto" and prefix >= student.dim:
            yield f"train.matryoshka has {prefix}; prefixes are shorter than dim, {student.dim}"
    if train.target == "full" and (train.whiten or train.matryoshka):
        yield "train.target is full; whiten and matryoshka need `target: pca`"
    if train.shrinkage and not train.whiten:
        yield "train.shrinkage is of whitened targets; set whiten: true, or remove it"
    if train.sparse and isinstance(student, TransformerStudent | CompactStudent):
        yield "train.sparse is for static and bilstm students; remove it"
    rotated = isinstance(student, StaticStudent) and student.train.regularise and student.train.regularise.pca
    if rotated and train.matryoshka:
        yield "train.matryoshka: regularise.pca would rotate the prefixes; set regularise.pca: false"


def _loss_faults(student: Student) -> Iterator[str]:
    losses = [term.loss for term in student.loss.terms] if student.loss.kind == "sum" else [student.loss]
    found = {loss.kind for loss in losses}
    if isinstance(student, StaticStudent) and (surplus := sorted(found & {"hsic", "token_embedding"})):
        yield f"loss: a static student is an embedding layer and no more; leave out {surplus[0]}"
    foreign = getattr(student.init, "model", None) or getattr(student.init, "path", None)
    if foreign and "token_embedding" in found:
        yield f"loss: token_embedding needs the teacher's tokens, and {foreign} has its own"
    if (hidden := getattr(student.init, "hidden", None)) and "token_embedding" in found:
        yield f"loss: token_embedding needs the teacher's width; leave it out, or init.hidden, {hidden}"
    if "crd" in found and student.train.select == "loss":
        yield "loss: crd contrasts training texts and has no dev loss; set train.select: agreement"


def _finetune_faults(student: Student, tuned: Finetune) -> Iterator[str]:
    static, dim = isinstance(student, StaticStudent), tuned.projection
    if static and dim:
        yield f"finetune.projection is {dim}, but a static student has no layers; set its dim instead"
    elif dim and student.dim != "auto" and dim > student.dim:
        yield (
            f"finetune.projection is {dim}, but the student has {student.dim} dimensions; "
            f"choose {student.dim} or less"
        )
    if static and tuned.hsic:
        yield "finetune: a static student is an embedding layer and no more; leave out hsic"
