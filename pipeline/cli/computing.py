"""What `pipeline doctor` and `pipeline check` say of the device and of precisions.

torch takes longer to import than all else that these commands do: only where its files do not answer.
polars is imported where a curve is read, for `check` reads none.
"""

import platform
import runpy
from importlib.util import find_spec
from pathlib import Path

from pipeline.cli import model_folder
from pipeline.cli.finding import Finding
from pipeline.cli.needs import teacher_folder
from pipeline.core.errors import UserError
from pipeline.core.machine import FASTER, Layer, find_device, gain, how_much_slower
from pipeline.params.load import Params
from pipeline.params.teacher import (
    SingleTeacher,
    Teacher,
    TransformerTeacher,
    single_teachers,
    starting_teacher,
)
from pipeline.train.loop.curves import PRECISION

CPU_ONLY = "none that torch sees; the CPU is used"
TYPICAL = Layer("linear", 768, 3072)
"""Of a model whose folder is not here."""


def device(wanted: str) -> Finding:
    """The GPUs that torch sees, and whether `runtime.device` is among them."""
    if wanted in ("auto", "cpu") and not _built_for_gpus():
        return Finding("gpu", CPU_ONLY)
    import torch

    count = torch.accelerator.device_count()
    kind = getattr(torch.accelerator.current_accelerator(check_available=True), "type", "")
    names = [torch.cuda.get_device_properties(one).name if kind == "cuda" else kind for one in range(count)]
    try:
        find_device(wanted)
    except UserError as error:
        fix = "set runtime.device to auto, or install torch for CUDA: make setup TORCH=..."
        return Finding("gpu", str(error).partition(";")[0], fix)
    return Finding("gpu", ", ".join(names) or CPU_ONLY)


def _built_for_gpus() -> bool:
    """Whether this torch can have a GPU at all, by what its files say."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    built = runpy.run_path(str(Path(spec.origin).parent / "version.py"))
    return platform.system() == "Darwin" or any(built.get(name) for name in ("cuda", "hip", "xpu"))


def precision(curves: Path, params: Params, *, measure: bool) -> Finding:
    """What students were trained in, by their curves; if asked, what `auto` takes on this machine.

    Args:
        curves: reports/curves.
        params: which students there are, and which teacher.
        measure: ask the machine, which imports torch.
    """
    found = []
    if measure:
        try:
            where, layer = find_device(params.runtime.device), _layer(starting_teacher(params.teacher)[1])
        except UserError as error:  # `device` says what to do
            return Finding("precision", f"not measured: {error}")
        speed = gain(layer, where)
        taken = "bfloat16" if speed >= FASTER else "float32"
        shape = f"{layer.inputs} x {layer.outputs}"
        found.append(f"auto takes {taken}: bfloat16 is {speed:.2g} times as fast on {where} ({shape})")
    used = {
        name: one
        for student in params.students
        for name in (student, f"{student}_finetune")
        if (one := _trained_in(curves / f"{name}.tsv"))
    }
    if used:
        listed = ", ".join(f"{name} {one}" for name, one in used.items())
        found.append(f"trained in: {listed} (by {curves})")
    if not measure:
        found.append("`pipeline doctor --measure` asks this machine")
    return Finding("precision", "; ".join(found))


def _trained_in(curve: Path) -> str:
    """The precision of a training by its curve; empty where there is none, or it does not say."""
    import polars as pl

    try:
        table = pl.read_csv(curve, separator="\t", infer_schema=False)
    except (OSError, pl.exceptions.PolarsError):
        return ""
    return str(table[PRECISION][-1]) if PRECISION in table.columns and table.height else ""


def slow_teacher(params: Teacher, device: str) -> str:
    """What to tell of a teacher's precision that is slower than float32 there; empty where it is not."""
    told = []
    for key, one in single_teachers(params).items():
        if isinstance(one, TransformerTeacher) and one.precision != "float32":
            said = how_much_slower(one.precision, _layer(one), find_device(device))
            told += [f"{key}.precision: {said}; float32 encodes faster here"] if said else []
    return "\n".join(told)


def _layer(params: SingleTeacher) -> Layer:
    """The teacher's largest layer, by its config."""
    if not isinstance(params, TransformerTeacher):
        return TYPICAL
    try:
        folder = teacher_folder(params)
        place = model_folder.modules(folder)[0][1] if folder else None
        config = model_folder.read_object(place / "config.json") if place else {}
    except UserError:  # whoever loads it says so
        return TYPICAL
    width = config.get("hidden_size", TYPICAL.inputs)
    return Layer("linear", width, config.get("intermediate_size", 4 * width))
