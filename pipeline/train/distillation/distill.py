"""distill@NAME: train one student on the cached vectors. No teacher is loaded here."""

from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from pipeline.core import fingerprint
from pipeline.core.errors import report_user_errors, under
from pipeline.core.progress import say
from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.model_card import model_card
from pipeline.data.models import teacher_facts
from pipeline.data.student import student_folder
from pipeline.data.tokens.tokens import Tokens
from pipeline.params.layers import CutInit
from pipeline.params.load import load
from pipeline.params.students import Student
from pipeline.train.distillation import distillation
from pipeline.train.loop import curves, guard
from pipeline.train.loop.checkpoint import Checkpoint, of_tensors
from pipeline.train.loop.data import materialise, open_corpus, teacher_sample
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.precision import takes_bfloat16
from pipeline.train.loop.world import World
from pipeline.train.losses.building.objective import build_objective, import_losses
from pipeline.train.students.shared.base.interface import LearnsVocabulary
from pipeline.train.students.shared.base.interface import Student as Learner
from pipeline.train.students.shared.verdict import Refused, verdict
from pipeline.vectors import collapse
from pipeline.vectors.space.pca import read as read_pca
from pipeline.vectors.space.targets import is_unit, student_similarity


def main(
    name: Annotated[str, typer.Argument(help="The student's name in params.yaml")],
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")],
    gated: Annotated[Path, typer.Option(help="Folder of METHOD.parquet, of the new texts")],
    vectors: Annotated[Path, typer.Option(help="Folder of vector sets")],
    teacher: Annotated[Path, typer.Option(help="The teacher's parts")],
    facts: Annotated[Path, typer.Option(help="What the teacher is, by `look`")],
    vocabulary: Annotated[
        Path, typer.Option(help="Its vocabulary vectors, if this kind of student reads them")
    ],
    pca: Annotated[Path, typer.Option(help="Folder of one PCA a view")],
    out: Annotated[Path, typer.Option(help="The trained student")],
    untrained: Annotated[Path, typer.Option(help="The student before training")],
    curve: Annotated[Path, typer.Option(help="The training curve, tsv")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    hidden: Annotated[Path, typer.Option(help="The teacher's hidden states, if a loss reads them")] = Path(
        "data/hidden"
    ),
) -> None:
    """Distil the teacher's cached vectors into one student, or tell why this teacher cannot give it.

    With `train: null` the student is not distilled: both students that are written are its start.
    """
    params = load(params_file)
    try:
        known = teacher_facts.read(facts)
        block = verdict(name, params.student(name), known, params.encode.hidden).block
    except Refused as refused:
        _refuse(refused, World.join(params.runtime.device), out, untrained, curve, metrics_file)
        return
    world = World.join(params.runtime.device)
    card = model_card(name, block.kind, block, params.teacher, params.augment.enabled)
    if block.train is None or block.loss is None:
        if world.leads:
            learner = _build(name, block, vocabulary, teacher)
            prompts, found = distillation.untrained(name, block, learner, corpus, vectors, pca)
            for folder in (untrained, out):
                student_folder.write(learner, card, folder, prompts)
            curves.write([], "dev_value", 1, curve)
            metrics.write(found, metrics_file)
        return
    opened = open_corpus(name, block, corpus, gated, vectors, pca)
    sample = teacher_sample(block.view, vectors)
    teacher_health = collapse.describe(sample)
    collapse.check_collapse(
        teacher_health, f"the teacher's {block.view} vectors", "choose another view or teacher"
    )
    learner = _build(name, block, vocabulary, teacher)
    with under(f"students.{name}"):
        if isinstance(learner, LearnsVocabulary):
            learner.learn_vocabulary(
                lambda: chain.from_iterable(
                    texts.stream(one.texts, one.split, opened.prompts) for one in opened.train
                )
            )
    world.follow(learner.module)
    similarity = student_similarity(
        opened.dev.vectors.similarity(block.view), block, read_pca(pca, block.view)
    )
    unit = is_unit(similarity, sample)
    sources = [*opened.train, opened.dev]
    states = distillation.teacher_states(block, hidden, corpus, opened.train)
    identity: dict[str, Any] = {
        "block": block.model_dump(mode="json", exclude={"finetune", "whitening"}),
        "texts": [fingerprint.of_file(source.texts) for source in sources],
        "vectors": [source.vectors.manifests for source in sources],
        "pca": fingerprint.of_file(pca / f"{block.view}.safetensors"),
        "teacher": fingerprint.of_folder(teacher),
        "hidden": fingerprint.of_folder(hidden) if states else None,
        "start": of_tensors(learner.module.state_dict()),
    }
    import_losses(block.loss)  # their code is part of what a checkpoint is told apart by
    checkpoint = Checkpoint.of(Path(params.runtime.cache), f"distill-{name}", **identity)
    if world.leads:
        checkpoint.hold()
    else:
        world.wait()
    train = materialise(opened.train, opened, learner.tokenise, checkpoint.inputs / "train")
    dev = materialise([opened.dev], opened, learner.tokenise, checkpoint.inputs / "dev")
    if world.leads:
        world.wait()
    first = train.select(np.arange(min(len(train), collapse.SAMPLE_ROWS)))[1]
    learner.fit_projection(train.tokens, train.targets)
    world.follow(learner.module)
    if world.leads:
        student_folder.write(learner, card, untrained, opened.prompts, similarity, unit=unit)
    table = getattr(learner, "token_table", None)
    longest = max(int(part.tokens.lengths.max(initial=0)) for part in (train, dev))
    rows, seed, ids = len(train), block.train.seed, getattr(learner, "teacher_ids", None)
    layers, width = (getattr(learner, name, 0) for name in ("layers", "width"))
    of_tokens = table, ids, layers, width, states
    context = LossContext(block.width, opened.target_dim, rows, longest, teacher, seed, *of_tokens)
    learner.module.to(world.device)
    with under(f"students.{name}"):
        objective = build_objective(block, context).to(world.device)
    portions = tuple(source.portion() for source in opened.train)
    key = f"students.{name}.train.precision"
    bfloat16 = takes_bfloat16(block.train.precision, learner.module, world, checkpoint, key)
    trainer = distillation.Distillation(
        learner, objective, train, dev, block.train, world, portions, bfloat16=bfloat16
    )
    with under(f"students.{name}"):
        points = trainer.run(name, checkpoint, params.runtime.checkpoint_seconds)
    world.wait()  # the others may still read the inputs that the first one clears away
    if not world.leads:
        return
    saturated = guard.saturated_kernels(points[-1].measures, name)
    learner.module.to("cpu")
    learner.regularise(train.tokens)
    health = collapse.describe(trainer.dev_vectors(collapse.SAMPLE_ROWS))
    fix = f"lower students.{name}.train.lr or change its loss"
    targets = collapse.describe(first)
    collapse.check_collapse(health, f"the vectors of {name}", fix, targets)
    student_folder.write(learner, card, out, opened.prompts, similarity, unit=unit)
    curves.write(points, "dev_value", 1, curve)
    best = min(points, key=lambda point: point.dev_value)
    floor = trainer.mean_predictor_loss()
    metrics.write(
        {
            "train_texts": len(train),
            "epoch_texts": {
                name: portion.an_epoch for name, portion in zip(block.train.texts, portions, strict=True)
            },
            "dev_texts": len(dev),
            **_at_max_length(train.tokens, block),
            "steps": points[-1].step,
            "best_step": best.step,
            "select": block.train.select,
            "untrained_dev_value": points[0].dev_value,
            "best_dev_value": best.dev_value,
            **({} if floor is None else {"mean_predictor_loss": floor}),
            **points[-1].measures,
            **({"saturated_kernels": ", ".join(saturated)} if saturated else {}),
            **{f"teacher_{key}": value for key, value in teacher_health.items()},
            **{f"target_{key}": value for key, value in targets.items()},
            **{f"student_{key}": value for key, value in health.items()},
        },
        metrics_file,
    )
    checkpoint.clear()


def _build(name: str, block: Student, vocabulary: Path, teacher: Path) -> Learner:
    """The student before anything of it is fitted to texts."""
    with under(f"students.{name}"):
        kind = implementation("train.students.kinds", block.kind)
        learner: Learner = kind.build(block, vocabulary if block.reads_vocabulary else teacher)
    return learner


def _refuse(
    refused: Refused, world: World, out: Path, untrained: Path, curve: Path, metrics_file: Path
) -> None:
    """Write the reason wherever a student would be."""
    if not world.leads:
        return
    say(f"distill: the teacher cannot give {refused}")
    for folder in (out, untrained):
        student_folder.write_refusal(refused, folder)
    curves.write([], "dev_value", 1, curve)
    metrics.write({metrics.REFUSED: str(refused)}, metrics_file)


def _at_max_length(tokens: Tokens, block: Student) -> dict[str, int]:
    """How many training texts fill the window of a student that has one, cut there or just as long."""
    if not isinstance(block.init, CutInit):
        return {}
    return {"texts_at_max_length": int((tokens.lengths >= block.init.longest).sum())}


if __name__ == "__main__":
    typer.run(report_user_errors(main))
