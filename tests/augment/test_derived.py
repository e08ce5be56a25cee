import unicodedata

import numpy as np
import polars as pl
import pytest
from made_texts import new_texts
from refusals import refuses

from pipeline.augment.method import derived
from pipeline.core import memory
from pipeline.data.common.files import tables
from pipeline.data.common.texts import AUGMENTED_SCHEMA, CORPUS_SCHEMA, LABELLED_SCHEMA, in_role, text_id
from pipeline.params.gates import TextGates

PARENT = "A large dog chased the small cat."
DEV = "A hound chased the small cat."
CORPUS = [PARENT, "one two", "a b c d e f g h i j", "Le chien court dans le jardin.", DEV]


def judged(made, corpus=CORPUS, **gates):
    """What `new_texts` makes of pairs of a parent and a text."""
    rows = {"parent_id": [text_id(parent) for parent, _ in made], "text": [text for _, text in made]}
    return new_texts(
        pl.DataFrame(rows, schema={"parent_id": pl.UInt64, "text": pl.String}),
        frame(corpus).with_columns(split=pl.Series(["dev" if text == DEV else "train" for text in corpus])),
        "wordnet",
        TextGates(**gates),
    )


def frame(rows):
    columns = {"text_id": [text_id(text) for text in rows], "text": list(rows), "role": "text"}
    return pl.DataFrame(columns, schema=LABELLED_SCHEMA)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("A big dog chased the small cat.", None),
        ("", "empty"),
        (" \u200b \n", "empty"),
        (None, "empty"),
        (PARENT, "unchanged"),
        ("a LARGE dóg chased, the small cat", "unchanged"),
        ("dog", "too_short"),
        ("a large dog chased a cat or a bird or two", "too_long"),
        ("a dog chased", "length_ratio"),
        ("a large dog chased the smallest feline animal of this very long street", "length_ratio"),
        ("An enormous hound pursued tiny felines.", "kept_tokens"),
        ("A hound chased, the small cat", "dev_text"),
        (CORPUS[2], "corpus_text"),
    ],
)
def test_a_text_is_dropped_for_the_first_reason_that_speaks_against_it(text, reason):
    bounds = {"length_ratio": (0.3, 100.0)} if reason in ("too_short", "too_long", "corpus_text") else {}
    if reason == "corpus_text":
        bounds["kept_tokens"] = 0.0
    elif reason == "length_ratio":
        bounds["max_words"] = 100
    made = judged([(PARENT, text)], **bounds)
    assert made.dropped == ({reason: 1} if reason else {})
    assert made.texts["text"].to_list() == ([] if reason else [text])


def test_what_is_kept_is_clean_and_knows_where_it_is_from():
    made = judged([(PARENT, "  a\tbig\u00ad dog chased the small cat. "), ("one two", "one three")])
    assert dict(made.texts.schema) == AUGMENTED_SCHEMA
    assert made.texts.sort("text").rows() == [
        (
            text_id("a big dog chased the small cat."),
            "a big dog chased the small cat.",
            "text",
            text_id(PARENT),
            "wordnet",
        ),
        (text_id("one three"), "one three", "text", text_id("one two"), "wordnet"),
    ]


def test_a_text_has_the_role_of_its_parent_and_is_another_in_each_role():
    roles = ["text", "query", "document"]
    ids = in_role(np.array([text_id(PARENT)] * 3, np.uint64), roles)
    corpus = pl.DataFrame(
        {"text_id": ids, "text": [PARENT] * 3, "role": roles, "source": ["a"] * 3, "split": ["train"] * 3},
        schema=CORPUS_SCHEMA,
    )
    text = "a big dog chased the small cat."
    made = pl.DataFrame(
        {"parent_id": [*ids, ids[1]], "text": [text] * 4}, schema_overrides={"parent_id": pl.UInt64}
    )
    found = new_texts(made, corpus, "wordnet", TextGates())
    own = in_role(np.array([text_id(text)] * 3, np.uint64), roles)
    assert found.texts.select("text_id", "role", "parent_id").rows() == sorted(
        zip(own.tolist(), roles, ids.tolist(), strict=True)
    )
    assert found.dropped == {"duplicate": 1}


def test_of_equal_texts_the_first_is_kept():
    made = judged(
        [("one two", "one ten"), (PARENT, "one ten"), (PARENT, "one ten")],
        kept_tokens=0.0,
        length_ratio=(0.1, 10.0),
    )
    assert made.texts["parent_id"].to_list() == [text_id("one two")]
    assert made.dropped == {"duplicate": 2}


def tokens(text):
    decomposed = unicodedata.normalize("NFKD", text.upper().lower())
    kept = "".join(c if c.isalnum() else " " for c in decomposed if unicodedata.category(c) != "Mn")
    return set(kept.split())


def test_shares_of_tokens_and_ratios_are_those_of_plain_python():
    texts = [
        "A large dog chased the small Cát",
        "The cat, the cat, the cat: a dog.",
        "Small dogs chase large cats at night",
        "a large large large dog chased the small cat",
    ]
    kept = {text: len(tokens(PARENT) & tokens(text)) / len(tokens(PARENT)) for text in texts}
    assert sorted(kept.values()) == pytest.approx([2 / 7, 4 / 7, 1, 1])
    for least in (0.0, 2 / 7, 0.3, 4 / 7, 0.6, 1.0):
        made = judged([(PARENT, text) for text in texts[1:]], kept_tokens=least)
        assert set(made.texts["text"]) == {text for text in texts[1:] if kept[text] >= least}
        changed = [1 - kept[text] for text in made.texts["text"]]
        assert made.novelty == pytest.approx(sum(changed) / len(changed))
    for low, high in ((0.1, 1.0), (1.0, 3.0), (1.1, 1.2)):
        made = judged([(PARENT, text) for text in texts[1:]], length_ratio=(low, high))
        fits = {text for text in texts[1:] if low <= len(text) / len(PARENT) <= high}
        assert set(made.texts["text"]) == fits
    assert judged([(PARENT, PARENT)]).novelty is None


def test_without_bounds_a_text_has_as_many_words_as_the_corpus_have():
    pairs = [(PARENT, "one"), (PARENT, "x " * 10 + "y"), (PARENT, "x y"), (PARENT, "1 2 3 4 5 6 7 8 9 x")]
    wide = {"kept_tokens": 0.0, "length_ratio": (0.01, 100.0)}
    made = judged(pairs, **wide)
    assert made.texts["text"].to_list() == ["x y", "1 2 3 4 5 6 7 8 9 x"]
    assert made.dropped == {"too_short": 1, "too_long": 1}
    assert judged(pairs, corpus=[PARENT, "one two three"], **wide).dropped == {"too_short": 2, "too_long": 2}


def test_a_share_at_the_bound_passes():
    parent = "one two three four five"
    made = judged([(parent, "one 2 3 4 five5"), (parent, "1 2 3 4 5 6 7")], corpus=[parent, "1 " * 9])
    assert made.texts["text"].to_list() == ["one 2 3 4 five5"]
    assert made.dropped == {"kept_tokens": 1}


def test_where_a_script_has_no_spaces_the_share_is_of_letters(capsys):
    parents = ["一只大狗追赶那只小猫。", "ฉันรักแมวตัวเล็ก"]
    close = ["一条大狗在追那只小猫。", "ฉันชอบแมวตัวเล็ก"]
    pairs = [*zip(parents, close, strict=True), (parents[0], "我们明天坐火车去北京")]
    made = judged(pairs, corpus=[*parents, "a b c d e f g h i j k l m n o p q"])
    assert set(made.texts["text"]) == set(close)
    assert made.dropped == {"kept_tokens": 1}
    assert capsys.readouterr().err == ""
    judged(pairs[2:], corpus=parents)
    assert capsys.readouterr().err == "wordnet: 1 of 1 texts are dropped as kept_tokens\n"


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("a meadowlark of western North America", True),
        ("the man who was not there", True),
        ("brown bears eat fish", True),
        ("der Hund läuft mit der Katze durch den Garten", False),
        ("le chat est assis sur le tapis de la maison", False),
        ("el gato se sienta en la alfombra de la casa", False),
        ("собака бежит", False),
        ("犬が猫を追う", False),
        ("1 2 3", True),
    ],
)
def test_english(text, english):
    wide = {"kept_tokens": 0.0, "length_ratio": (0.01, 100.0), "min_words": 1}
    assert judged([(PARENT, text)], language="en", **wide).dropped == ({} if english else {"language": 1})
    assert judged([(PARENT, text)], **wide).dropped == {}


def test_any_cut_into_parts_gives_the_same(monkeypatch):
    texts = [
        f"a {size} dog chased the {other} cat" for size in ("big", "tiny", "", "big") for other in "xyzx"
    ]
    pairs = [(PARENT, text) for text in texts]
    whole = judged(pairs)
    assert whole.dropped == {"duplicate": 7}
    monkeypatch.setattr(derived, "ROWS_AT_A_TIME", 3)
    parts = judged(pairs)
    assert parts.texts.equals(whole.texts)
    assert (parts.dropped, parts.novelty) == (whole.dropped, whole.novelty)


def test_two_texts_of_one_id(monkeypatch):
    same = pl.Series("text_id", [7, 7], dtype=pl.UInt64)
    monkeypatch.setattr(derived, "ids", lambda texts, roles: same.head(len(texts)))
    with refuses("text_id 7", "'one four'", "'one three'"):
        judged([("one two", "one three"), ("one two", "one four")])


def test_a_parent_that_is_no_text_of_the_corpus():
    with pytest.raises(ValueError, match=str(text_id("someone else's"))):
        judged([("someone else's", "a text")])


@pytest.mark.parametrize(
    ("gates", "named"),
    [
        ({"length_ratio": (2.0, 1.0)}, r"length_ratio .*\[2, 1\]"),
        ({"min_words": 3, "max_words": 2}, "min_words .*3.* max_words.* 2"),
    ],
)
def test_ends_in_the_wrong_order(gates, named):
    with pytest.raises(ValueError, match=named):
        TextGates(**gates)


def test_however_many_texts_are_in_memory_the_same_are_kept(monkeypatch):
    parents = [f"the large dog number {number} chased cats" for number in range(200)]
    texts = [f"the big dog number {number % 150} chased cats" for number in range(190)]
    pairs = [*zip(parents, texts, strict=False), (parents[0], parents[1]), (parents[2], texts[9])]
    whole = judged(pairs, corpus=parents, kept_tokens=0.5)
    assert whole.dropped == {"duplicate": 41, "corpus_text": 1}
    monkeypatch.setattr(tables, "RANGE_ROWS", 10)
    monkeypatch.setattr(derived, "ROWS_AT_A_TIME", 7)
    apart = judged(pairs, corpus=parents, kept_tokens=0.5)
    assert apart.texts.equals(whole.texts)
    assert (apart.dropped, apart.novelty) == (whole.dropped, pytest.approx(whole.novelty))
    monkeypatch.setattr(tables, "RANGE_ROWS", 64)
    bounds = []
    for gigabytes in (memory.DEFAULT, memory.LEAST):
        monkeypatch.setattr(memory, "_bound", gigabytes)
        bounds.append(judged(pairs, corpus=parents, kept_tokens=0.5))
        assert len(tables.ranges(200)) == 4 * tables.cuts() == (4 if gigabytes > 1 else 16)
    assert bounds[0].texts.equals(bounds[1].texts)
    assert bounds[0].novelty == bounds[1].novelty


@pytest.mark.parametrize("made", [0, 1])
def test_few_new_texts_do_not_bring_the_whole_corpus_into_memory(monkeypatch, tmp_path, made):
    parents = [f"the large dog number {number} chased cats" for number in range(200)]
    split = pl.lit("train").alias("split")
    corpus = frame(parents).with_columns(split)
    asked = []

    def within(among: tables.Range) -> pl.DataFrame:
        asked.append(corpus.select("text_id", "text").filter(tables.lies(among)))
        return asked[-1]

    monkeypatch.setattr(tables, "RANGE_ROWS", 10)
    found = derived.NewTexts(derived.look_at([corpus]), "wordnet", TextGates(kept_tokens=0), tmp_path)
    row = {"parent_id": corpus["text_id"][:made], "text": ["the big dog number 0 chased cats"][:made]}
    found.add(pl.DataFrame(row, schema={"parent_id": pl.UInt64, "text": pl.String}), corpus)
    assert sum(map(len, found.parts(within))) == made
    assert sum(map(len, asked)) == 200 * made
    assert max(map(len, asked), default=0) < 40
