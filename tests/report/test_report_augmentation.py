import re
from dataclasses import replace

import polars as pl
import pytest
from sample_report import SAMPLE, sample_report

from pipeline.data.common.texts import SAMPLE_SCHEMA
from pipeline.report.augmentation import became, changed, views
from pipeline.report.inputs import AugmentMetrics, GateMetrics
from pipeline.report.page import render

AUGMENT = AugmentMetrics(
    texts_in=100,
    left_alone={"unsure": 3, "other_language": 4, "gloom": 5},
    made=200,
    dropped={"unchanged": 30, "empty": 20, "sorcery": 1},
    novelty=0.25,
)
GATE = GateMetrics(
    rows_out=120, dropped={"too_different": 29}, similarity={"mean_kept": 0.8, "p5": 0.4, "p95": 0.97}
)


def test_what_became_of_the_texts_adds_up():
    bare = AugmentMetrics(texts_in=0, made=0), GateMetrics(rows_out=0)
    found = became({"one": AUGMENT, "two": bare[0]}, {"one": GATE, "two": bare[1]})
    assert found.models == ("one", "two")
    assert [(name, *values) for name, _, values in found.rows] == [
        ("source texts", "100", "0"),
        ("left alone: other language", "4", "0"),
        ("left alone: unsure", "3", "0"),
        ("left alone: gloom", "5", "0"),
        ("texts made", "200", "0"),
        ("dropped: empty", "20", "0"),
        ("dropped: unchanged", "30", "0"),
        ("dropped: too different", "29", "0"),
        ("dropped: sorcery", "1", "0"),
        ("texts kept", "120", "0"),
        ("share kept", "60.0%", "–"),
        ("texts per source text", "1.20", "–"),
        ("novelty", "25.0%", "–"),
        ("teacher's similarity", "0.800", "–"),
        ("range of similarities", "0.400 to 0.970", "–"),
    ]


@pytest.mark.parametrize(
    ("source", "made", "left", "right"),
    [
        ("a big dog", "a large dog", "a [big] dog", "a [large] dog"),
        ("a big dog", "a dog", "a [big] dog", "a dog"),
        ("a dog", "one very big dog", "[a] dog", "[one very big] dog"),
        ("same", "same", "same", "same"),
        ("all of it", "is new", "[all of it]", "[is new]"),
        ("a a b", "b a a", "a a [b]", "[b] a a"),
        ("我有一只猫。", "我有一条狗。", "我有一[只猫。]", "我有一[条狗。]"),
        ("แมว dog", "แมว cat", "แมว [dog]", "แมว [cat]"),
    ],
)
def test_changed_words_are_marked(source, made, left, right):
    def shown(segments):
        return "".join(f"[{words}]" if new else words for words, new in segments)

    assert tuple(map(shown, changed(source, made))) == (left, right)


def test_pairs_are_shown_with_their_fate():
    rows = [("a b", "a c", 0.25, "too_different"), ("a b", "a d", None, None)]
    sample = pl.DataFrame(rows, schema=SAMPLE_SCHEMA, orient="row")
    [view] = views({"wordnet": sample, "none": sample.clear()})
    assert [(pair.similarity, pair.fate) for pair in view.pairs] == [
        ("0.250", "dropped: too different"),
        ("–", "kept"),
    ]


@pytest.mark.parametrize(("similarities", "ordered"), [((0.25, 0.5), True), ((None, None), False)])
def test_an_order_is_told_where_the_teacher_has_compared(similarities, ordered):
    rows = [("a b", "a c", similarity, None) for similarity in similarities]
    shown = tuple(views({"wordnet": pl.DataFrame(rows, schema=SAMPLE_SCHEMA, orient="row")}))
    page = render(replace(sample_report(), pairs=shown))
    assert ("from the least to the most similar" in page) == ordered


def test_the_section_shows_counts_pairs_and_escapes_texts():
    page = render(sample_report())
    section = page[page.index('aria-labelledby="augmentation"') :]
    section = section[: section.index("</section>")]
    assert re.search(r"dropped: unchanged<small>[^<]*</small></th><td>1,615</td>", section)
    assert re.search(r"texts kept<small>[^<]*</small></th><td>18,211</td>", section)
    assert "<ins>&lt;img src=x&gt;</ins> &amp; <ins>&#34;cited&#34;</ins> text" in section
    assert "<img" not in section
    rows = pl.read_parquet(SAMPLE / "samples/wordnet.parquet")
    assert section.count('dir="auto"') == 2 * len(rows)
    assert '<a href="#augmentation">' in page


def test_without_a_method_there_is_no_section():
    page = render(replace(sample_report(), augmented=became({}, {}), pairs=()))
    assert 'id="augmentation"' not in page
    assert 'href="#augmentation"' not in page
