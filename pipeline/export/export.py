"""export@NAME: a student in the formats that people deploy, each compared with the trained student."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import polars as pl
import typer

from pipeline.core import quick_imports
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.data.common import metrics, texts
from pipeline.data.student import student_folder
from pipeline.export import parity
from pipeline.export.card import Exported, card
from pipeline.export.licence import licences
from pipeline.export.session import OnnxEncoder
from pipeline.params.export import Format
from pipeline.params.load import load
from pipeline.prepare.subtasks import spelled_out
from pipeline.tasks import pairs
from pipeline.tasks import scoring as evaluation
from pipeline.tasks.embeddings import Embeddings
from pipeline.vectors.space import pca

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

FORMATS: tuple[Format, ...] = ("sentence-transformers", "model2vec", "onnx", "onnx-int8", "router")
BATCH_SIZE = 64
NOISE_DIGITS = 9
"""Decimals of 1 - cosine; those after it are rounding errors, which differ from machine to machine."""


def main(
    name: Annotated[str, typer.Argument(help="The student's name in params.yaml")],
    finetuned: Annotated[Path, typer.Option(help="The student that ships")],
    tasks: Annotated[Path, typer.Option(help="corpus/tasks.parquet")],
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet")],
    scores: Annotated[Path, typer.Option(help="reports/metrics/NAME.json, for the card")],
    pca_folder: Annotated[Path, typer.Option("--pca", help="Folder of one PCA a view")],
    teacher_view: Annotated[str, typer.Option(help="What stands for the teacher: the first of encode.views")],
    out: Annotated[Path, typer.Option(help="Folder of one folder a format, and the card")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Export one student; fail where an export is not the student that was trained."""
    params = spelled_out(load(params_file))
    block, settings = params.student(name), params.export
    if refused := student_folder.refusal(finetuned):
        student_folder.write_refusal(refused, out)
        metrics.write({metrics.REFUSED: str(refused)}, metrics_file)
        return
    chosen = formats(settings.formats, block.kind)
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
        write(model, finetuned, chosen, folder)
        if "router" in chosen:
            from pipeline.export import router

            fitted = pca.read(pca_folder, block.view)
            router.write(finetuned, block, params.teacher, fitted, teacher_view, folder / "router")
        for format_name in chosen:
            found = Embeddings(ids, encode(folder / format_name, format_name, content), similarity)
            vectors, shown = found.of(compared["text_id"].to_numpy()), prompted
            tolerance, apart = settings.tolerance(format_name), parity.difference(vectors, reference)
            parity.check_vectors(format_name, apart, shown, tolerance)
            farthest, mean_alone = apart.distances.max(), None
            if format_name == "onnx-int8":  # a batch has one scale, so that a text alone has other vectors
                alone = parity.difference(encode(folder / format_name, format_name, shown, 1), reference)
                parity.check_vectors(format_name, alone, shown, tolerance, alone=True)
                farthest, mean_alone = max(farthest, alone.distances.max()), _rounded(alone.distances.mean())
            score = measure.score(found, vectors, reference)
            least = measure.least_loss(found, vectors, trained, reference)
            parity.check_score(format_name, score, trained_score, least, tolerance)
            exports[format_name] = Exported(
                megabytes=megabytes(folder / format_name),
                max_distance=_rounded(farthest),
                mean_distance=_rounded(apart.distances.mean()),
                mean_distance_alone=mean_alone,
                score=score,
                share=score / trained_score,
            )
        readme = card(
            name,
            params,
            exports,
            measure.said,
            metrics.read(scores, f"evaluate@{name}"),
            licences(params.teacher, block),
        )
        readme += student_folder.compared_by(similarity)
        (folder / student_folder.CARD).write_text(readme, encoding="utf-8")
    summary: dict[str, Any] = {"parity_texts": len(compared), "score": trained_score, **measure.said}
    metrics.write(
        {**summary, "formats": {key: asdict(found) for key, found in exports.items()}}, metrics_file
    )
    sizes = ", ".join(f"{key} {found.megabytes:.1f} MB" for key, found in exports.items())
    say(f"export {name}: {sizes}")


def formats(wanted: tuple[Format, ...] | None, kind: str) -> list[Format]:
    """The formats that a student of a kind has, of those wanted."""
    there = [found for found in FORMATS if found != "model2vec" or kind == "static"]
    return [found for found in there if (found != "router" if wanted is None else found in wanted)]


def write(model: "SentenceTransformer", finetuned: Path, chosen: list[Format], folder: Path) -> None:
    """Write a folder a format."""
    for format_name in chosen:
        if format_name in ("sentence-transformers", "model2vec"):
            # One folder serves both: a static student is saved by model2vec.
            shutil.copytree(finetuned, folder / format_name)
    if not {"onnx", "onnx-int8"} & {*chosen}:
        return
    from pipeline.export import onnx

    graph = onnx.export(model)
    if "onnx" in chosen:
        graph.write(folder / "onnx")
    if "onnx-int8" in chosen:
        from pipeline.export import int8

        int8.quantise(graph).write(folder / "onnx-int8", "model_int8.onnx")


def encode(folder: Path, format_name: Format, content: list[str], batch_size: int = BATCH_SIZE) -> np.ndarray:
    """Vectors (n, dim) by a format's own runtime, of texts that have their prompts."""
    if format_name == "router":
        return student_folder.read(folder, "export").encode_query(content, prompt="", batch_size=batch_size)
    if format_name == "sentence-transformers":
        return student_folder.read(folder, "export").encode(content, prompt="", batch_size=batch_size)
    if format_name == "model2vec":
        from model2vec import StaticModel

        return StaticModel.from_pretrained(folder).encode(content)
    return OnnxEncoder(folder).encode(content, batch_size)


def _rounded(distance: float) -> float:
    return round(float(distance), NOISE_DIGITS)


def megabytes(folder: Path) -> float:
    """Size of all files of a folder, in MB."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


if __name__ == "__main__":
    quick_imports.install()  # as core/timed.py does, through which this stage is not run
    typer.run(report_user_errors(main))
