"""What a process runs on, and what that is good at."""

import os
import platform
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from pipeline.core.errors import UserError
from pipeline.core.progress import say

if TYPE_CHECKING:
    import torch
    from torch import nn

CPU_INFO = Path("/proc/cpuinfo")

Precision = Literal["auto", "float32", "bfloat16"]
"""What params ask for: `auto` is whichever of the two is faster here."""
Half = Literal["bfloat16", "float16"]

FASTER = 1.1
"""How many times as fast bfloat16 has to be for `auto` to take it: below, it saves less than it rounds."""
SMALLEST = 128 * 128
"""Weights of a layer below which `auto` is float32: its products are over before a precision matters."""
MOST_ROWS = 1024
"""Tokens that a layer is timed on: about those of a small training step."""
MOST_ROWS_ON_A_GPU = 65_536
"""The same there, where a pass over fewer is over before it is launched."""
FEWEST_ROWS = 8
"""Tokens that are tried first: where bfloat16 is computed number by number, more take seconds."""
SLOW_SECONDS = 0.05
"""A pass that takes so long is compared as it is, without more tokens."""
ROUNDS = 3
"""Passes in each precision, in turn; the fastest counts, for it was disturbed least."""


class Layer(NamedTuple):
    """What most of a model's time goes into, as far as the choice of a precision asks."""

    kind: Literal["linear", "lstm"]
    inputs: int
    outputs: int
    """Of an LSTM: units a direction."""


def cpu() -> str:
    """The processor's name, as far as the system tells it."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def let_the_cpu_help() -> None:
    """The CPU computes what torch has no MPS kernel of (segment_reduce); torch asks at its import."""
    os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")


def find_device(wanted: str, key: str = "runtime.device") -> str:
    """Torch's name of the device to compute on.

    Args:
        wanted: `auto`, an accelerator that torch sees (CUDA, MPS, ...) or else the CPU; or a device's name.
        key: what asks for it, for messages.

    Raises:
        UserError: torch sees no such device.
    """
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    kind, _, number = wanted.partition(":")
    if wanted == "auto":
        return found.type if found else "cpu"
    if wanted == "cpu":
        return wanted
    count = torch.accelerator.device_count()
    numbers = {"", *map(str, range(count))}
    if found is None or kind != found.type or number not in numbers:
        there = f"{count} of {found.type}" if found else "no GPU"
        raise UserError(f"{key} is {wanted!r}, and torch sees {there}; set it to auto or cpu")
    return wanted


def precision(
    wanted: Precision, module: "nn.Module", device: str, key: str
) -> Literal["float32", "bfloat16"]:
    """The precision that a model's products are computed in.

    Args:
        wanted: what the params say. An explicit bfloat16 that is slower here is told, and taken.
        module: the model; one without products, a table, computes in float32.
        device: where it runs.
        key: where the params say so, for messages.
    """
    chosen[key] = "bfloat16" if _takes_bfloat16(wanted, largest_layer(module), device, key) else "float32"
    return chosen[key]


chosen: dict[str, Literal["float32", "bfloat16"]] = {}
"""What this process computes in, by where the params say so."""


def _takes_bfloat16(wanted: Precision, layer: Layer | None, device: str, key: str) -> bool:
    if wanted == "float32" or layer is None:
        return False
    if layer.kind == "lstm" and device != "cpu":
        return False  # train/students/kinds/bilstm.py: packed sequences, which are of float32
    if wanted == "auto" and layer.inputs * layer.outputs < SMALLEST:
        return False
    speed = gain(layer, device)
    if wanted == "auto":
        return speed >= FASTER
    if slower := how_much_slower(wanted, layer, device):
        said = "`auto` takes the faster of the two" if speed else "float32 it is"
        say(f"{key}: {slower}; {said}")
    return speed > 0


def how_much_slower(half: Half, layer: Layer, device: str) -> str:
    """What to tell of a precision that is slower than float32 on this machine; empty where it is not."""
    speed = gain(layer, device, half)
    if speed > 1 / FASTER:
        return ""
    if speed == 0:
        return f"torch has no {layer.kind} layer of {half} on this machine's {device}"
    return f"{half} is {1 / speed:,.1f} times slower than float32 on this machine's {device}"


def largest_layer(module: "nn.Module") -> Layer | None:
    """A model's largest LSTM or else its largest matrix that is no table of embeddings; None without any."""
    from torch import nn

    tables = (nn.Embedding, nn.EmbeddingBag)
    modules = list(module.modules())
    lstms = [Layer("lstm", one.input_size, one.hidden_size) for one in modules if isinstance(one, nn.LSTM)]
    matrices = [
        Layer("linear", parameter.shape[1], parameter.shape[0])
        for one in modules
        if not isinstance(one, tables)
        for parameter in one.parameters(recurse=False)
        if parameter.ndim == 2
    ]
    return max(lstms or matrices, key=lambda layer: layer.inputs * layer.outputs, default=None)


@cache
def gain(layer: Layer, device: str, half: Half = "bfloat16") -> float:
    """How many times as fast a training pass through a layer is in a half precision as in float32 here.

    It is measured, a fraction of a second once a process, and not looked up: instructions that a processor
    has, a library may not use. 0 where torch cannot compute the layer in it.
    """
    import torch

    dtype = getattr(torch, half)
    with torch.inference_mode(mode=False):
        one_pass, seconds_of = _training_pass(layer, device), _clock(device)
    threads, rows = torch.get_num_threads(), FEWEST_ROWS
    most = _most_rows(device)
    torch.set_num_threads(1)  # what runs beside this process then hardly changes the ratio
    try:
        with torch.inference_mode(mode=False), torch.enable_grad():
            while True:
                one_pass(rows, dtype)  # libraries prepare themselves for a shape at its first product
                seconds = seconds_of(one_pass, rows, dtype)
                if seconds > SLOW_SECONDS or rows >= most:
                    break
                rows = min(most, rows * 8)
            one_pass(rows, torch.float32)
            times: dict[torch.dtype, list[float]] = {dtype: [seconds], torch.float32: []}
            for _ in range(1 if seconds > SLOW_SECONDS else ROUNDS):
                for one, taken in times.items():
                    taken.append(seconds_of(one_pass, rows, one))
    except RuntimeError:  # oneDNN's LSTM, without AVX-512
        return 0.0
    finally:
        torch.set_num_threads(threads)
    return min(times[torch.float32]) / min(times[dtype])


Pass = Callable[[int, "torch.dtype"], None]
"""Forward and backward through a layer: tokens, and the dtype of its products."""


def _training_pass(layer: Layer, device: str) -> Pass:
    """As training computes it: float32 weights, autocast."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = nn.LSTM if layer.kind == "lstm" else nn.Linear
        module = made(layer.inputs, layer.outputs).to(device)
        inputs = torch.randn(_most_rows(device), layer.inputs).to(device)

    def one_pass(rows: int, dtype: torch.dtype) -> None:
        given = inputs[:rows].clone().requires_grad_()
        shaped = given.view(8, rows // 8, -1) if layer.kind == "lstm" else given  # eight tokens a text
        with torch.autocast(torch.device(device).type, dtype, enabled=dtype != torch.float32):
            found = module(shaped)
        (found[0] if layer.kind == "lstm" else found).float().sum().backward()

    return one_pass


def _clock(device: str) -> Callable[[Pass, int, "torch.dtype"], float]:
    """What times a pass: on a CPU by the time that it computes, not that it waits for the CPU."""
    import torch

    on_cpu = torch.device(device).type == "cpu"
    now = time.thread_time if on_cpu else time.perf_counter

    def seconds(one_pass: Pass, rows: int, dtype: torch.dtype) -> float:
        started = now()
        one_pass(rows, dtype)
        if not on_cpu:
            torch.accelerator.synchronize(torch.device(device))
        return now() - started

    return seconds


def _most_rows(device: str) -> int:
    return MOST_ROWS if device == "cpu" else MOST_ROWS_ON_A_GPU
