"""Labelled pairs while they are made: the pairs by text_id, and the texts that they name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from pipeline.params.base import Role
from pipeline.prepare.shared.cleaning import ids, normalise
from pipeline.tasks import pairs as pairs_file

SEARCH: tuple[Role, Role] = ("query", "document")
"""The roles of a search: left texts look for right ones."""


@dataclass(frozen=True)
class Labelled:
    """Pairs and their texts."""

    pairs: pl.DataFrame
    """`pairs.PAIRS_SCHEMA`."""
    texts: pl.DataFrame
    """`texts.LABELLED_SCHEMA`, one row a text."""
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Rows that were left out, by task and reason."""


@dataclass(frozen=True)
class Rows:
    """Rows of one task and split, as texts; equally long columns, those not given are empty."""

    left: Sequence[str | None]
    right: Sequence[str | None]
    negatives: Sequence[Sequence[str]] | None = None
    score: Sequence[float] | None = None
    subset: Sequence[str] | None = None
    label: Sequence[str] | None = None
    roles: tuple[Role, Role] = ("text", "text")
    """Of the left texts, and of the right ones and the negatives."""


def label(task: str, split: str, rows: Rows) -> Labelled:
    """Name texts by the text_id of their normalised form, in their role."""
    left, right = rows.roles
    named = {
        left: dict.fromkeys(text for text in rows.left if text is not None),
        **({} if left == right else {right: {}}),
    }
    named[right].update(dict.fromkeys(text for text in rows.right if text is not None))
    named[right].update(dict.fromkeys(text for several in rows.negatives or () for text in several))
    tables = {role: _texts(list(texts), role) for role, texts in named.items()}
    by_text = {role: dict(zip(named[role], table["text_id"], strict=True)) for role, table in tables.items()}
    columns: dict[str, list] = {
        "left_id": [None if text is None else by_text[left][text] for text in rows.left],
        "right_id": [None if text is None else by_text[right][text] for text in rows.right],
    }
    if rows.negatives is not None:
        columns["negative_ids"] = [[by_text[right][text] for text in several] for several in rows.negatives]
    if rows.score is not None:
        columns["score"] = list(rows.score)
    if rows.subset is not None:
        columns["subset"] = list(rows.subset)
    if rows.label is not None:
        columns["label"] = list(rows.label)
    table = pl.concat(tables.values()).unique(["text_id", "text"], maintain_order=True)
    return Labelled(pairs_file.make(task, split, columns), table)


def _texts(texts: list[str], role: Role) -> pl.DataFrame:
    """A row a text, in order."""
    clean = normalise(pl.Series("text", texts, dtype=pl.String))
    return pl.DataFrame([ids(clean, role), clean]).with_columns(role=pl.lit(role))


def join(parts: Iterable[Labelled]) -> Labelled:
    """All pairs and all texts; may be none."""
    all_parts = [label("", "", Rows([], [])), *parts]
    texts = pl.concat([part.texts for part in all_parts]).unique(["text_id", "text"], maintain_order=True)
    dropped = {task: reasons for part in all_parts for task, reasons in part.dropped.items()}
    return Labelled(pl.concat([part.pairs for part in all_parts]), texts, dropped)


def only_named(labelled: Labelled) -> Labelled:
    """Without the texts that no pair names any more."""
    pairs = labelled.pairs
    named = pl.concat([pairs["left_id"], pairs["right_id"], pairs["negative_ids"].explode()]).unique()
    return Labelled(pairs, labelled.texts.filter(pl.col("text_id").is_in(named.implode())))
