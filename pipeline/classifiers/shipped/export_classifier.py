"""export_classifier@NAME: a classifier with its ONNX graph, compared with what was trained, and a card."""

import json
import shutil
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import torch
import typer
from numpy.typing import NDArray

from pipeline.classifiers.saved import head as head_file
from pipeline.classifiers.saved import said as said_file
from pipeline.classifiers.saved.head import Head
from pipeline.classifiers.saved.said import Said
from pipeline.classifiers.shipped import graph
from pipeline.classifiers.shipped.card import card
from pipeline.core import json_text, parent, quick_imports, seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.student import student_folder
from pipeline.export.shared import terms
from pipeline.export.shared.header import LICENCES
from pipeline.export.shared.ledger import origins
from pipeline.export.shared.onnx_folder import CONFIG, GRAPHS, complete
from pipeline.export.shared.session import OnnxEncoder
from pipeline.params.load import load
from pipeline.tasks import pairs
from pipeline.tasks.subtasks import spelled_out

PLACE = GRAPHS["onnx"]
LARGEST = 1e-3
"""How far a logit may be from the trained classifier's, of the largest of all."""
COMPARED = 1000
"""Test rows, at most."""


def main(
    name: Annotated[str, typer.Argument(help="The classifier's name in params.yaml")],
    classified: Annotated[Path, typer.Option(help="The trained classifier")],
    scores: Annotated[Path, typer.Option(help="reports/stages/classify_NAME.json")],
    tasks: Annotated[Path, typer.Option(help="corpus/tasks.parquet")],
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet")],
    cards: Annotated[Path, typer.Option(help="Folder of what the models' cards say")],
    origins_file: Annotated[Path, typer.Option("--origins", help="corpus/origins.json")],
    out: Annotated[Path, typer.Option(help="The folder that ships")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Export one classifier; fail where its graph is not the classifier that was trained."""
    params = spelled_out(load(params_file))
    block = params.classifier(name)
    if refused := student_folder.refusal(classified):
        student_folder.write_refusal(refused, out)
        return
    model = student_folder.read(classified, f"classify@{name}")
    head, said = head_file.read(classified), said_file.read(classified)
    rows = pairs.read(tasks).filter(task=block.task, subset="test").head(COMPARED)
    table = texts.read_labelled(eval_texts)
    prompted = _inputs(rows, table, student_folder.prompts(classified), together=said.together)
    with atomic_folder(out) as folder:
        # Not its seal: the folder gets one of its own when it is whole.
        shutil.copytree(classified, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(seal.NAME))
        complete(folder)
        _name_labels(folder, said)
        import onnx as library

        # Traced last: tracing changes how the encoder computes attention.
        expected = _logits(model, head, prompted)
        (folder / PLACE).parent.mkdir(exist_ok=True)
        library.save(graph.export(model, head), folder / PLACE)
        found = OnnxEncoder(folder, output=graph.LOGITS, group=said.group).encode(prompted)
        apart = check_logits(found, expected, name)
        made_of = origins.of_classifier(name, params, origins.read(cards, origins_file, block.student))
        told = metrics.read(scores, f"classify@{name}")
        readme = card(name, block, said, told, made_of, apart, student_folder.prompts(classified))
        (folder / student_folder.CARD).write_text(readme, encoding="utf-8")
        if licence := terms.licence_file(name, made_of):
            (folder / LICENCES).write_text(licence, encoding="utf-8")
    megabytes = (out / PLACE).stat().st_size / 1e6
    say(
        f"export_classifier {name}: {megabytes:.1f} MB of ONNX, logits within {apart:.1e} of the trained ones"
    )


def check_logits(found: NDArray[np.floating], expected: NDArray[np.floating], name: str) -> float:
    """The largest difference of logits (n, c), as a share of the largest logit.

    Raises:
        UserError: it is more than LARGEST.
    """
    apart = float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-12))
    if not apart <= LARGEST:
        raise UserError(
            f"the ONNX graph of {name} gives logits that are {apart:.1e} of the largest one apart from the "
            f"trained classifier's, more than {LARGEST:g}; run `dvc repro -f export_classifier@{name}`, and "
            "report it if it stays"
        )
    return apart


def _inputs(
    rows: pl.DataFrame, table: pl.DataFrame, prompts: dict[str, str], *, together: bool
) -> list[str] | list[tuple[str, str]]:
    """The texts of rows with their prompts, a pair's one after the other, or as one input."""
    known = dict(texts.with_prompts(table, prompts).select("text_id", "text").iter_rows())
    sides = rows.select("left_id", "right_id").iter_rows()
    if together:
        return [(known[left], known[right]) for left, right in sides]
    return [known[one] for row in sides for one in row if one is not None]


@torch.no_grad()
def _logits(
    model: Any,  # noqa: ANN401
    head: Head,
    content: list[str] | list[tuple[str, str]],
) -> NDArray[np.float32]:
    vectors = model.encode(content, prompt="", convert_to_tensor=True, batch_size=64)
    return head(vectors.cpu().float()).numpy()


def _name_labels(folder: Path, said: Said) -> None:
    """Put the labels where transformers.js and optimum look for them."""
    path = folder / CONFIG
    config = json_text.parse(path.read_text(encoding="utf-8"))
    config["id2label"] = {str(number): label for number, label in enumerate(said.labels)}
    config["label2id"] = {label: number for number, label in enumerate(said.labels)}
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    # As core/timed.py does, through which this stage is not run.
    parent.watch()
    quick_imports.install()
    typer.run(report_user_errors(main))
