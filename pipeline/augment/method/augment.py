"""Corpus texts -> new texts, by one method: `python -m pipeline.augment.method.augment wordnet ...`."""

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from pipeline.augment.method.derived import new_texts
from pipeline.augment.method.interface import Made, Resources
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.registry import implementation
from pipeline.data.common import texts as texts_file
from pipeline.data.common.files import metrics as metrics_file
from pipeline.params.load import load


def main(
    method: Annotated[str, typer.Argument(help="A folder of pipeline/augment.")],
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")],
    wordnet: Annotated[Path, typer.Option(help="NLTK's data folder.")],
    vocabulary: Annotated[
        Path, typer.Option(help="The teacher's vocabulary vectors, if the method reads them.")
    ],
    out: Annotated[Path, typer.Option(help="Out: the new texts.")],
    metrics: Annotated[Path, typer.Option(help="Out: rows in, left alone, out and dropped by reason.")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Write new texts made from the corpus's training texts, the first `limit` by text id."""
    params = load(params_file)
    methods = params.augment.methods
    if method not in methods:
        raise UserError(
            f"there is no method {method!r}; `augment:` in {params_file} has {', '.join(methods)}"
        )
    settings, augmenter = methods[method], implementation("augment", f"{method}.augmenter")
    known = texts_file.read_corpus(corpus)
    chosen = known.filter(pl.col("split") == "train").head(settings.limit or len(known))
    if settings.enabled:
        resources = Resources(wordnet, vocabulary, Path(params.runtime.cache), params.runtime.device)
        made: Made = augmenter.augment(chosen, settings, resources)
    else:
        chosen = chosen.clear()
        made = Made(chosen.select(pl.col("text_id").alias("parent_id"), "text"))
    derived = new_texts(made.rows, known, method, settings.gates)

    texts_file.write(derived.texts, texts_file.AUGMENTED_SCHEMA, out)
    counts = {
        "texts_in": len(chosen),
        "left_alone": dict(made.left_alone),
        "made": len(made.rows),
        "rows_out": len(derived.texts),
        "dropped": derived.dropped,
        "rate": len(derived.texts) / len(chosen) if len(chosen) else None,
        "novelty": derived.novelty,
    }
    metrics_file.write(counts, metrics)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
