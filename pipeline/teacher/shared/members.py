"""The teachers that the params name: one, or the members of an ensemble, each with a store of its own."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.core.errors import UserError
from pipeline.core.registry import implementation
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import (
    EnsembleTeacher,
    SingleTeacher,
    Teacher,
    TransformerTeacher,
    single_teachers,
)
from pipeline.teacher.shared.local.described.tuned import TUNED, as_tuned

if TYPE_CHECKING:
    from pipeline.teacher import interface

FIELDS = "|".join(dict.fromkeys(field for block in SingleTeacher.__args__ for field in block.model_fields))
"""All keys of a `teacher:` block, as a regular expression."""


def load_teacher(params: Teacher, runtime: Runtime, fitted: Path, tuned: Path = TUNED) -> "interface.Teacher":
    """The teacher of any params, an ensemble as one.

    Args:
        params: `teacher` of params.yaml.
        runtime: where it runs.
        fitted: the folder of an ensemble's members' PCAs and flows.
        tuned: the folder of the fine-tuned teacher, for params that ask for one.

    Raises:
        UserError: it cannot be loaded, or a PCA or a flow is missing.
    """
    if not isinstance(params, EnsembleTeacher):
        return load_single("teacher", params, runtime, tuned)
    teacher: interface.Teacher = implementation("teacher.kinds", params.kind).load(params, runtime, fitted)
    return teacher


def load_members(params: Teacher, runtime: Runtime, tuned: Path = TUNED) -> "list[interface.Teacher]":
    """The members of an ensemble, or the one teacher, fine-tuned if params say so."""
    return [load_single(key, block, runtime, tuned) for key, block in single_teachers(params).items()]


def load_single(key: str, block: SingleTeacher, runtime: Runtime, tuned: Path = TUNED) -> "interface.Teacher":
    """The teacher of the block at a key of params.yaml, which error messages name."""
    with told_of(key):
        if isinstance(block, TransformerTeacher):
            block = as_tuned(block, tuned)
        teacher: interface.Teacher = implementation("teacher.kinds", block.kind).load(block, runtime)
    return teacher


def own_views(params: Teacher, views: Sequence[str]) -> list[list[str]]:
    """Which views each of the teachers has to give, so that the params' teacher has `views`; each once."""
    if not isinstance(params, EnsembleTeacher):
        return [list(views)]
    return [list(dict.fromkeys(brought(member.view, view) for view in views)) for member in params.members]


def brought(own: str, view: str) -> str:
    """The view that a member brings to an ensemble's `view`; `own` is what it brings to `sentence`."""
    return own if view == "sentence" else view


@contextmanager
def told_of(key: str) -> Iterator[None]:
    """Let the messages of errors name the keys of a `teacher:` block where params.yaml has the block."""
    try:
        yield
    except UserError as error:
        if key == "teacher":
            raise
        raise UserError(re.sub(rf"\bteacher\.(?=({FIELDS})\b)", f"{key}.", str(error))) from None
