"""`init:` what students of several kinds share: prompts, and the layers of an encoder that are kept."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.params.base import Auto, Block, Count, allowed

Share = Annotated[float, Field(gt=0.0, lt=1.0)]


class LastLayers(Block):
    """The last layers of an encoder."""

    last: Count
    """How many."""


class SpreadLayers(Block):
    """Layers of an encoder at equal distances, its last one among them."""

    spread: Count
    """How many."""


ListedLayers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, strict=False)]
Layers = Annotated[
    ListedLayers | LastLayers | SpreadLayers | Auto | None,
    allowed("auto, null, a list such as [1, 3, 5], {last: 3}, {spread: 3}"),
]


class StudentInit(Block):
    """What the start of every kind of student has."""

    prompts: Literal["none", "teacher"] = "none"
    """What the student puts before texts, by their role: nothing, or what the teacher puts there. It is
    trained with its prompts, and `encode_query` and `encode_document` put them there."""


class CutInit(StudentInit):
    """Where a student starts that cuts long texts."""

    max_length: Annotated[Annotated[int, Field(ge=3)] | Auto, allowed("auto, a number from 3 on")] = "auto"
    """Tokens a text, special tokens included; longer texts are cut. `auto`: as many as the teacher reads, or
    512 where it does not say, but no more than the encoder has positions for."""

    @property
    def longest(self) -> int:
        """`max_length` of a block in which `auto` is resolved."""
        assert self.max_length != "auto"
        return self.max_length


class LayeredInit(CutInit):
    """Where a student starts that keeps layers of an encoder."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """A pretrained encoder instead of the teacher's (TinyBERT, MiniLM): a folder, `package:NAME/PATH` or a
    hub id. null: the teacher's parts."""
    pooling: Literal["mean", "cls"] = "mean"
    """What becomes of a text's last hidden states: their mean, or the first token's, as many encoders that
    were trained for retrieval have it."""
    revision: str | None = None
    """Commit, branch or tag of a hub model."""
    layers: Layers = "auto"
    """The encoder layers that it keeps: a list, in order, counted from 0; {last: 3}; {spread: 3}, at equal
    distances and with the last; `auto`: a third of them, but three at least, spread; null: all."""

    @property
    def kept(self) -> tuple[int, ...] | None:
        """`layers` of a block in which they are resolved; None: all."""
        assert self.layers is None or isinstance(self.layers, tuple)
        return self.layers
