"""How members' vectors become an ensemble's: transformed if asked, normalised, weighted, side by side.

With members i of weights w_i and vectors u_i of length 1, a text's vector is sqrt(w_i / sum(w)) u_i for all
i, one behind the other. Its length is 1. The cosine of two texts is the weighted mean of the members'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.params.teacher import EnsembleTeacher, Flow, Teacher
from pipeline.teacher.shared import fitted_members
from pipeline.teacher.shared.fitted_members import Reduction, Transformation
from pipeline.teacher.shared.members import brought

RECIPE_VERSION = 1
"""Raised when a change of this file changes an ensemble's vectors."""


@dataclass(frozen=True)
class Share:
    """What one teacher brings to a view."""

    view: str
    """Its own view that it brings."""
    scale: float = 1.0
    """sqrt(w / sum(w))."""
    reduction: Reduction | None = None
    flow: Transformation | None = None

    def of(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """Its part (n, dim) of the ensemble's vectors, each of length `scale`; zero rows stay zero."""
        found = read_by_flow(vectors, self.reduction) if self.flow else unit(vectors)
        if self.flow:
            found = unit(self.flow(found))
        elif self.reduction:
            found = unit(self.reduction.of(found))
        return np.float32(self.scale) * found


def read_by_flow(vectors: NDArray[np.floating], reduction: Reduction | None) -> NDArray[np.float32]:
    """What a flow maps: coordinates (n, dim) that a PCA leaves, or vectors (n, d) as they are."""
    return reduction.of(unit(vectors)) if reduction else vectors.astype(np.float32)


def check_flow(flow: Flow, dim: int, key: str) -> None:
    """Fail unless vectors of so many dimensions are enough for a flow's levels; `key`: the flow's, in params.

    Raises:
        UserError: the last level would have one dimension or none.
    """
    if dim < flow.least_dim:
        most = (dim - 1).bit_length()
        fix = f"choose {most} or less" if most else f"set {key} to null"
        raise UserError(
            f"{key}.levels is {flow.levels}; {dim} dimensions are too few to be halved so often: {fix}"
        )


def shares(
    params: Teacher, view: str, fitted: Path, recipes: Sequence[Mapping[str, Any]] | None = None
) -> list[Share]:
    """What each teacher of the params brings to a view.

    Args:
        params: of an ensemble, or of one teacher, which brings the view as it is.
        view: of the params' teacher.
        fitted: data/members, the PCAs and flows.
        recipes: of the members; None: they may be of members of other recipes.

    Raises:
        UserError: a PCA or a flow is missing, damaged or of a member of another recipe.
    """
    if not isinstance(params, EnsembleTeacher):
        return [Share(view)]
    total = sum(member.weight for member in params.members)
    found = []
    for number, member in enumerate(params.members):
        own, recipe_of_member = brought(member.view, view), recipes[number] if recipes else None
        reduction = flow = None
        if member.pca:
            reduction = fitted_members.read(fitted, number, own, recipe_of_member)
        if member.flow:
            flow = fitted_members.read_flow(fitted, number, own, member.flow, recipe_of_member)
        found.append(Share(own, sqrt(member.weight / total), reduction, flow))
    return found


def joined(
    params: Teacher, parts: Sequence[NDArray[np.floating]], brings: Sequence[Share]
) -> NDArray[np.floating]:
    """The vectors (n, sum of dims) of the members' (n, d); those of a single teacher as they are."""
    if not isinstance(params, EnsembleTeacher):
        return parts[0]
    return np.concatenate([share.of(part) for share, part in zip(brings, parts, strict=True)], axis=1)


def recipe(params: Teacher, recipes: Sequence[dict[str, Any]], fitted: Path) -> dict[str, Any]:
    """What decides the vectors: the members' recipes and how they are joined; a single teacher's own.

    A PCA or a flow is named by the texts that it is fitted on, so that all views have one recipe.
    """
    if not isinstance(params, EnsembleTeacher):
        return recipes[0]
    total = sum(member.weight for member in params.members)
    sample = fitted_members.sample(fitted) if any(member.pca for member in params.members) else None
    members = [
        {
            "recipe": own,
            "share": member.weight / total,
            "view": member.view,
            "pca": {"dim": member.pca, **(sample or {})} if member.pca else None,
            **(
                {
                    "flow": {
                        **member.flow.model_dump(mode="json"),
                        **fitted_members.flow_sample(fitted, number),
                    }
                }
                if member.flow
                else {}
            ),
        }
        for number, (member, own) in enumerate(zip(params.members, recipes, strict=True))
    ]
    return {"version": RECIPE_VERSION, "kind": params.kind, "members": members}


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows (n, d) at length 1; a zero row stays zero."""
    found = vectors.astype(np.float32)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return found / lengths
