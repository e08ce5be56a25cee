"""A transformer teacher: any sentence-transformers model, or a plain transformers model with a pooling."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.core.machine import Half, how_much_slower, largest_layer
from pipeline.core.progress import say
from pipeline.data.locate import unused_prompts, weights_hash
from pipeline.encoders.packed_model import PackedModel, encoder_of, preprocesses
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Similarity, TransformerTeacher
from pipeline.teacher.shared.local_model import find_teacher, load_model, save_parts
from pipeline.teacher.shared.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

RECIPE_VERSION = 2
UNLIMITED = 10**9
"""Tokens that stand for any number: transformers' tokenizers say 10**30."""


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
        self._params = params
        self.folder = folder
        self.module = load_model(folder, params, runtime.device)
        if params.precision != "float32":
            _tell_if_slower(params.precision, self.module)
        self.prompt = _prompt(self.module, params, folder)
        self.max_length = _max_length(self.module, params)
        self.module.max_seq_length = self.max_length  # for its users, whom the footprint stands for
        self.model = PackedModel(self.module, self.max_length, runtime.tokens_per_batch, self.prompt)
        self.dims = self.model.dims
        self.similarity: Similarity = self.module.similarity_fn_name
        self._check_pooling(params.model)
        self.recipe: dict[str, Any] = {
            "version": RECIPE_VERSION,
            **params.model_dump(),
            # Neither a path of this machine nor a name for a commit is an identity; the files are.
            "model": Path(params.model).name,
            "revision": None,
            "prompt": self.prompt,
            "max_length": self.max_length,
            "weights": weights_hash(folder, code=params.trust_remote_code),
        }
        if preprocesses(encoder_of(self.module)):
            self.recipe["preprocessing"] = "sentence-transformers"
        if self.module.tokenizer.truncation_side != "right":
            self.recipe["truncation_side"] = self.module.tokenizer.truncation_side

    def _check_pooling(self, name: str) -> None:
        try:
            self.model.encode(["a"], ["sentence"])
        except KeyError as error:
            raise UserError(
                f"teacher.model: {name} gives no {error.args[0]}; add a Pooling to its modules.json, or "
                "remove modules.json and set teacher.pooling"
            ) from None

    def encode(self, texts: Sequence[str], views: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, dims[view]) of each view; `sentence` equals SentenceTransformer.encode."""
        return self.model.encode(texts, views)

    def save_parts(self, folder: Path) -> Vocabulary:
        """Save the encoder as a transformers folder; return what encodes tokens on their own (model2vec)."""
        return save_parts(
            self.module, folder, self._params, self.recipe["weights"], self.model.tokens_per_batch
        )

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors by sentence-transformers' own encode, with its defaults."""
        return self.module.encode(list(texts), prompt=self.prompt, show_progress_bar=False)


def _prompt(model: "SentenceTransformer", params: TransformerTeacher, folder: Path) -> str:
    if params.prompt is not None:
        return params.prompt
    if names := unused_prompts(folder):
        said = f"teacher: {params.model} has prompts ({', '.join(names)}), and none of them is its default: "
        say(said + "texts are encoded without; teacher.prompt puts one before all texts")
    name = model.default_prompt_name
    return (model.prompts[name] or "") if name else ""


def _tell_if_slower(precision: Half, model: "SentenceTransformer") -> None:
    layer = largest_layer(encoder_of(model).model)
    if layer and (said := how_much_slower(precision, layer, str(model.device))):
        say(f"teacher.precision: {said}")


def _max_length(model: "SentenceTransformer", params: TransformerTeacher) -> int:
    own = model.max_seq_length or model.tokenizer.model_max_length
    settings: dict[str, Any] = {**encoder_of(model).processing_kwargs}
    for place in ("common", "text", "chat_template"):
        if stated := settings.get(place, {}).get("max_length"):
            own = stated
            if params.max_length and params.max_length != stated:
                raise UserError(
                    f"teacher.max_length is {params.max_length}, but sentence_bert_config.json of "
                    f"{params.model} sets processing_kwargs.{place}.max_length to {stated}, which counts; "
                    "remove one of the two"
                )
    stated = getattr(model[0].config, "max_position_embeddings", None)
    positions = stated if stated and stated > 0 else UNLIMITED  # XLNet, which has none, says -1
    table = getattr(getattr(model[0].model, "embeddings", None), "position_embeddings", None)
    if table is not None and table.padding_idx is not None:
        positions -= table.padding_idx + 1
    if params.max_length and params.max_length > positions:
        raise UserError(
            f"teacher.max_length is {params.max_length}; {params.model} has {positions} positions"
        )
    found = params.max_length or min(own, positions)
    if found >= UNLIMITED:
        raise UserError(f"teacher.max_length: {params.model} names no longest text; set it to 512, say")
    return found
