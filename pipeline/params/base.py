"""What every block of params.yaml has in common."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError


class Block(BaseModel):
    """A strict, frozen block of params.yaml: an unknown key or wrong type is an error, nothing is coerced.

    A class is built when it is first used, as a part of another most often: every process imports them all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True, allow_inf_nan=False)


Role = Literal["text", "query", "document"]
"""What a text is for: queries search documents, `text` is all else. A teacher has a prompt for each."""
ROLES: tuple[Role, ...] = get_args(Role)
Layout = Literal["beir", "msmarco"]
"""How a folder of retrieval data is laid out."""
Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
Auto = Literal["auto"]
"""The pipeline takes what fits the teacher."""
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]

HUB = "hub:"
"""Begins a path that is a dataset for the library `datasets` (optional extra):
hub:OWNER/NAME@REVISION?config=CONFIG&split=SPLIT. What follows NAME may be left out: a revision, a
configuration if there is one, a split if there is one. hub:FOLDER is a folder that `load_dataset` reads."""
PathOrGlob = Annotated[str, Field(min_length=1)]
"""A file of the user's, a glob of several, or `HUB` and a dataset."""

ADDRESSES = {"s3": "s3fs", "gs": "gcsfs", "hf": "huggingface_hub", "file": "fsspec"}
"""Schemes that a corpus of files is read from, SCHEME://PLACE, and the library that reads them."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://.*")
NO_PLACES = ("url", "licence")
"""Keys whose address is meant."""


def scheme_of(place: str) -> str | None:
    """The scheme of an address; None for a path."""
    found = SCHEME.fullmatch(place)
    return found[1].lower() if found else None


def misplaced_addresses(params: BaseModel) -> Iterator[str]:
    """Addresses in params where only files and folders of this machine are read."""
    for key, address in addresses(params, ""):
        if not re.fullmatch(r"corpus\.sources\.\d+\.path", key):
            yield (
                f"{key} is {address}; only corpus.sources of kind files read an address: download it, "
                "and name the file or folder"
            )


def addresses(value: object, where: str) -> Iterator[tuple[str, str]]:
    """The key and the value of all that is an address within a block, but for `NO_PLACES`."""
    match value:
        case str() if scheme_of(value):
            yield where, value
        case BaseModel():
            for key, inner in value:
                if key not in NO_PLACES:
                    yield from addresses(inner, f"{where}.{key}" if where else key)
        case dict():
            for key, inner in value.items():
                yield from addresses(inner, f"{where}.{key}")
        case tuple():
            for number, inner in enumerate(value):
                yield from addresses(inner, f"{where}.{number}")


def distinct(what: str, **columns: str | None) -> None:
    """Raise ValueError where two keys of a block of kind `what` name one column; null names none."""
    first: dict[str, str] = {}
    for key, column in columns.items():
        if column is not None and first.setdefault(column, key) != key:
            raise ValueError(
                f"{what} takes {first[column]} and {key} from one column, {column!r}; name another"
            )


def without_folders(place: str) -> str:
    """How a model's or a file's place is named in what others read: without the folders of this machine."""
    prefix, path = (HUB, place.removeprefix(HUB)) if place.startswith(HUB) else ("", place)
    folder, query = (path.partition("?")[::2]) if prefix else (path, "")
    if not path.startswith(("/", "~")):
        return place
    return f"{prefix}{Path(folder).name}" + (f"?{query}" if query else "")


def allowed(values: str) -> WrapValidator:
    """Tell all that a key of several types may be in one message, not in one for each type."""

    def told(value: object, validate: ValidatorFunctionWrapHandler) -> object:
        try:
            return validate(value)
        except ValidationError:
            raise PydanticCustomError("not_allowed", "not allowed", {"values": values}) from None

    return WrapValidator(told)
