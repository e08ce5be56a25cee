"""A small transformer with mean pooling and a linear projection (HPD), from chosen layers of the teacher."""

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.base.modules import Transformer as TransformerModule
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn

from pipeline.artifacts import teacher_parts
from pipeline.core.errors import UserError
from pipeline.core.params.students import TransformerStudent
from pipeline.students.ridge import ridge
from pipeline.training.tokens import Tokens, tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LAYER = re.compile(r"^(.*\blayer\.)(\d+)(\..*)$")
"""How BERT, RoBERTa, MPNet, DistilBERT and ELECTRA name the tensors of a layer."""
TOKENS_AT_A_TIME = 512
"""Padded tokens of one forward pass: a batch is split by length, which wastes little on padding."""


def build(params: TransformerStudent, teacher_folder: Path) -> "Transformer":
    """The student before training: the teacher's embeddings and the chosen layers, a random projection.

    Raises:
        UserError: a layer or a length that the teacher does not have is chosen.
    """
    teacher = teacher_parts.read_encoder(teacher_folder)
    positions = teacher.config.max_position_embeddings
    if params.init.max_length > positions:
        raise UserError(f"init.max_length is {params.init.max_length}, the teacher has {positions} positions")
    encoder = keep_layers(teacher, params.init.layers)
    encoder_module = _module(encoder, teacher_folder, params.init.max_length)
    hidden = encoder_module.get_embedding_dimension()
    pooling = Pooling(hidden, "mean")
    activation = nn.Tanh() if params.init.activation == "tanh" else nn.Identity()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.train.seed)
        projection = Dense(hidden, params.dim, bias=True, activation_function=activation)
    return Transformer(
        params, SentenceTransformer(modules=[encoder_module, pooling, projection], device="cpu")
    )


def load(params: TransformerStudent, folder: Path) -> "Transformer":
    """A saved student, to go on training."""
    return Transformer(
        params, SentenceTransformer(str(folder), device="cpu", model_kwargs={"use_safetensors": True})
    )


class Transformer:
    """A student whose vectors are computed by the very modules that are saved."""

    def __init__(self, params: TransformerStudent, model: SentenceTransformer) -> None:
        self.params = params
        # Distillation is a regression on fixed targets: dropout would be noise, and a resumed run would
        # need its state.
        self.module: nn.Module = model.eval()
        self._model = model
        self._tokenizer = model.tokenizer.backend_tokenizer
        self._pad = model.tokenizer.pad_token_id or 0

    def tokenise(self, texts: list[str]) -> Tokens:
        """Token ids with special tokens, cut at max_length."""
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.params.init.max_length)
        return tokenise(self._tokenizer, texts, special=True)

    @torch.no_grad()
    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Ridge regression from pooled outputs to the targets (n, dim), unless params want random weights."""
        if self.params.init.projection == "random":
            return
        rows = np.arange(min(len(tokens), self.params.init.ridge_rows))
        pooled = self._through(tokens.select(rows), list(self._model)[:2])
        weights, bias = ridge(pooled.numpy(), targets[rows], self.params.init.ridge_lambda)
        linear = cast(Dense, self._model[2]).linear
        linear.weight.copy_(torch.from_numpy(weights.T))
        linear.bias.copy_(torch.from_numpy(bias))

    def vectors(self, tokens: Tokens) -> Tensor:
        """Sentence vectors (n, dim), differentiable."""
        return self._through(tokens, list(self._model))

    def regularise(self, tokens: Tokens) -> None:
        """Nothing: a transformer is final as trained."""

    def save(self, folder: Path) -> None:
        """Save as a sentence-transformers folder."""
        self._model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)

    def _through(self, tokens: Tokens, modules: list[nn.Module]) -> Tensor:
        """Sentence vectors (n, d) after these modules, computed in groups of similar length."""
        parts, rows = [], []
        for group in length_groups(tokens.lengths, TOKENS_AT_A_TIME):
            ids, mask = tokens.select(group).padded(self._pad)
            features = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
            for module in modules:
                features = module(features)
            parts.append(features["sentence_embedding"])
            rows.append(group)
        back = np.argsort(np.concatenate(rows))
        return torch.cat(parts)[torch.from_numpy(back)]


def length_groups(lengths: NDArray[np.int64], tokens: int) -> list[NDArray[np.int64]]:
    """Rows in groups of similar length, each of at most `tokens` padded tokens or one row."""
    order = np.argsort(lengths, kind="stable")
    groups, start = [], 0
    for stop in range(1, len(order) + 1):
        full = stop == len(order) or (stop + 1 - start) * lengths[order[stop]] > tokens
        if full:
            groups.append(order[start:stop])
            start = stop
    return groups


def keep_layers(encoder: "PreTrainedModel", layers: tuple[int, ...]) -> "PreTrainedModel":
    """A model of the same kind with only these encoder layers, in this order.

    Raises:
        UserError: the encoder has no such layer, or names its layers in an unknown way.
    """
    count = encoder.config.num_hidden_layers
    if max(layers) >= count:
        raise UserError(f"init.layers names layer {max(layers)}, the teacher has {count} (0 to {count - 1})")
    new_number = {str(old): str(new) for new, old in enumerate(layers)}
    state, seen = {}, set()
    for name, tensor in encoder.state_dict().items():
        match = LAYER.match(name)
        if match and match[2] in new_number:
            seen.add(match[2])
            state[f"{match[1]}{new_number[match[2]]}{match[3]}"] = tensor
        elif not match:
            state[name] = tensor
    if seen != set(new_number):
        raise UserError(
            f"the layers of a {encoder.config.model_type} model cannot be told from its tensors' names"
        )
    config = encoder.config.__class__.from_dict(
        {**encoder.config.to_dict(), "num_hidden_layers": len(layers)}
    )
    kept = encoder.__class__(config)
    kept.load_state_dict(state)
    return kept


def _module(encoder: "PreTrainedModel", teacher_folder: Path, max_length: int) -> TransformerModule:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(teacher_folder)
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    with tempfile.TemporaryDirectory() as folder:
        encoder.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        module = TransformerModule(folder, model_kwargs={"use_safetensors": True, "dtype": torch.float32})
    module.max_seq_length = max_length
    return module
