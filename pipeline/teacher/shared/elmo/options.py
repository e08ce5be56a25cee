"""An ELMo model's two files, and what options.json says of its shape."""

import importlib.util
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.core import json_text
from pipeline.core.errors import UserError

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
PACKAGES = ("h5py", "sacremoses")
"""Of the optional extra."""
EXTRA = "run `pip install -e '.[elmo]'`"
Count = Annotated[int, Field(ge=1)]
Clip = Annotated[float, Field(gt=0)] | None
"""Most that a number may be, whatever its sign; null: any."""


class _Said(BaseModel):
    """A block of options.json, which also says what only training reads."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class CharacterEmbedding(_Said):
    """The table of characters."""

    dim: Count


class CharacterCnn(_Said):
    """From a word's characters to the word's vector."""

    activation: Literal["relu", "tanh"]
    filters: Annotated[tuple[tuple[Count, Count], ...], Field(min_length=1)]
    """(characters, how many) of each size of filter."""
    n_highway: Annotated[int, Field(ge=0)]
    embedding: CharacterEmbedding
    n_characters: Literal[261, 262] = 262
    """bilm-tf trains with 261, and wants 262 to encode; it makes no difference here."""
    max_characters_per_token: Annotated[int, Field(ge=3)]
    """Bytes of a word and its two ends that are read."""

    @model_validator(mode="after")
    def _filters_fit(self) -> Self:
        if max(width for width, _ in self.filters) > self.max_characters_per_token:
            raise ValueError("a filter is wider than max_characters_per_token")
        return self

    @property
    def filtered(self) -> int:
        """How many filters there are."""
        return sum(count for _, count in self.filters)


class Lstm(_Said):
    """The two LSTMs, one in each direction."""

    dim: Count
    """Of a memory cell."""
    projection_dim: Count
    """Of what a layer gives in a direction."""
    n_layers: Count
    cell_clip: Clip = None
    proj_clip: Clip = None
    use_skip_connections: bool = False
    """Add a layer's input to its output, from the second layer on."""


class Options(_Said):
    """What options.json says."""

    char_cnn: CharacterCnn
    lstm: Lstm
    bidirectional: Literal[True] = True

    @property
    def width(self) -> int:
        """Dimension of a token's vector: of both directions."""
        return 2 * self.lstm.projection_dim


class Files(NamedTuple):
    """A model's files."""

    options: Path
    weights: Path


def find(model: str) -> Files:
    """The files in a model's folder.

    Raises:
        UserError: there is no such folder, or not one file of each.
    """
    folder = Path(model)
    if not folder.is_dir():
        raise UserError(
            f"teacher.model: there is no folder {model!r}; name one with {OPTIONS} and {WEIGHTS} of an ELMo"
        )
    return Files(_only(folder, OPTIONS), _only(folder, WEIGHTS))


def _only(folder: Path, ending: str) -> Path:
    found = sorted(path for path in folder.glob(f"*{ending}") if path.is_file())
    if not found:
        raise UserError(
            f"teacher.model: {folder} has no {ending}; put that of the ELMo model there, of which both files "
            "are needed"
        )
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UserError(f"teacher.model: {folder} has {names}; leave one there")
    return found[0]


def read(path: Path) -> Options:
    """What options.json says.

    Raises:
        UserError: it is damaged, or of a model that is not read here.
    """
    try:
        said: Any = json_text.parse(path.read_bytes())
    except ValueError as error:
        raise UserError(f"teacher.model: {path} is no JSON ({error}); obtain it again") from None
    try:
        return Options.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise UserError(
            f"teacher.model: {path}: {where} is at fault ({first['msg']}); name an ELMo model over "
            "characters, as bilm-tf and AllenNLP write its options"
        ) from None


def check_packages() -> None:
    """Fail unless the optional extra is installed.

    Raises:
        UserError: naming what is missing.
    """
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise UserError(f"teacher.kind elmo needs {' and '.join(missing)}, not installed here; {EXTRA}")
