"""`students:`: one block a student."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.params.base import Auto, Block, Count, Positive, allowed
from pipeline.params.finetune import Finetune, Whitening
from pipeline.params.layers import CutInit, LayeredInit, Share, StudentInit
from pipeline.params.losses import Loss
from pipeline.params.teacher import View
from pipeline.params.train import StaticTrain, Train

FITTED = ("ridge", "orthogonal")
"""What `init.projection` says where it is solved on cached texts and their targets."""

Penalty = Annotated[float, Field(ge=1e-12)]
"""Of a fit in float64, relative to its inputs: a smaller one is lost beside them."""


class StudentBlock(Block):
    """What every student has: keys without a default are those that dvc.yaml tracks one by one."""

    view: View
    """The teacher's column that is the target."""
    dim: Annotated[Count | Auto, allowed("auto, a number from 1 on")]
    """Dimension of the student's vectors; below the teacher's, the target is reduced by PCA. `auto`: the
    teacher's, or the most that a static student can have, or the encoder's without a projection."""
    loss: Loss | None
    """null: `train` is null too."""
    train: Train | None
    """null: it is not distilled. What `init` says goes into fine-tuning, or ships."""
    init: StudentInit
    """Where it starts."""
    finetune: Finetune | None
    """null: the distilled weights are final."""
    whitening: Whitening | None = None
    """The last linear layer, fitted once all training is over. The vectors are then compared by their cosine.
    null: there is none."""

    @property
    def width(self) -> int:
        """`dim` of a block in which `auto` is resolved."""
        assert self.dim != "auto"
        return self.dim

    @property
    def training(self) -> Train:
        """`train` of a student that is distilled."""
        assert self.train is not None
        return self.train

    @property
    def seed(self) -> int:
        """Seed of its random weights."""
        return self.train.seed if self.train else 0

    @property
    def reads_vocabulary(self) -> bool:
        """Whether it starts from the teacher's vocabulary vectors instead of its layers."""
        return False

    @property
    def meets_targets(self) -> bool:
        """Whether the teacher's vectors shape it: it is trained on them, or its start is fitted to them."""
        return self.train is not None or getattr(self.init, "projection", None) in FITTED


class TransformerInit(LayeredInit):
    """Where a transformer student starts."""

    hidden: Count | None = None
    """Dimensions of the hidden states that are kept, those that the layers read most of; the heads stay as
    many: a narrow student, deep with `layers: null` (SimTDE's LMX-KD, MiniLM). null: all."""
    weights: Literal["encoder", "random"] = "encoder"
    """`encoder`: what is kept of the encoder's; `random`: a new model of the same shape, tokens included."""
    intermediate: Count | None = None
    """Neurons of each layer's feed-forward block that are kept, those whose outputs vary most on texts; what
    leads from them is solved anew to stand for all. null: all."""
    projection: Literal["ridge", "orthogonal", "random", "none"] = "ridge"
    """`ridge` solves the output projection on a sample of cached texts. So does `orthogonal`, but it only
    turns the encoder's vectors: at its dimension or more, the start has the encoder's own cosines. `random`
    is the papers'; `none`: there is none, and the student has the encoder's dimension."""
    ridge_rows: Count = 4096
    """Size of that sample."""
    ridge_lambda: Penalty = 1e-3
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
    """Neurons of each layer's feed-forward block that are kept, those whose outputs vary most on texts; what
    leads from them is solved anew to stand for all. null: all."""
    table: Literal["svd", "random"] = "svd"
    """`svd` starts the embeddings from the truncated SVD of the teacher's, and solves their projection on a
    sample of texts; `random` is the paper's."""
    projection: Literal["ridge", "orthogonal", "random", "none"] = "none"
    """After pooling, as of a transformer; `none` (the paper): the student has the teacher's width."""
    ridge_rows: Count = 4096
    """Size of the sample of cached texts that `svd`, `ridge` and `orthogonal` are solved on; `svd` reads its
    first 65,536 tokens."""
    ridge_lambda: Penalty = 1e-3
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
    embeddings: Literal["teacher", "vocabulary", "file"] = "teacher"
    """Where the word vectors start: the teacher's token table; its vectors of each token alone with Zipf
    weights, as a static student's (model2vec); or a text file (the paper's GloVe)."""
    path: str | None = None
    """That file: a word and its numbers on a line (GloVe, word2vec text); .gz is read as such."""
    lowercase: bool = True
    """Texts are lowercased, and the file's words too; of those that become equal, the first counts."""
    max_words: Count = 100_000
    """Words of the file that are kept, those that the file has first."""
    tokens: Count | None = None
    """Most tokens of the teacher's vocabulary that are kept: the most frequent ones in the training texts,
    special ones, and all letters or bytes, of which rarer words are made. null: all."""
    lstm: Literal["random", "identity"] = "random"
    """`identity`: units start as copies of the word vectors, half of the dimensions in each direction: their
    gates are open to a word and all but shut to those before it. So training starts near a mean of word
    vectors. Units beyond that are random; with `random`, the paper's, all are."""
    projection: Literal["ridge", "random"] = "ridge"
    """`ridge` solves the output layer on a sample of cached texts; `random` is the paper's."""
    activation: Literal["none", "tanh"] = "tanh"
    """After the bias-free output layer: the paper has tanh."""
    ridge_rows: Count = 4096
    """Size of the sample of cached texts that `ridge` is solved on."""
    ridge_lambda: Penalty = 1e-3
    """Ridge penalty, relative to the mean square of the pooled outputs."""


class BilstmStudent(StudentBlock):
    """Word vectors, a bidirectional LSTM, pooling and an output layer (SRA)."""

    kind: Literal["bilstm"]
    init: BilstmInit

    @property
    def reads_vocabulary(self) -> bool:
        """Whether its word vectors are the teacher's vocabulary vectors."""
        return self.init.embeddings == "vocabulary"


class StaticInit(StudentInit):
    """Where a static student starts: the vocabulary vectors, PCA, Zipf weights (model2vec)."""

    sif: Positive | None = 1e-4
    """SIF coefficient of the Zipf weights by rank in the vocabulary; null: no weights."""
    projection: Literal["ridge", "none"] = "ridge"
    """`ridge` maps the table to targets on a sample of cached texts; `none` starts where model2vec ends."""
    ridge_rows: Count = 20_000
    """Size of that sample."""
    ridge_lambda: Penalty = 1e-3
    """Ridge penalty, relative to the mean variance of the sentence vectors."""
    words: Annotated[int, Field(ge=0)] = 0
    """Most words of the training texts that become tokens of their own, the most frequent ones of those
    that the teacher's tokenizer splits; each starts as the mean of its pieces."""
    tokens: Count | None = None
    """Most tokens that are kept, `words` among them: the most frequent ones in the training texts, and all
    letters, of which rarer words are made. null: all."""
    min_count: Count = 20
    """How often a word of `words` is in the training texts, at least: of a few, its vector does not learn
    more than its pieces know."""
    path: str | None = None
    """A file of word vectors (GloVe, word2vec text, .gz as such; word2vec's binary form as .bin) whose words
    and vectors it starts from, instead of the teacher's vocabulary: `words`, `tokens` and `min_count` are not
    for it. At the file's own dimension there is no PCA."""
    pieces: str | None = None
    """Of `path`: the SentencePiece model (BPE) whose pieces the file's vectors are of, as BPEmb has them. It
    becomes the tokenizer. null: the file has words."""
    lowercase: bool = True
    """Of `path`: texts are lowercased, and the file's words too; of those that become equal, the first
    counts. With `pieces`, digits become 0 as well, as in BPEmb's texts; false leaves both as they are."""
    max_words: Count = 100_000
    """Words of the file of `path` or `word_list` that are kept, those that the file has first. Pieces are all
    kept."""
    word_list: str | None = None
    """A text file of words or phrases, one a line, the most frequent first (.gz is read as such). Each is a
    token that starts from the teacher's encoding of it alone (model2vec's `vocabulary`)."""
    subwords: bool = True
    """Of `word_list`: the teacher's tokens stay, of which other words are made; false: the list is the whole
    vocabulary, and other words are unknown."""


class StaticStudent(StudentBlock):
    """A table of token vectors: a text is the mean of its tokens' (model2vec, POTION)."""

    kind: Literal["static"]
    init: StaticInit
    train: StaticTrain | None

    @property
    def reads_vocabulary(self) -> bool:
        """Whether it starts from the teacher's vocabulary vectors instead of a file's words."""
        return self.init.path is None and self.init.word_list is None

    @property
    def rotates(self) -> bool:
        """Whether training ends with a PCA of the table."""
        return bool(self.train and self.train.regularise and self.train.regularise.pca)

    @property
    def training(self) -> StaticTrain:
        """`train` of a student that is distilled."""
        assert self.train is not None
        return self.train


Student = Annotated[
    TransformerStudent | CompactStudent | BilstmStudent | StaticStudent, Field(discriminator="kind")
]
