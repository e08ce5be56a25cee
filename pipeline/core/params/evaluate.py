"""`evaluate:`: the tasks that teacher and students are scored on, and `runtime:`, which changes no result."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.params.base import Block, Count, Name, Positive

Split = Literal["dev", "test"]
ClassMetric = Literal["accuracy", "f1"]
PathOrGlob = Annotated[str, Field(min_length=1)]


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
    def scoring(self) -> "Scoring":
        """How it is scored: all of this block."""
        return self


Scoring = Literal["sts", "retrieval"] | Probe
"""The module under evaluation/ that scores a task; `classification` has settings, which are a `Probe`."""


class WordNetRelatedness(Block):
    """Pairs of glosses of held-out synsets, graded by their distance in the taxonomy. A built-in proxy."""

    kind: Literal["wordnet_relatedness"]
    pairs: Count = 2000
    """Pairs a split, spread evenly over the distances."""

    @property
    def scoring(self) -> Scoring:
        """The module under evaluation/ that scores it."""
        return "sts"


class WordNetReverseDictionary(Block):
    """Find a held-out synset's lemmas by its gloss. A built-in proxy."""

    kind: Literal["wordnet_reverse_dictionary"]
    queries: Count = 1000
    """Glosses a split; the documents are the lemmas of every held-out synset of the split."""

    @property
    def scoring(self) -> Scoring:
        """The module under evaluation/ that scores it."""
        return "retrieval"


class StsTask(Block):
    """Semantic textual similarity: sentence pairs with a score."""

    kind: Literal["sts"]
    path: Annotated[str, Field(min_length=1)]
    """A file or a glob: .csv, .tsv, .jsonl, .parquet."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""
    left: str = "sentence1"
    """Column of the first sentences."""
    right: str = "sentence2"
    """Column of the second sentences."""
    score: str = "score"
    """Column of the human scores."""
    subset: str | None = None
    """Column that names a pair's subset, for the mean over subsets; null: one subset a file."""

    @property
    def scoring(self) -> Scoring:
        """The module under evaluation/ that scores it."""
        return "sts"


class RetrievalTask(Block):
    """Retrieval in BEIR's layout: corpus.jsonl, queries.jsonl (each may end in .gz) and qrels/SPLIT.tsv."""

    kind: Literal["retrieval"]
    path: Annotated[str, Field(min_length=1)]
    """The folder."""
    qrels: str = "test"
    """Name of the file under qrels/, without .tsv."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""

    @property
    def scoring(self) -> Scoring:
        """The module under evaluation/ that scores it."""
        return "retrieval"


class WordNetSupersense(Probe):
    """A held-out noun's or verb's gloss to its lexicographer file, as noun.animal. A built-in proxy.

    Only reported: no weights are selected by it.
    """

    kind: Literal["wordnet_supersense"]
    max_train: Count = 2000
    """Training rows, at most, dev rows among them; chosen by hash."""
    max_test: Count = 1000
    """Test rows, at most, chosen by hash."""


class _Classes(Probe):
    """Rows with a class, in files: .csv, .tsv, .jsonl, .parquet."""

    train: PathOrGlob
    """Training rows: a file or a glob. Rows that are also test or dev rows are left out and counted."""
    test: PathOrGlob
    """The rows that are scored: a file or a glob."""
    dev: PathOrGlob | None = None
    """Rows that choose the classifier's settings; null: a tenth of the training rows of each label."""
    split: Split = "test"
    """Where the test rows' score counts. `dev`: used to select weights, for which the classifier is trained
    at every evaluation. `test`: only reported."""
    label: str = "label"
    """Column of the labels, texts or numbers."""
    max_train: Count | None = 10_000
    """Training rows, at most, chosen by hash; null: all. Teacher and students encode each of them."""


class ClassificationTask(_Classes):
    """Single texts with a class. SST-2: accuracy."""

    kind: Literal["classification"]
    text: str = "text"
    """Column of the texts."""


class PairClassificationTask(_Classes):
    """Pairs of texts with a class, read off [u, v, |u-v|, u*v]. MRPC, QQP: f1; MNLI: accuracy."""

    kind: Literal["pair_classification"]
    left: str = "sentence1"
    """Column of the first texts."""
    right: str = "sentence2"
    """Column of the second texts."""
    metric: ClassMetric = "f1"
    """The headline; both are reported. f1: of the larger label where there are two, else the mean over the
    labels."""


Task = Annotated[
    WordNetRelatedness
    | WordNetReverseDictionary
    | WordNetSupersense
    | StsTask
    | RetrievalTask
    | ClassificationTask
    | PairClassificationTask,
    Field(discriminator="kind"),
]


class Evaluate(Block):
    """Tasks by name."""

    tasks: Annotated[dict[Name, Task], Field(min_length=1)]


class Footprint(Block):
    """How size and speed are measured."""

    sentences: Count = 256
    """Texts a timed batch run."""
    rounds: Count = 3
    """Times that all models are measured in turn; medians are reported."""
    single: Count = 30
    """Texts that are encoded one at a time in each round, for the latency."""
    threads: Count = 2
    """Threads of every model."""


class Api(Block):
    """How a teacher behind an API is asked; the caps hold for one run of a stage."""

    tokens_per_request: Count = 50_000
    """Most tokens a request, estimated as one for 4 bytes of text; OpenAI takes 300,000."""
    texts_per_request: Count = 32
    """Most texts a request: TEI takes 32 unless told otherwise, OpenAI 2,048."""
    concurrency: Count = 8
    """Requests under way at the same time."""
    timeout_seconds: Positive = 60.0
    """A server that is silent for so long is asked again."""
    retries: Annotated[int, Field(ge=0)] = 6
    """How often a request is tried again after a timeout, a lost connection, HTTP 429, 500, 502, 503, 504."""
    backoff_seconds: Positive = 1.0
    """The wait before the first retry; it doubles every time, up to a minute. A server may ask for more."""
    max_requests: Count | None = None
    """Stop before sending more requests, retries counted; null: no cap."""
    max_tokens: Count | None = None
    """Stop before sending more tokens, as the server bills them where it says so, else estimated; null: no
    cap."""


class Runtime(Block):
    """What changes speed and not results; no stage tracks it."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    """Where the teacher encodes and students are trained: `auto`, `cpu`, `mps`, `cuda`, `cuda:1`, ...; what
    they cost is always measured on the CPU."""
    tokens_per_batch: Count = 4096
    """Padded tokens that go through a model at a time."""
    cache: str = ".cache"
    """Folder of encoded vectors and of interrupted trainings; ignored by git and DVC."""
    checkpoint_seconds: Annotated[int, Field(ge=1)] = 30
    """Most seconds of training that a kill costs."""
    engine: Literal["local", "ray"] = "local"
    """Where the teacher's workers run: `local`, on this machine; `ray`, on the cluster of RAY_ADDRESS or else
    this machine (`pip install 'ray[data]'`), with the same files at the same paths."""
    workers: Count = 1
    """Processes that encode, each with a teacher of its own: one for each GPU."""
    api: Api = Api()
    """Of a teacher of kind `openai_api`."""
