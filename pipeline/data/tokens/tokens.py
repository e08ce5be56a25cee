"""Texts as token ids in one flat array: tokenised once, sliced without Python objects."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.data.tokens.mapped import gather, read_ahead

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

TYPES = "token_type_ids"
"""What transformers calls the types of tokens."""

CHUNK_TEXTS = 10_000
CHUNK_CHARACTERS = 4_000_000
"""Of texts that are tokenised at once: until all are, each token takes some 155 bytes, a cut one too."""
PART = 256
"""Texts that a student encodes at once."""
PART_TOKENS = 16_384
"""And tokens, give or take a text: some 60 bytes each for a dimension of its hidden states."""


@dataclass(frozen=True)
class Tokens:
    """n token sequences end to end."""

    ids: NDArray[np.int32]
    """(sum of lengths,)"""
    offsets: NDArray[np.int64]
    """(n + 1,): sequence i is ids[offsets[i]:offsets[i + 1]]."""
    types: NDArray[np.int8] | None = None
    """(sum of lengths,) which text of a pair each token is of, 0 or 1; None: a model is not told."""

    @classmethod
    def joined(cls, parts: Sequence["Tokens"]) -> "Tokens":
        """The sequences of all parts, in their order; all that have a token have types, or none has."""
        ids = np.concatenate([np.empty(0, np.int32), *(part.ids for part in parts)])
        lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
        types = [part.types for part in parts if part.types is not None]
        if types and sum(map(len, types)) != len(ids):
            raise ValueError("some parts have types of their tokens, others none")
        return cls(ids, np.cumsum(lengths), np.concatenate(types) if types else None)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every sequence, (n,)."""
        return np.diff(self.offsets)

    def select(self, rows: NDArray[np.integer]) -> "Tokens":
        """The sequences of these rows, in their order."""
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        ids = gather(self.ids, self.offsets[rows], lengths)
        types = None if self.types is None else gather(self.types, self.offsets[rows], lengths)
        return Tokens(ids, np.concatenate([[0], np.cumsum(lengths)]), types)

    def read_ahead(self, rows: NDArray[np.integer]) -> None:
        """Have the disk read the sequences of these rows, which `select` will want."""
        for part in (self.ids, self.types):
            if part is not None:
                read_ahead(part, self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows])

    def in_parts(self) -> Iterator["Tokens"]:
        """The sequences in order, as many at a time as a student encodes."""
        yield from map(self.select, parts_of(self.lengths))

    def without(self, token: int) -> "Tokens":
        """The same sequences with every occurrence of this token left out."""
        kept = self.ids != token
        types = None if self.types is None else self.types[kept]
        return Tokens(self.ids[kept], np.concatenate([[0], np.cumsum(kept)])[self.offsets], types)

    def padded(self, fill: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids (n, longest) filled up with `fill`, and the mask of real tokens."""
        mask = np.arange(self.lengths.max(initial=1))[None, :] < self.lengths[:, None]
        ids = np.full(mask.shape, fill, dtype=np.int64)
        ids[mask] = self.ids
        return ids, mask.astype(np.int64)

    def padded_types(self) -> NDArray[np.int64]:
        """Types (n, longest) filled up with 0, as transformers does; 0 alone where there are none."""
        mask = np.arange(self.lengths.max(initial=1))[None, :] < self.lengths[:, None]
        types = np.zeros(mask.shape, dtype=np.int64)
        if self.types is not None:
            types[mask] = self.types
        return types


def parts_of(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Rows (of n) in order, as many at a time as a student encodes.

    Args:
        lengths: tokens of each, (n,).
    """
    rows = np.arange(len(lengths))
    for part in np.split(rows, range(PART, len(rows), PART)):
        begun = np.maximum(lengths[part].cumsum() - 1, 0) // PART_TOKENS
        yield from np.split(part, np.flatnonzero(np.diff(begun)) + 1)


def has_types(config: "PreTrainedConfig", tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a model is told which of two texts each token is of."""
    return (getattr(config, "type_vocab_size", 0) or 0) > 1 and TYPES in tokenizer.model_input_names


def tokenise(
    tokenizer: Tokenizer, texts: Sequence[str] | Sequence[tuple[str, str]], *, special: bool
) -> Tokens:
    """Tokenise texts, or pairs of texts as one sequence each with types, in bulk.

    Truncation is the tokenizer's own setting; of a pair, it may cut the longer text first.

    Args:
        tokenizer: which one.
        texts: all of them.
        special: whether special tokens are added, by the tokenizer's own template.
    """
    parts: list[Tokens] = []
    typed = bool(texts) and not isinstance(texts[0], str)
    by_characters = np.cumsum([_characters(text) for text in texts]) // CHUNK_CHARACTERS
    by_rows = np.arange(len(texts)) // CHUNK_TEXTS
    cuts = np.flatnonzero(np.diff(by_characters) + np.diff(by_rows)) + 1
    for start, stop in pairwise([0, *cuts.tolist(), len(texts)]):
        encodings = tokenizer.encode_batch_fast(list(texts[start:stop]), add_special_tokens=special)
        ids = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int32)
        offsets = np.cumsum([0, *(len(encoding) for encoding in encodings)], dtype=np.int64)
        types = chain.from_iterable(encoding.type_ids for encoding in encodings)
        parts.append(Tokens(ids, offsets, np.fromiter(types, np.int8) if typed else None))
    return Tokens.joined(parts)


def _characters(text: str | tuple[str, str]) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))
