"""One line of `pipeline doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What was looked for and what was found."""

    name: str
    found: str
    fix: str = ""
    """What to do about it; empty: nothing is missing."""
