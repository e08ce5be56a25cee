"""The pages that people read, and their code blocks.

A page may add an example to the repository: a Python block whose first line names a file is that file. Blocks
before it are about the repository as it is, blocks after it about the repository with the example.
"""

import re
from pathlib import Path

FILE = r"^```python\n# ((?:pipeline|tests)/\S+)\n(.*?)^```$"


def pages(repository: Path) -> dict[str, Path]:
    """README, CONTRIBUTING and all of docs/, by their path in the repository."""
    paths = [
        repository / "README.md",
        repository / "CONTRIBUTING.md",
        *sorted((repository / "docs").glob("*.md")),
    ]
    return {path.relative_to(repository).as_posix(): path for path in paths}


def blocks(page: Path, language: str) -> list[str]:
    """All of a language, in order, that are about the repository as it is."""
    return _blocks(_halves(page)[0], language)


def example_blocks(page: Path, language: str) -> list[str]:
    """All of a language, in order, that are about the repository with the page's example."""
    return _blocks(_halves(page)[1], language)


def example_files(page: Path) -> list[tuple[str, str]]:
    """Path and code of all that the page's example adds."""
    return re.findall(FILE, _text(page), flags=re.DOTALL | re.MULTILINE)


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _halves(page: Path) -> tuple[str, str]:
    text = _text(page)
    first = re.search(FILE, text, flags=re.DOTALL | re.MULTILINE)
    return (text[: first.start()], text[first.start() :]) if first else (text, "")


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
