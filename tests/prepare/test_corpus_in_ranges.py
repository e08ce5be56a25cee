"""A corpus that spans many ranges of ids, beside a plain account of what it should be."""

import random

import polars as pl
import pytest
from built_corpus import build, source

from pipeline.data.common.files import tables
from pipeline.data.common.texts import fold, in_role, text_ids
from pipeline.params.corpus import Corpus
from pipeline.prepare import sampling

PARAMS = Corpus.model_validate({"sources": [{"kind": "wordnet"}], "dev_fraction": 0.2})
HELD_OUT = fold(pl.Series([f"the text {number} is here" for number in range(0, 900, 90)]))


def given() -> list[dict]:
    """Sources that repeat each other and themselves, in two roles, one of them with a limit."""
    chosen = random.Random(0)
    texts = [f"The text {number} is here{'!' * (number % 2)}" for number in range(900)]
    alike = [text.upper() for text in texts[:300]]
    return [
        {"texts": chosen.choices(texts, k=700), "name": "a"},
        {"texts": chosen.choices(texts, k=500) + alike, "name": "b", "limit": 200},
        {"texts": chosen.choices(texts, k=400) + ["too short"] * 9, "name": "q", "role": "query"},
        {"texts": chosen.choices(texts, k=900) + [""] * 5, "name": "c"},
    ]


def expected() -> tuple[dict[int, tuple], dict[str, dict[str, int]]]:
    """text_id -> text, role, source, split, row; and the counts of each source, as plain loops give them."""
    kept: dict[int, tuple] = {}
    counts: dict[str, dict[str, int]] = {}
    held_out = set(HELD_OUT)
    for one in given():
        role, told = one.get("role", "text"), counts.setdefault(one["name"], {})
        own: dict[int, tuple] = {}
        seen = set()
        for row, text in enumerate(one["texts"], start=1):
            [number] = in_role(text_ids([text]), role).tolist()
            known = {
                "empty": not text,
                "too_few_words": len(text.split()) < 3,
                "duplicate": text in seen,
                "duplicate_of_earlier_source": number in kept,
                "evaluation_text": fold(pl.Series([text]))[0] in held_out,
            }
            reason = next((name for name, holds in known.items() if holds), None)
            seen.add(text)
            if reason:
                told[reason] = told.get(reason, 0) + 1
            else:
                own[number] = (text, role, one["name"], row)
        ranks = sampling.ranks(pl.Series([*own], dtype=pl.UInt64), "limit")
        lowest = [number for _, number in sorted(zip(ranks.tolist(), own, strict=True))]
        if surplus := lowest[one.get("limit", len(own)) :]:
            told["over_limit"] = len(surplus)
        kept |= {number: told for number, told in own.items() if number not in surplus}
    is_dev = dict(zip(kept, sampling.share(pl.Series([*kept], dtype=pl.UInt64), 0.2, "dev"), strict=True))
    folded = dict(zip(kept, fold(pl.Series([text for text, *_ in kept.values()])), strict=True))
    dev = {folded[number] for number in kept if is_dev[number]}
    for number in [number for number in kept if not is_dev[number] and folded[number] in dev]:
        told = counts[kept.pop(number)[2]]
        told["dev_text"] = told.get("dev_text", 0) + 1
    splits = {True: "dev", False: "train"}
    return {number: (*kept[number][:3], splits[is_dev[number]], kept[number][3]) for number in kept}, counts


@pytest.mark.parametrize(("rows", "at_a_time"), [(1 << 17, 1000), (40, 1000), (40, 7)])
def test_however_many_texts_are_in_memory_the_corpus_is_the_same(monkeypatch, rows, at_a_time):
    monkeypatch.setattr(tables, "RANGE_ROWS", rows)
    assert (len(tables.ranges(2000)) > 40) == (rows == 40)
    sources = [source(*one.pop("texts"), at_a_time=at_a_time, **one) for one in given()]
    table, reports = build(sources, PARAMS, HELD_OUT)
    texts, counts = expected()
    columns = ("text", "role", "source", "split", "row")
    assert dict(zip(table["text_id"], table.select(columns).iter_rows(), strict=True)) == texts
    assert table["text_id"].is_sorted()
    assert {report.source: report.dropped for report in reports} == counts
    assert all(report.rows_in == report.rows_out + sum(report.dropped.values()) for report in reports)
    reasons = {reason for told in counts.values() for reason in told}
    assert reasons >= {
        "duplicate",
        "duplicate_of_earlier_source",
        "evaluation_text",
        "over_limit",
        "dev_text",
    }


@pytest.mark.parametrize("at_a_time", [1, 2, 3, 5, 100])
def test_texts_that_are_read_apart_are_joined_as_if_they_were_not(at_a_time):
    rows = ["a b c", "d e f", "", "g h i", "j k l", "m n o", "", "", "p q r", "s t u", "v w x", "y z a"]
    split = {"lengths": (7, 5), "files": ("x", "y"), "joined": 2}
    table, [report] = build([source(*rows, at_a_time=at_a_time, **split)], PARAMS)
    found = sorted(table.select("text", "file", "row").iter_rows())
    assert found == [
        ("a b c d e f", "x", 1),
        ("g h i j k l", "x", 4),
        ("m n o", "x", 6),
        ("p q r s t u", "y", 2),
        ("v w x y z a", "y", 4),
    ]
    assert report.dropped == {"empty": 3, "joined_to_another": 4}


def test_the_highest_rank_within_a_limit_is_that_of_a_sort():
    ids = pl.Series(text_ids(map(str, range(5000))))
    ranks = sorted(sampling.ranks(ids, "limit").tolist())
    for limit in (1, 2, 77, 4999):
        parts = [ids[:3000], ids[3000:]]
        assert sampling.rank_of_limit(lambda parts=parts: parts, limit, "limit") == ranks[limit - 1]
