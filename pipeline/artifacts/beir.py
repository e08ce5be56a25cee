"""Retrieval data of the user's in BEIR's layout."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.artifacts.user_files import numbers, read_columns
from pipeline.artifacts.utf8 import read_json_lines
from pipeline.core.errors import UserError

QRELS_COLUMNS = ("query-id", "corpus-id", "score")


@dataclass(frozen=True)
class Beir:
    """Texts by the folder's own ids, and the judgements that join them."""

    documents: dict[str, str]
    """Title and text, with a blank between them."""
    queries: dict[str, str]
    judgements: list[tuple[str, str, float]]
    """Query id, document id, relevance."""


def read_beir(folder: Path, qrels: str) -> Beir:
    """Read corpus.jsonl, queries.jsonl (each may end in .gz) and qrels/`qrels`.tsv.

    Raises:
        UserError: a file is missing or at fault, or a judgement names an unknown id.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; a retrieval task's path is a folder in BEIR's layout")
    corpus, queries = (_packed_or_not(folder / name) for name in ("corpus.jsonl", "queries.jsonl"))
    judged = folder / "qrels" / f"{qrels}.tsv"
    if not judged.is_file():
        splits = ", ".join(sorted(file.stem for file in folder.glob("qrels/*.tsv"))) or "none"
        raise UserError(f"{judged} does not exist; `qrels` can be: {splits}")
    documents, asked = _by_id(corpus, with_title=True), _by_id(queries, with_title=False)
    table = read_columns(judged, QRELS_COLUMNS)
    scores = numbers(table["score"], judged)
    judgements = list(zip(table["query-id"], table["corpus-id"], scores, strict=True))
    for row, (query, document, _) in enumerate(judgements, start=1):
        for name, known, file in ((query, asked, queries), (document, documents, corpus)):
            if name not in known:
                where = f"{judged}, row {row} of the data"
                raise UserError(f"{where}: {name!r} is not in {file.name}; add it or remove the row")
    return Beir(documents, asked, judgements)


def _packed_or_not(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    found = next((file for file in (path, packed) if file.is_file()), None)
    if found is None:
        raise UserError(f"{path} does not exist, nor does {packed.name}; a retrieval task needs it")
    return found


def _by_id(path: Path, *, with_title: bool) -> dict[str, str]:
    """The texts of a corpus or of queries by `_id`."""
    texts: dict[str, str] = {}
    for number, row in read_json_lines(path):
        parts = [row.get("title", "") if with_title else "", row.get("text")]
        name = row.get("_id")
        if not isinstance(name, str) or not all(isinstance(part, str) for part in parts):
            raise UserError(
                f'{path}, line {number}: expected {{"_id": "...", "text": "..."}} with texts; correct it'
            )
        if name in texts:
            raise UserError(f"{path}, line {number}: the _id {name!r} is there twice; remove one")
        texts[name] = " ".join(str(part) for part in parts if part)
    if not texts:
        raise UserError(f"{path} is empty; a retrieval task needs it")
    return texts
