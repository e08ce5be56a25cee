"""Tasks of words and phrases, under `evaluate.tasks`: POTION's WordSim, and PEARL (Chen et al. 2024)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.params.base import Block, Count, PathOrGlob, distinct
from pipeline.params.classes import Probe, Split

WordSet = Literal[
    "bird",
    "card660",
    "men",
    "mturk287",
    "mturk771",
    "rareword",
    "rel353",
    "sim353",
    "simlex",
    "simverb",
    "verb143",
    "wordsim353",
    "yp130",
]
"""A set of pairs that is known by the names of its files: see `readers.word_pairs.OFFICIAL`."""
POTION_SETS: tuple[WordSet, ...] = (
    "rareword",
    "men",
    "simlex",
    "rel353",
    "simverb",
    "mturk771",
    "card660",
)
"""The sets of the column WordSim in POTION's tables."""
PearlSet = Literal["bird", "turney", "ppdb", "ppdb_filtered", "autofj", "yago", "umls", "conll", "bc5cdr"]
PARAPHRASES: tuple[PearlSet, ...] = ("ppdb", "ppdb_filtered")
"""Those with labels."""
PEARL_SETS: tuple[PearlSet, ...] = (
    "bird",
    "turney",
    "ppdb",
    "ppdb_filtered",
    "autofj",
    "yago",
    "umls",
    "conll",
    "bc5cdr",
)


class WordSimilarityTask(Block):
    """Pairs of words or phrases with a score.

    Published files need no columns. Their layout is seen in the first line: two words and a score, without a
    header, between tabs, commas or blanks; SimVerb's, with a part of speech before the score; or a header as
    WordSim353, SimLex-999 and BiRD have it. Words that all end in -n, -v, -j or -a, as MEN's lemmas, lose it.
    """

    kind: Literal["word_similarity"]
    path: PathOrGlob
    """A file or a glob: published, or .csv, .tsv, .jsonl, .parquet; or hub:OWNER/NAME?split=test. With `set`,
    a folder."""
    set: WordSet | None = None
    """Look for the file of this set in the folder `path`, by its published name; null: `path` is the file."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""
    left: str = "sentence1"
    """Column of the first words, where the layout is no published one."""
    right: str = "sentence2"
    """Column of the second words."""
    score: str = "score"
    """Column of the human scores."""
    metric: Literal["spearman", "pearson"] = "spearman"
    """The headline; both are reported. PEARL takes pearson for BiRD."""

    @property
    def scoring(self) -> Literal["sts"]:
        """The module under tasks/ that scores it."""
        return "sts"

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct(self.kind, left=self.left, right=self.right, score=self.score)
        return self


class WordSimilaritySets(Block):
    """Several sets, a task each: NAME_men, NAME_simlex, ... By default POTION's seven."""

    kind: Literal["word_similarity_sets"]
    path: PathOrGlob
    """A folder in which each set's file lies under its published name, however deep."""
    sets: Annotated[tuple[WordSet, ...], Field(strict=False, min_length=1)] = POTION_SETS
    """Which."""

    @property
    def scoring(self) -> Literal["sts"]:
        """The module under tasks/ that scores each."""
        return "sts"


class ChoiceTask(Block):
    """Choose the answer to a phrase among other candidates, by similarity. Turney: accuracy."""

    kind: Literal["choice"]
    path: PathOrGlob
    """A file or a glob: .csv, .tsv, .jsonl, .parquet; hub:OWNER/NAME?split=test; or Turney's own .txt, whose
    lines are `phrase | answer | its first word | its second word | other | other | ...`."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""
    query: str = "query"
    """Column of the phrases."""
    answer: str = "label"
    """Column of the right candidates."""
    others: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = (
        "candidate_1",
        "candidate_2",
        "candidate_3",
        "candidate_4",
    )
    """Columns of the wrong ones; an empty cell is none."""

    @property
    def scoring(self) -> Literal["choice"]:
        """The module under tasks/ that scores it."""
        return "choice"

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        others = {f"others.{place}": column for place, column in enumerate(self.others)}
        distinct(self.kind, query=self.query, answer=self.answer, **others)
        return self


class ClusteringTask(Block):
    """Texts with a class: does k-means, with as many clusters, find the classes?"""

    kind: Literal["clustering"]
    path: PathOrGlob
    """A file or a glob: .csv, .tsv, .jsonl, .parquet; or hub:OWNER/NAME?split=test."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""
    text: str = "text"
    """Column of the texts."""
    label: str = "label"
    """Column of the classes."""

    @property
    def scoring(self) -> Literal["clustering"]:
        """The module under tasks/ that scores it."""
        return "clustering"

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct(self.kind, text=self.text, label=self.label)
        return self


class FuzzyJoinTask(Block):
    """Join each row of a table to the row of a reference table with the same meaning, by its title.

    A subset is a table: a folder TABLE with left.csv (the reference: id, title), right.csv and gt.csv (id_l,
    title_l, id_r, title_r), as the package autofj has them in autofj/benchmark.
    """

    kind: Literal["fuzzy_join"]
    path: PathOrGlob
    """The folder of the tables."""
    split: Split = "test"
    """`dev`: used to select weights. `test`: only reported."""

    @property
    def scoring(self) -> Literal["entity_resolution"]:
        """The module under tasks/ that scores it."""
        return "entity_resolution"


class ParaphraseTask(Probe):
    """Pairs of phrases with a class in one file, read off [u, v] as in PEARL. Only reported.

    Of 100 rows 15 are scored and 15 choose the classifier's settings, by hash; 70 train it.
    """

    kind: Literal["paraphrase"]
    path: PathOrGlob
    """A file or a glob: .csv, .tsv, .jsonl, .parquet; or hub:OWNER/NAME?split=test."""
    left: str = "phrase_1"
    """Column of the first phrases."""
    right: str = "phrase_2"
    """Column of the second phrases."""
    label: str = "label"
    """Column of the classes."""
    max_train: Count | None = None
    """Training rows, at most, chosen by hash; null: all. Teacher and students encode each of them."""

    @property
    def concatenated(self) -> bool:
        """Whether the classifier of a pair reads its vectors alone."""
        return True

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct(self.kind, left=self.left, right=self.right, label=self.label)
        return self


class PearlSets(Block):
    """PEARL's tasks, one each: NAME_bird, NAME_turney, ... NAME_bc5cdr."""

    kind: Literal["pearl"]
    path: PathOrGlob
    """The folder `data` of the dataset Lihuchen/pearl_benchmark, which holds bird/bird.tsv and so on."""
    tables: PathOrGlob | None = None
    """The folder of AutoFJ's tables, which that dataset only names; null: PATH/autofj."""
    sets: Annotated[tuple[PearlSet, ...], Field(strict=False, min_length=1)] = PEARL_SETS
    """Which."""

    @property
    def scoring(self) -> Literal["sts"]:
        """Of the first; each task has its own."""
        return "sts"
