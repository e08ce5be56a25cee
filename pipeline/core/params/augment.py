"""`augment:`: new texts made from the corpus."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipeline.core.params.base import Block, Count, Seed


class WordNetAugment(Block):
    """Synonym substitution from WordNet (HPD sec. 4.3)."""

    enabled: bool = True
    """false leaves an empty artifact."""
    engine: Literal["own", "nlpaug"] = "own"
    """own: by part of speech and sense, inflected; nlpaug: its SynonymAug, any sense, base forms."""
    variants: Count = 1
    """New texts for every seed text, at most."""
    rate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """Share of a text's words that is replaced; to replace none, set `enabled: false`."""
    tagger: Literal["auto", "nltk", "counts"] = "auto"
    """Engine own: what tells parts of speech. nltk: its averaged_perceptron_tagger_eng, some 20 times slower;
    counts: how often WordNet has a word as what, and the words beside it; auto: nltk where its data is in
    data/raw/nltk_data."""
    context: Annotated[float, Field(ge=-1.0, le=1.0)] | None = None
    """Engine own: leave out substitutes whose teacher token vectors have a lower cosine with the mean of the
    text's other words; null: no check."""
    limit: Count | None = None
    """Augment this many seed texts, the first by text id; null: all."""
    seed: Seed = 0
    """Seed of the choice of words and synonyms, which depends on nothing else but the text."""

    @model_validator(mode="after")
    def _options_are_of_the_engine(self) -> "WordNetAugment":
        if self.engine == "nlpaug" and (self.tagger == "nltk" or self.context is not None):
            raise ValueError("tagger and context are options of engine own; nlpaug takes neither")
        return self


class Augment(Block):
    """One block a method; each writes data/augmented/METHOD.parquet."""

    wordnet: WordNetAugment
