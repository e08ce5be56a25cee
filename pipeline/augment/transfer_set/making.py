"""New rows of a labelled task: each row several times by the rules, and which of the new rows are kept."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import polars as pl

from pipeline.augment.transfer_set.rules import Rules
from pipeline.augment.transfer_set.speech import Sentence, Speech
from pipeline.augment.transfer_set.unigrams import Unigrams
from pipeline.core.progress import progress
from pipeline.data.common.texts import HeldOut
from pipeline.params.augment import TransferSet
from pipeline.prepare.shared.cleaning import ids, normalise, say_loss

ROWS_AT_A_TIME = 65_536
"""Rows whose texts are Python objects at a time."""
_KEY = ["left_id", "right_id"]
_FIRST_KEPT, _SECOND_KEPT = 0, 1
"""Rounds of a pair, modulo 3; in the third, both texts are changed."""


@dataclass(frozen=True)
class TransferRows:
    """What is made of a task."""

    rows: pl.DataFrame
    """left_id and right_id, the latter null for single texts; in the order in which they were made."""
    texts: pl.DataFrame
    """text_id and text of all that the rows name, the kept texts of pairs among them."""
    counts: dict[str, Any]
    """Rows in, made, out and dropped by reason; words and texts, and how many the rules changed."""


def make(
    task: str,
    rows: pl.DataFrame,
    texts: pl.DataFrame,
    held_out: HeldOut,
    settings: tuple[TransferSet, str, Speech],
) -> TransferRows:
    """New rows of a task, without labels.

    A row is made anew in each round, by chance that depends on the seed, its ids and the round alone. Reasons
    to drop a new row, in this order: `no_word` (a text has nothing but masks and punctuation), `training_row`
    (as it was, or another of the task), `evaluation_text` (a text differs from one of `held_out` only in
    case, accents or punctuation), `duplicate` (of an earlier new row) and `over_limit`.

    Args:
        task: its name, for messages.
        rows: its training rows: left_id, right_id (null for single texts).
        texts: text_id and text, of these rows at least.
        held_out: the texts of all evaluation rows.
        settings: the params, the text of a mask, and what tells parts of speech.
    """
    params, mask, speech = settings
    rows = rows.select(_KEY).unique().sort(_KEY, nulls_last=False)
    named = pl.concat([rows["left_id"], rows["right_id"].drop_nulls()]).unique()
    texts = texts.filter(pl.col("text_id").is_in(named.implode())).select("text_id", "text")
    sentences = dict(zip(texts["text_id"], speech.sentences(texts["text"]), strict=True))
    written = dict(texts.iter_rows())
    rules = Rules(params, Unigrams(sentences.values()), mask)
    filtering = _Filtering(rows, held_out, params.limit, mask)
    with progress(f"transfer set of {task}", len(rows) * params.rounds, "rows") as advance:
        for number in range(params.rounds):
            for part in rows.iter_slices(ROWS_AT_A_TIME):
                filtering.add(_round(part, number, params.seed, rules, sentences, written))
                advance(len(part))
                if filtering.is_full:
                    break
            if filtering.is_full:
                break
    dropped = {reason: count for reason, count in filtering.dropped.items() if count}
    say_loss(f"transfer set of {task}", filtering.made, dropped)
    counts = {
        "rows_in": len(rows),
        "made": filtering.made,
        "rows_out": len(filtering.kept),
        "dropped": dropped,
    }
    return TransferRows(filtering.kept, filtering.texts, {**counts, **asdict(rules.tally)})


def _round(
    rows: pl.DataFrame,
    number: int,
    seed: int,
    rules: Rules,
    sentences: Mapping[int, Sentence],
    written: Mapping[int, str],
) -> pl.DataFrame:
    """One new row for each row: `left` and `right`."""
    random, turn = Random(), number % 3
    chance = random.random

    def made() -> Iterator[tuple[str, str | None]]:
        for left, right in rows.iter_rows():
            random.seed(f"{seed}:{left}:{right}:{number}")
            if right is None:
                yield rules.apply(sentences[left], chance), None
                continue
            keeps_left, keeps_right = turn == _FIRST_KEPT, turn == _SECOND_KEPT
            yield (
                written[left] if keeps_left else rules.apply(sentences[left], chance),
                written[right] if keeps_right else rules.apply(sentences[right], chance),
            )

    return pl.DataFrame(list(made()), {"left": pl.String, "right": pl.String}, orient="row")


class _Filtering:
    """Takes new rows, some at a time, and keeps those that are new."""

    def __init__(self, rows: pl.DataFrame, held_out: HeldOut, limit: int, mask: str) -> None:
        self._originals, self._held_out, self._limit, self._mask = rows, held_out, limit, mask
        self.kept = rows.clear()
        self.texts = pl.DataFrame(schema={"text_id": pl.UInt64, "text": pl.String})
        self.made = 0
        self.dropped: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether no more rows are wanted."""
        return len(self.kept) >= self._limit

    def add(self, made: pl.DataFrame) -> None:
        """Keep the new ones of rows `left` and `right`."""
        self.made += len(made)
        sides = {side: self._judged(made[side]) for side in ("left", "right")}
        table = pl.DataFrame(
            {f"{side}_id": found["text_id"] for side, found in sides.items()}
            | {f"{side}": found["text"] for side, found in sides.items()}
            | {
                name: sides["left"][name] | sides["right"][name].fill_null(value=False)
                for name in ("no_word", "evaluation_text")
            }
        )
        table = self._keep("no_word", table, table.filter(~pl.col("no_word")))
        table = self._keep("training_row", table, self._without(table, self._originals))
        table = self._keep("evaluation_text", table, table.filter(~pl.col("evaluation_text")))
        news = self._without(table.unique(_KEY, keep="first", maintain_order=True), self.kept)
        table = self._keep("duplicate", table, news)
        table = self._keep("over_limit", table, table.head(self._limit - len(self.kept)))
        self.kept = pl.concat([self.kept, table.select(_KEY)])
        named = [
            table.select(pl.col(f"{side}_id").alias("text_id"), pl.col(side).alias("text")).drop_nulls()
            for side in sides
        ]
        self.texts = pl.concat([self.texts, *named]).unique(["text_id", "text"], maintain_order=True)

    def _keep(self, reason: str, before: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
        self.dropped[reason] += len(before) - len(kept)
        return kept

    def _judged(self, texts: pl.Series) -> pl.DataFrame:
        """The distinct texts looked at once, then all in order: text_id, text, no_word, evaluation_text."""
        given = normalise(texts).alias("text")
        found = given.drop_nulls().unique()
        bare = found.str.replace_all(self._mask, "", literal=True)
        judged = pl.DataFrame(
            {
                "text_id": ids(found),
                "text": found,
                "no_word": ~bare.str.contains(r"[\p{L}\p{N}]"),
                "evaluation_text": self._held_out.has(found),
            }
        )
        return given.to_frame().join(judged, on="text", how="left", maintain_order="left")

    @staticmethod
    def _without(table: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
        return table.join(others, on=_KEY, how="anti", nulls_equal=True, maintain_order="left")
