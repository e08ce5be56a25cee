"""Tables of token vectors (model2vec): means of rows as one sparse product, beside the next texts' tokens."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from model2vec import StaticModel

TEXTS_AT_A_TIME = 2048
THREADS = 2
"""The tokenizer works on all cores by itself; a second thread takes its means meanwhile."""


class TableEncoder:
    """Encodes as `StaticModel.encode` does, without its limit of tokens a text, but for rounding.

    Args:
        model: its tokenizer is set up anew.
    """

    def __init__(self, model: "StaticModel") -> None:
        rows = model.embedding if model.token_mapping is None else model.embedding[model.token_mapping]
        weights = 1 if model.weights is None else model.weights[:, None]
        self._table = (rows * weights).astype(np.float32)
        """(V, d): a row a token id."""
        self._unknown = model.unk_token_id
        self._normalise = model.normalize
        self._tokenizer = model.tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (n, d); a text without known tokens gives zeros."""
        parts = [texts[start : start + TEXTS_AT_A_TIME] for start in range(0, len(texts), TEXTS_AT_A_TIME)]
        with ThreadPoolExecutor(THREADS) as pool:
            return np.concatenate(list(pool.map(self._means, parts)))

    def _means(self, texts: Sequence[str]) -> NDArray[np.float32]:
        from scipy.sparse import csr_array

        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        tokens = [encoding.ids for encoding in encodings]
        ids = np.fromiter(chain.from_iterable(tokens), np.int32)
        ends = np.cumsum([0, *map(len, tokens)])
        known = np.ones(len(ids), bool) if self._unknown is None else ids != self._unknown
        shape = len(texts), len(self._table)
        counted: csr_array = csr_array((known.astype(np.float32), ids, ends), shape=shape)
        sums: NDArray[np.float32] = counted @ self._table
        if self._normalise:
            divisors = np.sqrt(np.einsum("nd,nd->n", sums, sums))
        else:
            divisors = counted.sum(axis=1)
        sums /= np.where(divisors == 0, 1, divisors)[:, None].astype(np.float32)
        return sums
