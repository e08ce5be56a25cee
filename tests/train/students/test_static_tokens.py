"""`init.tokens`: a static student with only the tokens that its texts have most."""

import numpy as np
import pytest
import torch
from refusals import refuses
from small_students import TEXTS, own_vectors, static_block
from test_static_words import check_saved, table_of
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from pipeline.train.students.kinds import static
from pipeline.train.students.shared.corpus_words import frequent_tokens, with_tokens

SENTENCES = [*TEXTS, "the cats sat on the mats", "a cat sings on that mat", "there the bats rest"]
TRAINED = {
    "wordpiece": lambda: (
        Tokenizer(models.WordPiece(unk_token="[UNK]")),
        trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[UNK]"]),
    ),
    "bpe": lambda: (Tokenizer(models.BPE()), trainers.BpeTrainer(vocab_size=90)),
    "unigram": lambda: (
        Tokenizer(models.Unigram()),
        trainers.UnigramTrainer(vocab_size=60, unk_token="<unk>", special_tokens=["<unk>"]),
    ),
}


def trained(kind: str) -> tuple[Tokenizer, np.ndarray]:
    """A tokenizer of a kind, and how often SENTENCES have each of its tokens."""
    tokenizer, trainer = TRAINED[kind]()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(SENTENCES, trainer)
    ids = [token for encoding in tokenizer.encode_batch(SENTENCES) for token in encoding.ids]
    return tokenizer, np.bincount(ids, minlength=tokenizer.get_vocab_size())


@pytest.mark.parametrize("kind", TRAINED)
def test_texts_are_made_of_the_tokens_that_are_left(kind):
    tokenizer, counts = trained(kind)
    most = len(counts) - 12
    kept = frequent_tokens(tokenizer, counts, most)
    assert len(kept) <= most
    cut = with_tokens(tokenizer, kept)
    assert cut.get_vocab_size() == len(kept)
    for before, after in zip(tokenizer.encode_batch(SENTENCES), cut.encode_batch(SENTENCES), strict=True):
        letters = ["".join(e.tokens).replace("##", "") for e in (before, after)]
        assert letters[0] == letters[1]
        if set(before.ids) <= set(kept):
            assert before.tokens == after.tokens
    assert any(set(encoding.ids) <= set(kept) for encoding in tokenizer.encode_batch(SENTENCES))


@pytest.mark.parametrize("kind", TRAINED)
def test_the_most_frequent_tokens_and_all_letters_are_kept(kind):
    tokenizer, counts = trained(kind)
    kept = frequent_tokens(tokenizer, counts, len(counts) - 12)
    names = [tokenizer.id_to_token(token) for token in range(len(counts))]
    letters = [token for token, name in enumerate(names) if len(name.removeprefix("##")) == 1]
    assert set(letters) <= set(kept)
    left_out = set(range(len(counts))) - set(kept)
    if kind != "bpe":  # whose tokens stand on rarer ones
        words = set(kept) - set(letters) - {names.index(n) for n in names if n in ("[UNK]", "<unk>")}
        assert min(counts[list(words)]) >= max(counts[list(left_out)])


def test_tokens_too_few_for_the_last_pca():
    tokenizer, counts = trained("unigram")
    block = static_block(dim=30, init={"tokens": 30})
    table = np.zeros((len(counts), 30), np.float32)
    with refuses("init.tokens", " 30,", " 31"):
        static.Static(block, table, tokenizer).keep_tokens([SENTENCES])
    without = static_block(dim=30, init={"tokens": 30}, train={"regularise": None})
    static.Static(without, table, tokenizer).keep_tokens([SENTENCES])


def test_a_student_starts_with_the_rows_of_the_tokens_that_it_keeps(parts, tmp_path):
    whole, student = (static.build(static_block(init={"words": 20, "min_count": 1}), parts) for _ in range(2))
    for each in (whole, student):
        each.learn_words([TEXTS])
    size = len(table_of(whole)) - 8
    student.params = static_block(init={"tokens": size})
    student.keep_tokens([TEXTS[:2], TEXTS[2:]])
    assert len(table_of(student)) == size
    same = [text for text in TEXTS if len(student.tokenise([text]).ids) == len(whole.tokenise([text]).ids)]
    assert 1 < len(same) < len(TEXTS)
    np.testing.assert_allclose(own_vectors(student, same), own_vectors(whole, same), atol=1e-6)
    check_saved(student, tmp_path / "saved", [*TEXTS, "zyzzyva", "漢", ""])


def test_words_are_counted_as_the_tokens_that_they_became(parts):
    student = static.build(static_block(init={"words": 5, "min_count": 1, "tokens": 90}), parts)
    texts = ["zyzzyva zyzzyva zyzzyva"] * 50 + TEXTS
    student.learn_words([texts])
    token = student.tokenise(["zyzzyva"]).ids
    with torch.no_grad():
        student.module["table"].weight[token[0]] = torch.arange(8.0)
    student.keep_tokens([texts])
    assert len(student.tokenise(["zyzzyva"]).ids) == 1
    np.testing.assert_allclose(own_vectors(student, ["zyzzyva"]), np.arange(8.0)[None])


def test_enough_tokens_change_nothing_and_no_text_is_read(parts):
    student = static.build(static_block(init={"tokens": 100_000}), parts)
    student.keep_tokens(pytest.fail("read") for _ in range(1))
    np.testing.assert_array_equal(table_of(student), table_of(static.build(static_block(), parts)))


def test_a_bpe_tokenizer_keeps_the_letters_that_end_words():
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    texts = ["jazz quiz biz", *SENTENCES * 5]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=90, end_of_word_suffix="</w>"))
    ids = [token for encoding in tokenizer.encode_batch(SENTENCES) for token in encoding.ids]
    counts = np.bincount(ids, minlength=tokenizer.get_vocab_size())
    cut = with_tokens(tokenizer, frequent_tokens(tokenizer, counts, len(counts) - 10))
    assert "".join(cut.encode("jazz quiz biz").tokens) == "jazz</w>quiz</w>biz</w>"


def test_the_unknown_token_stays_the_unknown_token():
    words = [("rare", -9.0), ("odd", -9.0), ("a", -2.0), ("<unk>", 0.0), ("b", -2.0), ("ab", -1.0)]
    tokenizer = Tokenizer(models.Unigram(words, unk_id=3))
    cut = with_tokens(tokenizer, frequent_tokens(tokenizer, np.array([0, 0, 1, 0, 1, 1]), 4))
    assert cut.encode("abxb").tokens == ["ab", "x", "b"]
    assert cut.encode("x").ids == [cut.token_to_id("<unk>")]
    plain = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##a": 2, "##aa": 3}, unk_token="[UNK]"))
    assert with_tokens(plain, frequent_tokens(plain, np.array([0, 1, 1, 0]), 3)).encode("z").ids == [0]


def test_bytes_stay():
    pieces = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -9.0) for byte in range(256)), ("a", -1.0), ("aa", -1.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    counts = np.zeros(len(pieces), int)
    cut = with_tokens(tokenizer, frequent_tokens(tokenizer, counts, 258))
    assert cut.get_vocab_size() == 258
    assert cut.encode("aé").tokens == ["a", "<0xC3>", "<0xA9>"]


def test_fewer_tokens_than_letters():
    tokenizer, counts = trained("wordpiece")
    with refuses("init.tokens", " 3;", "letters", "raise it"):
        frequent_tokens(tokenizer, counts, 3)
