"""What every layout of retrieval data comes to: documents, queries, and the judgements that join them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import UserError

Judgement = tuple[str, str, float]
"""Query id, document id, relevance."""


@dataclass(frozen=True)
class Texts:
    """Texts by the file's own ids."""

    path: Path
    by_id: dict[str, str]


@dataclass(frozen=True)
class Collection:
    """Texts by their own ids, and the judgements, which name no other."""

    documents: dict[str, str]
    """Title, if there is one, and text, with a blank between them."""
    queries: dict[str, str]
    judgements: list[Judgement]


def collection(documents: Texts, queries: Texts, judgements: Iterable[Judgement], judged: Path) -> Collection:
    """Put them together.

    Args:
        documents: of the one file.
        queries: of another.
        judgements: in the order of their file.
        judged: that file, for messages.

    Raises:
        UserError: naming the first judgement that names an unknown id.
    """
    rows = list(judgements)
    for row, (query, document, _) in enumerate(rows, start=1):
        for name, texts in ((query, queries), (document, documents)):
            if name not in texts.by_id:
                where = f"{judged}, row {row} of the data"
                raise UserError(f"{where}: {name!r} is not in {texts.path.name}; add it or remove the row")
    return Collection(documents.by_id, queries.by_id, rows)


def packed_or_not(path: Path) -> Path:
    """The file, or the same with .gz.

    Raises:
        UserError: there is neither.
    """
    packed = path.with_name(f"{path.name}.gz")
    found = next((file for file in (path, packed) if file.is_file()), None)
    if found is None:
        raise UserError(f"{path} does not exist, nor does {packed.name}; a retrieval task needs it")
    return found
