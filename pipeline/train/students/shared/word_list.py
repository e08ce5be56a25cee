"""A vocabulary from a list of words: each is a token, and starts from the teacher's encoding of it alone."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data import teacher_parts
from pipeline.data.models.teacher_facts import used_tokens
from pipeline.data.utf8 import lines_of
from pipeline.train.students.shared.corpus_words import apart_from_punctuation, pieces_of, with_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import PreTokenizer

LONGEST = 100
"""Letters of a word or phrase: the teacher's encoder has positions for some 500 tokens."""
UNKNOWN = "[UNK]"
"""What a vocabulary of whole words has for other words, if its teacher has nothing."""


class Vocabulary(NamedTuple):
    """Tokens, and what they start from."""

    tokenizer: "Tokenizer"
    vectors: NDArray[np.float32]
    """(V, d); zeros where no text has the token."""
    order: NDArray[np.int64]
    """The rows that have a vector, by rank: the teacher's tokens, then words as the list has them."""


def read_words(path: Path, most: int) -> list[str]:
    """The words or phrases of a file, one a line, without blank lines and what is there twice or too long.

    Raises:
        UserError: the file is missing, has no words, or is not UTF-8.
    """
    if not path.is_file():
        raise UserError(f"init.word_list: there is no file {path}; correct it in params.yaml")
    words: dict[str, None] = {}
    left_out: Counter[str] = Counter()
    for line in lines_of(path):
        word = line.strip()
        if not word:
            continue
        if word in words or len(word) > LONGEST:
            left_out["there twice" if word in words else f"longer than {LONGEST} letters"] += 1
            continue
        words[word] = None
        if len(words) == most:
            break
    if not words:
        raise UserError(f"{path} holds no words; write one a line, or correct init.word_list")
    _tell(len(words), left_out)
    return list(words)


def word_vocabulary(words: list[str], teacher: Path, *, subwords: bool) -> Vocabulary:
    """The vocabulary of a list of words, as model2vec's `distill(vocabulary=...)` makes it.

    A token's vector is the mean of the last hidden states of its pieces and the special tokens around them.
    What the teacher's tokenizer splits into several words becomes one token too, wherever a text has it,
    but not inside a word, as model2vec has it: "s." is none at the end of "cats.".

    Args:
        words: as `read_words` gives them.
        teacher: the folder of the teacher's parts.
        subwords: keep the teacher's tokens before them; else other words are unknown.

    Raises:
        UserError: the tokenizer does not split texts into words, no word is left, or the teacher's encoder
            cannot be loaded.
    """
    base = _with_space_before(teacher_parts.read_tokenizer(teacher))
    splitter = base.pre_tokenizer
    if splitter is None:
        raise UserError("init.word_list: the teacher's tokenizer does not split texts into words; remove it")
    if not subwords:
        splitter = apart_from_punctuation(splitter)
    single, phrases = _spelled(words, base, splitter, known=set(base.get_vocab()) if subwords else set())
    if not single and not phrases:
        raise UserError(
            "init.word_list: all of its words are the teacher's tokens or nothing; take another list"
        )
    made = with_words(base, single) if subwords else _whole_words(single, base, splitter)
    _add_phrases(made, phrases)
    rows = made.get_vocab_size()
    names = made.get_vocab(with_added_tokens=True)
    listed = [names[name] for name in [*single, *phrases]]
    rest = used_tokens(made, rows) if subwords else np.zeros(rows, np.bool_)
    rest[[*listed, *(names[name] for name in _around_texts(base, teacher) if name in names)]] = False
    others = np.flatnonzero(rest)
    # What a BPE tokenizer adds on the way to a word comes last.
    old = others < base.get_vocab_size()
    order = np.concatenate([others[old], listed, others[~old]]).astype(np.int64)
    vectors = _encoded([made.id_to_token(row) or "" for row in order.tolist()], set(phrases), base, teacher)
    table = np.zeros((rows, vectors.shape[1]), np.float32)
    table[order] = vectors
    return Vocabulary(made, table, order)


def _around_texts(tokenizer: "Tokenizer", teacher: Path) -> set[str]:
    """Special tokens that no word stands for: model2vec keeps the unknown one and padding alone."""
    from transformers import AutoTokenizer

    own = AutoTokenizer.from_pretrained(teacher)
    special = {one.content for one in tokenizer.get_added_tokens_decoder().values() if one.special}
    return special - {own.unk_token, own.pad_token}


def _tell(kept: int, left_out: Counter[str]) -> None:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(left_out.items()))
    say(f"init.word_list: {kept:,} words" + (f"; left out: {reasons}" if reasons else ""))


def _with_space_before(tokenizer: "Tokenizer") -> "Tokenizer":
    """A tokenizer to which a text's first word is spelled as its others are (model2vec)."""
    from skeletoken import TokenizerModel

    edited = TokenizerModel.from_tokenizer(tokenizer)
    if edited.adds_prefix_space is None:
        return tokenizer
    edited.adds_prefix_space = True
    return edited.to_tokenizer()


def _spelled(
    words: list[str], tokenizer: "Tokenizer", splitter: "PreTokenizer", known: set[str]
) -> tuple[list[str], list[str]]:
    """Words as a tokenizer's model spells them, and phrases, each once and none that is known.

    Phrases are normalised, but for those that the tokenizer, which does it again, would change once more.
    """

    def normalised(text: str) -> str:
        return (tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text).strip()

    single: dict[str, None] = {}
    phrases: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    for word in words:
        plain = normalised(word)
        parts = [part for part, _ in splitter.pre_tokenize_str(plain)] if plain else []
        token = parts[0] if len(parts) == 1 else plain
        if not parts:
            left_out["nothing to the teacher's tokenizer"] += 1
        elif token in known:
            left_out["tokens of the teacher"] += 1
        elif token in single or token in phrases:
            left_out["the same as others to the teacher's tokenizer"] += 1
        elif len(parts) == 1:
            single[token] = None
        else:
            phrases[token] = plain if normalised(plain) == plain else word
    if left_out:
        _tell(len(single) + len(phrases), left_out)
    return list(single), list(phrases.values())


def _whole_words(words: list[str], tokenizer: "Tokenizer", splitter: "PreTokenizer") -> "Tokenizer":
    """A tokenizer that normalises texts as another one does, splits them so, and knows these words."""
    from tokenizers import Tokenizer, models

    vocabulary = {name: row for row, name in enumerate(dict.fromkeys([UNKNOWN, *words]))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    if tokenizer.normalizer:
        made.normalizer = tokenizer.normalizer
    made.pre_tokenizer = splitter
    return made


def _add_phrases(tokenizer: "Tokenizer", phrases: list[str]) -> None:
    """Add tokens for phrases: no parts of words, but punctuation may stand at a word."""
    from tokenizers import AddedToken

    apart = [one[0].isalnum() or one[-1].isalnum() for one in phrases]
    tokenizer.add_tokens(
        [
            AddedToken(one, single_word=whole, lstrip=True, rstrip=True, normalized=True)
            for one, whole in zip(phrases, apart, strict=True)
        ]
    )


def _encoded(
    tokens: list[str], phrases: set[str], tokenizer: "Tokenizer", teacher: Path
) -> NDArray[np.float32]:
    """The teacher's vectors (n, d) of tokens, each alone."""
    from skeletoken import TokenizerModel

    from pipeline.train.students.shared.token_means import (
        token_means,  # here: `pipeline check` takes no torch
    )

    around = TokenizerModel.from_tokenizer(tokenizer)
    before, after = around.bos_ids or [], around.eos_ids or []
    known = tokenizer.get_vocab()

    def ids(token: str) -> list[int]:
        if token in phrases:
            return tokenizer.encode(token).ids
        own = [known[token]] if token in known else pieces_of(token, tokenizer)
        return [*before, *own, *after]

    return token_means(teacher_parts.read_encoder(teacher), [ids(token) for token in tokens])
