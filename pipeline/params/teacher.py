"""`teacher:` and `encode:`: which model is distilled, and what of it is cached."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from pipeline.params.base import Block, Count, Positive, Role, Seed, without_folders
from pipeline.params.finetune import TeacherFinetune
from pipeline.params.hidden import Hidden

View = Literal["sentence", "token_mean", "cls"]
Storage = Literal["float16", "int8"]
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]
"""How a model's vectors are compared, in sentence-transformers' words: distances count as negative."""


class Prompts(Block):
    """What a teacher puts before a text, by its role; null: the model's own prompt for that role."""

    text: str | None = None
    """Before texts that are neither queries nor documents. The model's own: its default prompt."""
    query: str | None = None
    """Before queries. The model's own: its prompt `query`, as `encode_query` of sentence-transformers."""
    document: str | None = None
    """Before documents. The model's own: its prompt `document`, `passage` or `corpus`, the first that says
    something. A default prompt is of `text` alone."""

    def given(self, role: Role) -> str | None:
        """The prompt of a role, where params have one."""
        return getattr(self, role)


class TransformerTeacher(Block):
    """A sentence-transformers model, or a plain transformers model with a `pooling`."""

    kind: Literal["transformer"]
    model: Annotated[str, Field(min_length=1)]
    """A folder, a hub id, or `package:NAME/FOLDER` (a model carried by an installed Python package)."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    pooling: Literal["mean", "cls", "max", "lasttoken"] | None = None
    """Only for a plain transformers model, which does not say how token vectors become a sentence vector."""
    prompts: Prompts = Prompts()
    """Put before texts, by their role."""
    max_length: Annotated[int, Field(ge=3)] | None = None
    """Tokens a text, special tokens included; longer texts are cut. null: the model's own."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the forward pass; vectors are stored as float16."""
    trust_remote_code: bool = False
    """Whether code that comes with a hub model may run here."""
    finetune: TeacherFinetune | None = None
    """Fine-tune its weights on labelled triplets before it encodes anything. null: it is taken as it is."""


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
            "no base URL (https://HOST/v1, without a user, a password, `?` and `#`); "
            "a key is named by key_variable"
        )
    return url


def _variable(name: str) -> str:
    # The message leaves the value out, which may be the key.
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
        raise ValueError(
            "no name of an environment variable (A-Z, 0-9, _); "
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
    prompts: Prompts = Prompts()
    """Put before texts, by their role; null: none, for a server names no prompts."""
    key_variable: Annotated[str, AfterValidator(_variable)] | None = None
    """The name of the environment variable that holds the key; null: no key is sent."""
    parts: Annotated[str, Field(min_length=1)]
    """A folder, a hub id or `package:NAME/FOLDER`: the local model whose tokenizer, layers and vocabulary
    vectors students start from, since an API gives none."""

    @property
    def sends_openly(self) -> bool:
        """Whether others on the way can read what is sent: plain http to another machine."""
        address = urlsplit(self.url)
        host = address.hostname or ""
        is_here = host == "localhost" or host.endswith(".localhost")
        with suppress(ValueError):  # a name
            is_here = ip_address(host).is_loopback
        return address.scheme == "http" and not is_here


class ElmoTeacher(Block):
    """ELMo (Peters et al. 2018), from the two files that AllenNLP published of each of its models.

    It gives the views `sentence` and `token_mean` (optional extra: `pip install -e '.[elmo]'`).
    """

    kind: Literal["elmo"]
    model: Annotated[str, Field(min_length=1)]
    """A folder with options.json and weights.hdf5; what stands before these names does not matter."""
    layers: Literal["mean", "top"] = "mean"
    """What a token's vector is in the view `sentence`: the mean of its vectors from all layers, that of the
    characters included, or the top layer's. `token_mean` takes the top layer's."""
    max_length: Count = 512
    """Words a text; longer texts are cut."""
    parts: Annotated[str, Field(min_length=1)]
    """A folder, a hub id or `package:NAME/FOLDER`: the local model whose tokenizer, layers and vocabulary
    vectors students start from, since ELMo reads characters and has no tokens below words."""


SingleTeacher = TransformerTeacher | HashingTeacher | OpenAiApiTeacher | ElmoTeacher
BorrowingTeacher = OpenAiApiTeacher | ElmoTeacher
"""Those whose students start from the parts of another model, which is local."""
GIVEN_VIEWS: dict[str, tuple[View, ...]] = {"openai_api": ("sentence",), "elmo": ("sentence", "token_mean")}
"""By kind, the views of teachers that do not give all."""


class Flow(Block):
    """A normalising flow (Glow) of vectors; its latents stand for them (BERT-flow, Li et al. 2020).

    It is fitted without labels, by maximum likelihood, on vectors of the corpus. Levels, steps,
    hidden units, epochs and learning rate are by default those of the released code.
    """

    levels: Annotated[int, Field(ge=1, le=16)] = 3
    """After each level but the last, half of the dimensions goes no further."""
    steps: Count = 3
    """Of a level: each scales the dimensions, mixes their order, and moves half of them by the other half."""
    hidden: Count = 32
    """Units of the two hidden layers of what moves them."""
    coupling: Literal["additive", "affine"] = "additive"
    """Whether half of the dimensions is moved alone, or also scaled, as in Glow's paper."""
    epochs: Count = 1
    """Passes over the vectors."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Vectors a step of Adam."""
    lr: Positive = 1e-3
    """Learning rate of Adam, the same in all steps."""
    max_rows: Annotated[int, Field(ge=2)] = 100_000
    """Training texts that it is fitted on, the first by text id; their vectors are in memory as float32."""
    seed: Seed = 0
    """Seed of the weights, the permutations and the order of the vectors."""

    @property
    def least_dim(self) -> int:
        """The fewest dimensions that leave two or more to each level."""
        return (1 << (self.levels - 1)) + 1


class EnsembleMember(Block):
    """A teacher of an ensemble, and what it counts for."""

    teacher: Annotated[SingleTeacher, Field(discriminator="kind")]
    """A whole `teacher:` block. Its stored vectors are those that it has as the only teacher."""
    weight: Positive = 1.0
    """The ensemble's cosine is the mean of the members' cosines, weighted so."""
    view: View = "sentence"
    """What the member brings to the ensemble's `sentence`. To its other views it brings the view of that
    name."""
    pca: Count | None = None
    """Dimensions that a PCA of the member's normalised vectors leaves. null: all, as they are."""
    flow: Flow | None = None
    """Put the latents of a normalising flow in the place of the vectors: of those that the PCA leaves, or of
    the member's own as they are, lengths included. `{}` takes the defaults. null: there is none."""


class EnsembleTeacher(Block):
    """Several teachers as one: their normalised vectors side by side, each times sqrt(weight / sum).

    The cosine of two texts is then the weighted mean of the members' cosines.
    """

    kind: Literal["ensemble"]
    members: Annotated[tuple[EnsembleMember, ...], Field(min_length=1, strict=False)]
    """In the order in which their vectors stand."""
    parts: Annotated[int, Field(ge=0)] | None = None
    """Number, from 0, of the member from whose tokenizer, layers and vocabulary vectors students start. null:
    the first transformer, else the first."""

    @model_validator(mode="after")
    def _has_parts(self) -> Self:
        if self.parts is not None and self.parts >= len(self.members):
            raise ValueError(
                f"teacher.parts is {self.parts}; teacher.members are numbered 0 to {len(self.members) - 1}"
            )
        return self

    @property
    def parts_member(self) -> int:
        """The number of the member from which students start."""
        if self.parts is not None:
            return self.parts
        kinds = [member.teacher.kind for member in self.members]
        return kinds.index("transformer") if "transformer" in kinds else 0


Teacher = Annotated[SingleTeacher | EnsembleTeacher, Field(discriminator="kind")]


def single_teachers(teacher: Teacher) -> dict[str, SingleTeacher]:
    """The members of an ensemble, or the teacher itself, by the key of params.yaml that holds each."""
    if isinstance(teacher, EnsembleTeacher):
        return {f"teacher.members.{i}.teacher": member.teacher for i, member in enumerate(teacher.members)}
    return {"teacher": teacher}


def starting_teacher(teacher: Teacher) -> tuple[str, SingleTeacher]:
    """Key and block of the teacher from whose parts students start: itself, or a member of an ensemble."""
    number = teacher.parts_member if isinstance(teacher, EnsembleTeacher) else 0
    return list(single_teachers(teacher).items())[number]


def views_not_given(teacher: Teacher, views: Sequence[View]) -> Iterator[str]:
    """Faults: the views that are asked of a teacher, or of a member, of a kind that does not give them."""
    for key, one in single_teachers(teacher).items():
        given = GIVEN_VIEWS.get(one.kind, tuple(views))
        for view in views:
            if view not in given:
                yield f"encode.views has {view!r}; {key}.kind {one.kind} gives {_told(given)} alone"
    for i, member in enumerate(teacher.members if isinstance(teacher, EnsembleTeacher) else ()):
        own, kind = member.view, member.teacher.kind
        given = GIVEN_VIEWS.get(kind, (own,))
        if own not in given:
            yield f"teacher.members.{i}.view is {own!r}; its kind {kind} gives {_told(given)} alone"


def _told(views: Sequence[View]) -> str:
    return " and ".join(f"`{view}`" for view in views)


def parts_of(teacher: BorrowingTeacher) -> TransformerTeacher:
    """The local model that students of such a teacher start from, as a block that names it."""
    return TransformerTeacher(kind="transformer", model=teacher.parts)


def teacher_name(teacher: Teacher, hashing: str = "hashing") -> str:
    """What others read as the teacher's name: its model, or `hashing`; those of an ensemble's members."""
    return " + ".join(
        hashing if isinstance(one, HashingTeacher) else without_folders(one.model)
        for one in single_teachers(teacher).values()
    )


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
    """Of the published values, and of those that the store keeps from now on, but for members of an ensemble.
    `int8` takes half the room: every vector has a scale, and manifest.json says what is lost. All that reads
    the vectors, the teacher's scores too, then sees the rounded ones. A change to `int8` encodes nothing; one
    back to `float16` encodes again what the store has in int8 alone."""
    hidden: Hidden | None = None
    """Hidden states that are cached beside the vectors; `{}` takes the defaults. null: none."""
