"""What an augmenter may read and write beside the texts it is given."""

from dataclasses import dataclass
from pathlib import Path


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
