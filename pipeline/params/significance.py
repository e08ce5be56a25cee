"""`significance:`, how sure the scores are."""

from typing import Annotated

from pydantic import Field

from pipeline.params.base import Block, Seed


class Significance(Block):
    """The bootstrap of the test items."""

    samples: Annotated[int, Field(ge=100)] = 1000
    """Times that the items of each task are drawn again; p is at least 2 / (samples + 1)."""
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.95
    """Of the intervals."""
    seed: Seed = 0
    """Decides which items are drawn."""
