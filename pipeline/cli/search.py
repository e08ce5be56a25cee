"""`pipeline search`: the texts of a file that are nearest to a query, by a distilled student."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from pipeline.cli import tabular
from pipeline.cli.embed import STANDARD_INPUT, find_student, known_students, read_texts
from pipeline.cli.encoded import OFTEN, encoded
from pipeline.cli.encoders import Encode, Runtime, open_encoders
from pipeline.cli.model_folder import read_json
from pipeline.cli.store_files import INDEXES
from pipeline.core import fingerprint, seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError
from pipeline.core.progress import progress, say
from pipeline.data.student.student_folder import similarity
from pipeline.params.load import load
from pipeline.params.teacher import Similarity
from pipeline.tasks.ranking import metric
from pipeline.vectors.space.geometry import normalised

if TYPE_CHECKING:
    import faiss

INDEX = "index.faiss"
MANIFEST = "index.json"
VERSION = 1
"""Raise it when what an index holds changes."""
KEY_LETTERS = 16
MOVE_SECONDS = 0.2
"""Longer than another process takes to put its index in the place of one."""


def search(
    corpus: Annotated[Path, typer.Argument(help="A UTF-8 file (or .gz), a text a line; -: stdin.")],
    queries: Annotated[list[str], typer.Argument(help="What to look for; -: a query a line of stdin.")],
    student: Annotated[
        str | None, typer.Option(help="A student's name, or any sentence-transformers folder.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Texts a query.")] = 10,
    index: Annotated[
        Path | None, typer.Option(help="Folder to keep the index in, if not under runtime.cache.")
    ] = None,
    students: Annotated[Path, typer.Option(help="Where students lie by name.")] = Path("data/finetuned"),
    params_file: Annotated[Path, typer.Option("--params", help="The params file.")] = Path("params.yaml"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    batch_size: Annotated[
        int,
        typer.Option(min=1, help="Texts a batch, where a library runs the model."),
    ] = 64,
    runtime: Annotated[
        Runtime, typer.Option(help="auto: ONNX on the CPU, without torch, where the export is there.")
    ] = "auto",
) -> None:
    """Find the texts nearest to each query: rank, similarity, text; before them the query, if several.

    The similarity is the cosine, unless the student names another.

    The corpus is embedded once: its index is kept, and made anew when the corpus or the student changes.
    """
    if corpus == STANDARD_INPUT and str(STANDARD_INPUT) in queries:
        raise UserError("the corpus and the queries cannot both come from stdin; put one into a file")
    folder = find_student(student or _only_student(students), students)
    wanted = _read_queries(queries)
    texts = read_texts([corpus])
    key = _key(texts, folder, runtime)
    place = index or Path(load(params_file).runtime.cache) / INDEXES / key[:KEY_LETTERS]
    opened = _kept(place, key)
    encoders, how = open_encoders(folder, device, batch_size, "auto", runtime), similarity(folder)
    unkept = None
    if opened is None:
        opened = _build(encoders.documents, texts, folder, how)
        if not _is_there(place, key):  # by another, meanwhile
            unkept = _write(place, key, opened)
    found = []
    for _, vectors in encoded(encoders.queries, [wanted], folder):
        scores, rows = opened.search(_comparable(vectors, how), min(top, len(texts)))
        scores = _similarities(scores, how)
        found += [
            [(str(rank), f"{score:.4f}", texts[row]) for rank, (score, row) in enumerate(nearest, start=1)]
            for nearest in map(zip, scores, rows)
        ]
    _show(wanted, found, with_query=len(wanted) > 1 or str(STANDARD_INPUT) in queries)
    if unkept:
        raise UserError(f"{unkept}; --index names another place for the index, which is made anew else")


def _only_student(students: Path) -> str:
    known = known_students(students)
    if len(known) != 1:
        there = f"has {', '.join(known)}" if known else "has none; run `dvc repro`"
        raise UserError(f"name a student with --student; {students} {there}")
    return known[0]


def _read_queries(queries: Sequence[str]) -> list[str]:
    """The queries; those of stdin where one is `-`."""
    found = []
    for query in queries:
        if not query.strip():
            raise UserError("a query is empty; say what to look for")
        try:
            query.encode()
        except UnicodeEncodeError:
            raise UserError(f"the query {query!r} is not UTF-8; type it in such a terminal") from None
        found += read_texts([STANDARD_INPUT]) if query == str(STANDARD_INPUT) else [query.strip()]
    return found


def _key(texts: Sequence[str], folder: Path, runtime: str) -> str:
    """What decides an index: the texts in their order, the student's files, and whether they run in int8."""
    corpus = fingerprint.of_bytes("\n".join(texts).encode())
    return fingerprint.of_json(
        {
            "version": VERSION,
            "corpus": corpus,
            "student": fingerprint.of_folder(folder),
            **({"runtime": runtime} if runtime.endswith("int8") else {}),
        }
    )


def _kept(place: Path, key: str) -> "faiss.Index | None":
    """The index of a folder, if it is this one.

    What seems to be wrong is looked at once more: another process may be putting its index there.

    Raises:
        UserError: as `_is_kept` and `_read`.
    """
    try:
        return _read(place, key) if _is_kept(place, key) else None
    except (UserError, FileNotFoundError):
        time.sleep(MOVE_SECONDS)
        return _read(place, key) if _is_kept(place, key) else None


def _is_kept(place: Path, key: str) -> bool:
    """Whether the index in a folder is this one.

    Raises:
        UserError: it is damaged, or there is something else, which a new index would replace.
    """
    if place.is_dir() and (place / INDEX).exists():
        if _manifest(place).get("key") == key:
            seal.check(place, f"remove {place} and search again")
            return True
        if others := sorted({path.name for path in place.iterdir()} - {INDEX, MANIFEST, seal.NAME}):
            raise UserError(f"{place} holds {others[0]} beside an index; name a folder for the index alone")
        say(f"{place} is the index of another corpus, student or precision; it is made anew")
    elif place.is_file() or (place.is_dir() and any(place.iterdir())):
        raise UserError(f"{place} is no index (it has no {INDEX}); name a new folder")
    return False


def _is_there(place: Path, key: str) -> bool:
    """Whether this index lies in a folder that another process may replace at any moment."""
    try:
        return _manifest(place).get("key") == key
    except (UserError, OSError):
        return False


def _manifest(place: Path) -> dict[str, Any]:
    """What index.json says; nothing where it is another file of this name."""
    found = read_json(place / MANIFEST)
    return found if isinstance(found, dict) else {}


def _build(encode: Encode, texts: Sequence[str], folder: Path, how: Similarity) -> "faiss.Index":
    """Exact search as the student's vectors are compared."""
    import faiss

    index = faiss.IndexFlat(encode(texts[:1]).shape[1], metric(how))
    with progress(f"index with {folder.name}", len(texts), "texts", OFTEN) as advance:
        for chunk, vectors in encoded(encode, [texts], folder):
            index.add(_comparable(vectors, how))
            advance(len(chunk))
    return index


def _comparable(vectors: NDArray[np.floating], how: Similarity) -> NDArray[np.float32]:
    """Vectors (n, d) as the index compares them: of length 1 for cosines."""
    return (normalised(vectors) if how == "cosine" else vectors).astype(np.float32)


def _similarities(scores: NDArray[np.float32], how: Similarity) -> NDArray[np.float32]:
    """What faiss calls scores, as similarities: it gives distances, those of Euclid squared."""
    if how == "euclidean":
        return -np.sqrt(np.maximum(scores, 0))
    return -scores if how == "manhattan" else scores


def _write(place: Path, key: str, index: "faiss.Index") -> UserError | None:
    """Keep an index; why that cannot be done, if so: it can be searched all the same."""
    import faiss

    manifest = {"key": key, "texts": index.ntotal, "dim": index.d}
    try:
        with atomic_folder(place) as temporary:
            with (temporary / INDEX).open("wb") as file:
                # Not by name: faiss does not say when the last bytes did not fit onto the disk.
                faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]
            (temporary / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    except UserError as error:
        return error
    return None


def _read(place: Path, key: str) -> "faiss.Index":
    """Open an index.

    Raises:
        UserError: it is damaged, or another by now.
    """
    import faiss

    try:
        index = faiss.read_index(str(place / INDEX))
        told = _manifest(place)
        is_whole = (index.ntotal, index.d, key) == (told.get("texts"), told.get("dim"), told.get("key"))
    except RuntimeError:
        is_whole = False
    if not is_whole:
        raise UserError(f"{place / INDEX} is damaged; remove {place} and search again")
    return index


def _show(queries: Sequence[str], found: Sequence[Sequence[Sequence[str]]], *, with_query: bool) -> None:
    for query, rows in zip(queries, found, strict=True):
        if tabular.on_terminal():
            title = f"\n{query}" if with_query else ""
            tabular.table(["rank", "score", "text"], rows, left={"text"}, title=title)
        else:
            tabular.lines([[query, *row] for row in rows] if with_query else rows)
