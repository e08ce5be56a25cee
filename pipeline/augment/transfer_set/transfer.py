"""transfer: new rows of labelled tasks, without labels: the transfer set of Tang et al. 2019."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from pipeline.augment.transfer_set import rows as rows_file
from pipeline.augment.transfer_set.making import TransferRows, make
from pipeline.augment.transfer_set.rules import mask_token
from pipeline.augment.transfer_set.speech import Speech
from pipeline.augment.wordnet.words.readings import Readings
from pipeline.augment.wordnet.words.senses import read_senses
from pipeline.core.errors import report_user_errors
from pipeline.core.progress import say
from pipeline.data.common import texts as texts_file
from pipeline.data.common.files import metrics as metrics_file
from pipeline.data.common.texts import HeldOut
from pipeline.params.augment import TransferSet
from pipeline.params.classifiers import with_labels
from pipeline.params.evaluate import Task
from pipeline.params.load import load
from pipeline.prepare import window
from pipeline.prepare.shared.cleaning import check_ids
from pipeline.tasks import pairs as pairs_file

TRAINS = pairs_file.HAS_CLASS & (pl.col("subset") == "train")
"""Whether a row trains a classifier; all others evaluate."""
TEXTS = {"text_id": pl.UInt64, "text": pl.String}


def main(
    tasks: Annotated[Path, typer.Option(help="corpus/tasks.parquet")],
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet, the texts of the tasks")],
    wordnet: Annotated[Path, typer.Option(help="NLTK's data folder.")],
    tokenizer: Annotated[Path, typer.Option(help="The teacher's, for its mask token.")],
    texts: Annotated[Path, typer.Option(help="Out: the texts of the new rows.")],
    rows: Annotated[Path, typer.Option(help="Out: the new rows.")],
    metrics: Annotated[Path, typer.Option(help="Out: rows in, out and dropped by reason, of each task.")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Make new rows of the training rows of `augment.transfer.tasks`; without the block there are none."""
    params = load(params_file)
    made: dict[str, TransferRows] = {}
    mask = None
    if settings := params.augment.transfer:
        mask = mask_token(window.read(tokenizer).tokenizer)
        pairs = pairs_file.read(tasks)
        speech = Speech(Readings(read_senses(wordnet)))
        named = spelled_out(settings, params.evaluate.tasks)
        trained = {name: pairs.filter(TRAINS, task=name) for name in named}
        held_out = HeldOut(part["text"] for part in texts_of(pairs.filter(~TRAINS), eval_texts))
        known = pl.concat(texts_of(pl.concat(trained.values()), eval_texts))
        for name, rows_of_task in trained.items():
            made[name] = make(name, rows_of_task, known, held_out, (settings, mask, speech))
    found = [one.texts for one in made.values()]
    together = pl.concat([pl.DataFrame(schema=TEXTS), *found]).unique(["text_id", "text"])
    check_ids(together)
    texts_file.write(together, texts_file.LABELLED_SCHEMA, texts)
    of_tasks = [one.rows.with_columns(task=pl.lit(name)) for name, one in made.items()]
    of_all = [one.select(list(rows_file.SCHEMA)) for one in of_tasks]
    rows_file.write(pl.concat([pl.DataFrame(schema=rows_file.SCHEMA), *of_all]), rows)
    counts: dict[str, Any] = {name: one.counts for name, one in made.items()}
    metrics_file.write({"mask": mask, "texts": len(together), "tasks": counts}, metrics)
    said = ", ".join(f"{len(one.rows):,} rows of {name}" for name, one in made.items())
    say(f"transfer: {said or 'not made, for augment.transfer is null'}")


def spelled_out(settings: TransferSet, tasks: dict[str, Task]) -> list[str]:
    """The tasks that are named; of an entry that stands for several, those with labels."""
    return [*with_labels({name: tasks[name] for name in settings.tasks})]


def texts_of(rows: pl.DataFrame, texts: Path) -> Iterator[pl.DataFrame]:
    """The texts that rows of tasks name, some at a time.

    Args:
        rows: `pairs.PAIRS_SCHEMA`.
        texts: corpus/eval.parquet.
    """
    named = pl.concat([rows["left_id"], rows["right_id"], rows["negative_ids"].explode()]).drop_nulls()
    wanted = named.unique().implode()
    return (part.filter(pl.col("text_id").is_in(wanted)) for part in texts_file.labelled(texts, {}))


if __name__ == "__main__":
    typer.run(report_user_errors(main))
