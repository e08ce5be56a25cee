"""Corpus texts -> new texts, by one method: `python -m pipeline.augment.method.augment wordnet ...`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from pipeline.augment.method.derived import NewTexts, look_at
from pipeline.augment.method.interface import Made, Resources
from pipeline.core import memory
from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import progress
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
    texts_in, left_alone = 0, Counter[str]()
    known = look_at(texts_file.parts(corpus, texts_file.CORPUS_SCHEMA))
    with scratch_folder(out) as folder, texts_file.writer(texts_file.AUGMENTED_SCHEMA, out) as put:
        found = NewTexts(known, method, settings.gates, folder)
        if settings.enabled:
            resources = Resources(wordnet, vocabulary, Path(params.runtime.cache), params.runtime.device)
            at_a_time = getattr(augmenter, "TEXTS_AT_A_TIME", None)
            for texts in _together(
                corpus, min(settings.limit or known.train, known.train), at_a_time, method
            ):
                made: Made = augmenter.augment(texts, settings, resources)
                texts_in += len(texts)
                left_alone.update(made.left_alone)
                found.add(made.rows, texts)
        for part in found.parts(partial(texts_file.within, corpus)):
            put(part)
    counts = {
        "texts_in": texts_in,
        "left_alone": dict(left_alone),
        "made": found.made,
        "rows_out": found.rows,
        "dropped": found.dropped,
        "rate": found.rows / texts_in if texts_in else None,
        "novelty": found.novelty,
    }
    metrics_file.write(counts, metrics)


def _together(corpus: Path, count: int, at_a_time: int | None, method: str) -> Iterator[pl.DataFrame]:
    """The first training texts, `at_a_time` or all of them together."""
    parts = _first(texts_file.parts(corpus, texts_file.CORPUS_SCHEMA), count)
    if at_a_time is None:
        yield pl.concat([pl.DataFrame(schema=texts_file.CORPUS_SCHEMA), *parts])
        return
    with progress(f"augment {method}", count, "texts") as advance:
        for part in parts:
            for some in part.iter_slices(memory.at_a_time(at_a_time)):
                yield some
                advance(len(some))


def _first(parts: Iterable[pl.DataFrame], count: int) -> Iterator[pl.DataFrame]:
    left = count
    for part in parts:
        chosen = part.filter(split="train").head(left)
        left -= len(chosen)
        yield chosen
        if not left:
            return


if __name__ == "__main__":
    typer.run(report_user_errors(main))
