"""gate@METHOD: new texts -> those whose meaning is near their parents', by the teacher's cached vectors."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from numpy.typing import NDArray

from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.common.files.tables import write_table
from pipeline.data.common.texts import HeldOut
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
    found = None
    if gate:
        scratch = Path(params.runtime.cache) / "gate" / method
        found = _similarities(augmented, corpus_vectors, method_vectors, scratch)
    held_out = HeldOut(part["text"] for part in texts.labelled(eval_texts, {}))
    reasons, done = [pl.Series([], dtype=REASON)], 0
    with texts.writer(texts.GATED_SCHEMA, out) as put:
        for part in texts.parts(augmented, texts.AUGMENTED_SCHEMA):
            near = _column(found, done, len(part))
            dropped = drift.reasons(near, gate) if gate else pl.lit(None, pl.String)
            evaluated = pl.when(held_out.has(part["text"])).then(pl.lit("evaluation_text"))
            judged_part = part.with_columns(near, pl.coalesce(evaluated, dropped).alias("dropped"))
            put(judged_part.filter(pl.col("dropped").is_null()))
            reasons.append(judged_part["dropped"].cast(REASON))
            done += len(part)
    judged = pl.DataFrame([_column(found, 0, done), pl.concat(reasons).alias("dropped")])
    chosen = drift.sample(judged)
    parts = (texts.parts(augmented, texts.AUGMENTED_SCHEMA), texts.parts(corpus, texts.IDENTITY))
    write_table(drift.beside_parents(judged, chosen, *parts), texts.SAMPLE_SCHEMA, sample)
    metrics.write(_metrics(judged), metrics_file)


def _similarities(
    augmented: Path, corpus_vectors: Path, method_vectors: Path, scratch: Path
) -> NDArray[np.float32]:
    """The cosines (n,) of the new texts to their parents, by rising id; of none, no vectors are opened."""
    numbers = {"text_id": pl.UInt64, "parent_id": pl.UInt64}
    rows = texts.parts(augmented, {**texts.IDENTITY, **numbers})
    parts = [pl.DataFrame(schema=numbers), *(part.select(*numbers) for part in rows)]
    ids, parents = (np.concatenate([part[name].to_numpy() for part in parts]) for name in numbers)
    del parts
    if not len(ids):
        return np.empty(0, np.float32)
    known, own = (published.open_set(path, drift.VIEW) for path in (corpus_vectors, method_vectors))
    published.same_recipe(known, own)
    with scratch_folder(scratch) as folder:
        return drift.similarities(ids, parents, own, known, folder / "parents.bin")


def _column(found: NDArray[np.float32] | None, start: int, rows: int) -> pl.Series:
    """Similarities of some texts; null where none is asked for."""
    if found is None:
        return pl.repeat(None, rows, dtype=pl.Float32, eager=True).alias("similarity")
    return pl.Series("similarity", found[start : start + rows])


def _metrics(judged: pl.DataFrame) -> dict[str, Any]:
    """Rows and reasons; where similarity is known, its quantiles over all rows, and the mean of the kept."""
    kept = judged.filter(pl.col("dropped").is_null())
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
