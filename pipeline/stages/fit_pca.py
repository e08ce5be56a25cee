"""fit_pca: the principal components of every view of the training texts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer

from pipeline.artifacts import metrics, pca, texts, vectors
from pipeline.artifacts.shards import Half, Ids
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import report_user_errors
from pipeline.core.params.load import load
from pipeline.training.pca import fit_pca

REPORTED = (32, 64, 128, 256)


def main(
    seed_texts: Annotated[Path, typer.Option(help="corpus/seed.parquet")],
    seed_vectors: Annotated[Path, typer.Option(help="vectors/seed")],
    out: Annotated[Path, typer.Option(help="Folder of one file a view")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Fit a PCA on each view; only training texts count, the first `pca.max_rows` by text id."""
    params = load(params_file)
    train = texts.read_seed(seed_texts).filter(pl.col("split") == "train")["text_id"]
    chosen = train.head(params.pca.max_rows or len(train)).to_numpy()
    vector_set = vectors.open_set(seed_vectors)
    explained: dict[str, dict[str, float]] = {}
    with atomic_folder(out) as folder:
        for view, dim in vector_set.dims.items():
            fitted = fit_pca(_chosen(vector_set, view, chosen), dim, centre=params.pca.centre)
            pca.write(fitted, folder / f"{view}.safetensors")
            shares = np.cumsum(fitted.explained_variance) / fitted.explained_variance.sum()
            explained[view] = {
                f"explained_{kept}": float(shares[kept - 1]) for kept in REPORTED if kept < dim
            }
    metrics.write({"rows": len(chosen), **explained}, metrics_file)


def _chosen(vector_set: vectors.VectorSet, view: str, chosen: Ids) -> Iterator[Half]:
    for ids, batch in vector_set.batches(view):
        yield batch[np.isin(ids, chosen, assume_unique=True)]


if __name__ == "__main__":
    typer.run(report_user_errors(main))
