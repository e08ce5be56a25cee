"""The code blocks of the README."""

import re
from pathlib import Path


def blocks(repository: Path, language: str) -> list[str]:
    """All of a language, in order."""
    readme = (repository / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", readme, flags=re.DOTALL)
