"""Trains small students, alone or as one of the processes that torchrun starts."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import distill_runs
import numpy as np
import torch
from safetensors.torch import save_file
from small_distillation import (
    CRD,
    HSIC,
    INFONCE,
    MSE,
    RELATIONAL,
    TOKENS,
    block_of,
    distillation_of,
    run,
    sum_of,
)
from small_students import TEXTS

from pipeline.train.loop.loop import Point
from pipeline.train.loop.objective import Objective
from pipeline.train.loop.world import World
from pipeline.train.students.shared.base.interface import Student

TRAIN = {"epochs": 2, "batch_size": 4, "lr": 0.01, "evaluations": 4, "weight_decay": 0.1}
CASES = {
    "mse": block_of("transformer", MSE, **TRAIN),
    "infonce": block_of("transformer", INFONCE, **TRAIN),
    "all, in parts, averaged": block_of(
        "transformer",
        sum_of(MSE, INFONCE, HSIC, TOKENS, RELATIONAL, weights=(1, 1, 2, 1, 1)),
        **TRAIN,
        micro_batch=1,
        average={"decay": 0.5},
    ),
    "crd": block_of("transformer", CRD, **TRAIN, select="agreement"),
    "table": block_of("static", sum_of(MSE, INFONCE), **TRAIN),
    "sparse table": block_of("static", sum_of(MSE, INFONCE), **TRAIN, sparse=True),
}
NINE = [*TEXTS, "a ninth text"]
"""The last step of an epoch has one text, fewer than there are processes."""
LENGTHS = (1, 2, 5, 8)


def train(parts: Path, folder: Path, world: World) -> None:
    """Leave of every case the weights, the losses' too, and the curve."""
    for case, block in CASES.items():
        student, objective, made = distillation_of(block, parts, world, NINE)
        curve = run(made, folder / f"{case} {world.rank}", seconds=0)
        leave(folder / f"{case} {world.rank}", student, objective, curve)


def train_interrupted(parts: Path, folder: Path, world: World, case: str) -> None:
    """The same after an interruption in the fourth step, which all processes resume from one file."""
    student, objective, made = distillation_of(CASES[case], parts, world, NINE)
    steps = iter(range(3))

    def interrupt(loss: torch.nn.Module, _inputs: object) -> None:
        if loss.training and next(steps, None) is None:
            raise KeyboardInterrupt

    objective.losses[1].register_forward_pre_hook(interrupt)
    with suppress(KeyboardInterrupt):
        run(made, folder / "together", seconds=0)
    world.wait()
    student, objective, made = distillation_of(CASES[case], parts, world, NINE)
    curve = run(made, folder / "together", seconds=0)
    leave(folder / f"interrupted {world.rank}", student, objective, curve)


def leave(path: Path, student: Student, objective: Objective, curve: list[Point]) -> None:
    everything = torch.nn.ModuleDict({"student": student.module, "losses": objective})
    tensors = {name: tensor.clone() for name, tensor in everything.state_dict().items()}
    save_file(tensors, f"{path}.safetensors")
    points = [[point.step, point.train_loss, point.dev_value] for point in curve]
    Path(f"{path}.json").write_text(json.dumps(points))


def exchange(folder: Path, world: World) -> None:
    """Leave what a process has of the rows 0, 10, 20, ... after sharing them out and gathering them,
    and of a number."""
    found = {}
    for length in LENGTHS:
        rows = np.arange(length) * 10
        part = torch.from_numpy(world.share(rows)).repeat(3, 1).T
        total = torch.full((2,), float(world.rank + 1))
        world.add_up([total])
        found[length] = [world.gathered(part, length).tolist(), total.tolist()]
    own = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(own.weight, world.rank + 0.5)
    world.follow(own)
    found["followed"] = own.weight.tolist()
    found["leader"] = world.of_the_leader(world.rank + 0.1)
    (folder / f"exchange {world.rank}.json").write_text(json.dumps(found))


def distil(project: Path) -> None:
    """The stage."""
    os.chdir(project)
    distill_runs.distill()


if __name__ == "__main__":
    torch.set_num_threads(1)
    parts, folder, project = map(Path, sys.argv[1:])
    joined = World.join()
    train(parts, folder, joined)
    train_interrupted(parts, folder, joined, "all, in parts, averaged")
    exchange(folder, joined)
    distil(project)
