"""The word vectors that a BiLSTM starts from, and their tokenizer."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.data import teacher_parts
from pipeline.data.models.teacher_facts import used_tokens
from pipeline.params.students import BilstmInit
from pipeline.train.students.shared.word_vectors import read_word_vectors, table_of, word_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import nn
    from transformers import PreTrainedTokenizerBase

SIF = 1e-4
"""Coefficient of the Zipf weights of vocabulary vectors: a static student's default."""


def starting_words(
    init: BilstmInit, teacher_folder: Path
) -> tuple["PreTrainedTokenizerBase", NDArray[np.float32]]:
    """A tokenizer, which neither pads nor cuts, and the vectors (V, d) of its tokens.

    Args:
        init: where they start.
        teacher_folder: the teacher's parts, or its vocabulary's with `embeddings: vocabulary`.

    Raises:
        UserError: the file of word vectors, or the folder, cannot be read.
    """
    from transformers import AutoTokenizer

    if init.path:
        words, vectors = read_word_vectors(Path(init.path), init.max_words, lowercase=init.lowercase)
        return word_tokenizer(words, lowercase=init.lowercase), table_of(vectors)
    tokenizer = AutoTokenizer.from_pretrained(teacher_folder)
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    if init.embeddings == "vocabulary":
        return tokenizer, _weighted(
            teacher_parts.read_vocabulary(teacher_folder), tokenizer.backend_tokenizer
        )
    table = cast("nn.Embedding", teacher_parts.read_encoder(teacher_folder).get_input_embeddings())
    return tokenizer, table.weight.detach().numpy()


def _weighted(vectors: NDArray[np.float32], tokenizer: "Tokenizer") -> NDArray[np.float32]:
    """Vocabulary vectors (V, d) less their mean, with Zipf weights (model2vec), of norm 1 on the mean."""
    from model2vec.distill.inference import compute_weights

    used = used_tokens(tokenizer, len(vectors))
    found = vectors[used] - vectors[used].mean(axis=0)
    found *= compute_weights(len(found), SIF)[:, None]
    table = np.zeros_like(vectors)
    table[used] = found / np.linalg.norm(found, axis=1).mean()
    return table
