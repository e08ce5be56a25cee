"""Two processes, as torchrun starts them, against one that takes the whole of every step."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import train_in_world
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from safetensors.torch import load_file
from train_in_world import CASES, LENGTHS

from pipeline.data.common.files.metrics import read
from pipeline.train.loop import world as world_module
from pipeline.train.loop.world import World

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, parts: Path) -> tuple[Path, Path]:
    """What one process has left, and what two have."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    mixture = {"corpus": 1, "wordnet": 0.4}
    train_in_world.distill_runs.write_project(two / "project", texts=mixture)
    shutil.copytree(two / "project", one / "project")
    processes = subprocess.Popen(
        [*TORCHRUN, train_in_world.__file__, parts, two, two / "project"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    train_in_world.train(parts, one, World())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(one)  # and back
        train_in_world.distil(one / "project")
    try:
        said, _ = processes.communicate(timeout=300)
    finally:
        processes.terminate()  # torchrun ends its own
    assert processes.returncode == 0, said
    return one, two


def curve(folder: Path, case: str, rank: int) -> list[list[float]]:
    return json.loads((folder / f"{case} {rank}.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_two_processes_have_the_loss_curve_of_one(runs, case):
    alone, together = (curve(folder, case, 0) for folder in runs)
    for one, other in zip(alone, together, strict=True):
        assert other == pytest.approx(one, rel=1e-5, abs=1e-7, nan_ok=True)
    assert len({str(loss) for _, loss, _ in alone}) == len(alone) > 3


@pytest.mark.parametrize("case", CASES)
def test_two_processes_end_with_the_weights_of_one(runs, case):
    alone, together = (load_file(folder / f"{case} 0.safetensors") for folder in runs)
    # The bias of keys has no gradient but rounding, of which AdamW makes steps.
    torch.testing.assert_close(together, alone, rtol=0, atol=3e-5)


@pytest.mark.parametrize("case", [*CASES, "interrupted"])
def test_both_processes_have_the_same_bits(runs, case):
    _, two = runs
    assert str(curve(two, case, 0)) == str(curve(two, case, 1))
    first, second = ((two / f"{case} {rank}.safetensors").read_bytes() for rank in (0, 1))
    assert first == second


def test_two_processes_resume_from_the_state_that_one_has_written(runs):
    _, two = runs
    assert str(curve(two, "interrupted", 0)) == str(curve(two, "all, in parts, averaged", 0))
    weights = (two / "all, in parts, averaged 0.safetensors").read_bytes()
    assert (two / "interrupted 0.safetensors").read_bytes() == weights


def test_one_process_writes_the_state(runs):
    _, two = runs
    assert all((two / f"{case} 0").is_dir() for case in CASES)
    assert not any((two / f"{case} 1").exists() for case in CASES)


def test_rows_are_shared_out_and_come_back(runs):
    _, two = runs
    for rank in (0, 1):
        found = json.loads((two / f"exchange {rank}.json").read_text())
        assert found["leader"] == 0.1
        assert found["followed"] == [[0.5, 0.5]]
        for length in LENGTHS:
            rows = World(rank, 2).all_rows(np.arange(length) * 10)
            assert sorted(rows) == [10 * row for row in range(length)]
            assert found[str(length)] == [[[row] * 3 for row in rows], [3.0, 3.0]]


def test_the_stage_makes_with_two_processes_what_it_makes_with_one(runs):
    one, two = (folder / "project" for folder in runs)
    names = [
        {path.relative_to(folder) for path in folder.rglob("*") if ".cache" not in path.parts}
        for folder in (one, two)
    ]
    assert names[0] == names[1]
    for folder in ("untrained", "distilled"):
        files = [project / folder / "model.safetensors" for project in (one, two)]
        torch.testing.assert_close(*map(load_file, files), rtol=0, atol=1e-5)
    metrics = [read(project / "metrics.json", "distill") for project in (one, two)]
    assert metrics[1].pop("select") == metrics[0].pop("select") == "loss"
    assert metrics[1].pop("epoch_texts") == metrics[0].pop("epoch_texts") == {"corpus": 20, "wordnet": 2}
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-4)
    assert list((two / ".cache" / "training").iterdir()) == []


@given(st.integers(1, 9), st.integers(0, 40))
def test_every_row_goes_to_one_process(size, length):
    rows = np.random.default_rng(length).permutation(length)
    worlds = [World(rank, size) for rank in range(size)]
    shares = [world.share(rows) for world in worlds]
    assert all(np.array_equal(world.all_rows(rows), np.concatenate(shares)) for world in worlds)
    assert np.array_equal(np.sort(np.concatenate(shares)), np.arange(length))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    before = [world.rows_before(length) for world in worlds]
    assert before == [sum(map(len, shares[:rank])) for rank in range(size)]


def test_alone_there_is_nothing_to_exchange(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    world, part = World.join("cpu"), torch.randn(3, 2, requires_grad=True)
    assert world == World(0, 1)
    assert world.leads
    gathered = world.gathered(part, 3)
    assert torch.equal(gathered, part)
    assert not gathered.requires_grad
    total = torch.ones(2)
    world.add_up([total])
    world.wait()
    assert world.of_the_leader(0.1) == 0.1
    assert total.tolist() == [1, 1]


def test_training_takes_the_device_that_there_is(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(world_module, "find_device", {"auto": "mps"}.get)
    assert World.join("auto").device == "mps"


def test_more_processes_than_gpus(monkeypatch):
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "4")
    monkeypatch.setattr(world_module, "find_device", lambda _: "cuda")
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    with refuses("4 processes", "2 GPUs", "--nproc-per-node 2", "runtime.device: cpu"):
        World.join()
