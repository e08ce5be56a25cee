"""finetune_teacher: supervised InfoNCE on labelled triplets, for the teacher; nothing unless params ask."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.data.common.files import metrics
from pipeline.params.load import load
from pipeline.params.teacher import TransformerTeacher
from pipeline.teacher.shared.local.described import tuned
from pipeline.train.loop import curves
from pipeline.train.loop.world import processes


def main(
    triplets: Annotated[Path, typer.Option(help="corpus/triplets.parquet")],
    finetune_texts: Annotated[Path, typer.Option(help="corpus/finetune.parquet")],
    dev: Annotated[Path, typer.Option(help="corpus/dev: the tasks that select weights")],
    out: Annotated[Path, typer.Option(help="Folder of the fine-tuned teacher")],
    curve: Annotated[Path, typer.Option(help="The training curve, tsv")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Fine-tune the teacher; the weights of the best dev score are kept, those before included.

    Without `teacher.finetune` no model is loaded, and what is written depends on no input.
    """
    if processes() > 1:
        raise UserError(
            "fine-tuning the teacher takes one process: run it with `python`, not with `torchrun`"
        )
    params = load(params_file)
    block = params.teacher
    if not isinstance(block, TransformerTeacher) or block.finetune is None:
        with atomic_folder(out, sealed=False) as folder:
            tuned.write_manifest(folder, None)
        curves.write([], "dev_score", -1, curve)
        metrics.write({"kept": "not fine-tuned", "reason": "teacher.finetune is off"}, metrics_file)
        return
    from pipeline.train.teacher_tuning.tuning import tune

    found = tune(block, block.finetune, params.runtime, triplets, finetune_texts, dev)
    with atomic_folder(out, sealed=False) as folder:
        if found.changed:
            found.teacher.save(folder / tuned.tuned_name(block))
        tuned.write_manifest(folder, block, changed=found.changed)
    curves.write(found.points, "dev_score", -1, curve)
    metrics.write(found.summary, metrics_file)
    found.checkpoint.clear()


if __name__ == "__main__":
    typer.run(report_user_errors(main))
