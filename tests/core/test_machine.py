import os
import platform
import subprocess
import sys

import pytest
import torch
from refusals import refuses
from torch import nn

from pipeline.core import machine
from pipeline.core.machine import Layer

AVX2_ALONE = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
"""What makes an x86 processor compute as one without AVX-512."""


def test_the_processor_is_called_what_the_system_calls_it(tmp_path, monkeypatch):
    listed = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "CPU_INFO", listed)
    listed.write_text("processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nmodel name\t: another\n")
    assert machine.cpu() == "Fast CPU @ 3 GHz"
    listed.unlink()
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert machine.cpu() == "arm64"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not pin processes to CPUs")
def test_the_cpus_are_those_that_the_process_may_use():
    pinned = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    code = f"import os; {pinned}; from pipeline.core import machine"
    one = subprocess.run(
        [sys.executable, "-c", f"{code}; print(machine.cpus())"], capture_output=True, text=True, check=True
    )
    assert one.stdout == "1\n"


def test_the_cpu_is_the_device_where_torch_sees_no_other(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: None)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 0)
    assert machine.find_device("auto") == machine.find_device("cpu") == "cpu"
    for wanted in ("cuda", "mps"):
        with refuses("runtime.device", f"'{wanted}'", "auto or cpu"):
            machine.find_device(wanted)


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_auto_is_whatever_accelerator_torch_sees(kind, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device(kind))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert machine.find_device("auto") == kind
    assert machine.find_device(f"{kind}:1") == f"{kind}:1"
    for wanted in (f"{kind}:2", f"{kind}:x", "abacus", "cpu:1"):
        with refuses("--device", f"'{wanted}'", f"2 of {kind}", "auto or cpu"):
            machine.find_device(wanted, "--device")


def test_the_largest_layer_is_no_table_and_an_lstm_before_all_else():
    table, small, large = nn.Embedding(9000, 30), nn.Linear(30, 20), nn.Linear(20, 90)
    assert machine.largest_layer(nn.Sequential(table, small, large)) == Layer("linear", 20, 90)
    assert machine.largest_layer(nn.Sequential(table, large, nn.LSTM(7, 5))) == Layer("lstm", 7, 5)
    assert machine.largest_layer(nn.Sequential(table, nn.EmbeddingBag(10, 3), nn.LayerNorm(4))) is None


@pytest.mark.parametrize(
    ("wanted", "gain", "found", "said"),
    [
        ("auto", 2.0, "bfloat16", ""),
        ("auto", 1.05, "float32", ""),
        ("auto", 0.02, "float32", ""),
        ("float32", 2.0, "float32", ""),
        ("bfloat16", 2.0, "bfloat16", ""),
        ("bfloat16", 0.95, "bfloat16", ""),
        ("bfloat16", 0.02, "bfloat16", "here: bfloat16 is 50.0 times slower than float32 on"),
        ("bfloat16", 0.0, "float32", "here: torch has no linear layer of bfloat16 on"),
    ],
)
def test_the_faster_precision_is_taken_and_a_slow_one_told(wanted, gain, found, said, monkeypatch, capsys):
    monkeypatch.setattr(machine, "gain", lambda *_: gain)
    assert machine.precision(wanted, nn.Linear(128, 128), "cpu", "here") == found
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert told.count("\n") == bool(said)
    assert machine.chosen["here"] == found


def test_nothing_is_measured_of_a_table_or_a_tiny_model(monkeypatch):
    monkeypatch.delattr(machine, "gain")
    assert machine.precision("bfloat16", nn.Embedding(9, 3), "cpu", "here") == "float32"
    assert machine.precision("auto", nn.Linear(127, 129), "cpu", "here") == "float32"


def test_the_measurement_leaves_threads_and_random_numbers_alone():
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with torch.inference_mode():
        assert machine.gain(Layer("linear", 40, 30), "cpu") > 0
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("half", "whole"), [(1.0, 3.0), (2.0, 0.5)])
def test_the_gain_is_the_time_in_float32_over_that_in_bfloat16(monkeypatch, half, whole):
    def clock(_device):
        return lambda one_pass, rows, dtype: (half if dtype == torch.bfloat16 else whole) * 1e-6

    monkeypatch.setattr(machine, "_clock", clock)
    measured = machine.gain.__wrapped__(Layer("linear", 40, 30), "cpu")  # not what is remembered
    assert measured == pytest.approx(whole / half)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the switch is for x86 alone")
def test_without_avx_512_auto_is_float32_and_bfloat16_is_told():
    code = (
        "from torch import nn; from pipeline.core.machine import precision\n"
        "for layer in (nn.Linear(384, 1536), nn.LSTM(384, 64)):\n"
        "    print(precision('auto', layer, 'cpu', 'x'), precision('bfloat16', layer, 'cpu', 'x'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **AVX2_ALONE}
    )
    assert done.stdout == "float32 bfloat16\nfloat32 float32\n", done.stderr
    slow, none = done.stderr.splitlines()
    assert slow.startswith("x: bfloat16 is ")
    assert "times slower than float32" in slow
    assert none.startswith("x: torch has no lstm layer of bfloat16 on this machine's cpu; float32 it is")


def test_an_lstm_on_a_gpu_is_of_float32_as_it_computes_there(monkeypatch):
    monkeypatch.delattr(machine, "gain")
    for wanted in ("auto", "bfloat16"):
        assert machine.precision(wanted, nn.LSTM(200, 200), "cuda", "here") == "float32"
