"""Several teachers as one: `pipeline/teacher/shared/composition.py` has the equation.

Stage `encode` fills the members' stores and joins what they hold. It does not come here.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.params.runtime import Runtime
from pipeline.params.teacher import EnsembleTeacher, single_teachers
from pipeline.teacher.shared import composition
from pipeline.teacher.shared.members import load_members, own_views, told_of

if TYPE_CHECKING:
    from torch import nn

    from pipeline.teacher import interface

VIEWS = ("sentence", "token_mean", "cls")


def load(params: EnsembleTeacher, runtime: Runtime, fitted: Path) -> "Ensemble":
    """The ensemble of these params; `fitted` is the folder of its members' PCAs."""
    return Ensemble(params, load_members(params, runtime), fitted)


class Ensemble:
    """The members' normalised vectors, weighted and side by side."""

    def __init__(self, params: EnsembleTeacher, members: "list[interface.Teacher]", fitted: Path) -> None:
        self.params = params
        self.members = members
        self.folders = tuple(folder for member in members for folder in member.folders)
        self._fitted = fitted

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """The members' recipes and how they are joined."""
        return composition.recipe(self.params, [member.recipe for member in self.members], self._fitted)

    @cached_property
    def module(self) -> "nn.Module | None":
        """The members' modules, of those that have one."""
        from torch import nn

        modules = [member.module for member in self.members if member.module is not None]
        return nn.ModuleList(modules) if modules else None

    @cached_property
    def dims(self) -> dict[str, int]:
        """The sums of the members' dimensions, for each view to which all members bring something."""
        found = {}
        for view in VIEWS:
            parts = [
                member.pca or teacher.dims.get(own)
                for member, teacher, [own] in zip(
                    self.params.members, self.members, own_views(self.params, [view]), strict=True
                )
            ]
            if None not in parts:
                found[view] = sum(part for part in parts if part)
        return found

    def encode(self, texts: Sequence[str], views: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, dims[view]) of each view.

        Raises:
            UserError: a member cannot be asked, or a PCA is missing.
        """
        shares = {view: composition.shares(self.params, view, self._fitted) for view in views}
        found = []
        for member, own, key in zip(
            self.members, own_views(self.params, views), single_teachers(self.params), strict=True
        ):
            with told_of(key):
                found.append(member.encode(texts, own))
        joined = {}
        for view, brings in shares.items():
            parts = [vectors[share.view] for vectors, share in zip(found, brings, strict=True)]
            joined[view] = composition.joined(self.params, parts, brings).astype(np.float32)
        return joined

    def save_parts(self, folder: Path) -> NDArray[np.float32]:
        """Save the parts of the member from which students start; return its vocabulary vectors."""
        return self.members[self.params.parts_member].save_parts(folder)

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """Every member's own call, one after the other; to join the vectors takes no time beside it."""
        return [member.encode_as_users_do(texts) for member in self.members]
