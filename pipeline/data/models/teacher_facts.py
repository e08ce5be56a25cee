"""A teacher without its weights: teacher_facts.json, from which follows which students it can give."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.core import seal
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

UNUSED = re.compile(r"\[unused\d+\]")
"""What model2vec leaves out of a vocabulary."""


OF_NO_MODEL = ("_name_or_path", "transformers_version")
"""What a config says of whoever saved it."""


class TeacherFacts(BaseModel):
    """Facts of a teacher that its config, tokenizer and module list tell. They name no file and no path."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: dict[str, Any]
    """The config.json of the encoder that `teacher_parts` saves."""
    dims: dict[str, int]
    """Dimension of each view, as far as it is known before a text is encoded."""
    tokens: int
    """Rows of the vocabulary vectors: a row a token id."""
    used: int
    """Of these, the tokens that texts can have."""
    token_dim: int
    """Dimension of the vocabulary vectors."""
    ends: int
    """Special tokens of an empty text."""
    window: int | None
    """Tokens of a text that it reads, special ones included; None: it does not say."""


def of_parts(
    config: Mapping[str, Any],
    tokenizer: "PreTrainedTokenizerBase",
    dims: Mapping[str, int],
    token_dim: int,
    window: int | None,
) -> TeacherFacts:
    """The facts of a teacher whose students start from an encoder of this config, with this tokenizer."""
    rows = max(tokenizer.get_vocab().values()) + 1
    return TeacherFacts(
        config={key: value for key, value in config.items() if key not in OF_NO_MODEL},
        dims=dict(dims),
        tokens=rows,
        used=int(used_tokens(tokenizer.backend_tokenizer, rows).sum()),
        token_dim=token_dim,
        ends=len(tokenizer("")["input_ids"]),
        window=window,
    )


def write(facts: TeacherFacts, path: Path) -> None:
    """Write the facts; equal facts give equal bytes."""
    write_text(path, seal.to_json(facts.model_dump()))


def read(path: Path) -> TeacherFacts:
    """Read the facts.

    Raises:
        UserError: the file is missing or damaged.
    """
    found = seal.read_json(path, "look")
    try:
        return TeacherFacts.model_validate(found)
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({error.errors()[0]['msg']}); run `dvc repro -f look`") from None


def most_dimensions(token_dim: int, used: int) -> int:
    """How many principal components the vectors of `used` tokens have."""
    return min(token_dim, used - 1)


def used_tokens(tokenizer: "Tokenizer", size: int) -> NDArray[np.bool_]:
    """Which ids (size,) are tokens of texts: BERT's vocabularies have places without a token."""
    names = (tokenizer.id_to_token(token) for token in range(size))
    return np.array([name is not None and not UNUSED.fullmatch(name) for name in names])
