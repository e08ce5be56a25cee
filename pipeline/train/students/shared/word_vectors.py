"""Word vectors of a file, GloVe's or word2vec's, and a tokenizer for their words."""

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.train.students.shared.vector_files import rows_of

if TYPE_CHECKING:
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[START]", "[END]")
"""The first rows of the table: padding, words that the file lacks, and a text's two ends, so that an empty
text has tokens too."""
WORDS = r"\d+(?:[.,]\d+)+|\w+?(?=n't\b)|n't\b|'(?:s|m|d|ll|re|ve)\b|\w+|[^\w\s]"
"""A token: GloVe's words come from the Penn Treebank's tokenizer, which writes don't as do n't. Its u.s. and
well-known are several."""


def read_word_vectors(path: Path, most: int, *, lowercase: bool) -> tuple[list[str], NDArray[np.float32]]:
    """The words of a file and their vectors (words, d), without those that texts are not split into.

    Args:
        path: as `rows_of` takes it.
        most: words that are read.
        lowercase: lowercase the words; of those that become equal, the first counts.

    Raises:
        UserError: the file is empty or holds zeros alone, or as `rows_of`.
    """
    vectors: dict[str, NDArray[np.float32]] = {}
    splitter, unread = _splitter(), list[str]()
    for word, vector in rows_of(path):
        composed = unicodedata.normalize("NFC", word)  # as texts are
        own = composed.lower() if lowercase else composed
        if [part for part, _ in splitter.pre_tokenize_str(own)] != [own]:
            unread.append(word)
        elif composed not in SPECIAL:
            vectors.setdefault(own, vector)
        if len(vectors) == most:
            break
    if unread:
        say(
            f"{path}: {len(vectors):,} words; left out: {len(unread):,} that are several words or none where "
            f"texts are split, {unread[0]!r} for one"
        )
    if not vectors:
        raise UserError(f"{path} holds no word vectors; correct init.path")
    if most > 1 and not any(vector.any() for vector in vectors.values()):  # one may be of padding
        raise UserError(f"{path} holds zeros alone; correct init.path")
    return list(vectors), np.stack(list(vectors.values()))


def table_of(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows for the special tokens before the words': zeros, but for unknown words, which get the mean."""
    special = np.zeros((len(SPECIAL), vectors.shape[1]), np.float32)
    special[SPECIAL.index("[UNK]")] = vectors.mean(axis=0)
    return np.concatenate([special, vectors])


def word_tokenizer(words: list[str], *, lowercase: bool) -> "PreTrainedTokenizerFast":
    """A tokenizer of these words; row len(SPECIAL) + i of the table belongs to word i."""
    from tokenizers import Tokenizer, models, normalizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: row for row, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    case = [normalizers.Lowercase()] if lowercase else []
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *case])
    tokenizer.pre_tokenizer = _splitter()
    ends = [(name, vocabulary[name]) for name in ("[START]", "[END]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[START] $A [END]", special_tokens=ends)
    names = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _splitter() -> "Split":
    """Splits texts into words."""
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)
