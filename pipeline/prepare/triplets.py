"""Fine-tuning data, as params.yaml names them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.core.errors import UserError
from pipeline.data.common.texts import fold
from pipeline.params.corpus import FinetuneBlock, RetrievalTriplets, TaskPairs, TripletFile, WordNetTriplets
from pipeline.prepare.labelled.labelled import Labelled, Rows, join, label, only_named
from pipeline.prepare.labelled.searches import COLLECTION_DUPLICATE, NO_ROWS, searches
from pipeline.prepare.readers.named import expand
from pipeline.prepare.readers.user_columns import VISIBLE, filled
from pipeline.prepare.readers.user_files import read_columns
from pipeline.prepare.sampling import keep_first, ranks
from pipeline.prepare.wordnet.families import Families
from pipeline.prepare.wordnet.triplets import triplets
from pipeline.tasks.pairs import IS_TRIPLET, PASSED_OVER

OfTasks = Callable[[str], tuple[Labelled, pl.Series]]
"""The training pairs of a task, without labels, and the folded texts that none of them may have."""


@dataclass(frozen=True)
class Report:
    """What became of one block's triplets."""

    rows_in: int
    rows_out: int
    dropped: dict[str, int]
    """Triplets by reason; under reasons that begin with `negative` negatives, which their triplets lose;
    under those that begin with `collection` documents to mine from."""
    collection: int | None = None
    """Documents that negatives may be mined from; None where the block has none."""

    def told(self) -> dict[str, Any]:
        """As reported."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def finetuning(
    data: Mapping[str, FinetuneBlock],
    wordnet: Callable[[], Families],
    held_out: pl.Series,
    of_tasks: OfTasks | None = None,
) -> tuple[Labelled, dict[str, Report]]:
    """The triplets of all blocks and their texts.

    Args:
        data: `finetune.data` of params, by name.
        wordnet: opens WordNet; called only if a block needs it.
        held_out: folded evaluation texts, which no text of a triplet may equal.
        of_tasks: what blocks of the kind `task` read, and which texts are held out from them.

    Raises:
        UserError: a file is at fault, or nothing is left of a block.
    """
    parts, reports = [], {}
    hint = "; where evaluate.tasks has the same collection, set `documents: shared` there"
    for name, block in data.items():
        if isinstance(block, TaskPairs):
            assert of_tasks is not None
            read, apart = of_tasks(block.task)
            read = replace(read, pairs=read.pairs.with_columns(task=pl.lit(name)))
        else:
            read, apart = _read(name, block, wordnet), held_out
        kept, reports[name] = _filtered(name, read, block.limit, apart)
        if not reports[name].rows_out:
            raise UserError(
                f"finetune.data.{name} has no triplet left, dropped by reason: {reports[name].dropped}; "
                f"give it other files, or remove it{hint if isinstance(block, RetrievalTriplets) else ''}"
            )
        parts.append(kept)
    return _with_known_positives(join(parts)), reports


def _read(
    name: str, block: WordNetTriplets | TripletFile | RetrievalTriplets, wordnet: Callable[[], Families]
) -> Labelled:
    match block:
        case WordNetTriplets():
            return triplets(wordnet(), name)
        case TripletFile():
            paths = expand(block.path, f"finetune.data.{name}.path")
            return join(_file(name, block, path) for path in paths)
        case RetrievalTriplets():
            return searches(name, block)


def _file(name: str, block: TripletFile, path: Path) -> Labelled:
    table = read_columns(path, list(dict.fromkeys([block.anchor, block.positive, *block.negatives])))
    negatives = [
        list(dict.fromkeys(text for text in row if text and re.search(VISIBLE, text)))
        for row in table.select(block.negatives).iter_rows()
    ]
    anchors, positives = (filled(table[column], path).to_list() for column in (block.anchor, block.positive))
    given = negatives if block.negatives else None
    return label(name, "train", Rows(anchors, positives, given, roles=block.roles))


def _filtered(name: str, data: Labelled, limit: int | None, held_out: pl.Series) -> tuple[Labelled, Report]:
    texts, table = data.texts, data.pairs.drop_nulls("left_id")
    found = data.pairs.filter(pl.col("left_id").is_null())
    collection = found.unique("right_id", maintain_order=True)
    leaked = texts.filter(fold(texts["text"]).is_in(held_out.implode()))["text_id"].implode()
    sides = ("left_id", "right_id")
    dropped = dict(data.dropped.get(name, {}))
    rows_in = len(table) + sum(count for reason, count in dropped.items() if reason not in NO_ROWS)

    def keep(reason: str, kept: pl.DataFrame) -> pl.DataFrame:
        dropped[reason] = dropped.get(reason, 0) + len(table) - len(kept)
        return kept

    table = keep("same_text", table.filter(pl.col("left_id") != pl.col("right_id")))
    table = keep("duplicate", _merged(table, sides))
    table = keep("evaluation_text", table.filter(~pl.any_horizontal(pl.col(sides).is_in(leaked))))
    before = _negatives(table)
    table = _with_negatives(table, sides, _singly(table, sides).filter(~pl.col("negative_ids").is_in(leaked)))
    dropped["negative_is_evaluation_text"] = before - _negatives(table)
    pair = pl.Series("pair", ranks(table["left_id"], "left") ^ ranks(table["right_id"], "right"))
    whole = table
    table = keep("over_limit", keep_first(table.with_columns(pair), "pair", limit, "limit").drop("pair"))
    over_limit = whole.join(table, on=sides, how="anti", maintain_order="left").with_columns(
        score=pl.lit(PASSED_OVER, dtype=pl.Float32), negative_ids=pl.lit([], dtype=pl.List(pl.UInt64))
    )
    documents = collection.filter(~pl.col("right_id").is_in(leaked))
    dropped[COLLECTION_DUPLICATE] = len(found) - len(collection)
    dropped["collection_is_evaluation_text"] = len(collection) - len(documents)
    told = {reason: count for reason, count in dropped.items() if count}
    report = Report(rows_in, len(table), told, len(documents) if len(collection) else None)
    kept = only_named(Labelled(pl.concat([table, documents]), texts))
    return Labelled(pl.concat([kept.pairs, over_limit]), kept.texts), report


def _with_known_positives(found: Labelled) -> Labelled:
    """Of the rows over a limit those alone that `mine` can use: an anchor and a text that stay.

    Without them, it would take a positive of an anchor for its negative, as soon as another triplet or the
    collection has that text.
    """
    anchors = found.pairs.filter(IS_TRIPLET)["left_id"].unique().implode()
    texts = found.texts["text_id"].implode()
    usable = pl.col("left_id").is_in(anchors) & pl.col("right_id").is_in(texts)
    over_limit = pl.col("score").eq_missing(PASSED_OVER)
    return Labelled(found.pairs.filter(~over_limit | usable), found.texts, found.dropped)


def _merged(table: pl.DataFrame, sides: tuple[str, str]) -> pl.DataFrame:
    """One row a pair, with the negatives of all its rows: files may have a row a negative."""
    first = table.unique(sides, keep="first", maintain_order=True)
    return _with_negatives(first, sides, _singly(table, sides).unique(maintain_order=True))


def _singly(table: pl.DataFrame, sides: tuple[str, str]) -> pl.DataFrame:
    """Each negative beside its pair."""
    return table.select(*sides, "negative_ids").explode("negative_ids").drop_nulls("negative_ids")


def _with_negatives(table: pl.DataFrame, sides: tuple[str, str], found: pl.DataFrame) -> pl.DataFrame:
    """Different pairs with the negatives of `_singly`: an expression in lists takes kilobytes a list."""
    negatives = found.group_by(sides).agg("negative_ids")
    merged = table.drop("negative_ids").join(negatives, on=sides, how="left", maintain_order="left")
    return merged.with_columns(pl.col("negative_ids").fill_null([])).select(table.columns)


def _negatives(table: pl.DataFrame) -> int:
    return int(table["negative_ids"].list.len().sum())
