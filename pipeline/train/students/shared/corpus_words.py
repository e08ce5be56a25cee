"""The vocabulary that the training texts ask for: whole words more, and tokens that they rarely have less."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import PreTokenizer, Punctuation, Sequence, WhitespaceSplit

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.tokens.tokens import tokenise

if TYPE_CHECKING:
    from skeletoken import TokenizerModel

DISTINCT = 1 << 20
"""Words counted at a time, some 200 MB."""
MARGIN = 1e-3
"""What a Unigram tokenizer's log probability of a new word has more for each piece less, so that it prefers
the word to its pieces, and to a shorter new word with the rest of the pieces."""


BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A byte of a letter that the vocabulary lacks."""


def split_words(
    tokenizer: Tokenizer, unknown: int | None, texts: Iterable[list[str]], most: int, min_count: int
) -> list[str]:
    """The most frequent words of texts that a tokenizer splits into several pieces, as its model spells them.

    A word has a letter or a digit, and no punctuation before or after it.

    Where the texts have more than DISTINCT words, the rarer ones of those so far are forgotten: a word that
    is rare at first may be counted too low.

    Args:
        tokenizer: its normaliser and its pre-tokenizer say what a word is.
        unknown: the tokenizer's id of what it does not know; words with such a piece stay as they are.
        texts: some at a time.
        most: words at most.
        min_count: how often a word has to occur.

    Raises:
        UserError: the tokenizer has no pre-tokenizer.
    """
    normalizer, splitter = tokenizer.normalizer, tokenizer.pre_tokenizer
    if splitter is None:
        raise UserError("init.words: the teacher's tokenizer does not split texts into words; set it to 0")
    splitter = apart_from_punctuation(splitter)
    known = tokenizer.get_vocab()
    counts: Counter[str] = Counter()
    for part in texts:
        for text in part:
            plain = normalizer.normalize_str(text) if normalizer else text
            counts.update(word for word, _ in splitter.pre_tokenize_str(plain) if word not in known)
        if len(counts) > DISTINCT:
            counts = Counter(dict(counts.most_common(DISTINCT // 2)))
    words: list[str] = []
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if count < min_count or len(words) == most:
            break
        pieces = pieces_of(word, tokenizer)
        letters = tokenizer.decoder.decode([word]) if tokenizer.decoder else word
        if len(pieces) > 1 and unknown not in pieces and any(map(str.isalnum, letters)):
            words.append(word)
    return words


def apart_from_punctuation(splitter: PreTokenizer) -> PreTokenizer:
    """What splits texts into words, where a splitter such as SentencePiece's leaves punctuation at them."""

    def parts(by: PreTokenizer, text: str) -> list[str]:
        return [part for part, _ in by.pre_tokenize_str(text)]

    if len(parts(splitter, "a.")) > 1:
        return splitter
    # Without spaces, which would be words of their own before punctuation, if words are spelled as before.
    found = Sequence([WhitespaceSplit(), Punctuation("isolated"), splitter])
    if parts(found, "a b") == parts(splitter, "a b"):
        return found
    return Sequence([Punctuation("isolated"), splitter])


def with_words(tokenizer: Tokenizer, words: list[str]) -> Tokenizer:
    """A tokenizer with words at the end of its vocabulary, added as model2vec's distillation adds them.

    A BPE tokenizer gets tokens for the merges on the way to a word, too. A word that begins with a new one
    may be split in another way than before.

    Raises:
        UserError: the tokenizer cannot be changed so that its other tokens keep their ids.
    """
    from skeletoken import models

    # By length: what BPE adds on the way to a word may be another, shorter one.
    words = sorted(words, key=lambda word: (len(word), word))
    edited = _editable(tokenizer)
    known = edited.model.vocab.root if isinstance(edited.model, models.WordPiece) else None
    if known is not None and set(known.values()) == set(range(len(known))):
        # The same as below, which looks through all numbers for each word.
        known.update({word: row for row, word in enumerate(words, start=len(known))})
    else:
        edited = edited.add_tokens_to_vocabulary(words, preprocess_tokens=False)
    if isinstance(edited.model, models.Unigram):
        # Added with the lowest score of all, it would be split as before.
        entries = edited.model.vocab.root
        scores = dict(entries)
        for row in range(len(entries) - len(words), len(entries)):
            word = entries[row][0]
            pieces = [tokenizer.id_to_token(piece) for piece in pieces_of(word, tokenizer)]
            entries[row] = (word, sum(scores[piece] for piece in pieces) + MARGIN * (len(pieces) - 1))
    found = edited.to_tokenizer()
    rows = range(tokenizer.get_vocab_size())
    if any(found.id_to_token(row) != tokenizer.id_to_token(row) for row in rows):
        raise UserError("init.words: the teacher's tokenizer cannot be given more words; set it to 0")
    return found


def pieces_of(word: str, tokenizer: Tokenizer) -> list[int]:
    """Ids of the tokens that a tokenizer's model makes of a word."""
    return [piece.id for piece in tokenizer.model.tokenize(word)]


def kept_tokens(
    tokenizer: Tokenizer,
    size: int,
    texts: Iterable[list[str]],
    most: int | None,
    needed: Iterable[int] = (),
) -> list[int] | None:
    """The ids of the tokens that `init.tokens` keeps of a table of `size` rows, ascending; None: all.

    Args:
        tokenizer: the table's, without truncation.
        size: rows of the table.
        texts: some at a time; not read where all are kept.
        most: tokens.
        needed: ids that are kept in any case.

    Raises:
        UserError: the tokens that are always kept are more than that.
    """
    if most is None or most >= size:
        return None
    counts = np.zeros(size, np.int64)
    for part in texts:
        counts += np.bincount(tokenise(tokenizer, part, special=False).ids, minlength=size)
    kept = frequent_tokens(tokenizer, counts, most, needed)
    covered = counts[kept].sum() / max(counts.sum(), 1)
    say(f"init.tokens: {len(kept):,} of {size:,} tokens stay, which are {covered:.2%} of the texts'")
    return kept


def frequent_tokens(
    tokenizer: Tokenizer, counts: NDArray[np.integer], most: int, needed: Iterable[int] = ()
) -> list[int]:
    """The ids of the `most` most frequent tokens, ascending, without those that the texts do not have.

    Among them in any case: special tokens, and what all other words can be made of, letters or bytes. A BPE
    token comes with those that are merged into it.

    Args:
        tokenizer: what the counts are of.
        counts: (V,) how often the texts have each token.
        most: tokens.
        needed: ids that are kept in any case.

    Raises:
        UserError: the tokens that are always kept are more than that.
    """
    names = [tokenizer.id_to_token(token) for token in range(len(counts))]
    merged = _merges(tokenizer)
    kept = (_always_kept(tokenizer, merged) | {names[token] for token in needed}) & set(names) - {None}
    if len(kept) > most:
        raise UserError(f"init.tokens is {most}; the vocabulary's letters alone are {len(kept)}; raise it")
    for token in np.argsort(-counts, kind="stable"):
        if not counts[token] or len(kept) == most:
            break
        wanted, more = [names[token]], set()
        while wanted:
            name = wanted.pop()
            if name is not None and name not in kept and name not in more:
                more.add(name)
                wanted += merged.get(name, ())
        if len(kept) + len(more) <= most:
            kept |= more
    return [token for token, name in enumerate(names) if name in kept]


def with_tokens(tokenizer: Tokenizer, kept: list[int]) -> Tokenizer:
    """A tokenizer with only these tokens, numbered anew in their order.

    Raises:
        UserError: the tokenizer cannot be cut so.
    """
    from skeletoken import models

    names = [tokenizer.id_to_token(token) for token in kept]
    left_out = sorted(set(tokenizer.get_vocab()) - set(names))
    before = _editable(tokenizer)
    try:
        edited = before.remove_tokens_from_vocabulary(left_out)
        if isinstance(edited.model, models.Unigram):
            edited.model.unk_token = before.unk_token  # it is kept by its number, which has changed
        found = edited.to_tokenizer()
    except (KeyError, ValueError) as error:
        raise UserError(
            f"init.tokens: the teacher's tokenizer cannot be cut ({error}); set it to null"
        ) from None
    if [found.id_to_token(row) for row in range(found.get_vocab_size())] != names:
        raise UserError("init.tokens: the tokenizer cannot be cut to fewer tokens; set it to null")
    return found


def _editable(tokenizer: Tokenizer) -> "TokenizerModel":
    # Imports transformers, which most static students do without.
    from skeletoken import TokenizerModel

    return TokenizerModel.from_tokenizer(tokenizer)


def _merges(tokenizer: Tokenizer) -> dict[str, tuple[str, str]]:
    """What each token of a BPE tokenizer is first merged from; nothing of other kinds."""
    from skeletoken import models

    model = _editable(tokenizer).model
    found: dict[str, tuple[str, str]] = {}
    if isinstance(model, models.BPE):
        prefix = model.continuing_subword_prefix or ""
        for pair in model.merges.root:
            found.setdefault(pair[0] + pair[1].removeprefix(prefix), (pair[0], pair[1]))
    return found


def _always_kept(tokenizer: Tokenizer, merged: dict[str, tuple[str, str]]) -> set[str]:
    """Special tokens, and the tokens that no others make."""
    from skeletoken import models

    edited = _editable(tokenizer)
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    special |= {edited.unk_token, edited.pad_token, *tokenizer.encode("").tokens} - {None}
    if isinstance(edited.model, models.BPE):
        return special | (set(tokenizer.get_vocab()) - set(merged))
    prefix = getattr(edited.model, "continuing_subword_prefix", None) or ""
    return special | {
        name for name in tokenizer.get_vocab() if len(name.removeprefix(prefix)) == 1 or BYTE.fullmatch(name)
    }
