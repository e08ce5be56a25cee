"""distill@NAME: train one student on the cached vectors. No teacher is loaded here."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.artifacts import curves, metrics, student
from pipeline.core import fingerprint
from pipeline.core.errors import report_user_errors
from pipeline.core.params.load import load
from pipeline.core.registry import implementation
from pipeline.exporting.card import model_card
from pipeline.training import distillation, guard
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.data import read_examples, teacher_sample


def main(
    name: Annotated[str, typer.Argument(help="The student's name in params.yaml")],
    corpus: Annotated[Path, typer.Option(help="corpus/seed.parquet")],
    augmented: Annotated[Path, typer.Option(help="Folder of METHOD.parquet")],
    vectors: Annotated[Path, typer.Option(help="Folder of vector sets")],
    teacher: Annotated[Path, typer.Option(help="The teacher's parts")],
    pca: Annotated[Path, typer.Option(help="Folder of one PCA a view")],
    out: Annotated[Path, typer.Option(help="The trained student")],
    untrained: Annotated[Path, typer.Option(help="The student before training")],
    curve: Annotated[Path, typer.Option(help="The training curve, tsv")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Distil the teacher's cached vectors into one student."""
    params = load(params_file)
    block = params.student(name)
    train, dev = read_examples(name, block, corpus, augmented, vectors, pca)
    teacher_health = guard.describe(teacher_sample(block.view, vectors))
    guard.check_collapse(
        teacher_health, f"the teacher's {block.view} vectors", "choose another view or teacher"
    )
    loss = implementation("losses", block.loss.kind).build(block.loss)
    learner = implementation("students", block.kind).build(block, teacher)
    card = model_card(name, block.kind, block, params.teacher)
    identity: dict[str, Any] = {
        "block": block.model_dump(mode="json", exclude={"finetune"}),
        "train": train.fingerprint,
        "dev": dev.fingerprint,
        "teacher": fingerprint.of_folder(teacher),
    }
    checkpoint = Checkpoint.of(Path(params.runtime.cache), f"distill-{name}", **identity)
    train_tokens = learner.tokenise(train.texts)
    learner.fit_projection(train_tokens, train.targets)
    student.write(learner, card, untrained)
    trainer = distillation.Distillation(learner, loss, train_tokens, train.targets, dev)
    points = trainer.run(name, block.train, checkpoint, params.runtime.checkpoint_seconds)
    health = guard.describe(trainer.dev_vectors())
    guard.check_collapse(
        health, f"the vectors of {name}", f"lower students.{name}.train.lr or change its loss"
    )
    learner.regularise(train_tokens)
    student.write(learner, card, out)
    curves.write(points, "dev_loss", 1, curve)
    best = min(points, key=lambda point: point.dev_value)
    metrics.write(
        {
            "train_texts": len(train.texts),
            "dev_texts": len(dev.texts),
            "steps": points[-1].step,
            "best_step": best.step,
            "untrained_dev_loss": points[0].dev_value,
            "best_dev_loss": best.dev_value,
            "mean_predictor_loss": trainer.mean_predictor_loss(),
            **{f"teacher_{key}": value for key, value in teacher_health.items()},
            **{f"target_{key}": value for key, value in guard.describe(train.targets).items()},
            **{f"student_{key}": value for key, value in health.items()},
        },
        metrics_file,
    )
    checkpoint.clear()


if __name__ == "__main__":
    typer.run(report_user_errors(main))
