"""Part of an encoder: some of its layers, wrapped for sentence-transformers."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import torch
from sentence_transformers.base.modules import Transformer as TransformerModule
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.data import teacher_parts
from pipeline.data.models.locate import find_model
from pipeline.data.models.padding import give_padding
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.encoders.packing.packing import BERT, FAMILIES, Names, positions_of
from pipeline.train.students.shared.base.settings import settings_of, write_settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

DEBERTA = ("DebertaModel", "DebertaV2Model")
ALBERT = replace(
    BERT,
    layers="encoder.albert_layer_groups",
    query_key_value=("attention.query", "attention.key", "attention.value"),
    attended="attention.dense",
    attended_norm="attention.LayerNorm",
    inner="ffn",
    outer="ffn_output",
    outer_norm="full_layer_layer_norm",
    activation="activation",
)
NAMES: Mapping[str, Names] = {**FAMILIES, "AlbertModel": ALBERT, **dict.fromkeys(DEBERTA, BERT)}
"""Where the parts of a layer are, by the class of the model, whether or not it takes the packed path."""
OF_ALL_LAYERS = "relative_attention_bias.weight"
"""T5's first layer keeps the biases of all."""


class Start(Protocol):
    """Where an encoder student starts."""

    @property
    def model(self) -> str | None:
        """A pretrained encoder; None: the teacher's parts."""
        ...

    @property
    def revision(self) -> str | None:
        """Of a model of the hub."""
        ...


def start_of(init: Start, teacher_folder: Path) -> tuple["PreTrainedModel", Path]:
    """The encoder that a student starts from, and its folder.

    Raises:
        UserError: it cannot be loaded, or is half of a model with a decoder.
    """
    if init.model:
        folder = find_model(init.model, "init.model", revision=init.revision)
        encoder = teacher_parts.load_encoder(folder, "set init.model to another model")
    else:
        folder, encoder = teacher_folder, teacher_parts.read_encoder(teacher_folder)
    _check_half(encoder, folder)
    return encoder, folder


def empty_start(init: Start, teacher: TeacherFacts) -> "PreTrainedModel":
    """The same encoder on torch's meta device, by its config.

    Raises:
        UserError: as `start_of`.
    """
    if init.model:
        folder = find_model(init.model, "init.model", revision=init.revision)
        fast_tokenizer(folder)
        encoder = teacher_parts.empty_encoder(folder)
    else:
        encoder = teacher_parts.empty_encoder(teacher.config)
    _check_half(encoder, init.model or "the teacher")
    return encoder


def _check_half(encoder: "PreTrainedModel", where: object) -> None:
    if hasattr(encoder, "encoder") and hasattr(encoder, "decoder"):
        raise UserError(
            f"{where}: the encoder of a {encoder.config.model_type} model has a decoder, and no student is "
            "made of its layers; take the kinds bilstm and static, or name an encoder as init.model"
        )


def keep_layers(encoder: "PreTrainedModel", layers: tuple[int, ...]) -> "PreTrainedModel":
    """A model of the same kind with only these encoder layers, in this order.

    ALBERT, whose layers are one and the same, runs it as often as layers are named.

    Raises:
        UserError: the encoder has no such layer, keeps its layers in an unknown way, or its layers are so
            unlike each other that the chosen ones cannot take the places of the first.
    """
    config = encoder.config
    count = config.num_hidden_layers
    if max(layers) >= count:
        raise UserError(
            f"init.layers names layer {max(layers)}, the encoder has {count} (0 to {count - 1}); name "
            "others, or set it to auto"
        )
    settings = settings_of(config)
    for key, value in settings.items():
        if not ("layer" in key or key == "attention_window") or not isinstance(value, list) or not value:
            continue
        if len(value) != count:
            raise UserError(
                f"a {config.model_type} model has some layers apart ({key}); set init.layers to null"
            )
        settings[key] = [value[layer] for layer in layers]  # `layer_types`: attention to all, or a window
    number = config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    fewer = type(config).from_dict({**settings, number: len(layers)})
    place, chosen = _layers_of(encoder), layers
    if type(encoder).__name__ == "AlbertModel":
        groups = [layer * config.num_hidden_groups // count for layer in layers]
        chosen = tuple(groups[:1] if len(set(groups)) == 1 else groups)
        fewer.num_hidden_groups = len(chosen)
    kept = type(encoder)(fewer)
    try:
        kept.load_state_dict(_renumbered(encoder.state_dict(), place, chosen))
    except RuntimeError:
        fix = "set init.layers to others, or to null" if layers[0] == 0 else "let init.layers begin with 0"
        raise UserError(
            f"layers {', '.join(map(str, layers))} of a {config.model_type} model have other tensors than "
            f"its first ones, whose places they take; {fix}"
        ) from None
    return kept.eval()


def _renumbered(state: Mapping[str, Tensor], place: str, layers: tuple[int, ...]) -> dict[str, Tensor]:
    """The tensors of a model that has only these layers; each may take several places."""
    renumbered, of_all = {}, {}
    for name, tensor in state.items():
        if not name.startswith(f"{place}."):
            renumbered[name] = tensor
            continue
        number, _, inner = name.removeprefix(f"{place}.").partition(".")
        renumbered |= {
            f"{place}.{new}.{inner}": tensor for new, old in enumerate(layers) if str(old) == number
        }
        if number == "0" and inner.endswith(OF_ALL_LAYERS):
            of_all[f"{place}.0.{inner}"] = tensor
    return {**of_all, **renumbered}


def _layers_of(encoder: "PreTrainedModel") -> str:
    """The name of the list of an encoder's layers.

    Raises:
        UserError: it has no list of as many.
    """
    known = NAMES.get(type(encoder).__name__)
    if known:
        return known.layers
    for name, module in encoder.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == encoder.config.num_hidden_layers:
            return name
    raise UserError(
        f"the layers of a {encoder.config.model_type} model are not to be found among its parts; set "
        "init.layers to null, or name another encoder as init.model"
    )


def layers_in_turn(encoder: "PreTrainedModel") -> list[nn.Module]:
    """The layers of an encoder of NAMES as it runs them: one of ALBERT's comes many times."""
    layers = list(encoder.get_submodule(NAMES[type(encoder).__name__].layers).children())
    if type(encoder).__name__ != "AlbertModel":
        return layers
    count = encoder.config.num_hidden_layers
    runs = (layers[turn * len(layers) // count] for turn in range(count))
    return [layer for group in runs for layer in group.get_submodule("albert_layers").children()]


def blocks_of(encoder: "PreTrainedModel") -> dict[str, nn.Module]:
    """The layers that an encoder keeps weights of, by their names, in order; ALBERT's is one.

    Raises:
        UserError: its layers are made in an unknown way.
    """
    names = NAMES.get(type(encoder).__name__)
    if names is None:
        raise UserError(
            f"init.intermediate: the feed-forward blocks of a {encoder.config.model_type} model are not of "
            "two layers as BERT's are; set it to null"
        )
    layers = encoder.get_submodule(names.layers)
    inner = names.inner.split(".", maxsplit=1)[0]
    return {
        f"{names.layers}.{name}": module for name, module in layers.named_modules() if hasattr(module, inner)
    }


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
        write_settings(encoder.config, Path(folder))
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
    give_padding(tokenizer)
    tokenizer.chat_template = None  # with one, sentence-transformers would wrap every text
    tokenizer.padding_side = "right"  # as in training: GPT-2 counts positions from where the padding begins
    return cast("PreTrainedTokenizerFast", tokenizer)


def check_module(encoder: "PreTrainedModel", max_length: int) -> None:
    """Fail where an encoder cannot be saved for sentence-transformers; its weights are not looked at.

    Raises:
        UserError: the encoder has fewer positions than max_length, or is another once it was saved and read.
    """
    settings_of(encoder.config)  # before anything is made of it
    positions = positions_of(encoder)
    if positions and max_length > positions:
        raise UserError(
            f"init.max_length is {max_length}, the encoder has {positions} positions; lower it, or set it "
            "to auto"
        )


def width_of(encoder: "PreTrainedModel") -> int:
    """Dimension of an encoder's last hidden states."""
    return int(encoder.config.get_text_config().hidden_size)


def numbers_of(*modules: nn.Module) -> int:
    """How many numbers modules hold that are trained."""
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def left_out(encoder: "PreTrainedModel", tokens: int | None) -> int:
    """How many numbers of an encoder's token embeddings `init.tokens` leaves out, about."""
    table = cast("nn.Embedding", encoder.get_input_embeddings())
    kept = table.num_embeddings if tokens is None else min(tokens, table.num_embeddings)
    return (table.num_embeddings - kept) * table.embedding_dim
