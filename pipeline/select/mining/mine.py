"""mine: hard negatives for the fine-tuning triplets, from the teacher's cached vectors."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import report_user_errors
from pipeline.data.common.files import metrics
from pipeline.params.load import load
from pipeline.select.mining.mining import VIEW, Counts, Miner, unit_vectors
from pipeline.tasks import pairs
from pipeline.vectors.sets import published


def main(
    triplets: Annotated[Path, typer.Option(help="corpus/triplets.parquet")],
    finetune_vectors: Annotated[Path, typer.Option(help="vectors/finetune, the teacher's")],
    out: Annotated[Path, typer.Option(help="The triplets with mined negatives after the given ones")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Add hard negatives to the triplets; without `finetune.mine`, or with 0 of it, they stay as they are."""
    params = load(params_file)
    table, counts = pairs.read(triplets), Counts()
    if params.finetune.mine is None or not params.finetune.mine.negatives:
        table = table.filter(pairs.IS_TRIPLET)
        counts.triplets = len(table)
    else:
        vector_set = published.open_set(finetune_vectors, VIEW)
        with scratch_folder(Path(params.runtime.cache) / "training" / "mine") as folder:
            ids, unit = unit_vectors(vector_set, folder / "unit.bin")
            table, counts = Miner(table, ids, unit, params.finetune.mine, finetune_vectors).mine()
    pairs.write(table, out)
    metrics.write(counts.metrics(), metrics_file)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
