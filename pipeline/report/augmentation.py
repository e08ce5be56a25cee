"""What augmentation did: how many texts each method made, what was dropped and why, and some of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

import polars as pl

from pipeline.data.common.texts import WORD
from pipeline.report.inputs import AugmentMetrics, GateMetrics
from pipeline.report.numbers import NOTHING, percent, score
from pipeline.report.sections import Measures

REASONS = {
    "empty": "nothing but blanks",
    "unchanged": "differs from the source text only in case, accents or punctuation",
    "too_short": "too few words",
    "too_long": "too many words",
    "length_ratio": "much longer or shorter than the source text",
    "language": "another language",
    "kept_tokens": "too few words of the source text are left",
    "evaluation_text": "a text of an evaluation task",
    "dev_text": "differs from a dev text of the corpus only in case, accents or punctuation",
    "corpus_text": "already in the corpus",
    "duplicate": "already made by this method",
    "too_different": "the teacher places it too far from the source text",
    "too_similar": "the teacher places it too near the source text",
}

LEFT_ALONE = {
    "code": "source texts that look like code",
    "other_language": "source texts in another language than English",
    "unsure": "source texts that are not surely English",
}

Segments = tuple[tuple[str, bool], ...]
"""A text in pieces, each with whether it is changed."""


@dataclass(frozen=True)
class Pair:
    """A source text and the new text that was made from it."""

    source: Segments
    made: Segments
    similarity: str
    fate: str


@dataclass(frozen=True)
class MethodView:
    """Some pairs of one method."""

    method: str
    pairs: tuple[Pair, ...]
    ordered: bool
    """Whether the teacher's gate has compared them: the least similar then come first."""


def became(augment: Mapping[str, AugmentMetrics], gates: Mapping[str, GateMetrics]) -> Measures:
    """What became of the texts, one column per method; both mappings are by method."""
    rows: list[tuple[str, str, list[str]]] = [
        ("source texts", "", [f"{made.texts_in:,}" for made in augment.values()]),
    ]
    found = [reason for made in augment.values() for reason in made.left_alone]
    for reason in sorted(set(found), key=[*LEFT_ALONE, *found].index):
        counts = [made.left_alone.get(reason, 0) for made in augment.values()]
        rows.append((f"left alone: {_words(reason)}", LEFT_ALONE.get(reason, ""), [f"{n:,}" for n in counts]))
    rows.append(("texts made", "", [f"{made.made:,}" for made in augment.values()]))
    for reason in dict.fromkeys(reason for method in augment for reason in _dropped(method, augment, gates)):
        counts = [_dropped(method, augment, gates).get(reason, 0) for method in augment]
        rows.append((f"dropped: {_words(reason)}", REASONS.get(reason, ""), [f"{n:,}" for n in counts]))
    kept = {method: gates[method].rows_out for method in augment}
    rows += [
        ("texts kept", "what students are trained on", [f"{number:,}" for number in kept.values()]),
        (
            "share kept",
            "of the texts that were made",
            [_share(kept[n], made.made) for n, made in augment.items()],
        ),
        (
            "texts per source text",
            "how many are kept",
            [_rate(kept[n], made.texts_in) for n, made in augment.items()],
        ),
        (
            "novelty",
            "share of the source text's words that the new text lacks, on average, before the teacher's gate",
            [_percent(made.novelty) for made in augment.values()],
        ),
        (
            "teacher's similarity",
            "mean cosine of a kept text to its source text",
            [score(gates[method].similarity.get("mean_kept")) for method in augment],
        ),
        (
            "range of similarities",
            "5th to 95th percentile of the cosines, before the teacher's gate",
            [_range(gates[method].similarity) for method in augment],
        ),
    ]
    return Measures(tuple(augment), tuple((name, meaning, tuple(values)) for name, meaning, values in rows))


def views(samples: Mapping[str, pl.DataFrame]) -> list[MethodView]:
    """The samples as shown; `samples` by method, with the columns of `texts.SAMPLE_SCHEMA`."""
    found = [
        MethodView(method, tuple(_pairs(sample)), bool(sample["similarity"].count()))
        for method, sample in samples.items()
    ]
    return [view for view in found if view.pairs]


def _pairs(sample: pl.DataFrame) -> Iterator[Pair]:
    for parent, text, similarity, dropped in sample.iter_rows():
        source, made = changed(parent, text)
        yield Pair(source, made, score(similarity), f"dropped: {_words(dropped)}" if dropped else "kept")


def changed(source: str, made: str) -> tuple[Segments, Segments]:
    """Both texts in pieces of whole words, with the words that only one of them has marked as changed.

    Blanks before a piece are an unmarked piece of their own.
    """
    words, others = _words_of(source), _words_of(made)
    bare, bare_others = ([word.lstrip(" ") for word in of] for of in (words, others))
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for kind, start, stop, from_, to in SequenceMatcher(
        None, bare, bare_others, autojunk=False
    ).get_opcodes():
        for side, piece in ((left, "".join(words[start:stop])), (right, "".join(others[from_:to]))):
            text = piece.lstrip(" ")
            side += [(piece.removesuffix(text), False), (text, kind != "equal")]
    return tuple(part for part in left if part[0]), tuple(part for part in right if part[0])


def _words_of(text: str) -> list[str]:
    """Each with the blanks before it."""
    return pl.Series([text]).str.extract_all(f" *(?:{WORD})").item().to_list()


def _dropped(
    method: str, augment: Mapping[str, AugmentMetrics], gates: Mapping[str, GateMetrics]
) -> dict[str, int]:
    """How many rows were dropped by reason, in the order of the checks."""
    found = {**augment[method].dropped, **gates[method].dropped}
    known = {reason: found[reason] for reason in REASONS if reason in found}
    return known | found


def _words(key: str) -> str:
    return key.replace("_", " ")


def _share(part: int, whole: int) -> str:
    return percent(part / whole) if whole else NOTHING


def _rate(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else NOTHING


def _percent(value: float | None) -> str:
    return NOTHING if value is None else percent(value)


def _range(similarity: Mapping[str, float | None]) -> str:
    low, high = similarity.get("p5"), similarity.get("p95")
    return NOTHING if low is None or high is None else f"{score(low)} to {score(high)}"
