"""`augment.METHOD.gates:` and `gate:`: which of an augmenter's texts are kept."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.params.base import Block, Count, Fraction, Positive

Cosine = Annotated[float, Field(ge=-1.0, le=1.0)]


class TextGates(Block):
    """What a new text must be beside its parent, as far as texts tell; the dropped are counted by reason."""

    min_words: Count | None = None
    """A text of fewer words, as `corpus.min_words` counts them, is dropped; null: of fewer than any text of
    the corpus has."""
    max_words: Count | None = None
    """A text of more is dropped; null: of more than any text of the corpus has."""
    length_ratio: Annotated[tuple[Positive, Positive], Field(strict=False)] = (0.5, 2.0)
    """Least and most characters of a text, as a share of its parent's. Of WordNet's substitutions 1 in 6,000
    is outside: a word became a title of many words."""
    kept_tokens: Fraction = 0.2
    """Least share of the parent's different words (as of `min_words`), without case and accents, that are in
    the text too."""
    language: Literal["en"] | None = None
    """`en`: a text is dropped unless most of its letters are Latin and, where it has five words or more, at
    least 15 in 100 are English stop words (WordNet's glosses and examples: 98 in 100 pass). null: any."""

    @model_validator(mode="after")
    def _ends_in_order(self) -> Self:
        low, high = self.length_ratio
        if low > high:
            raise ValueError(f"length_ratio is [{low:g}, {high:g}]; write the lower end first")
        if self.min_words and self.max_words and self.min_words > self.max_words:
            raise ValueError(f"min_words is {self.min_words}, above max_words, {self.max_words}; lower it")
        return self


class SimilarityGate(Block):
    """What the teacher's cached `sentence` vectors of a new text and of its parent must be to each other."""

    min_similarity: Cosine = 0.5
    """A text whose cosine to its parent is lower is dropped: its meaning has drifted. all-MiniLM-L6-v2 puts 1
    in 1,800 random pairs of WordNet's texts above 0.5, and 1 in 100 of their substitutions below it, most of
    them a word taken in another sense ("north" as Lord North)."""
    max_similarity: Cosine | None = None
    """A text whose cosine to its parent is higher is dropped: it holds nothing new. null: none is."""

    @model_validator(mode="after")
    def _ends_in_order(self) -> Self:
        if self.max_similarity is not None and self.max_similarity < self.min_similarity:
            raise ValueError(
                f"max_similarity is {self.max_similarity:g}, below min_similarity, {self.min_similarity:g}; "
                "no text passes"
            )
        return self


class Gate(Block):
    """One block for each method of `augment:`; null: any similarity will do. Texts of tasks always go."""

    wordnet: SimilarityGate | None
    back_translation: SimilarityGate | None
