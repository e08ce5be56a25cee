"""`teacher:` and `encode:`: which model is distilled, and what of it is cached."""

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from pipeline.params.base import Block, Count, Seed

View = Literal["sentence", "token_mean", "cls"]
Storage = Literal["float16", "int8"]
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]
"""How a model's vectors are compared, in sentence-transformers' words: distances count as negative."""


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


def _base_url(url: str) -> str:
    # The message leaves the value out, which may hold a password.
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", url):
        raise ValueError(
            "teacher.url is no base URL (https://HOST/v1, without a user, a password, `?` and `#`); "
            "a key is named by teacher.key_variable"
        )
    return url


def _variable(name: str) -> str:
    # The message leaves the value out, which may be the key.
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        raise ValueError(
            "teacher.key_variable is no name of an environment variable (A-Z, 0-9, _); "
            "the key itself belongs into that variable, not here"
        )
    return name


class OpenAiApiTeacher(Block):
    """A model behind an OpenAI-compatible `/v1/embeddings` endpoint: vLLM, TEI, OpenAI, Cohere and others.

    It gives the view `sentence` alone. `runtime.api` says how it is asked.
    """

    kind: Literal["openai_api"]
    url: Annotated[str, AfterValidator(_base_url)]
    """Base URL, such as https://api.openai.com/v1: requests go to URL/embeddings."""
    model: Annotated[str, Field(min_length=1)]
    """The model's name there. Whether another model hides behind an old name cannot be seen from here."""
    dimensions: Count | None = None
    """Ask for vectors of this size, of a model that can shorten them; null: the model's own."""
    prompt: str | None = None
    """Prepended to every text."""
    key_variable: Annotated[str, AfterValidator(_variable)] | None = None
    """The name of the environment variable that holds the key; null: no key is sent."""
    parts: Annotated[str, Field(min_length=1)]
    """A folder, a hub id or `package:NAME/FOLDER`: the local model whose tokenizer, layers and vocabulary
    vectors students start from, since an API gives none."""


Teacher = Annotated[TransformerTeacher | HashingTeacher | OpenAiApiTeacher, Field(discriminator="kind")]


def _in_order(views: tuple[View, ...]) -> tuple[View, ...]:
    wanted = [view for view in get_args(View) if view in views]
    if list(views) != wanted:
        raise ValueError(
            f"encode.views is [{', '.join(views)}]; write [{', '.join(wanted)}]: the first stands for the "
            "teacher where students are compared with it"
        )
    return views


class Encode(Block):
    """What of the teacher is cached for every text."""

    views: Annotated[tuple[View, ...], Field(min_length=1, strict=False), AfterValidator(_in_order)]
    """In this order: `sentence` is what the model's own pipeline returns, `token_mean` the mean of
    the last hidden states without the special tokens, `cls` the last hidden state of the first token.
    The first that is encoded is the teacher that students are compared with. One more after it trains no
    student again."""
    shard_rows: Annotated[int, Field(ge=1)] = 4096
    """Most texts a shard holds on average: what is read and written at a time, and what a worker takes on."""
    storage: Storage = "float16"
    """Of the published values. `int8` takes half the room: every dimension of a shard has a scale, and
    manifest.json says what is lost. All that reads the vectors, the teacher's scores too, then sees the
    rounded ones. The store keeps float16, so a change encodes nothing."""


class Pca(Block):
    """Principal components of the cached training vectors, fitted for every view."""

    max_rows: Count | None = None
    """Fit on this many vectors, the first by text id; null: all. The released HPD code takes 40,000."""
    centre: bool = True
    """Subtract the mean (HPD sec. 3); the released HPD code forgets to, after a fit of centred vectors."""
