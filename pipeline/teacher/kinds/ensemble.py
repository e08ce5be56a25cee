"""Several teachers as one: `pipeline/teacher/shared/composition.py` has the equation.

Stage `encode` fills the members' stores and joins what they hold. It does not come here.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.registry import implementation
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.base import ROLES, Role
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import EnsembleTeacher, Similarity, single_teachers
from pipeline.teacher.shared import composition
from pipeline.teacher.shared.local.cut import Cut, most
from pipeline.teacher.shared.local.unweighted import Reading
from pipeline.teacher.shared.local.vocabulary import Vocabulary
from pipeline.teacher.shared.members import load_members, own_views, told_of

if TYPE_CHECKING:
    from torch import nn

    from pipeline.teacher import interface

VIEWS = ("sentence", "token_mean", "cls")


def load(params: EnsembleTeacher, runtime: Runtime, fitted: Path) -> "Ensemble":
    """The ensemble of these params; `fitted` is the folder of its members' PCAs and flows."""
    return Ensemble(params, load_members(params, runtime), fitted)


def look(params: EnsembleTeacher) -> TeacherFacts:
    """The facts of the member from which students start, with the dimensions of the ensemble.

    Raises:
        UserError: a member is missing or cannot be a teacher, or has too few dimensions for its flow.
    """
    found = []
    for key, block in single_teachers(params).items():
        with told_of(key):
            facts: TeacherFacts = implementation("teacher.kinds", block.kind).look(block)
            found.append(facts)
    for number, (member, facts) in enumerate(zip(params.members, found, strict=True)):
        dim = member.pca or facts.dims.get(member.view)
        if member.flow and dim:
            composition.check_flow(member.flow, dim, f"teacher.members.{number}.flow")
    dims = _dims(params, [facts.dims for facts in found])
    return found[params.parts_member].model_copy(update={"dims": dims})


def reading(params: EnsembleTeacher) -> Reading:
    """How the member with the shortest window reads a text.

    Raises:
        UserError: a member is missing or cannot be read.
    """
    found = []
    for key, block in single_teachers(params).items():
        with told_of(key):
            one: Reading = implementation("teacher.kinds", block.kind).reading(block)
            found.append(one)
    return min(found, key=lambda one: one.max_length or sys.maxsize)


def _dims(params: EnsembleTeacher, of_members: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sums of the members' dimensions, for each view to which all members bring something."""
    found = {}
    for view in VIEWS:
        brought = own_views(params, [view])
        parts = [
            member.pca or dims.get(own)
            for member, dims, [own] in zip(params.members, of_members, brought, strict=True)
        ]
        if None not in parts:
            found[view] = sum(part for part in parts if part)
    return found


class Ensemble:
    """The members' normalised vectors, weighted and side by side."""

    similarity: Similarity = "cosine"

    def __init__(self, params: EnsembleTeacher, members: "list[interface.Teacher]", fitted: Path) -> None:
        self.params = params
        self.members = members
        self.folders = tuple(folder for member in members for folder in member.folders)
        self._fitted = fitted

    @cached_property
    def recipes(self) -> dict[str, dict[str, Any]]:
        """By role, the members' recipes and how they are joined."""
        return {
            role: composition.recipe(
                self.params, [member.recipes[role] for member in self.members], self._fitted
            )
            for role in ROLES
        }

    @cached_property
    def module(self) -> "nn.Module | None":
        """The members' modules, of those that have one."""
        from torch import nn

        modules = [member.module for member in self.members if member.module is not None]
        return nn.ModuleList(modules) if modules else None

    @cached_property
    def dims(self) -> dict[str, int]:
        """Of each view to which all members bring something."""
        return _dims(self.params, [member.dims for member in self.members])

    def encode(
        self, texts: Sequence[str], views: Sequence[str], role: Role = "text"
    ) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, dims[view]) of each view.

        Raises:
            UserError: a member cannot be asked, or a PCA or a flow is missing.
        """
        shares = {view: composition.shares(self.params, view, self._fitted) for view in views}
        found = []
        for member, own, key in zip(
            self.members, own_views(self.params, views), single_teachers(self.params), strict=True
        ):
            with told_of(key):
                found.append(member.encode(texts, own, role))
        joined = {}
        for view, brings in shares.items():
            parts = [vectors[share.view] for vectors, share in zip(found, brings, strict=True)]
            joined[view] = composition.joined(self.params, parts, brings).astype(np.float32)
        return joined

    def cut(self, texts: Sequence[str], role: Role = "text") -> Cut | None:
        """How much of the texts in a role the member does not read that cuts most."""
        return most([member.cut(texts, role) for member in self.members])

    def save_parts(self, folder: Path) -> Vocabulary:
        """Save the parts of the member from which students start; return what encodes its tokens."""
        return self.members[self.params.parts_member].save_parts(folder)

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """Every member's own call, one after the other; to join the vectors takes no time beside it."""
        return [member.encode_as_users_do(texts) for member in self.members]
