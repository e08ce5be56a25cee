"""`teacher:` and `encode:`: which model is distilled, and what of it is cached."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.params.base import Block, Count, Seed

View = Literal["sentence", "token_mean", "cls"]


class TransformerTeacher(Block):
    """A sentence-transformers model, or a plain transformers model with a `pooling`."""

    kind: Literal["transformer"]
    model: Annotated[str, Field(min_length=1)]
    """A folder, a hub id, or `package:NAME/FOLDER` (a model carried by an installed Python package)."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    pooling: Literal["mean", "cls", "max", "lasttoken"] | None = None
    """Only for a plain transformers model, which does not say how token vectors become a sentence vector."""
    prompt: str | None = None
    """Prepended to every text; null: the model's own default prompt, if it has one."""
    max_length: Annotated[int, Field(ge=3)] | None = None
    """Tokens a text, special tokens included; longer texts are cut. null: the model's own."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the forward pass; vectors are stored as float16."""
    trust_remote_code: bool = False
    """Whether code that comes with a hub model may run here."""


class HashingTeacher(Block):
    """Deterministic vectors from the hashes of a text's words: no model, for tests."""

    kind: Literal["hashing"]
    dim: Count = 64
    """Dimension of the vectors."""
    seed: Seed = 0
    """Another seed is another teacher."""


Teacher = Annotated[TransformerTeacher | HashingTeacher, Field(discriminator="kind")]


class Encode(Block):
    """What of the teacher is cached for every text."""

    views: Annotated[tuple[View, ...], Field(min_length=1, strict=False)]
    """One Parquet column each: `sentence` is what the model's own pipeline returns, `token_mean` the mean of
    the last hidden states without the special tokens, `cls` the last hidden state of the first token."""
    shard_rows: Annotated[int, Field(ge=1)] = 4096
    """Most texts a shard holds on average: what a kill can cost, and the unit of work of a worker."""


class Pca(Block):
    """Principal components of the cached training vectors, fitted for every view."""

    max_rows: Count | None = None
    """Fit on this many vectors, the first by text id; null: all. The released HPD code takes 40,000."""
    centre: bool = True
    """Subtract the mean (HPD sec. 3); the released HPD code forgets to."""
