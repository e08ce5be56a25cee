"""Texts that an augmenter made: which of them are new, and worth a place beside their parents."""

from collections import Counter
from dataclasses import dataclass

import polars as pl

from pipeline.data.common.texts import AUGMENTED_SCHEMA, WORD, fold
from pipeline.params.gates import TextGates
from pipeline.prepare.shared.cleaning import check_ids, ids, normalise, say_loss

ROWS_AT_A_TIME = 65_536
"""Rows whose words are in memory together."""
LANGUAGE_WORDS = 5
"""Shorter texts may well do without stop words."""
STOP_WORDS = 0.15
"""Least share of stop words in a longer text: three in four sentences have three times that."""
NOT_ENGLISH_ALONE = {"con", "de", "per", "un"}
"""Of scikit-learn's stop words those that are more frequent in other languages."""


@dataclass(frozen=True)
class Derived:
    """What is left of an augmenter's texts."""

    texts: pl.DataFrame
    """`texts.AUGMENTED_SCHEMA`."""
    dropped: dict[str, int]
    """Rows by the first reason that speaks against them."""
    novelty: float | None
    """Mean over the kept texts of the share of the parent's different words that are gone; None without
    texts."""


def new_texts(made: pl.DataFrame, corpus: pl.DataFrame, method: str, gates: TextGates) -> Derived:
    """Clean an augmenter's texts, and drop those that are not new or do not pass the gates.

    Reasons, in this order: `empty`, `unchanged` (but for case, accents and punctuation), `too_short`,
    `too_long`, `length_ratio`, `language`, `kept_tokens` and `dev_text` (likewise), then `corpus_text` (of
    any split) and `duplicate` (of an earlier row of this method). The stage `gate` drops texts of evaluation
    tasks, so a new task does not rerun this one.

    Args:
        made: columns `parent_id` and `text`, in an order that does not depend on chance.
        corpus: the texts of all splits, `texts.CORPUS_SCHEMA`.
        method: the augmenter's name.
        gates: what a text must be beside its parent.

    Raises:
        ValueError: a parent is no corpus text.
        UserError: two different texts have one text_id.
    """
    dropped: Counter[str] = Counter()
    reason = _reason(gates, corpus)
    parts = [_compared(made.clear(), corpus)]
    for part in made.iter_slices(ROWS_AT_A_TIME):
        judged = _compared(part, corpus).with_columns(reason.alias("reason"))
        reasons = judged["reason"].drop_nulls().value_counts()
        dropped.update(dict(reasons.iter_rows()))
        parts.append(judged.filter(pl.col("reason").is_null()).drop("reason"))
    table = pl.concat([part.select("text_id", "parent_id", "text", "role", "changed") for part in parts])
    known = corpus.select("text_id", "text").filter(pl.col("text_id").is_in(table["text_id"].implode()))
    is_known = pl.col("text_id").is_in(known["text_id"].implode())
    twins = table.filter(is_known | pl.col("text_id").is_duplicated())
    check_ids(pl.concat([known, twins.select("text_id", "text")]))

    def keep(name: str, kept: pl.DataFrame) -> pl.DataFrame:
        dropped[name] += len(table) - len(kept)
        return kept

    table = keep("corpus_text", table.filter(~is_known))
    table = keep("duplicate", table.unique("text_id", keep="first", maintain_order=True))
    say_loss(method, len(made), dropped)
    changed = float(table["changed"].to_numpy().mean()) if len(table) else None
    return Derived(
        table.with_columns(method=pl.lit(method)).select(list(AUGMENTED_SCHEMA)),
        {name: count for name, count in dropped.items() if count},
        changed,
    )


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


def _reason(gates: TextGates, corpus: pl.DataFrame) -> pl.Expr:
    """The first reason to drop a row of `_compared`; null where there is none."""
    words = pl.col("text").str.count_matches(WORD)
    counts = corpus.select(words.min().alias("least"), words.max().alias("most"))
    low, high = gates.length_ratio
    ratio = pl.col("text").str.len_chars() / pl.col("parent").str.len_chars()
    faults = {
        "empty": pl.col("text") == "",
        "unchanged": pl.col("folded") == pl.col("before"),
        "too_short": words < (gates.min_words or counts["least"][0] or 0),
        "too_long": words > (gates.max_words or counts["most"][0] or 0),
        "length_ratio": ~ratio.is_between(low, high),
        "language": _foreign() if gates.language else pl.lit(value=False),
        # Shares such as 1 - 4 / 5 are not exact.
        "kept_tokens": 1 - pl.col("changed") < gates.kept_tokens - 1e-9,
        "dev_text": pl.col("folded").is_in(fold(corpus.filter(pl.col("split") == "dev")["text"]).implode()),
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
