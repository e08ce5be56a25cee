"""How many texts each text set has: counted where the set is up to date, else estimated from its sources."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError
from pipeline.data.common import texts as texts_file
from pipeline.params.base import HUB
from pipeline.params.corpus import TaskPairs
from pipeline.params.evaluate import Task
from pipeline.params.load import Params
from pipeline.planning.heads import head_of
from pipeline.planning.sources import CHARACTERS_A_TOKEN, OF_WORDNET, head_of_source
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.prepare import EVAL_TEXTS
from pipeline.prepare.readers.named import expand
from pipeline.tasks.subtasks import one_by_one, spelled_out

ENDS = 2
"""Special tokens of a text."""
BYTES_A_TOKEN = 4
"""By which the requests to an API are estimated."""
GLOSS, LEMMA = 58.0, 24.0
"""Characters of a gloss and of a lemma, in the mean."""
KEPT_BY_WORDNET = 0.78
"""New texts that substitution leaves for each source text."""
WORDNET_SPLITS = 2
"""Dev and test."""
LEMMAS_A_GLOSS = 2.45
RELATED_TEXTS = 0.79
"""Glosses that a pair of the relatedness task adds: there are few held out, so that pairs share them."""
SHARED = 0.82
"""Share of the texts of several WordNet tasks that is left once equal ones are one."""
TRIPLET = 3.7, 32.0
"""Texts of one of WordNet's triplets, and their mean length in characters."""
TRAIN_SHARE = 0.9
"""Share of a supersense task's training rows that are there: held-out synsets are few."""


@dataclass(frozen=True)
class Texts:
    """Texts and their mean length in characters."""

    number: int = 0
    characters: float = 0.0

    @property
    def tokens(self) -> float:
        """Tokens in all, special ones included, as a model would be given them."""
        return self.number * (self.characters / CHARACTERS_A_TOKEN + ENDS)

    @property
    def bytes(self) -> float:
        """Of the texts alone."""
        return self.number * self.characters

    def __add__(self, other: "Texts") -> "Texts":
        number = self.number + other.number
        return Texts(number, (self.bytes + other.bytes) / number if number else 0.0)


@dataclass(frozen=True)
class Sizes:
    """Of all text sets."""

    sets: dict[str, Texts]
    """By the name that the set has in dvc.yaml."""
    train: int
    """Texts of the corpus' training split."""
    dev: int
    triplets: dict[str, int] = field(default_factory=dict)
    """By the data's name."""
    sample: tuple[str, ...] = ()
    """Real texts of the corpus, whose lengths are what a probe needs."""
    counted: frozenset[str] = frozenset()
    """The sets that were counted; the others are estimates."""


def sizes(params: Params, root: Path, up_to_date: frozenset[str]) -> Sizes:
    """The sizes of all text sets.

    Args:
        params: params.yaml's.
        root: the checkout.
        up_to_date: stages whose outputs are those of the params: their texts are counted.

    Raises:
        UserError: a source is not there, or says nothing of its size.
    """
    data = root / "data"
    counted = set()

    def known(name: str, stage: str, path: Path) -> Texts | None:
        if stage not in up_to_date or not path.exists():
            return None
        counted.add(name)
        return count(path)

    heads = tuple(
        head_of_source(source, index, params.corpus, root)
        for index, source in enumerate(params.corpus.sources)
    )
    sample = tuple(text for head in heads for text in head.texts)
    corpus_file = data / "corpus/corpus.parquet"
    if (corpus := known("corpus", "prepare", corpus_file)) is not None:
        sample = first_texts(corpus_file) or sample
        train = len(texts_file.ids(corpus_file, "train"))
    else:
        corpus = sum((Texts(head.rows, head.characters) for head in heads), Texts())
        train = round(corpus.number * (1 - params.corpus.dev_fraction))
    if not sample:
        raise UserError(
            "the sources of the corpus have no text that it keeps; mend corpus in the params file"
        )
    wordnet = params.augment.wordnet
    made = (
        _augmented(corpus, wordnet.limit, KEPT_BY_WORDNET * wordnet.variants) if wordnet.enabled else Texts()
    )
    back = params.augment.back_translation
    translated = _augmented(corpus, back.limit, len(back.pivots)) if back.enabled else Texts()
    evaluated = _evaluated(params, root) or Texts(min(EVAL_TEXTS, corpus.number - train), corpus.characters)
    triplets = {name: _triplets(name, params, root) for name in params.finetune.data}
    transfer = params.augment.transfer
    rows = min(transfer.limit, transfer.rounds * evaluated.number) if transfer else 0
    estimates = {
        "wordnet": ("augment@wordnet", data / "augmented/wordnet.parquet", made),
        "back_translation": (
            "augment@back_translation",
            data / "augmented/back_translation.parquet",
            translated,
        ),
        "transfer": ("transfer", data / "augmented/transfer.parquet", Texts(rows, evaluated.characters)),
        "eval": ("prepare", data / "corpus/eval.parquet", evaluated),
        "finetune": (
            "prepare",
            data / "corpus/finetune.parquet",
            Texts(round(TRIPLET[0] * sum(triplets.values())), TRIPLET[1]),
        ),
    }
    sets = {"corpus": corpus}
    for name, (stage, path, estimate) in estimates.items():
        found = known(name, stage, path)
        sets[name] = estimate if found is None else found
    return Sizes(sets, train, corpus.number - train, triplets, sample, frozenset(counted))


def tokens_of(texts: Sequence[str]) -> float:
    """Tokens of texts by the same estimate as `Texts.tokens`, so that its error cancels out."""
    return sum(map(len, texts)) / CHARACTERS_A_TOKEN + ENDS * len(texts)


def count(path: Path) -> Texts:
    """The texts of a set that is there."""
    found = pl.scan_parquet(path).select(
        number=pl.len(), characters=pl.col("text").str.len_chars().mean().fill_null(0.0)
    )
    return Texts(*found.collect().row(0))


def first_texts(path: Path, most: int = 2048) -> tuple[str, ...]:
    """The first texts of a set by text_id, which being hashes are a choice by chance."""
    return tuple(pl.scan_parquet(path).select("text").head(most).collect()["text"])


def _evaluated(params: Params, root: Path) -> Texts | None:
    """The texts of all tasks; None without a task, where dev texts of the corpus stand for them."""
    tasks = spelled_out(params).evaluate.tasks
    if not tasks:
        return None
    keys = _keys(params)
    found = sum((of_task(task, keys[name], root) for name, task in tasks.items()), Texts())
    built_in = sum(task.kind.startswith("wordnet_") for task in tasks.values())
    return Texts(round(found.number * (SHARED if built_in > 1 else 1)), found.characters)


def _keys(params: Params) -> dict[str, Keys]:
    """Where params.yaml has each task, one by one."""
    return {
        one: Keys.of(one, block, name)
        for name, block in params.evaluate.tasks.items()
        for one in one_by_one({name: block})
    }


def of_task(task: Task, keys: Keys, root: Path) -> Texts:
    """The texts that a task adds to those that are encoded."""
    match task.kind:
        case "wordnet_relatedness":
            return Texts(round(WORDNET_SPLITS * task.pairs * RELATED_TEXTS), GLOSS)
        case "wordnet_reverse_dictionary":
            queries = WORDNET_SPLITS * task.queries
            return Texts(queries, GLOSS) + Texts(round(queries * LEMMAS_A_GLOSS), LEMMA)
        case "wordnet_supersense":
            return Texts(round(task.max_train * TRAIN_SHARE) + task.max_test, GLOSS)
    files = [
        path
        for key in ("path", "train", "dev", "test", "candidates", "tables")
        if (named := getattr(task, key, None))
        for path in _files(named, keys.key(key), root)
    ]
    # A line of a labelled file has two texts at most, and is text for the most part.
    heads = [head_of(path, None) for path in files]
    return sum((Texts(head.rows, head.characters) for head in heads), Texts())


def _files(pattern: str, key: str, root: Path) -> Sequence[Path]:
    """The files that a task's path names; those in it of a folder, none of a dataset of the hub."""
    if pattern.startswith(HUB):
        return []
    place = root / pattern
    if place.is_dir():
        return sorted(path for path in place.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [path for path in expand(pattern, key, root) if path.is_file()]


def _augmented(corpus: Texts, limit: int | None, share: float) -> Texts:
    return Texts(round(min(corpus.number, limit or corpus.number) * share), corpus.characters)


def _triplets(name: str, params: Params, root: Path) -> int:
    """Triplets of a data set of `finetune.data`."""
    block = params.finetune.data[name]
    if isinstance(block, TaskPairs):
        task = spelled_out(params).evaluate.tasks[block.task]
        rows = of_task(task, _keys(params)[block.task], root).number
        return min(rows, block.limit or rows)
    limit: int | None = getattr(block, "limit", None)
    path: str | None = getattr(block, "path", None)
    if path is None:  # WordNet's
        return limit or OF_WORDNET
    rows = sum(head_of(one, None).rows for one in _files(path, f"finetune.data.{name}.path", root))
    if not rows and not limit:
        raise UserError(f"finetune.data.{name}: {path} cannot be counted; give it a `limit`")
    return min(rows or limit or 0, limit or rows)
