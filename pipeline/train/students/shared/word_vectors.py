"""Word vectors of a text file, GloVe's or word2vec's, and a tokenizer for their words."""

import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.models.teacher_facts import most_dimensions
from pipeline.data.utf8 import lines_of
from pipeline.params.students import StaticInit

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[START]", "[END]")
"""The first rows of the table: padding, words that the file lacks, and a text's two ends, so that an empty
text has tokens too."""
WORDS = r"\d+(?:[.,]\d+)+|\w+?(?=n't\b)|n't\b|'(?:s|m|d|ll|re|ve)\b|\w+|[^\w\s]"
"""A token: GloVe's words come from the Penn Treebank's tokenizer, which writes don't as do n't."""


def read_word_vectors(path: Path, most: int, *, lowercase: bool) -> tuple[list[str], NDArray[np.float32]]:
    """The words of a file and their vectors (words, d).

    Args:
        path: a word and its numbers on a line, separated by spaces or tabs; word2vec's first line, the number
            of words and d, may precede them. .gz is unpacked.
        most: words that are read.
        lowercase: lowercase the words; of those that become equal, the first counts.

    Raises:
        UserError: the file is missing or empty, or a line is not UTF-8 or not a word and d numbers.
    """
    if not path.is_file():
        raise UserError(f"init.path: there is no file {path}; correct it in params.yaml")
    vectors: dict[str, NDArray[np.float32]] = {}
    dim = 0
    for number, whole in enumerate(lines_of(path), start=1):
        line = whole.rstrip("\r\t ")
        if not line:
            continue
        fields = re.split("[ \t]", line)
        if number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields):
            dim = int(fields[1])
            continue
        dim = dim or len(_split(line, -1)[1])
        parsed = _parse(line, dim)
        if parsed is None:
            raise UserError(
                f"{path}, line {number}: not a word and {dim or 'its'} numbers; correct or remove the line"
            )
        word, vector = unicodedata.normalize("NFC", parsed[0]), parsed[1]  # as texts are
        if word not in SPECIAL:
            vectors.setdefault(word.lower() if lowercase else word, vector)
        if len(vectors) == most:
            break
    if not vectors:
        raise UserError(f"{path} holds no word vectors; correct init.path")
    return list(vectors), np.stack(list(vectors.values()))


def file_dimensions(init: StaticInit, wanted: int | None = None) -> tuple[int, int]:
    """The dimension of a file's vectors, and the most that a PCA of their table gives.

    Args:
        init: names the file in `path`.
        wanted: the most that is asked for, so that no more words are read than that takes; None: all that the
            vectors have.

    Raises:
        UserError: as `read_word_vectors`.
    """
    path = Path(str(init.path))
    dim = read_word_vectors(path, 1, lowercase=init.lowercase)[1].shape[1]
    needed = min(init.max_words, wanted or dim)
    words, _ = read_word_vectors(path, needed, lowercase=init.lowercase)
    return dim, most_dimensions(dim, len(words) + len(SPECIAL))


def table_of(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows for the special tokens before the words': zeros, but for unknown words, which get the mean."""
    special = np.zeros((len(SPECIAL), vectors.shape[1]), np.float32)
    special[SPECIAL.index("[UNK]")] = vectors.mean(axis=0)
    return np.concatenate([special, vectors])


def word_tokenizer(words: list[str], *, lowercase: bool) -> "PreTrainedTokenizerFast":
    """A tokenizer of these words; row len(SPECIAL) + i of the table belongs to word i."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: row for row, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    case = [normalizers.Lowercase()] if lowercase else []
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *case])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)
    ends = [(name, vocabulary[name]) for name in ("[START]", "[END]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[START] $A [END]", special_tokens=ends)
    names = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _parse(line: str, dim: int) -> tuple[str, NDArray[np.float32]] | None:
    """A word and its vector (dim,); None where the line is something else."""
    word, numbers = _split(line, dim)
    # A number before the vector is one too many.
    rest, _, last = word.rpartition(" ")
    try:
        vector = np.array([float(number) for number in numbers], np.float32)
    except ValueError:
        return None
    whole = bool(word) and 0 < dim == len(vector) and np.isfinite(vector).all()
    return (word, vector) if whole and not (rest and _is_number(last)) else None


def _split(line: str, dim: int) -> tuple[str, list[str]]:
    """The word, and the numbers after it: after the first tab, or the last `dim` that spaces separate."""
    word, tab, rest = line.partition("\t")
    if tab:
        return word, re.split("[ \t]+", rest)
    word, *numbers = line.rsplit(" ", dim)  # some of GloVe's words hold spaces
    return word, numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
