import gzip
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from pipeline.train.students.shared.vector_files import rows_of
from pipeline.train.students.shared.word_vectors import SPECIAL, read_word_vectors, table_of, word_tokenizer

GLOVE = "the 0.5 -1 2e-1\n, 1 2 3\nCat 4 5 6\ncat 7 8 9\n"


def write(folder: Path, content: str | bytes, name: str = "vectors.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def read(path: Path, most: int = 100, *, lowercase: bool = False) -> tuple[list[str], np.ndarray]:
    return read_word_vectors(path, most, lowercase=lowercase)


def test_a_glove_file(tmp_path):
    words, vectors = read(write(tmp_path, GLOVE))
    assert words == ["the", ",", "Cat", "cat"]
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[0.5, -1, 0.2], [1, 2, 3], [4, 5, 6], [7, 8, 9]])


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("4 3\n" + GLOVE, "word2vec.txt"),
        (GLOVE.replace("\n", " \n"), "trailing spaces.txt"),
        (GLOVE.replace(" ", "\t"), "tabs.tsv"),
        (
            "4\t3\n" + GLOVE.replace(" ", "\t", 1).replace(", ", ",\t").replace("at ", "at\t"),
            "a tab after the word.txt",
        ),
        (GLOVE.replace("\n", "\r\n"), "windows.txt"),
        ("\ufeff" + GLOVE + "\n\n", "mark and blank lines.txt"),
        (gzip.compress(GLOVE.encode(), mtime=0), "packed.txt.gz"),
    ],
)
def test_the_same_in_other_forms(tmp_path, content, name):
    found, expected = read(write(tmp_path, content, name)), read(write(tmp_path, GLOVE))
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])


def test_of_words_that_lowercase_makes_equal_the_first_counts(tmp_path):
    words, vectors = read(write(tmp_path, GLOVE), lowercase=True)
    assert words == ["the", ",", "cat"]
    np.testing.assert_array_equal(vectors[2], [4, 5, 6])


def test_words_are_composed_as_texts_are(tmp_path):
    """Hindi's letter U+095C is two characters in NFC, a French e with an accent one."""
    content = "\u092c\u095c\u093e 1 2\ncafe\u0301 3 4\ncaf\u00e9 5 6\n"
    words, vectors = read(write(tmp_path, content))
    assert words == ["\u092c\u0921\u093c\u093e", "caf\u00e9"]
    assert vectors.tolist() == [[1, 2], [3, 4]]
    tokenizer = word_tokenizer(words, lowercase=False)
    assert "[UNK]" not in tokenizer.tokenize("\u092c\u095c\u093e caf\u00e9 cafe\u0301")


def binary(words: dict[str, list[float]], end: bytes = b"") -> bytes:
    """word2vec's binary form."""
    rows = [word.encode() + b" " + np.array(row, "<f4").tobytes() + end for word, row in words.items()]
    return f"{len(words)} 3\n".encode() + b"".join(rows)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_same_in_word2vecs_binary_form(tmp_path, end):
    words, vectors = read(write(tmp_path, GLOVE))
    given = dict(zip(words, vectors.tolist(), strict=True))
    found = read(write(tmp_path, binary(given, end), "vectors.bin"))
    assert found[0] == words
    np.testing.assert_array_equal(found[1], vectors)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (GLOVE.encode(), ("dimension", "init.path", ".bin")),
        (b"", ("dimension", "init.path")),
        (b"0 3\n", ("dimension", "init.path")),
        (binary({"a": [1, 2, 3], "b": [4, 5, 6]})[:-1], ("word 2 of 2", "3 numbers", "copy")),
        (binary({"a": [1, 2, 3], "b": [4, float("nan"), 6]}), ("word 2 of 2", "3 numbers")),
        (binary({"a": [1, 2, 3]}).replace(b"a", b"\xe9"), ("word 1 of 1", "UTF-8")),
        (b"2 3\n" + b"x" * 10_000, ("word 1 of 2", "UTF-8")),
        (b"2 9" + b"0" * 30 + b"\na", ("dimension of 9,000,", "too few", "copy")),
    ],
)
def test_bad_binary_files(tmp_path, content, named):
    path = write(tmp_path, content, "vectors.bin")
    with refuses(path, *named):
        read(path)


def test_only_the_first_words_are_kept(tmp_path):
    assert read(write(tmp_path, GLOVE + "broken"), most=4)[0] == ["the", ",", "Cat", "cat"]


def test_a_word_before_a_tab_may_hold_spaces(tmp_path):
    words, vectors = zip(*rows_of(write(tmp_path, "new york\t1 2\n. . .\t3\t4\n")), strict=True)
    assert words == ("new york", ". . .")
    assert np.array(vectors).tolist() == [[1, 2], [3, 4]]


def test_gloves_words_with_spaces_and_strange_characters(tmp_path):
    path = write(tmp_path, "the 1 2\n. . . 3 4\nat name@domain.com 5 6\n\x85 7 8\n\u2028 9 0\n")
    assert [word for word, _ in rows_of(path)] == ["the", ". . .", "at name@domain.com", "\x85", "\u2028"]


def test_words_that_no_text_is_split_into_take_no_rows(tmp_path, capfd):
    """GloVe's own: abbreviations, compounds, dots, what web pages left."""
    unread = ["u.s.", "well-known", "...", "and/or", "<unk>", "don't", "\x85"]
    lines = [f"{word} {row} 1" for row, word in enumerate(["the", *unread, "1.5", "n't", "Mr"])]
    path = write(tmp_path, "\n".join(lines))
    words, vectors = read(path, most=3)
    assert words == ["the", "1.5", "n't"]
    assert vectors[:, 0].tolist() == [0, 8, 9]
    assert f"{path}: 3 words; left out: 7 that" in capfd.readouterr().err
    tokenizer = word_tokenizer(read(path)[0], lowercase=False)
    assert [tokenizer.tokenize(word) for word in read(path)[0]] == [[word] for word in read(path)[0]]


def test_a_file_of_such_words_alone_is_refused(tmp_path):
    path = write(tmp_path, "new-york 1 2\nu.s. 3 4\n")
    with refuses(path, "no word vectors", "init.path"):
        read(path)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("the 1 2\ncat 3\n", ("line 2:", "2 numbers", "remove the line")),
        ("the 1 2\ncat 3 4 5\n", ("line 2:", "2 numbers", "remove the line")),
        ("the 1 2\ncat 3 x\n", ("line 2:", "2 numbers", "remove the line")),
        ("the 1 2\ncat 3 nan\n", ("line 2:", "2 numbers", "remove the line")),
        ("the 1 2\n 3 4\n", ("line 2:", "2 numbers", "remove the line")),
        ("1 3\nthe 1 2\n", ("line 2:", "3 numbers", "remove the line")),
        ("1 9" + "0" * 30 + "\nthe 1 2\n", ("line 2:", "remove the line")),
        ("the\t1 2\ncat\t3\n", ("line 2:", "2 numbers", "remove the line")),
        ("the\t1 2\ncat 3\t4 5\n", ("line 2:", "2 numbers", "remove the line")),
        ("the\n", ("line 1:", "numbers", "remove the line")),
        (b"the 1 2\ncaf\xe9 3 4\n", ("line 2:", "UTF-8")),
        ("", ("correct init.path",)),
        ("400000 300\n", ("correct init.path",)),
    ],
)
def test_bad_lines(tmp_path, content, named):
    path = write(tmp_path, content)
    with refuses(path, *named):
        read(path)


@pytest.mark.parametrize("content", ["cat 0 0\ndog 0 0\n", "2 2\ncat 0.0 -0.0\ndog 0 0\n"])
def test_zeros_alone_are_no_vectors(tmp_path, content):
    path = write(tmp_path, content)
    with refuses("zeros alone", path, "init.path"):
        read(path)
    write(tmp_path, f"{content}cow 0 1\n".replace("2 2\n", "3 2\n"))
    assert read(path)[0] == ["cat", "dog", "cow"]


def test_a_file_that_is_not_there_or_not_gzip(tmp_path):
    with refuses("init.path", tmp_path / "glove.txt", "params.yaml"):
        read(tmp_path / "glove.txt")
    for content in (b"the 1 2\n", gzip.compress(GLOVE.encode(), mtime=0)[:-9]):
        with refuses(tmp_path / "vectors.gz", "gzip"):
            read(write(tmp_path, content, "vectors.gz"))


def test_rows_of_the_table_are_the_tokenizers_ids(tmp_path):
    words, vectors = read(write(tmp_path, GLOVE))
    table, tokenizer = table_of(vectors), word_tokenizer(words, lowercase=False)
    assert table.shape == (len(tokenizer), 3)
    for word, vector in zip(words, vectors, strict=True):
        np.testing.assert_array_equal(table[tokenizer.convert_tokens_to_ids(word)], vector)
    rows = dict(zip(SPECIAL, table[: len(SPECIAL)], strict=True))
    np.testing.assert_allclose(rows["[UNK]"], vectors.mean(axis=0), rtol=1e-6)
    assert not np.concatenate([rows["[PAD]"], rows["[START]"], rows["[END]"]]).any()


def test_a_word_named_as_a_special_token_does_not_take_its_row(tmp_path):
    words, _ = read(write(tmp_path, "[PAD] 1 2\nthe 3 4\n"))
    assert words == ["the"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don't stop, Ann's 3.5 dogs!", ["do", "n't", "stop", ",", "ann", "'s", "3.5", "dogs", "!"]),
        ("they'll re-enter", ["they", "'ll", "re", "-", "enter"]),
        ("n't can't", ["n't", "ca", "n't"]),
        ("don'tx", ["don", "'", "tx"]),
        ("", []),
        ("nai\u0308ve 漢字", ["naïve", "[UNK]"]),
    ],
)
def test_texts_are_split_as_gloves_were(text, tokens):
    words = sorted({token for token in tokens if token != "[UNK]"})
    tokenizer = word_tokenizer(words, lowercase=True)
    assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == ["[START]", *tokens, "[END]"]


def test_case_is_kept_where_the_file_has_it():
    tokenizer = word_tokenizer(["Cat"], lowercase=False)
    assert tokenizer.convert_ids_to_tokens(tokenizer("Cat cat")["input_ids"]) == [
        "[START]",
        "Cat",
        "[UNK]",
        "[END]",
    ]
