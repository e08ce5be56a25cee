import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_students import TEXTS

from pipeline.data.tokens import tokens as module
from pipeline.data.tokens.tokens import PART_TOKENS, Tokens, parts_of, tokenise
from pipeline.teacher.kinds.hashing import letter_tokenizer

LETTERS = letter_tokenizer().backend_tokenizer
Lists = list[list[int]]
SEQUENCES = st.lists(st.lists(st.integers(0, 99), max_size=5), max_size=8)


def tokens_of(lists: Lists) -> Tokens:
    offsets = np.cumsum([0, *map(len, lists)])
    return Tokens(np.array([token for one in lists for token in one], np.int32), offsets)


def lists_of(tokens: Tokens) -> Lists:
    return [
        tokens.ids[start:stop].tolist()
        for start, stop in zip(tokens.offsets, tokens.offsets[1:], strict=False)
    ]


@given(SEQUENCES, st.data())
def test_select_is_a_list_of_rows(lists, data):
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1)) if lists else st.just([]))
    selected = tokens_of(lists).select(np.array(rows, np.int64))
    assert len(selected) == len(rows)
    assert lists_of(selected) == [lists[row] for row in rows]
    assert selected.lengths.tolist() == [len(lists[row]) for row in rows]


@given(SEQUENCES)
def test_parts_are_all_sequences_in_order(lists):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", 3)
        parts = [lists_of(part) for part in tokens_of(lists).in_parts()]
    assert [one for part in parts for one in part] == lists
    assert [len(part) for part in parts[:-1]] == [3] * (len(parts) - 1)


def test_rows_go_through_in_parts_of_so_many_rows_and_tokens():
    short, long = np.full(600, 10), np.full(100, 512)
    assert [len(part) for part in parts_of(short)] == [256, 256, 88]
    parts = [*parts_of(np.concatenate([short, long]))]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(700))
    lengths = [np.concatenate([short, long])[part].sum() for part in parts]
    assert max(lengths) <= PART_TOKENS + 512


@given(st.lists(SEQUENCES, max_size=3))
def test_joined_are_the_sequences_of_all_parts_in_order(parts):
    joined = Tokens.joined([tokens_of(part) for part in parts])
    assert lists_of(joined) == [one for part in parts for one in part]
    assert joined.ids.dtype == np.int32
    assert joined.types is None


def test_joined_pairs_keep_the_types_of_their_tokens():
    parts = [Tokens(np.arange(3, dtype=np.int32), np.array([0, 3]), np.array(types, np.int8)) for types in
             ([0, 0, 1], [0, 1, 1])]  # fmt: skip
    assert Tokens.joined(parts).types.tolist() == [0, 0, 1, 0, 1, 1]


def test_parts_with_types_and_parts_without_are_not_joined():
    ids, offsets = np.arange(3, dtype=np.int32), np.array([0, 3])
    with pytest.raises(ValueError, match="types"):
        Tokens.joined([Tokens(ids, offsets), Tokens(ids, offsets, np.zeros(3, np.int8))])


@given(SEQUENCES)
def test_padded_fills_up_to_the_longest(lists):
    ids, mask = tokens_of(lists).padded(-7)
    longest = max([1, *map(len, lists)])
    assert ids.tolist() == [one + [-7] * (longest - len(one)) for one in lists]
    assert mask.tolist() == [[1] * len(one) + [0] * (longest - len(one)) for one in lists]


class Noting:
    """A tokenizer that notes how long the texts of each chunk are."""

    def __init__(self) -> None:
        self.chunks: list[list[int]] = []

    def encode_batch_fast(self, texts, *, add_special_tokens):
        self.chunks.append([len(text) for text in texts])
        return LETTERS.encode_batch_fast(texts, add_special_tokens=add_special_tokens)


@given(st.lists(st.integers(0, 50), max_size=12))
def test_chunks_are_all_texts_in_order_and_exceed_their_characters_by_one_text_at_most(lengths):
    tokenizer = Noting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_TEXTS", 4)
        patch.setattr(module, "CHUNK_CHARACTERS", 40)
        tokens = tokenise(tokenizer, ["x" * length for length in lengths], special=False)
    assert tokens.lengths.tolist() == lengths
    assert [length for chunk in tokenizer.chunks for length in chunk] == lengths
    assert all(len(chunk) <= 4 and sum(chunk[1:]) < 40 for chunk in tokenizer.chunks)


@pytest.mark.parametrize("special", [True, False])
def test_tokenise_in_chunks_is_tokenising_one_by_one(monkeypatch, special):
    monkeypatch.setattr(module, "CHUNK_TEXTS", 3)
    texts = ["", *TEXTS, ""]
    expected = [LETTERS.encode(text, add_special_tokens=special).ids for text in texts]
    assert lists_of(tokenise(LETTERS, texts, special=special)) == expected


def test_no_texts():
    assert len(tokenise(LETTERS, [], special=True)) == 0
