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

REASON = pl.Enum(["evaluation_text", "too_different", "too_similar"])
"""Why a text is dropped; null for a kept one."""
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
    gate = gates[method]
    numbers = _numbers(augmented)
    similarity = pl.Series("similarity", [None] * len(numbers), dtype=pl.Float32)
    if gate and len(numbers):
        sets = [published.open_set(path, drift.VIEW) for path in (corpus_vectors, method_vectors)]
        published.same_recipe(*sets)
        with scratch_folder(Path(params.runtime.cache) / "gate" / method) as folder:
            ids, parents = (numbers[name].to_numpy() for name in ("text_id", "parent_id"))
            found = drift.similarities(ids, parents, sets[1], sets[0], folder / "parents.bin")
        similarity = pl.Series("similarity", found)
    held_out = fold(texts.read_labelled(eval_texts)["text"]).unique().implode()
    reasons, done = [pl.Series([], dtype=REASON)], 0
    with texts.writer(texts.GATED_SCHEMA, out) as put:
        for part in texts.parts(augmented, texts.AUGMENTED_SCHEMA):
            near = similarity[done : done + len(part)]
            dropped = drift.reasons(near, gate) if gate else pl.lit(None, pl.String)
            evaluated = pl.when(fold(part["text"]).is_in(held_out)).then(pl.lit("evaluation_text"))
            judged_part = part.with_columns(near, pl.coalesce(evaluated, dropped).alias("dropped"))
            put(judged_part.filter(pl.col("dropped").is_null()))
            reasons.append(judged_part["dropped"].cast(REASON))
            done += len(part)
    judged = numbers.with_columns(similarity, pl.concat(reasons).alias("dropped"))

    files = (texts.parts(path, texts.IDENTITY) for path in (augmented, corpus))
    write_table(drift.beside_parents(drift.sample(judged), *files), texts.SAMPLE_SCHEMA, sample)
    metrics.write(_metrics(judged, judged.filter(pl.col("dropped").is_null())), metrics_file)


def _numbers(augmented: Path) -> pl.DataFrame:
    """Columns text_id and parent_id of the new texts, by rising id."""
    columns = {"text_id": pl.UInt64, "parent_id": pl.UInt64}
    rows = texts.parts(augmented, {**texts.IDENTITY, **columns})
    return pl.concat([pl.DataFrame(schema=columns), *(part.select(*columns) for part in rows)])


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
