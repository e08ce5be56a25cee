"""export@NAME: a student in the formats that people deploy, each compared with the trained student."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import polars as pl
import typer

from pipeline.core import parent, quick_imports, seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.student import layout, student_folder
from pipeline.export import calibration, parity
from pipeline.export.card import Exported, card
from pipeline.export.openvino import MODEL as OPENVINO
from pipeline.export.shared import terms
from pipeline.export.shared.header import LICENCES
from pipeline.export.shared.ledger import origins
from pipeline.export.shared.onnx_folder import CONFIG, GRAPHS, TOKENIZER, complete
from pipeline.export.shared.session import OnnxEncoder
from pipeline.params.export import Format
from pipeline.params.load import load
from pipeline.params.students import Student
from pipeline.tasks import pairs
from pipeline.tasks import scoring as evaluation
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.subtasks import spelled_out
from pipeline.teacher.shared.local.described.tuned import TUNED
from pipeline.vectors.space import pca
from pipeline.vectors.space.targets import left_out

if TYPE_CHECKING:
    from onnx import ModelProto
    from sentence_transformers import SentenceTransformer

PLACES: dict[Format, str] = {
    "sentence-transformers": ".",
    "model2vec": ".",
    **GRAPHS,
    "openvino": OPENVINO,
    "router": "router",
}
"""Where each lies in the folder; a table's is one that model2vec and sentence-transformers load."""
USUAL: tuple[Format, ...] = ("sentence-transformers", "onnx", "onnx-int8")
BATCH_SIZE = 64
OVERLAP_DIGITS = 4
NOISE_DIGITS = 9
"""Decimals of 1 - cosine; those after it are rounding errors, which differ from machine to machine."""


def main(
    name: Annotated[str, typer.Argument(help="The student's name in params.yaml")],
    finetuned: Annotated[Path, typer.Option(help="The student that ships")],
    tasks: Annotated[Path, typer.Option(help="corpus/tasks.parquet")],
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet")],
    scores: Annotated[Path, typer.Option(help="reports/metrics/NAME.json, for the card")],
    cards: Annotated[Path, typer.Option(help="Folder of what the models' cards say")],
    origins_file: Annotated[Path, typer.Option("--origins", help="corpus/origins.json")],
    pca_folder: Annotated[Path, typer.Option("--pca", help="Folder of one PCA a view")],
    teacher_view: Annotated[str, typer.Option(help="What stands for the teacher: the first of encode.views")],
    out: Annotated[Path, typer.Option(help="Folder of the student, its graphs and its card")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    tuned: Annotated[Path, typer.Option(help="The fine-tuned teacher, if it is")] = TUNED,
) -> None:
    """Export one student; fail where an export is not the student that was trained."""
    params = spelled_out(load(params_file))
    block, settings = params.student(name), params.export
    if refused := student_folder.refusal(finetuned):
        student_folder.write_refusal(refused, out)
        metrics.write({metrics.REFUSED: str(refused)}, metrics_file)
        return
    asked = formats(settings.formats, block.kind)
    without = _without_router(block, pca_folder, teacher_view) if "router" in asked else {}
    chosen = [one for one in asked if one not in without]
    for one, why in without.items():
        say(f"export {name}: no {one}, for its vectors are not comparable with the teacher's: {why}")
    table = texts.read_labelled(eval_texts)
    measure = parity.sts_measure(pairs.read(tasks), params.evaluate, settings.sts)
    compared = table.head(settings.parity_texts)
    needed = pl.Series(np.union1d(evaluation.text_ids(measure.tasks), compared["text_id"].to_numpy()))
    used = table.filter(pl.col("text_id").is_in(needed.implode()))
    model = student_folder.read(finetuned, f"finetune@{name}")
    prompts, similarity = student_folder.prompts(finetuned), student_folder.similarity(finetuned)
    ids, content = used["text_id"].to_numpy(), texts.with_prompts(used, prompts)["text"].to_list()
    prompted = texts.with_prompts(compared, prompts)["text"].to_list()
    trained = Embeddings(ids, model.encode(content, prompt="", batch_size=BATCH_SIZE), similarity)
    reference = trained.of(compared["text_id"].to_numpy())
    trained_score = measure.score(trained, reference, reference)
    if measure.tasks and not trained_score > 0:
        measure = parity.AGREEMENT
        trained_score = measure.score(trained, reference, reference)
    if not trained_score > 0:
        raise UserError(
            f"{finetuned} gives all texts of {eval_texts} one vector; train students.{name} again"
        )
    exports: dict[Format, Exported] = {}
    with atomic_folder(out) as folder:
        seen = texts.with_prompts(table.tail(calibration.TEXTS), prompts)["text"].to_list()
        write(model, finetuned, chosen, folder, seen)
        if "router" in chosen:
            from pipeline.export import router

            fitted = pca.read(pca_folder, block.view)
            router.write(
                finetuned, block, params.teacher, fitted, teacher_view, folder / PLACES["router"], tuned
            )
        for format_name in chosen:
            found = Embeddings(ids, encode(folder, format_name, content), similarity)
            vectors = found.of(compared["text_id"].to_numpy())
            tolerance, apart = settings.tolerance(format_name), parity.difference(vectors, reference)
            parity.check_vectors(format_name, apart, prompted, tolerance)
            overlaps = parity.overlaps(vectors, reference, unit=layout.is_unit(finetuned))
            parity.check_overlaps(format_name, overlaps, tolerance)
            score = measure.score(found, vectors, reference)
            least = measure.least_loss(found, vectors, trained, reference)
            parity.check_score(format_name, score, trained_score, least, tolerance)
            exports[format_name] = Exported(
                megabytes=megabytes(folder, format_name),
                max_distance=_rounded(apart.distances.max()),
                mean_distance=_rounded(apart.distances.mean()),
                overlaps={how: round(share, OVERLAP_DIGITS) for how, share in overlaps.items()},
                score=score,
                share=score / trained_score,
            )
        told = metrics.read(scores, f"evaluate@{name}")
        facts = origins.read(cards, origins_file, name)
        finetuned_ships = origins.ships_finetuned(told)
        made_of = origins.of_student(name, params, facts, finetuned=finetuned_ships)
        readme = card(name, params, exports, measure.said, told, made_of, prompts)
        if licence := terms.licence_file(name, made_of):
            (folder / LICENCES).write_text(licence, encoding="utf-8")
        readme += student_folder.compared_by(similarity)
        (folder / student_folder.CARD).write_text(readme, encoding="utf-8")
    summary: dict[str, Any] = {"parity_texts": len(compared), "score": trained_score, **measure.said}
    written = {key: asdict(found) for key, found in exports.items()}
    metrics.write({**summary, "formats": written, "left_out": without}, metrics_file)
    sizes = ", ".join(f"{key} {found.megabytes:.1f} MB" for key, found in exports.items())
    say(f"export {name}: {sizes}")


def formats(wanted: tuple[Format, ...] | None, kind: str) -> list[Format]:
    """The formats that a student of a kind has, of those wanted; the folder itself is always one."""
    asked = {*(USUAL if wanted is None else wanted), "sentence-transformers"}
    if kind == "static":
        asked.add("model2vec")
    there = [found for found in PLACES if found != "model2vec" or kind == "static"]
    return [found for found in there if found in asked]


def _without_router(block: Student, pca_folder: Path, teacher_view: str) -> dict[Format, str]:
    """Why a student's queries cannot be searched among its teacher's documents; empty where they can."""
    why = left_out(block, pca.read(pca_folder, block.view).dim, teacher_view)
    return {"router": why} if why else {}


def write(
    model: "SentenceTransformer",
    finetuned: Path,
    chosen: list[Format],
    folder: Path,
    calibration_texts: list[str],
) -> None:
    """Write the student, and beside it the graphs of the formats that are chosen.

    Args:
        model: the student, loaded.
        finetuned: its folder.
        chosen: the formats.
        folder: the folder to write.
        calibration_texts: texts by which int8 is rounded.
    """
    # Not its seal: the folder gets one of its own when it is whole.
    shutil.copytree(finetuned, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(seal.NAME))
    if not {*GRAPHS, "openvino"} & {*chosen}:
        return
    import onnx as library

    from pipeline.export import fp16, int8, openvino
    from pipeline.export.shared import onnx

    complete(folder)
    graph = onnx.export(model)
    changed: dict[Format, Callable[[ModelProto], ModelProto]] = {
        "onnx": lambda whole: whole,
        "onnx-int8": lambda whole: int8.quantise(
            whole, calibration.batches(folder, calibration_texts, {one.name for one in whole.graph.input})
        ),
        "onnx-fp16": fp16.halve,
    }
    for name, place in GRAPHS.items():
        if name in chosen:
            (folder / place).parent.mkdir(exist_ok=True)
            library.save(changed[name](graph), folder / place)
    if "openvino" in chosen:
        with tempfile.TemporaryDirectory() as temporary:
            library.save(graph, Path(temporary) / "model.onnx")
            openvino.write(Path(temporary) / "model.onnx", folder)


def encode(folder: Path, name: Format, content: list[str], batch_size: int = BATCH_SIZE) -> np.ndarray:
    """Vectors (n, dim) by a format's own runtime, of texts that have their prompts."""
    match name:
        case "router":
            model = student_folder.read(folder / PLACES[name], "export")
            return model.encode_query(content, prompt="", batch_size=batch_size)
        case "sentence-transformers":
            return student_folder.read(folder, "export").encode(content, prompt="", batch_size=batch_size)
        case "model2vec":
            from model2vec import StaticModel

            return StaticModel.from_pretrained(folder).encode(content)
        case "openvino":
            from pipeline.export import openvino

            return openvino.encode(folder, content, batch_size)
        case _:
            return OnnxEncoder(folder, graph=GRAPHS[name]).encode(content, batch_size)


def _rounded(distance: float) -> float:
    return round(float(distance), NOISE_DIGITS)


def megabytes(folder: Path, name: Format) -> float:
    """Size of the files that a format needs, in MB."""
    place = folder / PLACES[name]
    if name in GRAPHS:
        needed = [place, folder / TOKENIZER, folder / CONFIG]
    elif place == folder:
        others = {folder / Path(other).parts[0] for other in PLACES.values() if other != "."}
        needed = [
            file for path in folder.iterdir() if path not in others for file in (path, *path.rglob("*"))
        ]
    else:
        needed = [*place.parent.rglob("*")] if name == "openvino" else [*place.rglob("*")]
    return sum(file.stat().st_size for file in needed if file.is_file()) / 1e6


if __name__ == "__main__":
    # As core/timed.py does, through which this stage is not run.
    parent.watch()
    quick_imports.install()
    typer.run(report_user_errors(main))
