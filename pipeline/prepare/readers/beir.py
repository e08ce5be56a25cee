"""Retrieval data of the user's in BEIR's layout."""

import re
from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.data.utf8 import read_json_lines
from pipeline.prepare.readers.collection import Collection, Texts, collection, packed_or_not
from pipeline.prepare.readers.user_columns import VISIBLE, Numbers, filled, grades
from pipeline.prepare.readers.user_files import read_columns, whole_characters

QRELS_COLUMNS = ("query-id", "corpus-id", "score")


def read_beir(folder: Path, qrels: str, scores: Numbers = grades) -> Collection:
    """Read corpus.jsonl, queries.jsonl (each may end in .gz) and qrels/`qrels`.tsv.

    Args:
        folder: where they are.
        qrels: a file's name.
        scores: reads its column of scores: `user_columns.grades`, or `numbers`.

    Raises:
        UserError: a file is missing or at fault, or no judgement names what is there.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; a retrieval task's path is a folder in BEIR's layout")
    corpus, queries = (packed_or_not(folder / name) for name in ("corpus.jsonl", "queries.jsonl"))
    judged = folder / "qrels" / f"{qrels}.tsv"
    if not judged.is_file():
        splits = ", ".join(sorted(file.stem for file in folder.glob("qrels/*.tsv"))) or "none"
        raise UserError(f"{judged} does not exist; `qrels` can be: {splits}")
    table = read_columns(judged, QRELS_COLUMNS)
    query_ids, document_ids = (filled(table[column], judged) for column in QRELS_COLUMNS[:2])
    rows = zip(query_ids, document_ids, scores(table["score"], judged), strict=True)
    return collection(_by_id(corpus, with_title=True), _by_id(queries, with_title=False), rows, judged)


def _by_id(path: Path, *, with_title: bool) -> Texts:
    """The texts of a corpus or of queries by `_id`."""
    texts: dict[str, str] = {}
    for number, row in read_json_lines(path):
        found = {key: row.get(key) for key in ("_id", "text")}
        if with_title:
            found["title"] = "" if row.get("title") is None else row["title"]
        if wrong := [key for key, value in found.items() if not isinstance(value, str)]:
            raise UserError(
                f'{path}, line {number}: expected {{"_id": "...", "text": "..."}} with texts; correct '
                f"{', '.join(wrong)}"
            )
        name = whole_characters(str(found["_id"]), f"{path}, line {number}: _id")
        parts = found.get("title"), found["text"]
        if name in texts:
            raise UserError(f"{path}, line {number}: the _id {name!r} is there twice; remove one")
        text = " ".join(str(part) for part in parts if part)
        texts[name] = whole_characters(text, f"{path}, line {number}")
        # BEIR's own corpora have empty documents.
        if not with_title and not re.search(VISIBLE, texts[name]):
            raise UserError(
                f"{path}, line {number}: the text of {name!r} is empty; fill it or remove the line"
            )
    if not texts:
        raise UserError(f"{path} is empty; a retrieval task needs it")
    return Texts(path, texts)
