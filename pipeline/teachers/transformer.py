"""A transformer teacher: any sentence-transformers model, or a plain transformers model with a pooling."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from pipeline.core.errors import UserError
from pipeline.core.params.runtime import Runtime
from pipeline.core.params.teacher import TransformerTeacher
from pipeline.encoders.locate import weights_hash
from pipeline.encoders.packing import PackedEncoder, can_pack
from pipeline.teachers.parts import encoder_of, find_teacher, load_model, save_parts, special_around

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# oneDNN compiles a kernel for every shape that it meets, and keeps 1024 of some megabytes; so does torch's
# part of it. Hardly two batches have as many tokens, so few are met again. Both read this before their first
# product.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "64")

RECIPE_VERSION = 1


def load(params: TransformerTeacher, runtime: Runtime) -> "Transformer":
    """The transformer teacher of these params.

    Raises:
        UserError: the model is missing or cannot be loaded as asked.
    """
    return Transformer(params, runtime)


class Transformer:
    """A sentence-transformers model, fed with length-sorted batches, packed where it can be."""

    def __init__(self, params: TransformerTeacher, runtime: Runtime) -> None:
        folder = find_teacher(params)
        self.folder = folder
        self.module = load_model(folder, params, runtime.device)
        self.tokens_per_batch = runtime.tokens_per_batch
        self.prompt = _prompt(self.module, params)
        self.max_length = _max_length(self.module, params)
        hidden = encoder_of(self.module).get_embedding_dimension()
        sentence = int(self.module.get_embedding_dimension() or hidden)
        self.dims = {"sentence": sentence, "token_mean": hidden, "cls": hidden}
        self.recipe: dict[str, Any] = {
            "version": RECIPE_VERSION,
            **params.model_dump(),
            "model": Path(params.model).name,  # a path of this machine is no identity; the weights are
            "prompt": self.prompt,
            "max_length": self.max_length,
            "weights": weights_hash(folder),
        }
        self._tokenizer = _bulk_tokenizer(self.module, self.max_length)
        encoder = encoder_of(self.module).model
        self._packed = PackedEncoder(encoder) if can_pack(encoder) else None

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], views: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, dims[view]) of each view; `sentence` equals SentenceTransformer.encode."""
        encodings = self._tokenised(texts)
        lengths = np.array([len(encoding.ids) for encoding in encodings])
        found = {view: np.empty((len(texts), self.dims[view]), np.float32) for view in views}
        for batch in length_sorted_batches(lengths, self.tokens_per_batch):
            outputs = self._outputs([encodings[row] for row in batch])
            for view in views:
                found[view][batch] = _view(view, outputs).cpu().numpy()
        return found

    def save_parts(self, folder: Path) -> NDArray[np.float32]:
        """Save the encoder as a transformers folder; return every token's vector on its own (model2vec)."""
        return save_parts(self.module, folder)

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors by sentence-transformers' own encode, with its defaults."""
        return self.module.encode(list(texts), prompt=self.prompt, show_progress_bar=False)

    def _tokenised(self, texts: Sequence[str]) -> list[Encoding]:
        return self._tokenizer.encode_batch_fast([self.prompt + text for text in texts])

    def _outputs(self, encodings: list[Encoding]) -> dict[str, Any]:
        """All that the model's modules give for a batch, after the encoder in float32."""
        features = self._features(encodings)
        special = features.pop("special_tokens_mask")
        encoder, *others = self.module
        if self._packed:
            mask = features["attention_mask"].bool()
            hidden = self._packed(features["input_ids"][mask], mask.sum(1).tolist())
            tokens = hidden.new_zeros(*mask.shape, hidden.shape[1], dtype=torch.float32)
            tokens[mask] = hidden.float()  # masked_scatter_ is single-threaded
            features["token_embeddings"] = tokens
        else:
            features = encoder(features)
            features["token_embeddings"] = features["token_embeddings"].float()
        for module in others:
            features = module(features)
        return {**features, "special_tokens_mask": special}

    def _features(self, encodings: list[Encoding]) -> dict[str, Any]:
        """A padded batch as the model's first module takes it."""
        lengths = np.array([len(encoding.ids) for encoding in encodings])
        mask = np.arange(lengths.max()) < lengths[:, None]

        def padded(rows: Iterable[list[int]], fill: int) -> torch.Tensor:
            filled = np.full(mask.shape, fill, np.int64)
            filled[mask] = np.concatenate(list(rows))
            return torch.from_numpy(filled).to(self.module.device)

        features: dict[str, Any] = {
            "input_ids": padded((e.ids for e in encodings), self.module.tokenizer.pad_token_id or 0),
            "special_tokens_mask": padded((e.special_tokens_mask for e in encodings), 1),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)).to(self.module.device),
        }
        if "token_type_ids" in self.module.tokenizer.model_input_names:
            features["token_type_ids"] = padded((e.type_ids for e in encodings), 0)
        if self.prompt:
            before, _ = special_around(self.module.tokenizer)
            prompt = self._tokenizer.encode(self.prompt, add_special_tokens=False)
            features["prompt_length"] = len(before) + len(prompt.ids)
        return features


def length_sorted_batches(lengths: NDArray[np.int_], tokens: int) -> list[NDArray[np.int_]]:
    """Row numbers in batches of at most `tokens` padded tokens (one row at least), longest first.

    The longest come first so that a batch that does not fit into memory fails at once.
    """
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        size = max(1, tokens // max(1, int(lengths[order[start]])))
        batches.append(order[start : start + size])
        start += size
    return batches


def _view(view: str, outputs: dict[str, torch.Tensor]) -> torch.Tensor:
    if view == "sentence":
        return outputs["sentence_embedding"]
    hidden = outputs["token_embeddings"]
    if view == "cls":
        return hidden[:, 0]
    kept = (1 - outputs["special_tokens_mask"]).unsqueeze(-1).to(hidden.dtype)
    # A text of special tokens alone has no token to average: its mean is the zero vector.
    return (hidden * kept).sum(1) / kept.sum(1).clamp(min=1)


def _prompt(model: "SentenceTransformer", params: TransformerTeacher) -> str:
    if params.prompt is not None:
        return params.prompt
    name = model.default_prompt_name
    return (model.prompts[name] or "") if name else ""


def _max_length(model: "SentenceTransformer", params: TransformerTeacher) -> int:
    own = model.max_seq_length or model.tokenizer.model_max_length
    positions = getattr(model[0].config, "max_position_embeddings", own)
    table = getattr(getattr(model[0].model, "embeddings", None), "position_embeddings", None)
    if table is not None and table.padding_idx is not None:
        positions -= table.padding_idx + 1
    if params.max_length and params.max_length > positions:
        raise UserError(
            f"teacher.max_length is {params.max_length}; {params.model} has {positions} positions"
        )
    return params.max_length or min(own, positions)


def _bulk_tokenizer(model: "SentenceTransformer", max_length: int) -> Tokenizer:
    """The model's Rust tokenizer, without the fixed padding and truncation that its file may carry."""
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    return tokenizer
