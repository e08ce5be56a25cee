"""The fastest way from a folder to vectors, equal to those of sentence-transformers except for rounding."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from filecmp import cmp
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.cli.model_folder import MODULES, lacking, modules, read_object
from pipeline.core import seal
from pipeline.core.errors import UserError
from pipeline.core.machine import Precision, find_device
from pipeline.data.student import student_folder
from pipeline.export.shared.onnx_folder import (
    CONFIG,
    GRAPHS,
    SPECIAL,
    TOKENIZER_CONFIG,
    UNLIMITED,
    is_onnx,
)
from pipeline.export.shared.session import OnnxEncoder
from pipeline.params.export import Format
from pipeline.score.evaluation.searches import shipped

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Runtime = Literal["auto", "onnx", "onnx-int8", "torch"]
STAGES = {"untrained": "distill", "distilled": "distill", "finetuned": "finetune", "exported": "export"}
"""The stage that writes students into a folder of this name."""
UNTOLD = {"onnx", "openvino", "router", SPECIAL, seal.NAME}
"""What `export` adds to a student's folder; beside them and the cards, each file may decide vectors."""
COMPLETED = (CONFIG, TOKENIZER_CONFIG)
FILLED = {"pad_token_id", "pad_token", "model_max_length", "tokenizer_class"}
"""What `onnx_folder.complete` fills in in these, where the student does not say it."""
ROLES = ("text", "query", "document")
MISREAD = (TypeError, AttributeError, LookupError)
"""What libraries raise where a JSON file of a model holds what nobody expects."""
GPU_DRIVER = Path("/proc/driver/nvidia")
"""There where torch may find a GPU; asking torch takes its seconds."""
Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Texts to vectors (n, dim)."""


@dataclass(frozen=True)
class Encoders:
    """A model's ways to encode: they differ where it was trained with prompts."""

    texts: Encode
    queries: Encode
    documents: Encode


def open_encoders(
    folder: Path,
    device: str,
    batch_size: int,
    precision: Precision = "float32",
    runtime: Runtime = "auto",
) -> Encoders:
    """What encodes with the model of a folder.

    A table needs no torch, and nor does a student that `export` wrote as ONNX; a graph of others runs only
    where it is asked for, or there is nothing else. A transformer of a family that
    can be packed runs without padding, as the teacher does. sentence-transformers runs all others, and those
    that have prompts.

    Args:
        folder: a sentence-transformers folder with safetensors weights, or one of `export`.
        device: `auto`, or torch's name of one.
        batch_size: texts a batch, of a model that sentence-transformers or onnxruntime runs.
        precision: of a packed transformer's products; other models have float32 alone. `auto`: bfloat16
            where it is faster here.
        runtime: `onnx`, `onnx-int8` or `torch`; `auto`: ONNX on the CPU, where the export is there
            and the student is no table.

    Raises:
        UserError: it is damaged, there is no such device, the model does not run in that precision, or its
            export is not there.
    """
    _check(folder)
    table = _is_table(folder) and device in ("auto", "cpu")
    name: Format = "onnx-int8" if runtime == "onnx-int8" else "onnx"
    asked = runtime == name
    if (asked or (runtime == "auto" and not table)) and (
        graphs := _exported(folder, name, device, precision, asked=asked)
    ):
        graph = partial(OnnxEncoder(graphs, device, GRAPHS[name]).encode, batch_size=batch_size)
        prompts = student_folder.prompts(graphs)
        return Encoders(*(_prompted(graph, prompts.get(role, "")) for role in ROLES))
    packed = _runs_packed(folder)
    if precision == "bfloat16" and not packed:
        raise UserError(
            f"--precision {precision}: {folder} runs in float32; only transformer students without prompts "
            "run in other precisions"
        )
    if not any(folder.rglob("*.safetensors")):
        raise UserError(f"{folder} holds no .safetensors weights; distil it again")
    _check_tokenizer(folder)
    if table:
        return _alike(_table(folder))
    device = find_device(device, "--device")
    if _tells_queries_apart(folder):
        model = load_student(folder, device)
        ways = (model.encode, model.encode_query, model.encode_document)
        return Encoders(*(_batched(way, batch_size) for way in ways))
    model = load_student(folder, device)
    encode = shipped.packed(model.eval(), precision, "--precision") if packed else None
    if precision == "bfloat16" and encode is None:
        raise UserError(f"--precision {precision}: {folder} is no transformer that runs in it; use float32")
    return _alike(encode or _batched(model.encode, batch_size))


def _exported(folder: Path, name: Format, device: str, precision: Precision, *, asked: bool) -> Path | None:
    """The folder with the student's ONNX graph of a format, where that is to run.

    Raises:
        UserError: they are asked for and are not there, or run in another precision.
    """
    if asked and precision == "bfloat16":
        raise UserError(f"--precision {precision}: an ONNX graph does not run in it; name --runtime torch")
    gpu = device != "cpu" and (device != "auto" or GPU_DRIVER.exists())
    if not asked and (gpu or precision == "bfloat16"):
        return None
    place = _place(folder)
    beside = place.parent.parent / "exported" / place.name
    if _is_own(folder, name):
        return folder
    if is_onnx(beside, name) and (asked or _is_own(beside, name)) and _same(folder, beside):
        _check(beside)
        return beside
    if is_onnx(folder, name) and (asked or not (folder / MODULES).exists()):
        return folder
    if asked:
        raise UserError(
            f"--runtime {name}: there is no such export of {folder}; run `dvc repro export@{place.name}`, "
            "or name --runtime torch"
        )
    return None


def _check_tokenizer(folder: Path) -> None:
    """Fail where a transformer's tokenizer is not there: transformers would make one up."""
    from pipeline.data.models.locate import TOKENIZERS

    if modules(folder)[0][0] not in ("Transformer", "Router"):
        return
    if not any(next(folder.rglob(name), None) for name in TOKENIZERS):
        raise UserError(f"{folder} holds no tokenizer ({', '.join(TOKENIZERS)}); get the whole model again")


def _place(folder: Path) -> Path:
    """A folder with its name and its parent's, which `.` and `..` do not say; links stay."""
    return Path(os.path.abspath(folder))


def _check(folder: Path) -> None:
    """Fail where a student's folder is not as it was written."""
    place = _place(folder)
    stage = STAGES.get(place.parent.name)
    made = f"run `dvc repro -f {stage}@{place.name}`" if stage else "get the student again"
    seal.check(folder, f"{made}; if you have changed it yourself, remove {folder / seal.NAME}")


def _sealed(folder: Path) -> dict[str, str]:
    """The digests that a folder's seal lists, by file; none where it has no seal."""
    listed = read_object(folder / seal.NAME).get("files") if (folder / seal.NAME).exists() else None
    return listed if isinstance(listed, dict) else {}


def _is_own(folder: Path, name: Format) -> bool:
    """Whether a folder's graph was written by `export`, and its settings with it: its seal lists the graph.

    Many models of the hub have a graph at the same place, of other outputs, prompts and longest texts.
    """
    return is_onnx(folder, name) and GRAPHS[name] in _sealed(folder)


def _same(folder: Path, exported: Path) -> bool:
    """Whether an export is of the student as it is now: weights, and all settings.

    Files that both seals list are not read: `_check` compares the folders with their seals.
    """
    ours, theirs = _sealed(folder), _sealed(exported)
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    # A setting that the student has no more is in the export alone.
    names = {*found, *(path.relative_to(exported) for path in exported.glob("*.json"))}
    hidden = {one for one in names if one.name.startswith(".")}
    told = [one for one in names - hidden if one.parts[0] not in UNTOLD and one.suffix != ".md"]

    def alike(name: Path) -> bool:
        listed = name.as_posix()
        one, there = folder / name, exported / name
        if listed in ours and ours[listed] == theirs.get(listed):
            return True
        if listed in COMPLETED:
            return _completes(*(read_object(path) if path.exists() else {} for path in (one, there)))
        if listed in ours and listed in theirs:
            return False
        return one.exists() and there.exists() and cmp(one, there, shallow=False)

    return any(one.suffix == ".safetensors" for one in told) and all(map(alike, told))


def _completes(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether settings of an export are the student's but for what `complete` fills in."""
    return all(
        ours.get(key) == theirs.get(key)
        or (key in FILLED and (ours.get(key) is None or theirs.get(key) == UNLIMITED))
        for key in ours | theirs
    )


def _prompted(encode: Encode, prompt: str) -> Encode:
    return (lambda texts: encode([prompt + text for text in texts])) if prompt else encode


def _alike(encode: Encode) -> Encoders:
    return Encoders(encode, encode, encode)


def load_student(folder: Path, device: str) -> "SentenceTransformer":
    """Load a student from a sentence-transformers folder with safetensors weights.

    Args:
        folder: where it is.
        device: torch's name of one.

    Raises:
        UserError: it is damaged, or this sentence-transformers lacks the class of a module.
    """
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(str(folder), device=device, local_files_only=True)
    except (OSError, ValueError, RuntimeError, SafetensorError, *MISREAD) as error:
        raise _damaged(folder, device, error) from None
    except ImportError as error:
        if not (kind := lacking(folder)):
            raise UserError(f"{folder} cannot be loaded ({error}); install what is missing") from None
        raise UserError(
            f"{folder / MODULES} lists a {kind}, which the installed sentence-transformers lacks; "
            "install a version that has it, or get another model"
        ) from None


def _is_table(folder: Path) -> bool:
    config = folder / "config.json"
    return config.exists() and read_object(config).get("model_type") == "model2vec"


def _table(folder: Path) -> Encode:
    from model2vec import StaticModel

    from pipeline.cli.table import TableEncoder

    try:
        model = StaticModel.from_pretrained(folder)
    except Exception as error:  # tokenizers raises no narrower one
        raise _damaged(folder, "cpu", error) from None
    return TableEncoder(model)


def _tells_queries_apart(folder: Path) -> bool:
    settings = folder / "config_sentence_transformers.json"
    prompts = read_object(settings).get("prompts") if settings.exists() else None
    return (isinstance(prompts, dict) and any(prompts.values())) or modules(folder)[0][0] == "Router"


def _runs_packed(folder: Path) -> bool:
    if _tells_queries_apart(folder):
        return False
    kind, place = modules(folder)[0]
    if kind != "Transformer" or not (place / "config.json").exists():
        return False
    from pipeline.encoders.packing.packing import FAMILIES

    return set(read_object(place / "config.json").get("architectures") or ()) <= FAMILIES.keys()


def _batched(encode: Callable[..., NDArray[np.floating]], batch_size: int) -> Encode:
    return partial(encode, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)


def _damaged(folder: Path, device: str, error: Exception) -> UserError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return UserError(
        f"{folder} cannot be loaded on device {device!r}: {reason}; "
        "name another --device, or export the student again"
    )
