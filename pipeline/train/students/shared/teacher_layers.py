"""Part of an encoder: some of its layers, wrapped for sentence-transformers."""

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from sentence_transformers.base.modules import Transformer as TransformerModule
from torch import nn

from pipeline.core.errors import UserError
from pipeline.encoders.packing.packing import FAMILIES, first_position

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

LAYER = re.compile(r"^(.*\blayers?\.)(\d+)(\..*)$")
"""How BERT, RoBERTa, MPNet, DistilBERT, ELECTRA and DeBERTa (`layer`), ModernBERT, Qwen, Gemma and Mistral
(`layers`) name the tensors of a layer."""


def keep_layers(encoder: "PreTrainedModel", layers: tuple[int, ...]) -> "PreTrainedModel":
    """A model of the same kind with only these encoder layers, in this order.

    Raises:
        UserError: the encoder has no such layer, names its layers in an unknown way, or its layers are so
            unlike each other that the chosen ones cannot take the places of the first.
    """
    count = encoder.config.num_hidden_layers
    if max(layers) >= count:
        raise UserError(
            f"init.layers names layer {max(layers)}, the encoder has {count} (0 to {count - 1}); name "
            "others, or set it to auto"
        )
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
            f"the layers of a {encoder.config.model_type} model cannot be told from its tensors' names; take "
            "the kinds bilstm and static, or name another encoder as init.model"
        )
    settings = {**encoder.config.to_dict(), "num_hidden_layers": len(layers)}
    for key, value in settings.items():
        if not ("layer" in key or key == "attention_window") or not isinstance(value, list) or not value:
            continue
        if len(value) != count:
            raise UserError(
                f"a {encoder.config.model_type} model has some layers apart ({key}); set init.layers to null"
            )
        settings[key] = [value[layer] for layer in layers]  # `layer_types`: attention to all, or a window
    kept = encoder.__class__(encoder.config.__class__.from_dict(settings))
    try:
        kept.load_state_dict(state)
    except RuntimeError:
        fix = "set init.layers to others, or to null" if layers[0] == 0 else "let init.layers begin with 0"
        chosen = ", ".join(map(str, layers))
        raise UserError(
            f"layers {chosen} of a {encoder.config.model_type} model have other tensors than its first ones, "
            f"whose places they take; {fix}"
        ) from None
    return kept


@torch.no_grad()
def narrow_feed_forward(encoder: "PreTrainedModel", width: int) -> "PreTrainedModel":
    """A model of the same kind whose feed-forward blocks have only `width` neurons, the strongest ones.

    A neuron counts by the product of the lengths of the weights that lead to it and from it.

    Raises:
        UserError: the blocks are narrower than that, or the encoder names its layers in an unknown way.
    """
    names = FAMILIES.get(type(encoder).__name__)
    if names is None:
        raise UserError(
            f"init.intermediate: the feed-forward blocks of a {encoder.config.model_type} model are unknown; "
            "remove it"
        )
    key = "intermediate_size" if hasattr(encoder.config, "intermediate_size") else "hidden_dim"
    if width > getattr(encoder.config, key):
        raise UserError(
            f"init.intermediate is {width}, the encoder's layers have {getattr(encoder.config, key)} neurons"
            "; lower it"
        )
    config = encoder.config.__class__.from_dict({**encoder.config.to_dict(), key: width})
    narrow = encoder.__class__(config)
    state = encoder.state_dict()
    for number, layer in enumerate(encoder.get_submodule(names.layers).children()):
        inner, outer = (cast("nn.Linear", layer.get_submodule(name)) for name in (names.inner, names.outer))
        strength = inner.weight.norm(dim=1) * outer.weight.norm(dim=0)
        kept = strength.topk(width).indices.sort().values
        place = f"{names.layers}.{number}"
        state[f"{place}.{names.inner}.weight"] = inner.weight[kept]
        state[f"{place}.{names.inner}.bias"] = inner.bias[kept]
        state[f"{place}.{names.outer}.weight"] = outer.weight[:, kept]
    narrow.load_state_dict(state)
    return narrow


def as_module(encoder: "PreTrainedModel", tokenizer_folder: Path, max_length: int) -> TransformerModule:
    """The encoder with the tokenizer of a folder, as sentence-transformers' first module.

    Raises:
        UserError: the encoder has fewer positions than max_length, is another once it was saved and read, or
            has no fast tokenizer.
    """
    check_module(encoder, max_length)
    tokenizer = fast_tokenizer(tokenizer_folder)
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    with tempfile.TemporaryDirectory() as folder:
        encoder.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        module = TransformerModule(folder, model_kwargs={"use_safetensors": True, "dtype": torch.float32})
    module.max_seq_length = max_length
    return module


def fast_tokenizer(folder: Path) -> "PreTrainedTokenizerFast":
    """The tokenizer of a model's folder.

    Raises:
        UserError: it is no fast one.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    if not tokenizer.is_fast:
        raise UserError(
            f"init.model: {folder} has no tokenizer.json (only fast tokenizers are supported); "
            "name another model"
        )
    tokenizer.chat_template = None  # with one, sentence-transformers would wrap every text
    return cast("PreTrainedTokenizerFast", tokenizer)


def check_module(encoder: "PreTrainedModel", max_length: int) -> None:
    """Fail where an encoder cannot be saved for sentence-transformers; its weights are not looked at.

    Raises:
        UserError: the encoder has fewer positions than max_length, or is another once it was saved and read.
    """
    settings = encoder.config.to_dict()
    again = type(encoder.config).from_dict(encoder.config.to_dict()).to_dict()
    if changed := [key for key, value in settings.items() if again.get(key) != value]:
        # As Gemma 3 with attention both ways: it halves its window whenever its settings are read.
        raise UserError(
            f"a {encoder.config.model_type} model like this one cannot be saved: {changed[0]} changes from "
            f"{settings[changed[0]]} to {again.get(changed[0])}; take the kinds bilstm and static, or name "
            "another encoder as init.model"
        )

    known = getattr(encoder.config, "max_position_embeddings", None) or 0
    if known > 0 and max_length > known - first_position(encoder):  # positions may be relative alone
        raise UserError(
            f"init.max_length is {max_length}, the encoder has {known - first_position(encoder)} positions; "
            "lower it"
        )


def width_of(encoder: "PreTrainedModel") -> int:
    """Dimension of an encoder's last hidden states."""
    return int(encoder.config.get_text_config().hidden_size)


def numbers_of(*modules: nn.Module) -> int:
    """How many numbers modules hold that are trained."""
    return sum(parameter.numel() for module in modules for parameter in module.parameters())
