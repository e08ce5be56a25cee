"""What a model's folder says of itself, without loading the model."""

from math import prod
from pathlib import Path
from typing import Any

from pipeline.core import json_text
from pipeline.core.errors import UserError
from pipeline.export.shared.onnx_folder import UNLIMITED

Json = Any
"""Whatever the file holds."""
MODULES = "modules.json"


def modules(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each module in order; a plain transformers folder is one `Transformer`."""
    if not (folder / MODULES).exists():
        return [("Transformer", folder)]
    listed = read_json(folder / MODULES)
    try:
        found = [(module["type"].rpartition(".")[2], folder / module["path"]) for module in listed]
    except (TypeError, KeyError, AttributeError):
        found = []
    if not found:
        raise UserError(
            f"{folder / 'modules.json'} lists no modules, type and path of each; get the model again"
        )
    return found


def lacking(folder: Path) -> str | None:
    """The first class of modules.json that the installed sentence-transformers has not; None: it has all."""
    from sentence_transformers.util import import_from_string

    listed = read_json(folder / MODULES) if (folder / MODULES).exists() else []
    for kind in (str(module["type"]) for module in listed):
        if kind.startswith("sentence_transformers."):  # to import others would run what a stranger names
            try:
                import_from_string(kind)
            except ImportError:
                return kind
    return None


def dimension(folder: Path) -> int | None:
    """Dimension of the model's vectors; None where no module that is known here decides it."""
    found: int | None = None
    for kind, place in modules(folder):
        match kind:
            case "Transformer":
                found = read_object(place / "config.json").get("hidden_size")
            case "Dense":
                found = read_object(place / "config.json").get("out_features")
            case "StaticEmbedding":
                found = max((shape[-1] for shape in tensor_shapes(place).values()), default=None)
    return found


def max_length(folder: Path) -> int | None:
    """Tokens after which the model cuts a text; None where it does not say."""
    for name, key in (
        ("wordembedding_config.json", "max_seq_length"),
        ("sentence_bert_config.json", "max_seq_length"),
        ("config.json", "max_position_embeddings"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        length = read_object(folder / name).get(key) if (folder / name).exists() else None
        if isinstance(length, int) and 0 < length < UNLIMITED:  # XLNet says -1, tokenizers 10**30
            return length
    return None


def parameters(folder: Path) -> int:
    """How many numbers the .safetensors files of the folder's model hold.

    A model in a folder of its own below is another: the `router/` of an export holds its teacher too.
    """
    others = {path.parent for path in folder.rglob(MODULES)} - {folder}
    files = (file for file in folder.rglob("*.safetensors") if others.isdisjoint(file.parents))
    return sum(prod(shape) for file in files for shape in tensor_shapes(file.parent, file.name).values())


def tensor_shapes(folder: Path, name: str = "model.safetensors") -> dict[str, tuple[int, ...]]:
    """Shape of each tensor of a .safetensors file, read from its header.

    Raises:
        UserError: the file is missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / name, framework="np") as weights:
            return {key: tuple(weights.get_slice(key).get_shape()) for key in weights.keys()}
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{folder / name} is not a readable .safetensors file ({error}); get the model again"
        ) from None


def layers(folder: Path) -> int | None:
    """Layers of a transformer; None where the model does not say."""
    config = read_object(modules(folder)[0][1] / "config.json")
    names = ("num_hidden_layers", "n_layers", "n_layer")  # of DistilBERT and of GPT-2 the others
    return next((config[name] for name in names if isinstance(config.get(name), int)), None)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        UserError: it is missing, not JSON, or something else.
    """
    found = read_json(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no JSON object; make it again")
    return found


def read_json(path: Path) -> Json:
    """Read a JSON file.

    Raises:
        UserError: it is missing, or not JSON.
    """
    try:
        return json_text.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; correct the path") from None
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); make it again") from None
