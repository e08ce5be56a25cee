"""Texts that an augmenter made: which of them are new, and worth a place beside their parents."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pipeline.core import memory
from pipeline.data.common.files.tables import Range, Spool, cuts, ranges
from pipeline.data.common.texts import AUGMENTED_SCHEMA, LABELLED_SCHEMA, WORD, fold
from pipeline.params.gates import TextGates
from pipeline.prepare.shared.cleaning import check_ids, ids, normalise, say_loss

ROWS_AT_A_TIME = 65_536
"""Rows whose words are in memory together."""
COMPARED_SCHEMA = {**LABELLED_SCHEMA, "parent_id": pl.UInt64, "changed": pl.Float64}
LANGUAGE_WORDS = 5
"""Shorter texts may well do without stop words."""
STOP_WORDS = 0.15
"""Least share of stop words in a longer text: three in four sentences have three times that."""
NOT_ENGLISH_ALONE = {"con", "de", "per", "un"}
"""Of scikit-learn's stop words those that are more frequent in other languages."""


@dataclass(frozen=True)
class Known:
    """What is to be known of the corpus before a new text is judged."""

    texts: int
    """How many there are, of all splits."""
    train: int
    """Its training texts."""
    words: tuple[int, int]
    """Of the shortest and of the longest text of all splits; 0 without texts."""
    dev: pl.Series
    """The texts of the dev split, folded."""


def look_at(corpus: Iterable[pl.DataFrame]) -> Known:
    """What is to be known of a corpus, some rows at a time, `texts.CORPUS_SCHEMA`."""
    texts, train, words = 0, 0, list[int]()
    dev = [pl.Series("text", [], pl.String)]
    for part in corpus:
        counts = part["text"].str.count_matches(WORD).to_numpy()
        words = [*words, int(counts.min()), int(counts.max())]
        texts += len(part)
        train += len(part.filter(split="train"))
        dev.append(fold(part.filter(split="dev")["text"]))
    return Known(texts, train, (min(words, default=0), max(words, default=0)), pl.concat(dev))


class NewTexts:
    """An augmenter's texts, cleaned, without those that are not new or do not pass the gates.

    Reasons, in this order: `empty`, `unchanged` (but for case, accents and punctuation), `too_short`,
    `too_long`, `length_ratio`, `language`, `kept_tokens` and `dev_text` (likewise), then `corpus_text` (of
    any split) and `duplicate` (of an earlier row of this method). The stage `gate` drops texts of evaluation
    tasks, so a new task does not rerun this one.

    Args:
        known: of the corpus.
        method: the augmenter's name.
        gates: what a text must be beside its parent.
        folder: where texts lie before they are compared with each other.
    """

    def __init__(self, known: Known, method: str, gates: TextGates, folder: Path) -> None:
        self._reason, self._method = _reason(gates, known), method
        self._corpus_texts = known.texts
        self._spool = Spool(folder, COMPARED_SCHEMA)
        self._changed = 0.0
        self.made, self.rows = 0, 0
        """How many texts the augmenter made, and how many `parts` has given."""
        self._dropped: Counter[str] = Counter()

    @property
    def dropped(self) -> dict[str, int]:
        """Rows by the first reason that speaks against them."""
        return {name: count for name, count in self._dropped.items() if count}

    @property
    def novelty(self) -> float | None:
        """Mean over the kept texts of the share of the parent's different words that are gone."""
        return self._changed / self.rows if self.rows else None

    def add(self, made: pl.DataFrame, parents: pl.DataFrame) -> None:
        """Compare texts with their parents.

        Args:
            made: columns `parent_id` and `text`, in an order that does not depend on chance.
            parents: corpus texts, all parents among them.

        Raises:
            ValueError: a parent is none of these.
        """
        self.made += len(made)
        for part in made.iter_slices(memory.at_a_time(ROWS_AT_A_TIME)):
            judged = _compared(part, parents).with_columns(self._reason.alias("reason"))
            reasons = judged["reason"].drop_nulls().value_counts()
            self._dropped.update(dict(reasons.iter_rows()))
            kept = judged.filter(pl.col("reason").is_null())
            self._spool.add(kept.select(pl.col(name).cast(kind) for name, kind in COMPARED_SCHEMA.items()))

    def parts(self, corpus: Callable[[Range], pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The texts that are new, by rising id, some at a time, `texts.AUGMENTED_SCHEMA`.

        Args:
            corpus: gives `text_id` and `text` of the texts in a range of ids, of all splits.

        Raises:
            UserError: two different texts have one text_id.
        """
        chosen = ranges(max(self._spool.rows, self._corpus_texts)) if self._spool.rows else []
        changed: list[pl.Series] = []
        for number, among in enumerate(chosen, 1):
            table, known = self._spool.within(among), corpus(among)
            known = known.filter(pl.col("text_id").is_in(table["text_id"].implode()))
            is_known = pl.col("text_id").is_in(known["text_id"].implode())
            twins = table.filter(is_known | pl.col("text_id").is_duplicated())
            check_ids(pl.concat([known, twins.select("text_id", "text")]))
            new = table.filter(~is_known)
            self._dropped["corpus_text"] += len(table) - len(new)
            kept = new.unique("text_id", keep="first", maintain_order=True)
            self._dropped["duplicate"] += len(new) - len(kept)
            self.rows += len(kept)
            changed.append(kept["changed"])
            if number % cuts() == 0:  # so that the bound of memory does not change how numbers are rounded
                self._changed += float(pl.concat(changed, rechunk=True).sum())
                changed.clear()
            yield kept.with_columns(method=pl.lit(self._method)).select(list(AUGMENTED_SCHEMA))
        say_loss(self._method, self.made, self._dropped)


def _compared(made: pl.DataFrame, corpus: pl.DataFrame) -> pl.DataFrame:
    """Cleaned texts beside their parents: `folded`, both texts' different words, and the share `changed`."""
    texts = normalise(made["text"]).fill_null("")
    table = made.with_columns(texts)
    parents = corpus.filter(pl.col("text_id").is_in(table["parent_id"].implode()))
    table = table.join(
        parents.select(pl.col("text_id").alias("parent_id"), pl.col("text").alias("parent"), "role"),
        on="parent_id",
        how="left",
        maintain_order="left",
    )
    if table["parent"].null_count():
        orphan = table.filter(pl.col("parent").is_null())["parent_id"][0]
        raise ValueError(f"an augmenter gave the parent {orphan}, which is no corpus text")
    own = ids(texts, table["role"].to_numpy().astype(str))
    table = table.with_columns(own, fold(texts).alias("folded"), fold(table["parent"]).alias("before"))
    words, parent_words = (pl.col(name).str.extract_all(WORD) for name in ("folded", "before"))
    lost = parent_words.list.set_difference(words).list.len()
    return table.with_columns((lost / parent_words.list.n_unique()).alias("changed"))


def _reason(gates: TextGates, known: Known) -> pl.Expr:
    """The first reason to drop a row of `_compared`; null where there is none."""
    words = pl.col("text").str.count_matches(WORD)
    least, most = known.words
    low, high = gates.length_ratio
    ratio = pl.col("text").str.len_chars() / pl.col("parent").str.len_chars()
    faults = {
        "empty": pl.col("text") == "",
        "unchanged": pl.col("folded") == pl.col("before"),
        "too_short": words < (gates.min_words or least),
        "too_long": words > (gates.max_words or most),
        "length_ratio": ~ratio.is_between(low, high),
        "language": _foreign() if gates.language else pl.lit(value=False),
        # Shares such as 1 - 4 / 5 are not exact.
        "kept_tokens": 1 - pl.col("changed") < gates.kept_tokens - 1e-9,
        "dev_text": pl.col("folded").is_in(known.dev.implode()),
    }
    return pl.coalesce(pl.when(fault).then(pl.lit(name)) for name, fault in faults.items())


def _foreign() -> pl.Expr:
    """Whether a text is not English: by its letters and, if it is not too short, by its stop words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    stop_words = pl.Series(sorted(ENGLISH_STOP_WORDS - NOT_ENGLISH_ALONE)).implode()
    words = pl.col("folded").str.split(" ")
    share = words.list.eval(pl.element().is_in(stop_words)).list.mean()
    letters, latin = (pl.col("text").str.count_matches(script) for script in (r"\p{L}", r"\p{Latin}"))
    return (2 * latin < letters) | ((words.list.len() >= LANGUAGE_WORDS) & (share < STOP_WORDS))
