"""Retrieval data of the user's in MS MARCO's layout: tab-separated files without headers."""

from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.prepare.readers.collection import Collection, Texts, collection, packed, packed_or_not
from pipeline.prepare.readers.delimited import read_cells
from pipeline.prepare.readers.user_columns import Numbers, filled, grades

QRELS_CELLS = ("query id", "iteration", "document id", "relevance")
"""As TREC: the second says nothing."""


def read_msmarco(folder: Path, qrels: str, scores: Numbers = grades) -> Collection:
    """Read collection.tsv, qrels.`qrels`.tsv, and queries.`qrels`.tsv or else queries.tsv.

    Each may end in .gz.

    Args:
        folder: where they are.
        qrels: a part of their names.
        scores: reads the column of relevance: `user_columns.grades`, or `numbers`.

    Raises:
        UserError: a file is missing or at fault, or no judgement names what is there.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; `layout: msmarco` needs one with collection.tsv in it")
    there = (file.name.removesuffix(".gz") for file in folder.glob("qrels.*"))
    splits = sorted({name[len("qrels.") : -len(".tsv")] for name in there if name.endswith(".tsv")})
    if qrels not in splits:
        said = ", ".join(splits) or "none"
        raise UserError(f"{folder / f'qrels.{qrels}.tsv'} does not exist; `qrels` can be: {said}")
    judged = packed_or_not(folder / f"qrels.{qrels}.tsv")
    documents, queries = read_passages(folder), read_queries(folder, qrels)
    table = read_cells(judged, QRELS_CELLS)
    relevance = scores(table["relevance"], judged)
    rows = zip(table["query id"], table["document id"], relevance, strict=True)
    return collection(documents, queries, rows, judged)


def read_passages(folder: Path) -> Texts:
    """Read collection.tsv, which may end in .gz.

    Raises:
        UserError: it is missing or at fault.
    """
    return _by_id(packed_or_not(folder / "collection.tsv"), "passage")


def read_queries(folder: Path, qrels: str) -> Texts:
    """Read queries.`qrels`.tsv or else queries.tsv; either may end in .gz.

    Raises:
        UserError: they are missing or at fault.
    """
    own = folder / f"queries.{qrels}.tsv"
    given = any(file.is_file() for file in (own, packed(own)))
    return _by_id(packed_or_not(own if given else folder / "queries.tsv"), "query")


def _by_id(path: Path, what: str) -> Texts:
    table = read_cells(path, ("id", what))
    names, texts = filled(table["id"], path), filled(table[what], path)
    if len(again := (~names.is_first_distinct()).arg_true()):
        row = int(again[0])
        raise UserError(f"{path}, line {row + 1}: the id {names[row]!r} is there twice; remove one")
    return Texts(path, dict(zip(names, texts, strict=True)))
