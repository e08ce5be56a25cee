"""What an augmenter may read and write beside the texts it is given, and what it gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl


@dataclass(frozen=True)
class Resources:
    """Paths and the device of a run."""

    wordnet: Path
    """NLTK's data folder."""
    teacher: Path
    """The teacher's tokenizer and vocabulary vectors, where the method reads them."""
    cache: Path
    """Folder for what an interrupted run has done so far and for converted models."""
    device: str
    """`runtime.device`."""


@dataclass(frozen=True)
class Made:
    """What an augmenter made of the texts."""

    rows: pl.DataFrame
    """Columns `parent_id` and `text`, in an order that does not depend on chance."""
    left_alone: Mapping[str, int] = field(default_factory=dict)
    """Texts of which it made nothing, by reason."""
