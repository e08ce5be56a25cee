"""`pipeline embed`: vectors of any texts from a distilled student."""

import gzip
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Annotated

import typer

from pipeline.cli.encoded import OFTEN, encoded
from pipeline.cli.encoders import Runtime, open_encoders
from pipeline.cli.vectors_out import check_out, writer
from pipeline.core import streams
from pipeline.core.errors import UserError
from pipeline.core.machine import Precision
from pipeline.core.progress import progress, say
from pipeline.data.student import student_folder
from pipeline.data.utf8 import check_narrow, check_regular, whole_gzip
from pipeline.export.shared.onnx_folder import is_onnx

Check = Callable[[str], object]
"""Fails where a text is at fault; the message goes on after FILE: line NUMBER."""

BLOCK = 1 << 20
"""Bytes that are read at once from stdin, where so many are there."""
FILE_BLOCK = 1 << 24
"""Bytes that are read at once from a file: texts enough for the largest chunks."""
STANDARD_INPUT = Path("-")


def embed(
    student: Annotated[str, typer.Option(help="A student's name, or any sentence-transformers folder.")],
    inputs: Annotated[
        list[Path] | None, typer.Argument(help="UTF-8 files (or .gz), a text a line; none or -: stdin.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .parquet or .jsonl file; without it: jsonl on stdout.")
    ] = None,
    students: Annotated[Path, typer.Option(help="Where students lie by name.")] = Path("data/finetuned"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    batch_size: Annotated[
        int,
        typer.Option(min=1, help="Texts a batch, where a library runs the model."),
    ] = 64,
    precision: Annotated[
        Precision,
        typer.Option(
            help="Of a transformer that torch runs; auto: bfloat16 where it is faster, which moves a cosine "
            "by some thousandths at most."
        ),
    ] = "auto",
    runtime: Annotated[
        Runtime, typer.Option(help="auto: ONNX on the CPU, without torch, where the export is there.")
    ] = "auto",
) -> None:
    """Embed texts with a student: a row a text, `text` and `vector` (float32), in the order of the input."""
    folder = find_student(student, students)
    check_out(out)
    total, blocks = open_texts(inputs or [STANDARD_INPUT])
    first = next(blocks)
    encode = open_encoders(folder, device, batch_size, precision, runtime).texts
    dim, label = encode(first[:1]).shape[1], f"embed with {folder.name}"
    with writer(out, dim) as write, progress(label, total, "texts", OFTEN) as advance:
        for chunk, vectors in encoded(encode, chain([first], blocks), folder):
            write(chunk, vectors)
            advance(len(chunk))


def find_student(student: str, students: Path) -> Path:
    """The folder of a student by name, or of a path to one.

    Raises:
        UserError: there is none, and the message lists the students that there are; or the teacher cannot
            give it.
    """
    path = Path(student)
    for folder in (students / student, path, *([path.parent] if path.name == "onnx" else [])):
        if refused := student_folder.refusal(folder):
            raise refused
        if (folder / "modules.json").exists() or is_onnx(folder):
            return folder
    known = known_students(students)
    there = f"{students} has {', '.join(known)}" if known else f"{students} has none; run `dvc repro`"
    raise UserError(
        f"there is no student {student!r} (no modules.json in {students / student} or {student}); {there}"
    )


def known_students(students: Path) -> list[str]:
    """Names of the students in a folder, sorted."""
    return sorted(path.parent.name for path in students.glob("[!.]*/modules.json"))


def open_texts(
    inputs: Sequence[Path], around: str | None = None, check: Check | None = None
) -> tuple[int | None, Iterator[list[str]]]:
    """How many texts the inputs hold, and the texts, block by block, as `stream_texts` gives them.

    Files are read twice: their faults are told before anything is written, and they are not held in memory.
    What comes through a pipe can be read once; how much it holds is None.

    Args:
        inputs: see `read_texts`.
        around: see `read_texts`.
        check: see `read_texts`.

    Raises:
        UserError: as `read_texts`, for a pipe once its texts are taken.
    """
    is_pipe = any(path == STANDARD_INPUT or path.is_fifo() for path in inputs)
    total = None if is_pipe else sum(len(texts) for _, texts in _some(inputs, around, check))
    return total, stream_texts(inputs, around, check if is_pipe else None)


def read_texts(inputs: Sequence[Path], around: str | None = None, check: Check | None = None) -> list[str]:
    """One text a line, of all inputs in order; empty lines are left out and counted.

    Args:
        inputs: files, which are unpacked if they end in .gz, or stdin.
        around: characters that are taken off both ends of a line; None: all white space.
        check: is called with each text.

    Raises:
        UserError: an input is missing or not UTF-8, a text fails the check, or there is no text at all.
    """
    return [text for texts in stream_texts(inputs, around, check) for text in texts]


def stream_texts(
    inputs: Sequence[Path] = (STANDARD_INPUT,), around: str | None = None, check: Check | None = None
) -> Iterator[list[str]]:
    """As `read_texts`, some texts at a time; of stdin as many as are there."""
    lines = texts = 0
    for count, kept in _some(inputs, around, check):
        lines, texts = lines + count, texts + len(kept)
        if kept:
            yield kept
    named = ", ".join(map(_name, inputs))
    if not texts:
        raise UserError(f"{named}: there is no text; expected UTF-8, a text a line")
    if texts < lines:
        say(f"{named}: {lines - texts:,} empty lines left out")


def _some(inputs: Sequence[Path], around: str | None, check: Check | None) -> Iterator[tuple[int, list[str]]]:
    """How many lines are read, and the texts among them, block by block."""
    for path in inputs:
        number = 0
        with _opened(path) as file:
            for lines in _blocks(file, BLOCK if path == STANDARD_INPUT else FILE_BLOCK):
                found = list(_decoded(lines, path, number + 1, around, check))
                number += len(found)
                yield len(found), [line for line in found if line]


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes] | io.BufferedIOBase]:
    try:
        if path == STANDARD_INPUT:
            streams.let_ctrl_c_interrupt()
            yield sys.stdin.buffer
            return
        check_regular(path)
        with whole_gzip(path), (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            yield file
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); name a file of texts, or -") from None


def _blocks(file: IO[bytes] | io.BufferedIOBase, size: int) -> Iterator[list[bytes]]:
    """Whole lines, as soon as they are there."""
    rest: list[bytes] = []
    while block := file.read1(size):  # type: ignore[union-attr]  # of buffered files
        first, *lines = block.split(b"\n")
        rest.append(first)
        if lines:
            yield [b"".join(rest), *lines[:-1]]
            rest = lines[-1:]
    if last := b"".join(rest):
        yield [last]


def _decoded(
    lines: Sequence[bytes], path: Path, first: int, around: str | None, check: Check | None
) -> Iterator[str]:
    """The texts, as `prepare` reads them: one ends at LF or CRLF, no other character ends it."""
    for number, line in enumerate(lines, start=first):
        if number == 1:
            check_narrow(line, _name(path))
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise UserError(
                f"{_name(path)}: line {number} is not UTF-8 (byte 0x{byte:02x}); save it as UTF-8"
            ) from None
        text = text.strip(around) if text.strip() else ""
        if text and check:
            _check_line(text, path, number, check)
        yield text


def _check_line(text: str, path: Path, number: int, check: Check) -> None:
    """Run a check whose message begins with the file and the line."""
    try:
        check(text)
    except UserError as error:
        raise UserError(f"{_name(path)}: line {number} {error}") from None


def _name(path: Path) -> str:
    return "stdin" if path == STANDARD_INPUT else str(path)
