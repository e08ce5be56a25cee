"""Students of the hashing teacher with the losses of a params block, and what they are trained on."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from small_students import TEXTS, bilstm_block, compact_block, static_block, teacher, transformer_block
from torch import Tensor

from pipeline.core.registry import implementation
from pipeline.params.students import StudentBlock
from pipeline.train.distillation.distillation import Distillation
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.data import Examples
from pipeline.train.loop.loop import Point
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.objective import Objective
from pipeline.train.loop.world import World
from pipeline.train.losses.building.objective import build_objective
from pipeline.train.students.shared.base.interface import Student

DEV = ["a dog slept", "forty cats", "the quiet mat", "a cat", "dogs on a mat"]
DIM = 8
MSE = {"kind": "mse"}
INFONCE = {"kind": "infonce", "temperature": 0.2, "projection": "learned"}
HSIC = {"kind": "hsic"}
TOKENS = {"kind": "token_embedding"}
RELATIONAL = {"kind": "relational", "form": "kl", "temperature": 0.2}
CRD = {"kind": "crd", "features": 6, "negatives": 5}
BLOCKS = {
    "static": static_block,
    "transformer": transformer_block,
    "compact": compact_block,
    "bilstm": bilstm_block,
}


def sum_of(*losses: dict[str, Any], weights: tuple[float, ...] = (0.5, 2.0)) -> dict[str, Any]:
    terms = [{"weight": weight, "loss": loss} for weight, loss in zip(weights, losses, strict=True)]
    return {"kind": "sum", "terms": terms}


def block_of(kind: str, loss: dict[str, Any] = MSE, **train: Any) -> StudentBlock:
    made = BLOCKS[kind](dim=DIM).model_dump()
    made["train"] |= {"batch_size": 3, "epochs": 10, "lr": 0.05, "evaluations": 6, **train}
    made["init"]["projection"] = "none" if kind == "static" else "random"  # not where it ends
    return type(BLOCKS[kind]()).model_validate({**made, "loss": loss})


def targets(texts: list[str], block: StudentBlock) -> np.ndarray:
    found = teacher().encode(texts, ["sentence"])["sentence"].astype(np.float32)
    return found if block.train.target == "full" else found[:, : block.dim]


def student_of(block: StudentBlock, parts: Path) -> Student:
    """Built, and moved away from where all losses of the embeddings are zero."""
    torch.manual_seed(0)
    student = implementation("train.students.kinds", block.kind).build(block, parts)
    with torch.no_grad():
        for parameter in student.module.parameters():
            parameter += 0.1 * parameter.std() * torch.randn(parameter.shape)
    return student


def examples_of(student: Student, block: StudentBlock, texts: list[str]) -> Examples:
    return Examples(student.tokenise(texts), targets(texts, block))


def objective_of(block: StudentBlock, parts: Path, rows: int, student: Student | None = None) -> Objective:
    target_dim, table = targets(["x"], block).shape[1], getattr(student, "token_table", None)
    return build_objective(block, LossContext(block.dim, target_dim, rows, 9, parts, 1, table))


def distillation_of(
    block: StudentBlock, parts: Path, world: World | None = None, texts: list[str] = TEXTS
) -> tuple[Student, Objective, Distillation]:
    student = student_of(block, parts)
    objective = objective_of(block, parts, len(texts), student)
    train, dev = examples_of(student, block, texts), examples_of(student, block, DEV)
    bfloat16 = block.train.precision == "bfloat16"
    made = Distillation(student, objective, train, dev, block.train, world or World(), bfloat16=bfloat16)
    return student, objective, made


def run(made: Distillation, cache: Path, seconds: float = 1e9) -> list[Point]:
    return made.run("tiny", Checkpoint(cache / "state.safetensors"), seconds)


def gradients(*modules: torch.nn.Module) -> dict[str, Tensor]:
    """By the place of the module and the name of the parameter; dense."""
    return {
        f"{place}/{name}": parameter.grad.to_dense().clone()
        for place, module in enumerate(modules)
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
