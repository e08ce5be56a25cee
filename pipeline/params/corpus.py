"""`corpus:` and `finetune:`: where texts and training pairs come from."""

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from pipeline.params.base import (
    ADDRESSES,
    HUB,
    Block,
    Count,
    Layout,
    Name,
    NonNegative,
    Role,
    distinct,
    scheme_of,
)

MIN_PASSAGE_TOKENS = 16
LicenceName = Annotated[str, Field(pattern=r"\S")]
"""A licence as its owner names it: cc-by-4.0, or any other words."""


class WordNetSource(Block):
    """Glosses and example sentences of WordNet 3.0, without the synsets held out for evaluation."""

    kind: Literal["wordnet"]
    limit: Count | None = None
    """Keep this many texts, chosen by hash; null: all."""


class Documents(Block):
    """What every source has whose rows may be documents of many sentences."""

    split: Literal["none", "sentences", "passages"] = "none"
    """`none`: a row is a text. `sentences`: each of its sentences is one. `passages`: as many successive
    sentences as fit. The last two need the optional extra: `pip install -e '.[split]'`."""
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$")] = "en"
    """ISO 639 code of the language, whose abbreviations end no sentence; used to split."""
    passage_tokens: Annotated[int, Field(ge=MIN_PASSAGE_TOKENS)] | None = None
    """Most tokens of a passage by the teacher's tokenizer, with its special tokens and its prompt; null: the
    teacher's window. Of a teacher that has no tokenizer, such as an API: words, and null is a fault."""
    passage_overlap: Annotated[int, Field(ge=0)] = 0
    """Most tokens of a passage that the next one repeats: whole sentences, or else whole words."""
    join: Count = 1
    """So many successive texts become one, with spaces between them: passages from a file of sentences. An
    empty line ends one; the other bounds are of passages."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.split != "none" and self.join > 1:
            raise ValueError(
                f"join: {self.join} makes one text of several, split: {self.split} several of one; remove one"
            )
        if self.split != "passages" and (
            given := self.model_fields_set & {"passage_tokens", "passage_overlap"}
        ):
            raise ValueError(
                f"{' and '.join(sorted(given))} given, but split is {self.split}; set split: passages, or "
                "remove what is given"
            )
        if self.passage_tokens and self.passage_overlap > self.passage_tokens // 2:
            raise ValueError(
                f"passage_overlap is {self.passage_overlap}; choose at most half of passage_tokens "
                f"({self.passage_tokens // 2})"
            )
        return self


class FileSource(Documents):
    """Texts from files of the user's."""

    kind: Literal["files"]
    path: Annotated[str, Field(min_length=1)]
    """A file or glob: .txt (a text a line), .jsonl, .csv, .tsv, .parquet; all but Parquet may end in .gz.
    It may be an address: s3://BUCKET/FILE (`pip install s3fs`), gs://BUCKET/FILE (`pip install gcsfs`),
    hf://datasets/OWNER/NAME/FILE or file:///FILE."""
    column: str = "text"
    """The column, or the key of a JSON line, that holds the text. A .txt is a table with tabs where this is
    given, else lines."""
    role: Role = "text"
    """What the texts are for: `query` and `document` have the teacher's prompts of these roles."""
    limit: Count | None = None
    """Keep this many texts, chosen by hash; null: all."""
    licence: LicenceName | None = None
    """Of the texts: an identifier of the hub, such as cc-by-4.0, or a name. It goes into the ledger and the
    model cards, and changes no student; null: they call it unknown."""

    @property
    def has_column(self) -> bool:
        """Whether `column` is given."""
        return "column" in self.model_fields_set

    @field_validator("path")
    @classmethod
    def _no_dataset(cls, path: str) -> str:
        if path.startswith(HUB):
            raise ValueError(f"{path} is a dataset; write {{kind: huggingface, dataset: OWNER/NAME}}")
        if (scheme := scheme_of(path)) and scheme not in ADDRESSES:
            known = ", ".join(f"{one}://" for one in ADDRESSES)
            raise ValueError(
                f"{path}: {scheme}:// is not read; allowed: {known}; or download the file and name it"
            )
        # As fsspec spells it.
        return scheme + path[len(scheme) :] if scheme else path


class HubSource(Documents):
    """Texts from a Hugging Face dataset (optional extra: `pip install -e '.[datasets]'`)."""

    kind: Literal["huggingface"]
    dataset: Annotated[str, Field(min_length=1)]
    """The dataset's id on the hub, or a folder in a format that `datasets.load_dataset` reads."""
    config: str | None = None
    """The dataset's configuration."""
    dataset_split: str = "train"
    """The dataset's split, such as train or test."""
    revision: str | None = None
    """Branch, tag or commit."""
    column: str = "text"
    """The column that holds the text."""
    role: Role = "text"
    """As of files."""
    limit: Count | None = None
    """Keep this many texts, chosen by hash; null: all."""
    licence: LicenceName | None = None
    """As of files."""

    @field_validator("split", mode="before")
    @classmethod
    def _no_dataset_split(cls, split: object) -> object:
        ways = get_args(Documents.model_fields["split"].annotation)
        if isinstance(split, str) and split not in ways:
            raise ValueError(
                f"{split!r} is no way to split documents ({', '.join(ways)}); for the dataset's split write "
                f"dataset_split: {split}"
            )
        return split


Source = Annotated[WordNetSource | FileSource | HubSource, Field(discriminator="kind")]


class Corpus(Block):
    """The unlabelled texts that students are distilled on."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1, strict=False)]
    """Read in this order; of equal texts the first is kept."""
    min_words: Count = 3
    """A text with fewer words is dropped. A word is what stands between spaces; where a script is written
    without (Chinese characters, kana, Thai, Lao, Khmer, Burmese), each letter is one."""
    max_words: Count = 100
    """A text with more is dropped; a passage is bounded by `passage_tokens` instead."""
    max_chars: Count = 1000
    """A text with more characters is dropped; a passage is bounded by `passage_tokens` instead."""
    dev_fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.02
    """Share of the texts, chosen by hash, that is kept for early stopping and never trained on."""

    @model_validator(mode="after")
    def _some_pass(self) -> Self:
        if self.min_words > self.max_words:
            raise ValueError(f"min_words is {self.min_words}, above max_words, {self.max_words}; lower it")
        return self


class WordNetTriplets(Block):
    """Anchors, positives and hard negatives from WordNet's training synsets.

    Anchor: a gloss. Positive: the synset's lemmas or one of its examples.
    Hard negatives: sister terms, antonyms.
    """

    kind: Literal["wordnet_triplets"]
    limit: Count | None = None
    """Keep this many, chosen by hash; null: all."""


class TripletFile(Block):
    """Anchors, positives and, optionally, hard negatives from a file of the user's."""

    kind: Literal["triplets"]
    path: Annotated[str, Field(min_length=1)]
    """A .csv, .tsv, .jsonl or .parquet file, or hub:OWNER/NAME?split=train."""
    anchor: str = "anchor"
    """Column of the anchors."""
    positive: str = "positive"
    """Column of the positives."""
    negatives: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Columns of the hard negatives; an empty cell is no negative."""
    roles: Annotated[tuple[Role, Role], Field(strict=False)] = ("text", "text")
    """Of the anchors, and of the positives and negatives: [query, document] where anchors search."""
    limit: Count | None = None
    """Keep this many, chosen by hash; null: all."""
    licence: LicenceName | None = None
    """Of the triplets, as of a corpus's source."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for number, negative in enumerate(self.negatives):
            if negative in self.negatives[:number]:
                raise ValueError(f"{self.kind} takes negatives from {negative!r} twice; name it once")
        for column in self.negatives or (None,):
            distinct(self.kind, anchor=self.anchor, positive=self.positive, negatives=column)
        return self


class RetrievalTriplets(Block):
    """Queries and their relevant documents, from a folder as the retrieval task reads it.

    Anchor: a query. Positive: a document that is relevant to it. Hard negatives: of MS MARCO's triples.
    """

    kind: Literal["retrieval"]
    path: Annotated[str, Field(min_length=1)]
    """The folder."""
    layout: Layout = "beir"
    """As of the retrieval task."""
    qrels: str = "train"
    """QRELS: which queries and judgements."""
    triples: Annotated[str, Field(pattern=r"^(qidpid)?triples\.")] | None = None
    """Of `msmarco`: a file in the folder that is read in place of the judgements. A line of qidpidtriples.*
    has the ids of a query, a relevant passage and another one, a line of triples.* their texts. It may end in
    .gz."""
    negatives: Count = 8
    """Of `triples`: most negatives of a query and its passage, the first in the file."""
    collection: bool = False
    """Whether `mine` looks at all documents of the folder, not at those alone that triplets name. All of them
    are then encoded."""
    limit: Count | None = None
    """Keep this many pairs of a query and a document, chosen by hash; null: all. Another document that is
    relevant to a query that is kept is never mined as its negative."""
    licence: LicenceName | None = None
    """Of the data, as of a corpus's source."""

    @model_validator(mode="after")
    def _layout_of_triples(self) -> Self:
        if self.triples and self.layout != "msmarco":
            raise ValueError(
                f"triples: {self.triples} is a file of MS MARCO's layout; set layout: msmarco, or remove it"
            )
        return self


class TaskPairs(Block):
    """The training pairs of a task with labels, without the labels.

    Its dev and test rows, and those of all other tasks, are left out.
    """

    kind: Literal["task"]
    task: Name
    """The task, by its name under `evaluate.tasks`: one whose rows are pairs with labels."""
    limit: Count | None = None
    """Keep this many, chosen by hash; null: all."""


class Mine(Block):
    """Hard negatives: texts of the same data near an anchor by the teacher's `sentence` vectors."""

    top_k: Count = 50
    """Texts that are looked at for an anchor, those with the highest cosine to it."""
    negatives: Annotated[int, Field(ge=0)] = 8
    """Most mined negatives of a triplet. 0: none are looked for, and the texts are encoded all the same, for
    students with `finetune.loss: cosines`."""
    margin: NonNegative | None = None
    """A negative's cosine to the anchor is at most the positive's minus this; null: any."""
    percentile: Annotated[float, Field(gt=0.0, le=1.0)] | None = 0.95
    """A negative's cosine to the anchor is at most this share of the positive's (NV-Retriever); null: any."""
    max_similarity: Annotated[float, Field(gt=0.0, le=1.0)] | None = 0.95
    """A text with a higher cosine to the anchor or to the positive counts as a positive that nobody has
    labelled; null: none does."""
    exact_rows: Count = 200_000
    """Most texts of a data set that are all compared with every anchor, read from the disk a part at a time.
    Of more, those in the cells nearest to an anchor (IVF) are, which are in memory as float16, unless anchors
    are so few that it is less work to compare all. reports/stages/mine.json says what share of the nearest
    the cells find."""


FinetuneBlock = WordNetTriplets | TripletFile | RetrievalTriplets | TaskPairs


class FinetuneData(Block):
    """Labelled pairs that students are fine-tuned on."""

    data: dict[Name, Annotated[FinetuneBlock, Field(discriminator="kind")]]
    """By name: a student names what it trains on."""
    mine: Mine | None
    """Adds mined hard negatives to the given ones; null: the triplets stay as they are, and their texts
    are not encoded."""
