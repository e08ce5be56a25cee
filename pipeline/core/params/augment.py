"""`augment:`: new texts made from the corpus."""

from typing import Annotated

from pydantic import Field

from pipeline.core.params.base import Block, Count, Seed
from pipeline.core.params.gates import TextGates


class WordNetAugment(Block):
    """Synonym substitution from WordNet (HPD sec. 4.3)."""

    enabled: bool = True
    """false leaves an empty artifact."""
    variants: Count = 1
    """New texts for every seed text, at most."""
    rate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """Share of a text's words that is replaced; to replace none, set `enabled: false`."""
    limit: Count | None = None
    """Augment this many seed texts, the first by text id; null: all."""
    seed: Seed = 0
    """Seed of the choice of words and synonyms, which depends on nothing else but the text."""
    gates: TextGates = TextGates()
    """Which of the new texts are kept."""


class Augment(Block):
    """One block a method; each writes data/augmented/METHOD.parquet."""

    wordnet: WordNetAugment
