"""What every block of params.yaml has in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Block(BaseModel):
    """A strict, frozen block of params.yaml: an unknown key or wrong type is an error, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
Seed = Annotated[int, Field(ge=0)]
