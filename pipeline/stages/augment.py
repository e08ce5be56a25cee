"""Seed texts -> new texts, by one method: `python -m pipeline.stages.augment wordnet ...`."""

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from pipeline.artifacts import metrics as metrics_file
from pipeline.artifacts import texts as texts_file
from pipeline.augmenters.interface import Resources
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.params.load import load
from pipeline.core.registry import implementation
from pipeline.corpus.derived import new_texts


def main(
    method: Annotated[str, typer.Argument(help="A module of pipeline/augmenters.")],
    seed_texts: Annotated[Path, typer.Option(help="The corpus.")],
    eval_texts: Annotated[Path, typer.Option(help="The texts of the tasks, which no new text may equal.")],
    wordnet: Annotated[Path, typer.Option(help="NLTK's data folder.")],
    teacher: Annotated[Path, typer.Option(help="The teacher's parts.")],
    out: Annotated[Path, typer.Option(help="Out: the new texts.")],
    metrics: Annotated[Path, typer.Option(help="Out: rows in, out and dropped by reason.")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Write new texts made from the corpus's training texts, the first `limit` by text id."""
    params = load(params_file)
    methods = dict(params.augment)
    if method not in methods:
        raise UserError(
            f"there is no method {method!r}; `augment:` in {params_file} has {', '.join(methods)}"
        )
    settings, augmenter = methods[method], implementation("augmenters", method)
    seed, evaluated = texts_file.read_seed(seed_texts), texts_file.read_labelled(eval_texts)

    chosen = seed.filter(pl.col("split") == "train").head(settings.limit or len(seed))
    if settings.enabled:
        resources = Resources(wordnet, teacher, Path(params.runtime.cache), params.runtime.device)
        made = augmenter.augment(chosen, settings, resources)
    else:
        chosen = chosen.clear()
        made = chosen.select(pl.col("text_id").alias("parent_id"), "text")
    derived = new_texts(made, seed, evaluated, method, settings.gates)

    texts_file.write(derived.texts, texts_file.AUGMENTED_SCHEMA, out)
    counts = {
        "texts_in": len(chosen),
        "made": len(made),
        "rows_out": len(derived.texts),
        "dropped": derived.dropped,
        "rate": len(derived.texts) / len(chosen) if len(chosen) else None,
        "novelty": derived.novelty,
    }
    metrics_file.write(counts, metrics)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
