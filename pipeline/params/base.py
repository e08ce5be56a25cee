"""What every block of params.yaml has in common."""

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
    """A strict, frozen block of params.yaml: an unknown key or wrong type is an error, nothing is coerced."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


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
