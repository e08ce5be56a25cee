"""Principal components of a view: pca/VIEW.safetensors."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pipeline.core import seal
from pipeline.core.errors import UserError

NO_VARIANCE = 1e-9
"""Share of the largest variance up to which another is rounding."""


@dataclass(frozen=True)
class Pca:
    """A fitted PCA of d dimensions: everything, of which each student slices what it needs."""

    mean: NDArray[np.float64]
    """(d,); zero where `pca.centre` is off."""
    components: NDArray[np.float64]
    """(d, d), one a row, by falling variance."""
    explained_variance: NDArray[np.float64]
    """(d,), per component."""

    @property
    def dim(self) -> int:
        """Dimension of the vectors it was fitted on."""
        return len(self.mean)

    @property
    def rank(self) -> int:
        """How many components have a variance."""
        return int((self.explained_variance > NO_VARIANCE * self.explained_variance.max()).sum())

    def reduce(
        self, vectors: NDArray[np.floating], dim: int, *, whiten: bool = False, shrinkage: float = 0.0
    ) -> NDArray[np.float32]:
        """Coordinates in the first `dim` components: h = W (e - mean), HPD sec. 3. (n, d) -> (n, dim).

        Whitened, each is divided by its standard deviation; `dim` has to be within the rank. Variances are
        first shrunk to their mean over all d components by this share (Ledoit and Wolf 2004).
        """
        centred = vectors.astype(np.float32) - self.mean.astype(np.float32)
        components = self.components[:dim]
        if whiten:
            variances = self.explained_variance
            shrunk = (1 - shrinkage) * variances + shrinkage * variances.mean()
            components = components / np.sqrt(shrunk[:dim, None])
        return centred @ components.T.astype(np.float32)


def fit(batches: Iterable[NDArray[np.floating]], dim: int, *, centre: bool) -> Pca:
    """Fit all components of vectors (n, dim) that come in batches, summed up in float64.

    In one pass, in the memory of a d x d matrix and one batch.

    Signs are fixed so that each component's largest entry is positive; variances divide by n - 1.

    Args:
        batches: the vectors.
        dim: of the vectors.
        centre: whether `reduce` subtracts the mean. The components are those of the centred vectors either
            way: HPD's released code fits them so, and then leaves the mean in.

    Raises:
        UserError: there are fewer than two vectors.
    """
    rows, total, products = 0, np.zeros(dim), np.zeros((dim, dim))
    for batch in batches:
        block = batch.astype(np.float64)
        rows += len(block)
        total += block.sum(axis=0)
        products += block.T @ block
    if rows < 2:
        raise UserError(
            f"{rows} training texts are too few for a PCA; add corpus.sources, or raise their limit or "
            "pca.max_rows"
        )
    mean = total / rows
    covariance = (products - rows * np.outer(mean, mean)) / (rows - 1)
    variances, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-variances)
    components = vectors.T[order]
    largest = np.take_along_axis(components, np.abs(components).argmax(axis=1, keepdims=True), axis=1)
    return Pca(
        mean if centre else np.zeros(dim), components * np.sign(largest), np.maximum(variances[order], 0)
    )


def write(pca: Pca, path: Path) -> None:
    """Write one view's PCA as safetensors."""
    arrays = {"mean": pca.mean, "components": pca.components, "explained_variance": pca.explained_variance}
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(whole, path, {seal.KEY: seal.BLANK})
    seal.fill(path)


def read(folder: Path, view: str) -> Pca:
    """Read pca/VIEW.safetensors.

    Raises:
        UserError: it is missing, damaged or unreadable.
    """
    path = folder / f"{view}.safetensors"
    if not path.exists():
        raise UserError(f"{path} does not exist; add {view!r} to encode.views and run `dvc repro fit_pca`")
    seal.check(path, "run `dvc repro -f fit_pca`")
    try:
        return Pca(**load_file(path))
    except (SafetensorError, TypeError) as error:
        raise UserError(f"{path} is not a PCA ({error}); run `dvc repro -f fit_pca`") from None
