"""`pipeline classify`: labels of any texts, or pairs of texts, from a classifier."""

import io
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from pipeline.classifiers.saved import said as said_file
from pipeline.classifiers.saved.said import Said
from pipeline.cli.embed import STANDARD_INPUT, open_texts
from pipeline.cli.encoded import OFTEN
from pipeline.cli.vectors_out import print_lines
from pipeline.core import seal
from pipeline.core.errors import UserError
from pipeline.core.progress import progress
from pipeline.data.student import student_folder
from pipeline.export.shared.onnx_folder import is_onnx
from pipeline.export.shared.session import OnnxEncoder

BLOCK = 4096
"""Texts that are classified at once."""
BLANKS = " \r"
"""What is taken off a pair's line: a tab at an end of it says that a text is empty."""


def classify(
    classifier: Annotated[str, typer.Option(help="A classifier's name, or the folder of an exported one.")],
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="UTF-8 files (or .gz), a text a line, of a pair with a tab between; none or -: stdin."
        ),
    ] = None,
    classifiers: Annotated[Path, typer.Option(help="Where classifiers lie by name.")] = Path(
        "data/exported_classifiers"
    ),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Texts, or pairs, a batch.")] = 64,
) -> None:
    """Label texts, or pairs of texts: a row each, `text` (or `left` and `right`), `label`, `probability`."""
    folder = find_classifier(classifier, classifiers)
    said = said_file.read(folder)
    prompt = student_folder.prompts(folder).get("text", "")
    session = open_classifier(folder, said, device)
    around, check = (BLANKS, pair_of) if said.pairs else (None, None)
    total, blocks = open_texts(inputs or [STANDARD_INPUT], around, check)
    first = next(blocks)
    with progress(f"classify with {folder.name}", total, "texts", OFTEN) as advance:
        for block in chain([first], blocks):
            for start in range(0, len(block), BLOCK):
                lines = block[start : start + BLOCK]
                rows = list(map(pair_of, lines)) if said.pairs else lines
                _print(rows, probabilities(session.encode(inputs_of(rows, prompt, said), batch_size)), said)
                advance(len(lines))


def find_classifier(name: str, folder: Path) -> Path:
    """The folder of an exported classifier, by name or path.

    Raises:
        UserError: there is none, or it is damaged.
    """
    for found in (folder / name, Path(name)):
        if refused := student_folder.refusal(found):
            raise refused
        if (found / said_file.SETTINGS).exists():
            if not is_onnx(found):
                raise UserError(f"{found} has no ONNX graph; run `dvc repro export_classifier@{found.name}`")
            seal.check(found, f"run `dvc repro -f export_classifier@{found.name}`")
            return found
    known = sorted(path.parent.name for path in folder.glob(f"[!.]*/{said_file.SETTINGS}"))
    there = f"{folder} has {', '.join(known)}" if known else f"{folder} has none; run `dvc repro`"
    raise UserError(f"there is no classifier {name!r}; {there}")


def open_classifier(folder: Path, said: Said, device: str) -> OnnxEncoder:
    """What gives the logits of texts, or of pairs whose texts follow each other."""
    return OnnxEncoder(folder, device, output="logits", group=said.group)


def inputs_of(
    rows: Sequence[str | tuple[str, str]], prompt: str, said: Said
) -> list[str] | list[tuple[str, str]]:
    """What the encoder reads of texts or pairs: texts, or pairs that it reads together."""
    pairs = [row for row in rows if not isinstance(row, str)]
    if said.together:
        return [(prompt + left, prompt + right) for left, right in pairs]
    return [prompt + text for row in rows for text in ([row] if isinstance(row, str) else row)]


def pair_of(line: str) -> tuple[str, str]:
    """The two texts of a line.

    Raises:
        UserError: there is not one tab in it; the message goes on after FILE: line NUMBER.
    """
    left, tab, right = line.partition("\t")
    if not tab or "\t" in right:
        raise UserError(
            f"has {line.count(chr(9))} tabs; this classifier reads pairs: put one tab between two texts"
        )
    return left.strip(), right.strip()


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """The softmax of logits (n, c), a row each."""
    from scipy.special import softmax

    return softmax(logits.astype(np.float64), axis=1)


def _print(rows: Sequence[str | tuple[str, str]], found: NDArray[np.float64], said: Said) -> None:
    import polars as pl

    texts = {"text": rows}
    if said.pairs:
        texts = {side: [row[at] for row in rows] for at, side in enumerate(("left", "right"))}
    best = found.argmax(axis=1)
    lines = io.BytesIO()
    pl.DataFrame(
        {**texts, "label": [said.labels[at] for at in best], "probability": found.max(axis=1).round(6)}
    ).write_ndjson(lines)
    print_lines(lines)
