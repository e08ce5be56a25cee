"""gate@METHOD: new texts -> those whose meaning is near their parents', by the teacher's cached vectors."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.common.files.tables import write_table
from pipeline.data.common.texts import fold
from pipeline.params.load import load
from pipeline.select.gating import drift
from pipeline.vectors.sets import published

QUANTILES = {"min": 0.0, "p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}


def main(
    method: Annotated[str, typer.Argument(help="A method of `augment:`.")],
    augmented: Annotated[Path, typer.Option(help="Its texts.")],
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")],
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet: no kept text may equal one")],
    method_vectors: Annotated[Path, typer.Option("--vectors", help="The teacher's, of its texts.")],
    corpus_vectors: Annotated[Path, typer.Option(help="vectors/corpus")],
    out: Annotated[Path, typer.Option(help="Out: the texts that are kept, with their similarity.")],
    sample: Annotated[Path, typer.Option(help="Out: some texts beside their parents, for the report.")],
    metrics_file: Annotated[Path, typer.Option("--metrics", help="Out: rows, reasons, similarity.")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Keep the texts that no task has, and whose cosine to their parent is in `gate.METHOD` (null: any)."""
    params = load(params_file)
    gates = dict(params.gate)
    if method not in gates:
        raise UserError(f"there is no method {method!r}; `gate:` in {params_file} has {', '.join(gates)}")
    table, known, gate = texts.read_augmented(augmented), texts.read_corpus(corpus), gates[method]
    similarity = pl.Series("similarity", [None] * len(table), dtype=pl.Float32)
    dropped = pl.Series("dropped", [None] * len(table), dtype=pl.String)
    if gate and len(table):
        sets = [published.open_set(path, drift.VIEW) for path in (corpus_vectors, method_vectors)]
        published.same_recipe(*sets)
        with scratch_folder(Path(params.runtime.cache) / "gate" / method) as folder:
            ids, parents = (table[name].to_numpy() for name in ("text_id", "parent_id"))
            found = drift.similarities(ids, parents, sets[1], sets[0], folder / "parents.bin")
        similarity = pl.Series("similarity", found)
        dropped = drift.reasons(similarity, gate)
    held_out = fold(texts.read_labelled(eval_texts)["text"]).unique()
    evaluated = pl.when(fold(table["text"]).is_in(held_out.implode())).then(pl.lit("evaluation_text"))
    judged = table.with_columns(similarity, pl.coalesce(evaluated, dropped).alias("dropped"))
    kept = judged.filter(pl.col("dropped").is_null())

    texts.write(kept, texts.GATED_SCHEMA, out)
    write_table(drift.sample(judged, known), texts.SAMPLE_SCHEMA, sample)
    metrics.write(_metrics(judged, kept), metrics_file)


def _metrics(judged: pl.DataFrame, kept: pl.DataFrame) -> dict[str, Any]:
    """Rows and reasons; where similarity is known, its quantiles over all rows, and the mean of the kept."""
    reasons = judged["dropped"].drop_nulls().value_counts().sort("dropped")
    counts = {"rows_in": len(judged), "rows_out": len(kept), "dropped": dict(reasons.iter_rows())}
    known = judged["similarity"].drop_nulls()
    if known.is_empty():
        return counts
    quantiles = {name: known.quantile(at, "linear") for name, at in QUANTILES.items()}
    mean = {"mean": known.cast(pl.Float64).mean(), "mean_kept": kept["similarity"].cast(pl.Float64).mean()}
    return {**counts, "similarity": {**mean, **quantiles}}


if __name__ == "__main__":
    typer.run(report_user_errors(main))
