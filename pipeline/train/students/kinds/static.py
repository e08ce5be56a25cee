"""A table of token vectors: a text is the mean of its tokens' (model2vec, tokenlearn's POTION)."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from model2vec import StaticModel
from numpy.typing import NDArray
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import nn
from torch.nn.functional import embedding_bag

from pipeline.core.errors import UserError
from pipeline.core.memory import in_parts
from pipeline.core.progress import say
from pipeline.data import teacher_parts
from pipeline.data.models.teacher_facts import TeacherFacts, most_dimensions, used_tokens
from pipeline.data.tokens.tokens import Tokens, tokenise
from pipeline.params.students import StaticInit, StaticStudent
from pipeline.train.students.shared.base.interface import Encoded
from pipeline.train.students.shared.corpus_words import (
    kept_tokens,
    pieces_of,
    split_words,
    with_tokens,
    with_words,
)
from pipeline.train.students.shared.given_words import file_dimensions, file_rows, list_rows
from pipeline.train.students.shared.piece_vectors import Pieces
from pipeline.train.students.shared.ridge import ridge
from pipeline.train.students.shared.word_list import read_words, word_vocabulary
from pipeline.train.students.shared.word_vectors import read_word_vectors, table_of, word_tokenizer

COUNTED_AT_A_TIME = 1 << 22
"""Tokens."""


def build(params: StaticStudent, teacher_folder: Path) -> "Static":
    """The student before training: the vocabulary's vectors, reduced by PCA, weighted by rank (model2vec).

    Raises:
        UserError: the vocabulary is too small for a student of this dimension, or the file of word vectors
            cannot be read.
    """
    from model2vec.distill.inference import apply_pca, compute_weights

    vocabulary, tokenizer, used = _start(params.init, teacher_folder)
    whole = params.init.path is not None and params.width == vocabulary.shape[1]
    if not whole or params.rotates:
        _check_dim(params.width, most_dimensions(vocabulary.shape[1], len(used)))
    table = np.zeros((len(vocabulary), params.width), np.float32)
    table[used] = vocabulary[used] if whole else apply_pca(vocabulary[used], params.width)
    table[used] *= compute_weights(len(used), params.init.sif)[:, None]
    return Static(params, table, tokenizer)


def _start(
    init: StaticInit, teacher_folder: Path
) -> tuple[NDArray[np.float32], Tokenizer, NDArray[np.integer]]:
    """A vocabulary's vectors (V, d), its tokenizer, and the rows of tokens that texts can have, by rank."""
    if init.word_list:
        words = read_words(Path(init.word_list), init.max_words)
        listed = word_vocabulary(words, teacher_folder, subwords=init.subwords)
        return listed.vectors, listed.tokenizer, listed.order
    if init.path and init.pieces:
        pieces = Pieces(Path(init.pieces))
        vocabulary, tokenizer = pieces.vectors(Path(init.path)), pieces.tokenizer(lowercase=init.lowercase)
    elif init.path:
        words, vectors = read_word_vectors(Path(init.path), init.max_words, lowercase=init.lowercase)
        vocabulary = table_of(vectors)
        tokenizer = word_tokenizer(words, lowercase=init.lowercase).backend_tokenizer
    else:
        vocabulary = teacher_parts.read_vocabulary(teacher_folder)
        tokenizer = teacher_parts.read_tokenizer(teacher_folder)
    return vocabulary, tokenizer, np.flatnonzero(used_tokens(tokenizer, len(vocabulary)))


def weigh(params: StaticStudent, teacher: TeacherFacts) -> int:
    """How many numbers `build` starts from, at most, by the teacher's facts or the first of a file's words.

    Raises:
        UserError: the vocabulary is too small for a student of this dimension.
    """
    if params.init.path:
        dim, most = file_dimensions(params.init, params.width)
        if params.width != dim or params.rotates:
            _check_dim(params.width, most)
        return file_rows(params.init) * params.width
    if params.init.word_list:
        teacher_parts.read_config(teacher.config)  # no teacher whose encoder cannot be loaded encodes them
        rows, used = list_rows(params.init, teacher)
        _check_dim(params.width, most_dimensions(teacher.token_dim, used))
        return rows * params.width
    _check_dim(params.width, most_dimensions(teacher.token_dim, teacher.used))
    rows = teacher.tokens + params.init.words
    return min(rows, params.init.tokens or rows) * params.width


def _check_dim(dim: int, most: int) -> None:
    if dim > most:
        raise UserError(
            f"dim is {dim}, the vocabulary's vectors allow {most} or less; lower it, or set it to auto"
        )


def load(params: StaticStudent, folder: Path) -> "Static":
    """A saved student, to go on training."""
    try:
        saved = StaticModel.from_pretrained(folder, max_length=None)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UserError(
            f"{folder} cannot be loaded ({error}); run `dvc repro -f distill@{folder.name}`"
        ) from None
    return Static(params, saved.embedding, saved.tokenizer)


class Static:
    """Token vectors (V, dim) and token weights (V,)."""

    def __init__(self, params: StaticStudent, table: NDArray[np.floating], tokenizer: Tokenizer) -> None:
        self.params = params
        self._set(table, tokenizer)

    def _set(self, table: NDArray[np.floating], tokenizer: Tokenizer) -> None:
        """Go on from this vocabulary (V, dim), each token with the weight 1."""
        self._tokenizer = tokenizer
        self._used = used_tokens(tokenizer, len(table))
        self._unknown = StaticModel(table, tokenizer).unk_token_id
        sparse = bool(self.params.train and self.params.train.sparse)
        self._table = nn.Embedding.from_pretrained(
            torch.from_numpy(table.astype(np.float32)), freeze=False, sparse=sparse
        )
        self._weights = nn.Embedding.from_pretrained(torch.ones(len(table), 1), freeze=False, sparse=sparse)
        self.module = nn.ModuleDict({"table": self._table, "weights": self._weights})

    def learn_vocabulary(self, texts: Callable[[], Iterable[list[str]]]) -> None:
        """Take the words that the texts have often, then leave out the tokens that they have least."""
        self.learn_words(texts())
        self.keep_tokens(texts())

    def learn_words(self, texts: Iterable[list[str]]) -> None:
        """Make words that are split into pieces tokens of their own, `init.words` of them at most.

        A word starts as the mean of its pieces, their Zipf weights in it: what a text of that word alone was
        before. In a longer text it counts as one token. The sum would leave all texts their directions, but
        training ends with a higher loss.
        """
        wanted = self.params.init.words
        if not wanted:
            return
        words = split_words(self._tokenizer, self._unknown, texts, wanted, self.params.init.min_count)
        say(f"init.words: {len(words):,} of at most {wanted:,} words of the texts become tokens")
        tokenizer, table = with_words(self._tokenizer, words), self._folded()
        added = map(tokenizer.id_to_token, range(len(table), tokenizer.get_vocab_size()))
        pieces = (pieces_of(token, self._tokenizer) for token in added)
        # A BPE word may hold letters that the vocabulary lacks: tokens without pieces.
        means = [table[found].sum(axis=0) / max(len(found), 1) for found in pieces]
        self._set(np.concatenate([table, np.reshape(means, (-1, table.shape[1]))]), tokenizer)

    def keep_tokens(self, texts: Iterable[list[str]]) -> None:
        """Keep the `init.tokens` most frequent tokens: others are made of those, by the tokenizer's rules."""
        table = self._folded()
        kept = kept_tokens(self._tokenizer, len(table), texts, self.params.init.tokens)
        if kept is None:
            return
        if self.params.rotates and (used := self._used[kept].sum()) <= table.shape[1]:
            raise UserError(
                f"init.tokens is {self.params.init.tokens}, which leaves {used} tokens in use; a PCA to "
                f"{table.shape[1]} dimensions needs {table.shape[1] + 1}: raise it, lower dim, or set "
                "train.regularise.pca: false"
            )
        self._set(table[kept], with_tokens(self._tokenizer, kept))

    def tokenise(self, texts: list[str]) -> Tokens:
        """Token ids without special and unknown tokens: the saved model leaves the unknown ones out too."""
        tokens = tokenise(self._tokenizer, texts, special=False)
        return tokens if self._unknown is None else tokens.without(self._unknown)

    @torch.no_grad()
    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Map the table linearly to where its means come closest to the targets (n, dim)."""
        if self.params.init.projection == "none":
            return
        rows = np.arange(min(len(tokens), self.params.init.ridge_rows))
        weights, bias = ridge(
            self.encode(tokens.select(rows)).vectors.numpy(), targets[rows], self.params.init.ridge_lambda
        )
        # A bias on every row is a bias on every mean of rows.
        moved = self._table.weight @ torch.from_numpy(weights).float() + torch.from_numpy(bias)
        self._table.weight.copy_(moved)

    def encode(self, tokens: Tokens, *, embedded: bool = False) -> Encoded:
        """Means of weighted token vectors (n, dim); a text without tokens gives zeros."""
        if embedded:
            raise UserError(
                "a static student is an embedding layer and no more; leave hsic and token_embedding out"
            )
        there = self._table.weight.device
        ids = torch.from_numpy(tokens.ids.astype(np.int64)).to(there)
        offsets = torch.from_numpy(tokens.offsets[:-1]).to(there)
        sums = embedding_bag(
            ids,
            self._table.weight,
            offsets,
            mode="sum",
            per_sample_weights=self._weights(ids).squeeze(1),
            sparse=self._table.sparse,
        )
        lengths = torch.from_numpy(np.maximum(tokens.lengths, 1)).to(there)
        return Encoded(sums / lengths.unsqueeze(1), None)

    @torch.no_grad()
    def regularise(self, tokens: Tokens) -> None:
        """Rotate the rows to their principal components and weight them by a / (a + p) (tokenlearn).

        p = (count + 1) / (N + V), a token's frequency in the training texts.
        """
        after = self.params.training.regularise
        table = self._folded()
        if after and after.pca:
            from model2vec.distill.inference import apply_pca

            table[self._used] = apply_pca(table[self._used], table.shape[1])
        if after and after.sif:
            counts = np.zeros(len(table), np.int64)
            for part in in_parts(tokens.ids, COUNTED_AT_A_TIME):
                counts += np.bincount(part, minlength=len(table))
            weights = sif_weights(counts[self._used], after.sif)
            table[self._used] *= weights.astype(np.float32)[:, None]
        self._table.weight.copy_(torch.from_numpy(table))
        self._weights.weight.fill_(1)

    def map_linearly(self, weights: NDArray[np.float32], bias: NDArray[np.float32]) -> None:
        """A linear map (d, dim) and a bias (dim,) of the table's rows are the same of their means."""
        self._set(self._folded() @ weights + bias, self._tokenizer)

    def save(self, folder: Path) -> None:
        """Save as a model2vec folder, which sentence-transformers loads too."""
        table = self._folded()
        config = {"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": table.shape[1]}
        model = StaticModel(
            table, without_special_tokens(self._tokenizer), config=config, normalize=True, max_length=None
        )
        if model.unk_token_id is not None:
            # model2vec leaves unknown tokens out, sentence-transformers does not: a zero row serves both.
            table[model.unk_token_id] = 0
        model.save_pretrained(folder)

    def _folded(self) -> NDArray[np.float32]:
        """The table with the weights multiplied in; tokens without a use are zero."""
        table = (self._table.weight * self._weights.weight).detach().numpy()
        return np.where(self._used[:, None], table, 0).astype(np.float32)


def without_special_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """A copy that puts none around a text, whatever a runtime asks for: not all ask for none."""
    return Tokenizer.from_str(json.dumps(json.loads(tokenizer.to_str()) | {"post_processor": None}))


def sif_weights(counts: NDArray[np.integer], coefficient: float) -> NDArray[np.float64]:
    """Smooth inverse frequency a / (a + p) of every token, p = (count + 1) / (N + V). (V,) -> (V,)."""
    frequency = (counts + 1) / (counts.sum() + len(counts))
    return coefficient / (coefficient + frequency)
