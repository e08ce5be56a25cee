"""MS MARCO's training triples: a query, a relevant passage and another one a line, without a header."""

from dataclasses import dataclass, field
from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.prepare.readers.collection import packed_or_not
from pipeline.prepare.readers.delimited import cell_rows, empty

CELLS = ("query", "relevant passage", "other passage")
"""Texts in triples.*, ids in qidpidtriples.*."""


@dataclass
class Triples:
    """The lines of a file, by query and relevant passage, in the order of the file."""

    path: Path
    rows: int = 0
    """Lines of the file."""
    by_pair: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """The first other passages of each, each once."""
    negatives_over_limit: int = 0


def read_triples(file: Path, most: int) -> Triples:
    """Read a file that may end in .gz, line by line: memory is that of the pairs and of what is kept of them.

    Args:
        file: qidpidtriples.* or triples.*; some are without an ending.
        most: other passages that are kept of a query and its passage.

    Raises:
        UserError: the file is missing or empty, or a line has an empty cell or another number of cells.
    """
    found = Triples(packed_or_not(file))
    for row in cell_rows(found.path, CELLS):
        found.rows += 1
        if not all(cell.strip() for cell in row):
            place = next(place for place, cell in zip(CELLS, row, strict=True) if not cell.strip())
            raise UserError(
                f"{found.path}, line {found.rows}: the {place} is empty; fill it or remove the line"
            )
        query, passage, other = row
        others = found.by_pair.setdefault((query, passage), [])
        if other in others:
            continue
        if len(others) < most:
            others.append(other)
        else:
            found.negatives_over_limit += 1
    if not found.rows:
        raise empty(found.path)
    return found
