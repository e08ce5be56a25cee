"""`evaluate:`: the tasks that teacher and students are scored on."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.core.machine import Precision
from pipeline.params.base import Block, Count, Layout, Name, PathOrGlob, distinct
from pipeline.params.classes import (
    ClassificationTask,
    MnliTask,
    MrpcTask,
    PairClassificationTask,
    QqpTask,
    Split,
    Sst2Task,
)
from pipeline.params.classes import Probe as Probe
from pipeline.params.phrases import (
    ChoiceTask,
    ClusteringTask,
    FuzzyJoinTask,
    ParaphraseTask,
    PearlSets,
    WordSimilaritySets,
    WordSimilarityTask,
)
from pipeline.params.search import DEFAULT_INDEXES, Budget, Index, index_faults

AGREEMENT = "agreement"
"""The name that agreement with the teacher has among the tasks, and its scoring."""
LEAST_HELD_OUT = 100
"""Texts; the ten nearest of fewer are a tenth of all, and say little."""
DEPTH = 100
"""Documents that are looked at for every query of a retrieval task."""
DEEPEST = 1000
STS_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
"""The seven sets that a task of kind `sts_sets` stands for."""
RESERVED = ("average", "kept", AGREEMENT)
"""What stands beside the tasks' names in the report."""
Scoring = Literal["sts", "retrieval", "entity_resolution", "choice", "clustering", "agreement"] | Probe
"""The module under tasks/ that scores a task; `classification` has settings, which are a `Probe`."""


class _Similarity(Block):
    """What tasks of graded pairs have in common."""

    @property
    def scoring(self) -> Scoring:
        """The module under tasks/ that scores it."""
        return "sts"


class _Ranked(Block):
    """What tasks of queries and documents have in common."""

    metric: Literal["mrr@10", "ndcg@10", "recall@10"] = "mrr@10"
    """The headline; all are reported. mrr@10: of the papers and of MS MARCO. ndcg@10: of BEIR and of MTEB."""
    depth: Annotated[int, Field(ge=DEPTH, le=DEEPEST)] = DEPTH
    """Documents that are looked at for every query. A greater one adds recall, nDCG and MAP at it, such as
    MS MARCO's recall@1000. It changes another score only where documents tie at the last place that is looked
    at: more of them are then found and ranked."""

    @property
    def scoring(self) -> Scoring:
        """The module under tasks/ that scores it."""
        return "retrieval"


class WordNetRelatedness(_Similarity):
    """Pairs of glosses of held-out synsets, graded by their distance in the taxonomy. A built-in proxy."""

    kind: Literal["wordnet_relatedness"]
    pairs: Count = 2000
    """Pairs a split, spread evenly over the distances."""


class WordNetReverseDictionary(_Ranked):
    """Find a held-out synset's lemmas by its gloss. A built-in proxy."""

    kind: Literal["wordnet_reverse_dictionary"]
    queries: Count = 1000
    """Glosses a split; the documents are the lemmas of every held-out synset of the split."""


class StsTask(_Similarity):
    """Semantic textual similarity: sentence pairs with a score.

    Official files are told by their names and need no columns: SemEval's STS.input.NAME.txt, with
    STS.gs.NAME.txt beside it (of 2016: STS2016.input.NAME.txt); sts-train.csv, sts-dev.csv and sts-test.csv
    of the STS benchmark; SICK*.txt.
    """

    kind: Literal["sts"]
    path: PathOrGlob
    """A file or a glob: .csv, .tsv, .jsonl, .parquet or official; or a folder of SemEval's files; or
    hub:OWNER/NAME?split=test."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""
    left: str = "sentence1"
    """Column of the first sentences."""
    right: str = "sentence2"
    """Column of the second sentences."""
    score: str = "score"
    """Column of the human scores."""
    range: Annotated[tuple[float, float] | None, Field(strict=False)] = None
    """The lowest and the highest score there may be, both finite; null: any. Official files have their own: 0
    to 5, SICK 1 to 5."""
    subset: str | None = None
    """Column that names a pair's subset, for the mean over subsets; null: one subset a file."""

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.range and self.range[0] >= self.range[1]:
            raise ValueError(
                f"a task of kind sts has the range {list(self.range)}; put the lower bound first"
            )
        return self

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct(self.kind, left=self.left, right=self.right, score=self.score, subset=self.subset)
        return self


class StsSets(_Similarity):
    """The seven sets of the papers, a task each: NAME_sts12 to NAME_sts16, NAME_stsb and NAME_sickr."""

    kind: Literal["sts_sets"]
    path: PathOrGlob
    """SentEval's folder data/downstream: STS/STS12-en-test to STS/STS16-en-test,
    STS/STSBenchmark/sts-test.csv and SICK/SICK_test_annotated.txt."""


class RetrievalTask(_Ranked):
    """Find the relevant documents of queries."""

    kind: Literal["retrieval"]
    path: PathOrGlob
    """The folder."""
    layout: Layout = "beir"
    """`beir`: corpus.jsonl, queries.jsonl and qrels/QRELS.tsv. `msmarco`, without headers: collection.tsv,
    qrels.QRELS.tsv, queries.QRELS.tsv or else queries.tsv. Each may end in .gz, but for qrels/QRELS.tsv."""
    qrels: str = "test"
    """QRELS: which queries and judgements, such as dev.small of MS MARCO."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""
    documents: Literal["apart", "shared"] = "apart"
    """`apart`: no text of the task is trained on. `shared`: documents may be that are relevant to none of its
    queries, as those of MS MARCO, whose training data and dev queries have one collection."""


class EntityResolutionTask(Block):
    """Mentions and the entities that they name. The candidates are the distinct entities of a subset."""

    kind: Literal["entity_resolution"]
    path: PathOrGlob
    """A file or a glob: .csv, .tsv, .jsonl, .parquet; or hub:OWNER/NAME?split=test."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""
    query: str = "query"
    """Column of the mentions."""
    entity: str = "entity"
    """Column of the entities' names."""
    label: str | None = "label"
    """Column of 1 where they match and 0 where not; null: all rows match."""
    subset: str | None = None
    """Column that names a row's subset, such as its language; null: one subset a file."""
    candidates: PathOrGlob | None = None
    """Files of all entities, which are candidates in every subset; a mention of another entity is left out
    and counted. Null: the entities of the rows are all."""
    candidate: str = "entity_name"
    """Column of the entities' names in `candidates`."""

    @property
    def scoring(self) -> Scoring:
        """The module under tasks/ that scores it."""
        return "entity_resolution"

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct(self.kind, query=self.query, entity=self.entity, label=self.label, subset=self.subset)
        return self


class WordNetSupersense(Probe):
    """A held-out noun's or verb's gloss to its lexicographer file, as noun.animal. A built-in proxy.

    Only reported: no weights are selected by it.
    """

    kind: Literal["wordnet_supersense"]
    max_train: Count = 2000
    """Training rows, at most, dev rows among them; chosen by hash."""
    max_test: Count = 1000
    """Test rows, at most, chosen by hash."""


Task = Annotated[
    WordNetRelatedness
    | WordNetReverseDictionary
    | WordNetSupersense
    | StsTask
    | StsSets
    | RetrievalTask
    | EntityResolutionTask
    | ClassificationTask
    | PairClassificationTask
    | Sst2Task
    | MrpcTask
    | QqpTask
    | MnliTask
    | WordSimilarityTask
    | WordSimilaritySets
    | ChoiceTask
    | ClusteringTask
    | FuzzyJoinTask
    | ParaphraseTask
    | PearlSets,
    Field(discriminator="kind"),
]


def selects_weights(task: Task) -> bool:
    """Whether a task has dev rows."""
    builtin = isinstance(task, WordNetRelatedness | WordNetReverseDictionary)
    return builtin or getattr(task, "split", "test") == "dev"


class Agreement(Block):
    """Do students find the texts near to each other that the teacher does? Needs no labels."""

    texts: Annotated[int, Field(ge=LEAST_HELD_OUT)] = 2000
    """Texts of the corpus' dev split that are compared, at most: the first by text_id, a choice by hash."""

    @property
    def scoring(self) -> Scoring:
        """The module under tasks/ that scores it."""
        return "agreement"


class Evaluate(Block):
    """Tasks by name, and what search and storage are scored with."""

    tasks: dict[Name, Task]
    """`sts_sets`, `word_similarity_sets`, `pearl` and `mnli` stand for several of them; {}: `agreement` alone
    is reported."""
    agreement: Agreement | None = Agreement()
    """Agreement with the teacher on held-out texts of the corpus, beside the tasks; null: not asked."""
    indexes: Annotated[tuple[Index, ...], Field(strict=False)] = DEFAULT_INDEXES
    """The faiss indexes that retrieval is scored and timed with, for the teacher and each student that ships;
    []: none."""
    budget: Budget | None = Budget()
    """What a student's vectors score at fewer bytes; null: not asked."""
    precision: Precision = "auto"
    """Of a transformer student's products when it is scored; `auto`: bfloat16 where this machine is faster in
    it, which moves a cosine by some thousandths at most. Other students are scored in float32."""

    @field_validator("tasks")
    @classmethod
    def _not_reserved(cls, tasks: dict[str, Task]) -> dict[str, Task]:
        if reserved := [name for name in tasks if name in RESERVED]:
            raise ValueError(
                f"evaluate.tasks.{reserved[0]}: the report needs this name for itself; choose another"
            )
        return tasks

    @model_validator(mode="after")
    def _reported(self) -> Self:
        tested = any(getattr(task, "split", "test") == "test" for task in self.tasks.values())
        if not tested and self.agreement is None:
            raise ValueError(
                "evaluate.tasks has no task to be reported; give one `split: test`, or leave out "
                "`evaluate.agreement: null`"
            )
        return self

    @model_validator(mode="after")
    def _indexes(self) -> Self:
        if faults := index_faults(self.indexes):
            raise ValueError("\n".join(faults))
        return self
