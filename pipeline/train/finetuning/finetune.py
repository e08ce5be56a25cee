"""finetune@NAME: InfoNCE on labelled triplets, or the teacher's cosines of pairs; whitening; or neither."""

import shutil
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from pipeline.core import fingerprint
from pipeline.core.atomic import atomic_folder, scratch_folder
from pipeline.core.errors import UserError, report_user_errors, under
from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.common.files.tables import read_table
from pipeline.data.model_card import model_card
from pipeline.data.models import teacher_facts
from pipeline.data.student import layout, student_folder
from pipeline.params.evaluate import AGREEMENT, Agreement
from pipeline.params.finetune import Finetune
from pipeline.params.load import load
from pipeline.params.runtime import Runtime
from pipeline.params.students import Student as StudentParams
from pipeline.prepare import dev as dev_file
from pipeline.prepare.dev import DevTasks
from pipeline.tasks import agreement, pairs
from pipeline.tasks.embeddings import Embeddings
from pipeline.train.finetuning.last_layer import append_projection, check_last_layer, whiten
from pipeline.train.finetuning.pair_cosines import PairCosines
from pipeline.train.finetuning.replayed import Replayed, Reread
from pipeline.train.finetuning.shared.dev_score import DevScore, summary_of
from pipeline.train.finetuning.shared.finetuning import Finetuning, chosen_triplets
from pipeline.train.loop import curves
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.loop import Point
from pipeline.train.loop.precision import takes_bfloat16
from pipeline.train.loop.world import World, processes
from pipeline.train.students.shared.base.interface import Student
from pipeline.train.students.shared.verdict import verdict
from pipeline.vectors.sets import published


def main(
    name: Annotated[str, typer.Argument(help="The student's name in params.yaml")],
    distilled: Annotated[Path, typer.Option(help="The distilled student")],
    facts: Annotated[Path, typer.Option(help="What the teacher is, by `look`")],
    triplets: Annotated[Path, typer.Option(help="mined/triplets.parquet")],
    finetune_texts: Annotated[Path, typer.Option(help="corpus/finetune.parquet")],
    dev: Annotated[Path, typer.Option(help="corpus/dev: the tasks that select weights")],
    out: Annotated[Path, typer.Option(help="The fine-tuned student")],
    curve: Annotated[Path, typer.Option(help="The training curve, tsv")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")] = Path("data/corpus/corpus.parquet"),
    corpus_vectors: Annotated[Path, typer.Option(help="vectors/corpus")] = Path("data/vectors/corpus"),
    finetune_vectors: Annotated[Path, typer.Option(help="vectors/finetune")] = Path("data/vectors/finetune"),
    gated: Annotated[Path, typer.Option(help="Folder of METHOD.parquet")] = Path("data/gated"),
    vectors: Annotated[Path, typer.Option(help="Folder of vector sets")] = Path("data/vectors"),
    pca: Annotated[Path, typer.Option(help="Folder of one PCA a view")] = Path("data/pca"),
    teacher_view: Annotated[str, typer.Option(help="The first of encode.views")] = "sentence",
) -> None:
    """Fine-tune one student; the weights of the best dev score are kept, the distilled ones included.

    A projection that is asked for ships in any case, and so does whitening, which comes last.
    """
    if processes() > 1:
        raise UserError("fine-tuning takes one process: run it with `python`, and `distill` with `torchrun`")
    params = load(params_file)
    if refused := student_folder.refusal(distilled):
        _copy(distilled, out)
        curves.write([], "dev_score", -1, curve)
        metrics.write({metrics.REFUSED: str(refused)}, metrics_file)
        return
    student_folder.check(distilled, f"distill@{name}")
    block = verdict(name, params.student(name), teacher_facts.read(facts)).block
    tuned = Tuned([], {"kept": "not fine-tuned", "reason": f"students.{name}.finetune is off"})
    if not block.finetune and not block.whitening:
        _copy(distilled, out)
        curves.write([], "dev_score", -1, curve)
        metrics.write(tuned.summary, metrics_file)
        return
    learner: Student = implementation("train.students.kinds", block.kind).load(block, distilled)
    with under(f"students.{name}"):
        check_last_layer(block, learner)
    world, prompts = World.join(params.runtime.device), student_folder.prompts(distilled)
    if block.finetune:
        places = Places(
            distilled,
            triplets,
            finetune_texts,
            dev,
            corpus,
            corpus_vectors / teacher_view,
            finetune_vectors / block.view,
            Reread(corpus, gated, vectors, pca),
        )
        tuned = _tune(name, learner, block, block.finetune, params.runtime, world, places)
    # Both losses look at directions alone. Weights whose lengths it spoils lose on dev, and are not kept.
    similarity, unit = student_folder.similarity(distilled), layout.is_unit(distilled)
    whitened: dict[str, Any] = {}
    if block.whitening:
        described = block.model_dump(mode="json")
        told = (corpus, prompts, world.device, params.runtime, described)
        whitened = whiten(name, learner, block.whitening, *told)
        similarity, unit = "cosine", True
    learner.module.to("cpu")
    if tuned.changed or whitened:
        dim = whitened.get("whitened_dim") or (block.finetune and block.finetune.projection) or block.dim
        shipped, made = block.model_copy(update={"dim": dim}), params.augment.enabled
        card = model_card(
            name, block.kind, shipped, params.teacher, made, tuned.data, whitened=bool(whitened)
        )
        student_folder.write(learner, card, out, prompts, similarity, unit=unit)
    else:
        _copy(distilled, out)
    curves.write(tuned.points, "dev_score", -1, curve)
    metrics.write({**tuned.summary, **whitened}, metrics_file)
    if tuned.checkpoint:
        tuned.checkpoint.clear()


class Places(NamedTuple):
    """What fine-tuning reads."""

    distilled: Path
    triplets: Path
    finetune_texts: Path
    dev: Path
    corpus: Path
    corpus_vectors: Path
    """Of the view that stands for the teacher."""
    finetune_vectors: Path
    """Of the student's view."""
    reread: Reread
    """With `replay`."""


class Tuned(NamedTuple):
    """What fine-tuning came to."""

    points: list[Point]
    summary: dict[str, Any]
    """Metrics."""
    changed: bool = False
    """Whether the student is another one than before, by its weights or by a projection."""
    data: tuple[str, ...] = ()
    """The triplets that its weights learnt from."""
    checkpoint: Checkpoint | None = None
    """To be cleared once all is written."""


def _tune(
    name: str,
    learner: Student,
    block: StudentParams,
    settings: Finetune,
    runtime: Runtime,
    world: World,
    places: Places,
) -> Tuned:
    """Fine-tune the student, which is left with the weights of the best dev score, on the world's device."""
    distilled, triplets, dev = places.distilled, places.triplets, places.dev
    chosen = chosen_triplets(read_table(triplets, pairs.PAIRS_SCHEMA, "mine"), settings, triplets)
    prompts = student_folder.prompts(distilled)
    labelled = texts.labelled(places.finetune_texts, prompts)
    named: tuple[Path, ...] = (triplets, places.finetune_texts)
    if settings.loss == "cosines":
        vectors = places.finetune_vectors
        named = (*named, vectors / published.MANIFEST)
        vector_set = published.open_set(vectors.parent, block.view)
        with scratch_folder(Path(runtime.cache) / "training" / f"cosines-{name}") as scratch:
            finetuning: Finetuning = PairCosines(
                learner, chosen, labelled, settings, triplets, vector_set, block.view, scratch
            )
    else:
        finetuning = Finetuning(learner, chosen, labelled, settings, triplets)
    del chosen  # it may be large
    if settings.select == "agreement":
        dev_tasks = _agreement(name, places.corpus, places.corpus_vectors)
        named = (*named, places.corpus, places.corpus_vectors / published.MANIFEST)
    else:
        dev_tasks = dev_file.read(dev)
        if not dev_tasks.pairs:
            raise UserError(
                f"{dev} has no dev task to select weights by; give a task under evaluate.tasks `split: dev`, "
                f"or set students.{name}.finetune.select: agreement"
            )
    replayed = Replayed.of(name, block, settings, prompts, places.reread)
    identity: dict[str, Any] = {
        "block": settings.model_dump(mode="json"),
        "distilled": fingerprint.of_folder(distilled),
        "dev": fingerprint.of_folder(dev),
        "inputs": [fingerprint.of_file(path) for path in named],
        "replay": replayed.identity() if replayed else {},
    }
    checkpoint = Checkpoint.of(Path(runtime.cache), f"finetune-{name}", **identity)
    checkpoint.hold()
    projection = settings.projection
    before = None
    learner.module.to(world.device)
    key = f"students.{name}.finetune.precision"
    bfloat16 = takes_bfloat16(settings.precision, learner.module, world, checkpoint, key)
    similarity = student_folder.similarity(distilled)
    dev_score = DevScore(learner, dev_tasks, prompts, similarity, bfloat16=bfloat16)
    replay = None
    if replayed:
        replay = replayed.replay(learner, checkpoint.inputs, world.device, bfloat16=bfloat16)
    if projection:
        before = dev_score()
        with under(f"students.{name}"):
            append_projection(learner, finetuning.tokens, projection)
    with under(f"students.{name}"):
        points = finetuning.run(
            name, dev_score, checkpoint, runtime.checkpoint_seconds, bfloat16=bfloat16, replay=replay
        )
    best = min(points, key=lambda point: point.dev_value)
    start = "distilled" if block.train else "untrained"
    summary = summary_of(points, best, before, settings, name, start)
    return Tuned(
        points,
        {"triplets": finetuning.triplets, **summary},
        changed=bool(projection) or best.step > 0,
        data=settings.data if best.step > 0 else (),
        checkpoint=checkpoint,
    )


def _agreement(name: str, corpus: Path, vectors_of_view: Path) -> DevTasks:
    """Agreement with the teacher on the corpus' dev texts, as a dev task."""
    found = agreement.held_out(corpus, Agreement())
    if found.left_out:
        raise UserError(f"students.{name}.finetune.select is agreement. {found.left_out}")
    view, ids = vectors_of_view.name, found.texts["text_id"].to_numpy()
    vector_set = published.open_set(vectors_of_view.parent, view)
    vectors = np.concatenate([*vector_set.of(ids, view)]).astype(np.float32)
    pairs_of_teacher = agreement.task(Embeddings(ids, vectors, vector_set.similarity(view)))
    return DevTasks({AGREEMENT: pairs_of_teacher}, found.texts, {AGREEMENT: "agreement"}, {AGREEMENT: None})


def _copy(source: Path, out: Path) -> None:
    with atomic_folder(out) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
