"""A sentence-transformers model, fed with length-sorted batches, packed where it can be."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from pipeline.encoders.packing.packing import PackedEncoder, can_pack

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer as TransformerModule
    from transformers import PreTrainedTokenizerBase

# oneDNN compiles a kernel for every shape that it meets, and keeps 1024 of some megabytes; so does torch's
# part of it. Hardly two batches have as many tokens, so few are met again. Both read this before their first
# product.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "64")

Task: TypeAlias = Literal["query", "document"] | None
MODALITY = "text"
"""What sentence-transformers calls its inputs, by which a Router may choose."""
TEXTS_AT_A_TIME = 16_384
"""Most texts that are held as tokens at a time."""
CHARACTERS_AT_A_TIME = 1 << 22
"""Most characters of them, but for a single text. A token takes some 155 bytes until its text is encoded, one
that is cut off too: 160 MB at 4 characters a token, 650 MB at one."""
TOKENS_PER_BATCH = 4096
"""Padded tokens that go through a model at a time, where nobody says otherwise."""


class PackedModel:
    """A model whose first module is a transformer with a fast tokenizer.

    Args:
        module: the model.
        max_length: tokens after which a text is cut.
        tokens_per_batch: padded tokens that go through the model at a time.
        training: whether its weights change; `sentence_vectors` can then be differentiated.
    """

    def __init__(
        self,
        module: "SentenceTransformer",
        max_length: int,
        tokens_per_batch: int = TOKENS_PER_BATCH,
        *,
        training: bool = False,
    ) -> None:
        self.module = module
        self.tokens_per_batch = tokens_per_batch
        hidden = encoder_of(module).get_embedding_dimension()
        sentence = int(module.get_embedding_dimension() or hidden)
        self.dims = {"sentence": sentence, "token_mean": hidden, "cls": hidden}
        self._tokenizer = _bulk_tokenizer(module, max_length)
        first = encoder_of(module)
        packs = can_pack(first.model) and not _is_another(first) and _hands_on_the_last_layer(first)
        self._packed = PackedEncoder(first.model, training=training) if packs else None
        self._preprocess = first.preprocess if preprocesses(first) else None

    @property
    def knows_tasks(self) -> bool:
        """Whether a part of the model treats queries and documents apart, beside their prompts."""
        first = encoder_of(self.module)
        by_text = self._preprocess is not None and (
            _is_another(first) or first._chat_template_declares_task()
        )
        return by_text or "task" in self.module.get_model_kwargs()

    @torch.inference_mode()
    def encode(
        self, texts: Sequence[str], views: Sequence[str], prompt: str = "", task: Task = None
    ) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, dims[view]) of each view; `sentence` equals SentenceTransformer.encode.

        Args:
            texts: any.
            views: of `dims`.
            prompt: is put before every text.
            task: what the texts are, for models that treat queries and documents apart.
        """
        found = {view: np.empty((len(texts), self.dims[view]), np.float32) for view in views}
        for start, stop in windows(texts):
            for batch, features in self._batches(texts[start:stop], prompt, task):
                outputs = self._outputs(features, task)
                for view in views:
                    # A model that says `truncate_dim` gives the first dimensions of its sentence vectors.
                    found[view][start + batch] = _view(view, outputs)[:, : self.dims[view]].cpu().numpy()
        return found

    def sentence_vectors(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> torch.Tensor:
        """The view `sentence` (n, dim) of token ids and their mask, both (n, longest)."""
        there = self.module.device
        features: dict[str, Any] = {
            "modality": MODALITY,
            "input_ids": torch.from_numpy(ids).to(there),
            "attention_mask": torch.from_numpy(mask).to(there),
            "special_tokens_mask": torch.from_numpy(1 - mask).to(there),
        }
        if "token_type_ids" in self.module.tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(features["input_ids"])
        return _view("sentence", self._outputs(features))[:, : self.dims["sentence"]]

    def _batches(
        self, texts: Sequence[str], prompt: str, task: Task
    ) -> Iterator[tuple[NDArray[np.int_], dict[str, Any]]]:
        """Row numbers of each batch, and what the model's first module takes for it."""
        encodings = self.tokenise([prompt + text for text in texts])
        lengths = np.array([len(encoding.ids) for encoding in encodings])
        if self._preprocess is None:
            for batch in length_sorted_batches(lengths, self.tokens_per_batch):
                yield batch, self._features([encodings[row] for row in batch], prompt)
            return
        del encodings
        around = self._preprocessed([""], prompt, task)["input_ids"].shape[1]  # a chat template's tokens, say
        for batch in length_sorted_batches(lengths + around, self.tokens_per_batch):
            yield batch, self._preprocessed([texts[row] for row in batch], prompt, task)

    def _preprocessed(self, texts: list[str], prompt: str, task: Task) -> dict[str, Any]:
        """A padded batch as sentence-transformers makes it."""
        assert self._preprocess
        given: dict[str, Any] = {"task": task} if task else {}  # not every class knows it
        features = {
            name: value.to(self.module.device) if isinstance(value, torch.Tensor) else value
            for name, value in self._preprocess(texts, prompt=prompt or None, **given).items()
        }
        special = torch.tensor(self.module.tokenizer.all_special_ids, device=self.module.device)
        known = torch.isin(features["input_ids"], special) | (features["attention_mask"] == 0)
        return {**features, "special_tokens_mask": known.long()}

    def tokenise(self, texts: Sequence[str]) -> list[Encoding]:
        """Their tokens, with special ones, cut at the model's length."""
        return self._tokenizer.encode_batch_fast(list(texts))

    def _outputs(self, features: dict[str, Any], task: Task = None) -> dict[str, Any]:
        """All that the model's modules give for a batch, after the encoder in float32."""
        mask = features["attention_mask"].bool()
        special = features.pop("special_tokens_mask")
        (name, encoder), *others = self.module.named_children()
        if self._packed:
            hidden = self._packed(features["input_ids"][mask], mask.sum(1).tolist())
            tokens = hidden.new_zeros(*mask.shape, hidden.shape[1], dtype=torch.float32)
            tokens[mask] = hidden.float()  # masked_scatter_ is single-threaded
            features["token_embeddings"] = tokens
        else:
            features = encoder(features, **self._keywords(name, encoder, task))
            features["token_embeddings"] = features["token_embeddings"].float()
        hidden_states = features["token_embeddings"]
        for name, module in others:  # some write token_embeddings anew
            features = module(features, **self._keywords(name, module, task))
        return {**features, "hidden_states": hidden_states, "special_tokens_mask": special, "mask": mask}

    def _keywords(self, name: str, module: torch.nn.Module, task: Task) -> dict[str, Task]:
        """What a module's forward is given beside the features."""
        asked = {*getattr(module, "forward_kwargs", ()), *(self.module.module_kwargs or {}).get(name, ())}
        return {"task": task} if "task" in asked else {}

    def _features(self, encodings: list[Encoding], prompt: str) -> dict[str, Any]:
        """A padded batch as the model's first module takes it."""
        lengths = np.array([len(encoding.ids) for encoding in encodings])
        mask = np.arange(lengths.max()) < lengths[:, None]

        def padded(rows: Iterable[list[int]], fill: int) -> torch.Tensor:
            filled = np.full(mask.shape, fill, np.int64)
            filled[mask] = np.concatenate(list(rows))
            return torch.from_numpy(filled).to(self.module.device)

        features: dict[str, Any] = {
            "modality": MODALITY,
            "input_ids": padded((e.ids for e in encodings), self.module.tokenizer.pad_token_id or 0),
            "special_tokens_mask": padded((e.special_tokens_mask for e in encodings), 1),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)).to(self.module.device),
        }
        if "token_type_ids" in self.module.tokenizer.model_input_names:
            features["token_type_ids"] = padded((e.type_ids for e in encodings), 0)
        if prompt:
            before, _ = special_around(self.module.tokenizer)
            found = self._tokenizer.encode(prompt, add_special_tokens=False)
            features["prompt_length"] = len(before) + len(found.ids)
        return features


def windows(texts: Sequence[str], most: int | None = None) -> Iterator[tuple[int, int]]:
    """Where stretches of texts begin and end, of `most` characters; by default as they are held in tokens."""
    start = characters = 0
    most = most or CHARACTERS_AT_A_TIME
    for row, text in enumerate(texts):
        characters += len(text)
        if row > start and (row - start == TEXTS_AT_A_TIME or characters > most):
            yield start, row
            start, characters = row, len(text)
    if start < len(texts):
        yield start, len(texts)


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
    hidden = outputs["hidden_states"]
    if view == "cls":
        first = outputs["mask"].int().argmax(1)  # where padding comes first, it is not the first column
        return hidden[torch.arange(len(hidden), device=hidden.device), first]
    kept = (1 - outputs["special_tokens_mask"]).unsqueeze(-1).to(hidden.dtype)
    # A text of special tokens alone has no token to average: its mean is the zero vector.
    return (hidden * kept).sum(1) / kept.sum(1).clamp(min=1)


def encoder_of(model: "SentenceTransformer") -> "TransformerModule":
    """Its first module, which turns tokens into vectors."""
    return cast("TransformerModule", model[0])


def preprocesses(first: "TransformerModule") -> bool:
    """Whether sentence-transformers does more to a text than to put a prompt before it and to tokenise it.

    It wraps texts with a chat template (the modality `message`), or has settings for the tokenizer
    (`processing_kwargs`), or is of a class of its own. Such texts take its own `preprocess`.
    """
    return "message" in first.modality_config or bool(first.processing_kwargs) or _is_another(first)


def _is_another(first: "TransformerModule") -> bool:
    """Whether a model brings its own class of first module, which may do anything."""
    return not type(first).__module__.startswith("sentence_transformers.")


def _hands_on_the_last_layer(first: "TransformerModule") -> bool:
    """Whether the modules after the encoder get its last hidden states and nothing else."""
    used = first.modality_config["message" if "message" in first.modality_config else "text"]
    return (
        used["method_output_name"] == "last_hidden_state"
        and first.module_output_name == "token_embeddings"
        and not first.model.config.output_hidden_states
    )


def special_around(tokenizer: "PreTrainedTokenizerBase") -> tuple[list[int], list[int]]:
    """The ids of the special tokens before and after a text."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    first = special.index(0)
    last = len(special) - special[::-1].index(0)
    return ids[:first], ids[last:]


def _bulk_tokenizer(model: "SentenceTransformer", max_length: int) -> Tokenizer:
    """The model's Rust tokenizer, cut at a length."""
    tokenizer = whole_tokenizer(model.tokenizer)
    tokenizer.enable_truncation(max_length, direction=model.tokenizer.truncation_side)
    return tokenizer


def whole_tokenizer(tokenizer: "PreTrainedTokenizerBase") -> Tokenizer:
    """A copy of its Rust tokenizer, without the fixed padding and truncation that its file may carry."""
    found = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    found.no_padding()
    found.no_truncation()
    found.encode_special_tokens = tokenizer.split_special_tokens
    return found
