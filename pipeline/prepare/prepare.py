"""params.yaml's sources, tasks and fine-tuning data -> the corpus, the labelled pairs and their texts."""

from collections.abc import Iterable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import report_user_errors
from pipeline.core.progress import say
from pipeline.data.common import texts as texts_file
from pipeline.data.common.files import metrics as metrics_file
from pipeline.params.load import load
from pipeline.prepare import dev as dev_file
from pipeline.prepare import origins as origins_file
from pipeline.prepare import window as window_file
from pipeline.prepare.corpus import build
from pipeline.prepare.readers.named import named
from pipeline.prepare.rows import PROVENANCE_SCHEMA
from pipeline.prepare.shared.cleaning import check_ids
from pipeline.prepare.shared.wordnet_files import open_wordnet
from pipeline.prepare.sources import read_sources
from pipeline.prepare.tasks import evaluation, held_out, sizes, training_pairs
from pipeline.prepare.triplets import finetuning
from pipeline.prepare.wordnet.families import Families, families
from pipeline.tasks import pairs as pairs_file
from pipeline.tasks.subtasks import spelled_out

EVAL_TEXTS = 2000
"""Where no task names any."""


def main(
    raw: Annotated[Path, typer.Option(help="The user's data: DVC sees what changes in this folder.")],
    wordnet: Annotated[Path, typer.Option(help="NLTK's data folder.")],
    tokenizer: Annotated[Path, typer.Option(help="The teacher's, for passages.")],
    corpus: Annotated[Path, typer.Option(help="Out: the corpus.")],
    provenance: Annotated[Path, typer.Option(help="Out: where each text of the corpus comes from.")],
    eval_texts: Annotated[Path, typer.Option("--eval", help="Out: the texts of the tasks, or dev texts.")],
    tasks: Annotated[Path, typer.Option(help="Out: the pairs of the tasks.")],
    dev: Annotated[Path, typer.Option(help="Out: folder of the tasks that select weights.")],
    finetune: Annotated[Path, typer.Option(help="Out: the texts of the triplets.")],
    triplets: Annotated[Path, typer.Option(help="Out: the fine-tuning triplets.")],
    origins: Annotated[Path, typer.Option(help="Out: rows and digests of all that this is made of.")],
    metrics: Annotated[Path, typer.Option(help="Out: rows in, out and dropped by reason.")],
    params: Annotated[Path, typer.Option(help="params.yaml")] = Path("params.yaml"),
) -> None:
    """Write the corpus, the evaluation tasks and the fine-tuning data."""
    given = load(params)
    settings = spelled_out(given)
    wordnet.mkdir(parents=True, exist_ok=True)  # augment depends on the folder, used or not
    for key, path in given.user_files():
        if key.startswith("students."):
            again = f"dvc repro -f -s distill@{key.split('.')[1]}"
            say(f"{params}: {key}: DVC does not see when {path} changes; run `{again}` then")
        elif not _sees(raw, path):
            say(f"{params}: {key} is not all in {raw}: DVC does not see when {path} changes")
    for key, address in given.remote_files():
        say(f"{params}: {key}: DVC does not see when {address} changes; run `dvc repro -f -s prepare` then")
    for key in dict.fromkeys(given.hub_datasets()):
        say(
            f"{params}: {key}: DVC does not see when a folder changes, or a dataset of the hub without a "
            "fixed commit; run `dvc repro -f -s prepare` then"
        )

    @cache
    def opened() -> Families:
        say("reading WordNet")
        return families(open_wordnet(wordnet))

    evaluated = evaluation(given.evaluate.tasks, opened)
    apart = held_out(evaluated, settings.evaluate.tasks)
    inputs = Path(settings.runtime.cache)
    read = read_sources(settings.corpus.sources, opened, cache(lambda: window_file.read(tokenizer)), inputs)
    with scratch_folder(corpus) as folder:
        built = build(read, settings.corpus, apart, folder)
        of_tasks = partial(training_pairs, evaluated, settings.evaluate.tasks)
        labelled, finetune_reports = finetuning(settings.finetune.data, opened, apart, of_tasks)
        # Without a task, cost and exports are measured on texts that no student is trained on.
        shown = evaluated.texts if settings.evaluate.tasks else dev_texts(built.parts())
        others = pl.concat([table.select("text_id", "text") for table in (shown, labelled.texts)])
        check_ids(others)
        with (
            texts_file.writer(texts_file.CORPUS_SCHEMA, corpus) as put,
            texts_file.writer(PROVENANCE_SCHEMA, provenance) as put_place,
        ):
            for part in built.parts():
                check_ids(_with_theirs(part, others))
                put(part)
                put_place(part)
    texts_file.write(shown, texts_file.LABELLED_SCHEMA, eval_texts)
    pairs_file.write(evaluated.pairs, tasks)
    dev_file.write(evaluated.pairs, evaluated.texts, settings.evaluate.tasks, dev)
    texts_file.write(labelled.texts, texts_file.LABELLED_SCHEMA, finetune)
    pairs_file.write(labelled.pairs, triplets)
    made_of = {
        **origins_file.of_corpus(built, settings),
        **origins_file.of_triplets(labelled.pairs, finetune_reports, settings),
        **origins_file.of_tasks(evaluated.pairs, settings),
        **origins_file.of_wordnet(wordnet),
    }
    rows = {corpus: built.texts.rows, tasks: len(evaluated.pairs), triplets: len(labelled.pairs)}
    origins_file.write(made_of, origins_file.of_tables(rows), origins)
    counts = {
        "corpus": built.splits,
        "sources": {report.source: asdict(report) for report in built.reports},
        "tasks": sizes(evaluated.pairs, evaluated.dropped),
        "finetune": {name: report.told() for name, report in finetune_reports.items()},
    }
    metrics_file.write(counts, metrics)
    triplet_rows = len(labelled.pairs.filter(pairs_file.IS_TRIPLET))
    say(f"{built.texts.rows:,} corpus texts, {len(evaluated.pairs):,} task rows, {triplet_rows:,} triplets")


def dev_texts(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The first texts of the corpus' dev split by text_id, which being hashes are a choice by chance."""
    found = [pl.DataFrame(schema=texts_file.LABELLED_SCHEMA)]
    for part in parts:
        found.append(part.filter(pl.col("split") == "dev").select(*texts_file.LABELLED_SCHEMA))
        if sum(map(len, found)) >= EVAL_TEXTS:
            break
    return pl.concat(found).head(EVAL_TEXTS)


def _with_theirs(part: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Texts of the corpus, and other texts, that have an id in common."""
    theirs = others.filter(pl.col("text_id").is_in(part["text_id"].implode()))
    ours = part.filter(pl.col("text_id").is_in(theirs["text_id"].implode()))
    return pl.concat([ours.select("text_id", "text"), theirs])


def _sees(raw: Path, pattern: str) -> bool:
    """Whether DVC sees all that a path or a glob names: of links it reads files, but enters no folder."""
    parts = [part for one in named(pattern) for part in (one, *one.rglob("*"))]
    folders = {part if part.is_dir() else part.parent for part in parts}
    return all(folder.resolve().is_relative_to(raw.resolve()) for folder in folders)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
