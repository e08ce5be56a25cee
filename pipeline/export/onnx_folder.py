"""A folder with an ONNX student: model.onnx, tokenizer.json, config.json. It runs without torch.

config.json says how a text becomes the graph's inputs: tokenise, with special tokens if `special_tokens`; cut
at `max_length` tokens; fill up with `pad_id`. `input_ids` and `attention_mask` are (n, length) int64, with a
length of 1 at least; `sentence_embedding` is (n, dim) float32.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.core.errors import UserError
from pipeline.params.teacher import Similarity

if TYPE_CHECKING:
    from onnx import ModelProto
    from tokenizers import Tokenizer

INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"
TOKENIZER = "tokenizer.json"
CONFIG = "config.json"


class OnnxConfig(BaseModel):
    """config.json."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Literal["onnx-student"]
    model: str
    """The graph's file."""
    inputs: tuple[str, str]
    output: str
    dim: int
    max_length: int | None
    """Tokens a text, special tokens included; null: any."""
    pad_id: int
    special_tokens: bool


@dataclass(frozen=True)
class OnnxFolder:
    """What is written."""

    graph: "ModelProto"
    tokenizer: "Tokenizer"
    special_tokens: bool
    max_length: int | None
    pad_id: int
    dim: int
    similarity: Similarity = "cosine"
    """How its vectors are compared: in config.json where it is not the cosine."""

    def write(self, folder: Path, name: str = "model.onnx") -> None:
        """Write the three files into `folder`, the graph under this name."""
        folder.mkdir(parents=True)
        (folder / name).write_bytes(self.graph.SerializeToString(deterministic=True))
        self.tokenizer.save(str(folder / TOKENIZER))
        config: dict[str, Any] = {
            "type": "onnx-student",
            "model": name,
            "inputs": INPUTS,
            "output": OUTPUT,
            "dim": self.dim,
            "max_length": self.max_length,
            "pad_id": self.pad_id,
            "special_tokens": self.special_tokens,
        }
        if self.similarity != "cosine":
            config["similarity"] = self.similarity
        (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def is_onnx(folder: Path) -> bool:
    """Whether a folder holds an ONNX student, and not just any config.json."""
    try:
        found = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("type") == "onnx-student"


def read_config(folder: Path) -> OnnxConfig:
    """Read config.json.

    Raises:
        UserError: it is missing or damaged.
    """
    path = folder / CONFIG
    try:
        return OnnxConfig.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); export the student again") from None
    except (ValidationError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is damaged ({reason}); export the student again") from None
