"""What every layout of retrieval data comes to: documents, queries, and the judgements that join them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.core.progress import say

Judgement = tuple[str, str, float]
"""Query id, document id, relevance."""


@dataclass(frozen=True)
class Texts:
    """Texts by the file's own ids."""

    path: Path
    by_id: dict[str, str]


@dataclass(frozen=True)
class Collection:
    """Texts by their own ids, and the judgements on queries that are there."""

    documents: dict[str, str]
    """Title, if there is one, and text, with a blank between them."""
    queries: dict[str, str]
    judgements: list[Judgement]
    """One of a query and a document. They may name a document that is not there."""
    dropped: Mapping[str, int]
    """Rows of judgements that do not count, or not as they stand, by reason."""


def collection(documents: Texts, queries: Texts, judgements: Iterable[Judgement], judged: Path) -> Collection:
    """Put them together, as BEIR and MTEB do.

    A judgement on a query that is not there is left out. A document that is not there stays judged: what is
    relevant and cannot be found lowers the score. Of several judgements on one pair the last counts.

    Args:
        documents: of the one file.
        queries: of another.
        judgements: in the order of their file.
        judged: that file, for messages.

    Raises:
        UserError: no judgement names a query and a document that are there.
    """
    kept: dict[tuple[str, str], float] = {}
    again = 0
    missing: dict[str, list[tuple[int, str]]] = {"query": [], "document": []}
    whole = 0
    for row, (query, document, relevance) in enumerate(judgements, start=1):
        if query not in queries.by_id:
            missing["query"].append((row, query))
            continue
        again += (query, document) in kept
        kept[query, document] = relevance
        if document not in documents.by_id:
            missing["document"].append((row, document))
        else:
            whole += 1
    told = {"query": (queries, "left out"), "document": (documents, "counted as never found, as in BEIR")}
    said = [_missing(what, missing[what], *told[what]) for what in told if missing[what]]
    if not whole:
        raise UserError(
            f"{judged}: no row names both a query and a document that are there ({'; '.join(said)}); "
            "get the files of one collection, or correct the ids"
        )
    for line in said:
        say(f"{judged}: {line}")
    counts = {f"judgement_of_missing_{what}": len(rows) for what, rows in missing.items() if rows}
    counts |= {"judgement_is_duplicate": again} if again else {}
    judged_once = [(*pair, relevance) for pair, relevance in kept.items()]
    return Collection(documents.by_id, queries.by_id, judged_once, counts)


def _missing(what: str, rows: list[tuple[int, str]], texts: Texts, then: str) -> str:
    row, name = rows[0]
    where = f"that is not in {texts.path.name}, {then}"
    return f"{len(rows):,} judgements name a {what} {where}; row {row}: {name!r}"


def packed_or_not(path: Path) -> Path:
    """The file, or the same with .gz.

    Raises:
        UserError: there is neither.
    """
    found = next((file for file in (path, packed(path)) if file.is_file()), None)
    if found is None:
        raise UserError(f"{path} does not exist, nor does {packed(path).name}; a retrieval task needs it")
    return found


def packed(path: Path) -> Path:
    """The same with .gz."""
    return path.with_name(f"{path.name}.gz")
