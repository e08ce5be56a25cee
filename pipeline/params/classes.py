"""Tasks with classes, under `evaluate.tasks`: rows in files of the user's, and GLUE's sets."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.params.base import Block, Count, PathOrGlob, distinct

Genres = Literal["matched", "mismatched"]
GENRES: tuple[Genres, ...] = ("matched", "mismatched")
"""Of MNLI's rows to score: those of the training rows' genres, and others."""
Split = Literal["dev", "test"]
ClassMetric = Literal["accuracy", "f1"]


class Probe(Block):
    """What all tasks with classes have in common: a classifier on the vectors, which stay as they are."""

    head: Literal["mlp", "linear"] = "mlp"
    """`mlp`: one hidden layer of 256 ReLU units, as SRA. `linear`: logistic regression. Dev rows choose the
    learning rate of the one and the penalty of the other."""
    fractions: Annotated[tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...], Field(strict=False)] = (1.0,)
    """Learning curve: it is also scored after training on these shares of the training rows. The headline is
    always after all of them."""
    seeds: Count = 3
    """Classifiers whose scores are averaged; seeds decide their start, and the rows of each fraction."""
    metric: ClassMetric = "accuracy"
    """The headline; both are reported. f1: of the larger label where there are two, else the mean over the
    labels."""

    @property
    def scoring(self) -> Self:
        """How it is scored: all of this block."""
        return self

    @property
    def concatenated(self) -> bool:
        """Whether the classifier of a pair reads its vectors alone, without |u-v| and u*v."""
        return False


class _Classes(Probe):
    """What decides the rows of a task with classes."""

    split: Split = "test"
    """Where the test rows' score counts. `dev`: used to select weights, for which the classifier is trained
    at every evaluation. `test`: only reported."""
    max_train: Count | None = 10_000
    """Training rows, at most, chosen by hash; null: all. Teacher and students encode each of them."""


class _ClassFiles(_Classes):
    """Rows with a class: .csv, .tsv, .jsonl, .parquet, or hub:OWNER/NAME?split=train."""

    train: PathOrGlob
    """Training rows: a file or a glob. Rows that are also test or dev rows are left out and counted."""
    test: PathOrGlob
    """The rows that are scored: a file or a glob."""
    dev: PathOrGlob | None = None
    """Rows that choose the classifier's settings; null: a tenth of the training rows of each label."""
    label: str = "label"
    """Column of the labels, texts or numbers."""


class ClassificationTask(_ClassFiles):
    """Single texts with a class. SST-2: accuracy."""

    kind: Literal["classification"]
    text: str = "text"
    """Column of the texts."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct(self.kind, text=self.text, label=self.label)
        return self


class PairClassificationTask(_ClassFiles):
    """Pairs of texts with a class, read off [u, v, |u-v|, u*v]. MRPC, QQP: f1; MNLI: accuracy."""

    kind: Literal["pair_classification"]
    left: str = "sentence1"
    """Column of the first texts."""
    right: str = "sentence2"
    """Column of the second texts."""
    metric: ClassMetric = "f1"
    """The headline; both are reported. f1: of the larger label where there are two, else the mean over the
    labels."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct(self.kind, left=self.left, right=self.right, label=self.label)
        return self


class _Glue(_Classes):
    """A set of GLUE's, in its official folder. Dev rows are a tenth of the training rows of each label."""

    path: PathOrGlob
    """The folder."""


class Sst2Task(_Glue):
    """SST-2, the sentiment of sentences of film reviews: accuracy.

    GLUE's train.tsv, and dev.tsv to score, for the labels of its test.tsv are secret; or SentEval's
    SST/binary/sentiment-train, -dev and -test, each for what it says.
    """

    kind: Literal["sst2"]


class MrpcTask(_Glue):
    """MRPC, whether two sentences of the news say the same: F1 of those that do.

    msr_paraphrase_train.txt and msr_paraphrase_test.txt, as Microsoft, GLUE's script and SentEval have them;
    without them GLUE's train.tsv, and dev.tsv to score.
    """

    kind: Literal["mrpc"]
    metric: ClassMetric = "f1"
    """The headline; both are reported."""


class QqpTask(_Glue):
    """QQP, whether two questions of Quora's ask the same: F1 of those that do.

    GLUE's train.tsv, and dev.tsv to score. Lines that a question breaks in two are left out and counted.
    """

    kind: Literal["qqp"]
    metric: ClassMetric = "f1"
    """The headline; both are reported."""


class MnliTask(_Glue):
    """MNLI, entailment, contradiction or neither: accuracy.

    GLUE's train.tsv, and to score dev_matched.tsv and dev_mismatched.tsv, a task each: NAME_matched and
    NAME_mismatched.
    """

    kind: Literal["mnli"]
    genres: Genres | None = None
    """Score one of the two alone, as the task NAME; null: both."""
