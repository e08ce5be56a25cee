"""Word vectors, a bidirectional LSTM, pooling and a bias-free output layer (SRA)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import LSTM, Pooling, WordEmbeddings, WordWeights
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import PackedSequence

from pipeline.core.errors import UserError
from pipeline.data import teacher_parts
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.data.student import student_folder
from pipeline.data.tokens.tokens import Tokens, tokenise
from pipeline.params.students import BilstmInit, BilstmStudent
from pipeline.train.students.shared import vocabulary
from pipeline.train.students.shared.base.interface import Encoded
from pipeline.train.students.shared.base.settings import write_tokenizer_config
from pipeline.train.students.shared.near_identity import copy_words
from pipeline.train.students.shared.ridge import ridge
from pipeline.train.students.shared.starting_words import starting_words
from pipeline.train.students.shared.teacher_layers import numbers_of
from pipeline.train.students.shared.word_vectors import SPECIAL, read_word_vectors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LARGEST = 0.99
"""Target that tanh is solved for: it reaches 1 at infinity only."""

GROUP = 32
"""Texts, of similar lengths, that are filled up to the longest of them."""

Lengths = NDArray[np.int64]


def build(params: BilstmStudent, teacher_folder: Path) -> "Bilstm":
    """The student before training: word vectors, an LSTM and an output layer, which start as `init` says.

    Args:
        params: its block.
        teacher_folder: the teacher's parts; its vocabulary's where `params.reads_vocabulary`.

    Raises:
        UserError: the file of word vectors cannot be read, or the tokenizer has no token for an empty text.
    """
    init = params.init
    tokenizer, table = starting_words(init, teacher_folder)
    ends = tokenizer("")["input_ids"]
    _check_ends(init, len(ends))
    lstm, output = _trained_from_scratch(params, table.shape[1])
    if init.lstm == "identity":
        copy_words(lstm.encoder, torch.from_numpy(table), params.seed)
    width = lstm.get_embedding_dimension()
    words = _word_embeddings(init, tokenizer, torch.from_numpy(table))
    pooling = [Pooling(width, "max" if init.pooling == "max" else "mean")]
    if init.pooling == "last":
        pooling = [_leaving(ends, len(table)), *pooling]
    return Bilstm(params, SentenceTransformer(modules=[words, lstm, *pooling, output], device="cpu"))


def weigh(params: BilstmStudent, teacher: TeacherFacts) -> int:
    """How many numbers `build` starts from, by the teacher's facts; of a file, `max_words` words at most.

    Raises:
        UserError: as `build`.
    """
    init = params.init
    if init.path:
        _, vectors = read_word_vectors(Path(init.path), 1, lowercase=init.lowercase)
        rows, dim = init.max_words + len(SPECIAL), vectors.shape[1]
    elif params.reads_vocabulary:
        rows, dim = teacher.tokens, teacher.token_dim
        _check_ends(init, teacher.ends)
    else:
        rows, dim = cast(
            "nn.Embedding", teacher_parts.empty_encoder(teacher.config).get_input_embeddings()
        ).weight.shape
        _check_ends(init, teacher.ends)
    with torch.device("meta"):
        return rows * dim + numbers_of(*_trained_from_scratch(params, dim))


def _check_ends(init: BilstmInit, ends: int) -> None:
    needed = 2 if init.pooling == "last" else 1
    if ends < needed:
        raise UserError(
            f"init.embeddings: the teacher's tokenizer puts {ends} special tokens around a text, "
            f"`pooling: {init.pooling}` needs {needed}; use `embeddings: file`"
        )


def _trained_from_scratch(params: BilstmStudent, dim: int) -> tuple[LSTM, Dense]:
    """The LSTM over word vectors of this dimension, and the output layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        lstm = LSTM(dim, params.init.units)
        activation = nn.Tanh() if params.init.activation == "tanh" else nn.Identity()
        width = lstm.get_embedding_dimension()
        return lstm, Dense(width, params.width, bias=False, activation_function=activation)


def load(params: BilstmStudent, folder: Path) -> "Bilstm":
    """A saved student, to go on training."""
    return Bilstm(params, student_folder.read_to_train(folder, f"distill@{folder.name}"))


class Bilstm:
    """A sentence-transformers model of WordEmbeddings, LSTM, Pooling and Dense, in training.

    The forward direction's last state is at a text's last token, the backward one's at its first. No module
    of sentence-transformers takes both, but WordWeights can leave out all other tokens. The mean of the two
    is half of both last states, plus what each direction makes of its first token: a constant.
    """

    teacher_ids: NDArray[np.int64] | None = None
    """(V,) the ids that the tokens had before some were left out; None where none were."""

    def __init__(self, params: BilstmStudent, model: SentenceTransformer) -> None:
        self._params = params
        self._init = params.init
        self._set(model)

    def _set(self, model: SentenceTransformer) -> None:
        self.module: nn.Module = model
        self._model = model
        self._words = cast("WordEmbeddings", model[0])
        self._words.emb_layer.sparse = bool(self._params.train and self._params.train.sparse)
        self._lstm = cast("LSTM", model[1])
        self._after = 1 + next(at for at, module in enumerate(model) if isinstance(module, Pooling))
        self._pooling = cast("Pooling", model[self._after - 1])
        self._output = cast("Dense", model[self._after])
        self._only: NDArray[np.int64] | None = None
        if isinstance(model[2], WordWeights):
            weights = model[2].emb_layer.weight.requires_grad_(False)
            self._only = weights.flatten().numpy().nonzero()[0]
        self._tokenizer = model.tokenizer.tokenizer.backend_tokenizer

    def learn_vocabulary(self, texts: Callable[[], Iterable[list[str]]]) -> None:
        """Keep the `init.tokens` most frequent tokens: others are made of those, by the tokenizer's rules."""
        tokenizer, table = self._model.tokenizer.tokenizer, self._words.emb_layer.weight.detach()
        kept = vocabulary.learn(tokenizer, len(table), texts(), self._init.tokens)
        if kept is None:
            return
        fewer = vocabulary.cut(tokenizer, kept)
        modules: list[nn.Module] = list(self._model)
        modules[0] = _word_embeddings(self._init, fewer, table[kept])
        if isinstance(modules[2], WordWeights):
            modules[2] = _leaving(fewer("")["input_ids"], len(kept))
        self.teacher_ids = np.array(kept)
        self._set(SentenceTransformer(modules=modules, device="cpu"))

    def tokenise(self, texts: list[str]) -> Tokens:
        """Token ids with special tokens; of a longer text, the first max_length."""
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        return _first(tokenise(self._tokenizer, texts, special=True), self._init.longest)

    @torch.no_grad()
    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Ridge regression from pooled states to what the activation maps to the targets (n, dim)."""
        if self._init.projection != "ridge":
            return
        rows = np.arange(min(len(tokens), self._init.ridge_rows))
        pooled = torch.cat([self._pooled(part)[0] for part in tokens.select(rows).in_parts()])
        wanted = targets[rows]
        if self._init.activation == "tanh":
            wanted = np.arctanh(np.clip(wanted, -LARGEST, LARGEST))
        weights, _ = ridge(pooled.numpy(), wanted, self._init.ridge_lambda, bias=False)
        self._output.linear.weight.copy_(torch.from_numpy(weights.T))

    def encode(self, tokens: Tokens, *, embedded: bool = False) -> Encoded:
        """Sentence vectors, and the word vectors of all tokens if asked for."""
        pooled, words = self._pooled(tokens)
        features = {"sentence_embedding": pooled}
        for module in list(self._model)[self._after :]:
            features = module(features)
        return Encoded(features["sentence_embedding"], words if embedded else None)

    def regularise(self, tokens: Tokens) -> None:
        """Nothing: a BiLSTM is final as trained."""

    def save(self, folder: Path) -> None:
        """Save as a sentence-transformers folder."""
        self._model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)
        write_tokenizer_config(folder)

    def _pooled(self, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """Pooled states (n, 2 units) and word vectors (T, d)."""
        words: Tensor = self._words.emb_layer(
            torch.from_numpy(tokens.ids.astype(np.int64)).to(self._model.device)
        )
        lengths = tokens.lengths
        found = states(self._lstm.encoder, words, lengths).float()
        if self._only is not None:
            kept = np.isin(tokens.ids, self._only)
            found, lengths = found[torch.from_numpy(kept)], np.add.reduceat(kept, tokens.offsets[:-1])
        mode = str(self._pooling.pooling_mode)
        texts = torch.from_numpy(lengths).to(found.device)
        return torch.segment_reduce(found, mode, lengths=texts, axis=0, unsafe=True), words


def states(lstm: nn.LSTM, words: Tensor, lengths: Lengths) -> Tensor:
    """Both directions' states (T, 2 units) of the word vectors (T, d) of texts of these lengths.

    The backward direction starts at a text's own end. cuDNN takes that as packed sequences. On a CPU PyTorch
    computes those by itself; oneDNN, far faster, takes texts that are filled up, one direction at a time.
    """
    return (filled_up if words.is_cpu else packed)(lstm, words, lengths)


def packed(lstm: nn.LSTM, words: Tensor, lengths: Lengths) -> Tensor:
    """The states by packed sequences, of float32: in autocast cuDNN's LSTM knows float16 alone."""
    order = np.argsort(-lengths, kind="stable")
    step, text = np.nonzero(np.arange(lengths.max())[:, None] < lengths[order])
    lying = torch.from_numpy((np.cumsum(lengths) - lengths)[order][text] + step).to(words.device)
    with torch.autocast(words.device.type, enabled=False):
        together = embedding(lying, words.float())
        found = lstm(PackedSequence(together, torch.from_numpy(np.bincount(step))))[0].data
        return embedding(lying.argsort(), found)


def filled_up(lstm: nn.LSTM, words: Tensor, lengths: Lengths) -> Tensor:
    """The states by texts that are filled up at their ends, for the backward direction reversed before."""
    return torch.cat([_one_way(lstm, words, lengths, backward=backward) for backward in (False, True)], 1)


def _one_way(lstm: nn.LSTM, words: Tensor, lengths: Lengths, *, backward: bool) -> Tensor:
    """One direction's states, (T, units)."""
    weights: list[Tensor] = [
        weight for name, weight in lstm.named_parameters() if name.endswith("_reverse") == backward
    ]
    start = words.new_zeros(1, 1, lstm.hidden_size)
    order = np.argsort(lengths, kind="stable")
    starts = np.cumsum(lengths) - lengths
    outputs, computed, row = [], 0, np.empty(len(words), np.int64)
    for group in np.split(order, range(GROUP, len(order), GROUP)):
        step, last = np.arange(lengths[group].max())[:, None], lengths[group] - 1
        inside = step <= last
        word = starts[group] + np.where(inside, last - step if backward else step, 0)
        filled = embedding(torch.from_numpy(word), words)
        first = start.expand(1, len(group), lstm.hidden_size)
        output = torch.lstm(filled, (first, first), weights, True, 1, 0.0, lstm.training, False, False)[0]
        outputs.append(output.flatten(0, 1))
        row[word[inside]] = computed + np.flatnonzero(inside)
        computed += inside.size
    return embedding(torch.from_numpy(row), torch.cat(outputs))


def _word_embeddings(init: BilstmInit, tokenizer: "PreTrainedTokenizerBase", table: Tensor) -> WordEmbeddings:
    return WordEmbeddings(tokenizer, table, update_embeddings=True, max_seq_length=init.longest)


def _leaving(kept: list[int], rows: int) -> WordWeights:
    """A module that leaves out all tokens but these; it takes the rows' names and never looks at them."""
    names = [str(row) for row in range(rows)]
    return WordWeights(names, {names[row]: 1.0 for row in kept}, unknown_word_weight=0.0)


def _first(tokens: Tokens, most: int) -> Tokens:
    """The first `most` tokens of every sequence."""
    lengths = np.minimum(tokens.lengths, most)
    kept = np.arange(len(tokens.ids)) - np.repeat(tokens.offsets[:-1], tokens.lengths) < most
    return Tokens(tokens.ids[kept], np.concatenate([[0], np.cumsum(lengths)]))
