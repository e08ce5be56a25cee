"""fit_pca: the principal components of every view of the training texts."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import report_user_errors
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.params.load import load
from pipeline.vectors.sets import published
from pipeline.vectors.space import pca

REPORTED = (32, 64, 128, 256)


def main(
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")],
    vectors: Annotated[Path, typer.Option(help="vectors/corpus")],
    out: Annotated[Path, typer.Option(help="Folder of one file a view")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Fit a PCA on each view; only training texts count, the first `pca.max_rows` by text id."""
    params = load(params_file)
    chosen = texts.ids(corpus, "train")[: params.pca.max_rows]
    vector_set = published.open_set(vectors)
    explained: dict[str, dict[str, float]] = {}
    with atomic_folder(out, sealed=False) as folder:
        for view, dim in vector_set.dims.items():
            fitted = pca.fit(vector_set.of(chosen, view), dim, centre=params.pca.centre)
            pca.write(fitted, folder / f"{view}.safetensors")
            shares = np.cumsum(fitted.explained_variance)
            explained[view] = {
                f"explained_{kept}": float(shares[kept - 1] / shares[-1])
                for kept in REPORTED
                if kept < dim and fitted.rank  # of equal vectors nothing is explained
            }
    metrics.write({"rows": len(chosen), **explained}, metrics_file)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
