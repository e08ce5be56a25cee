"""What the teacher leaves for students: teacher/ holds tokenizer, config, weights and vocabulary vectors."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.artifacts.tables import read_table
from pipeline.artifacts.vectors import write_shard
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

VOCABULARY = "vocabulary.parquet"
VIEW = "vector"


def write_vocabulary(vectors: NDArray[np.float32], folder: Path) -> None:
    """Keep the vocabulary's vectors (V, d), row i being token id i, as float16."""
    write_shard(
        np.arange(len(vectors), dtype=np.uint64), {VIEW: vectors.astype(np.float16)}, folder / VOCABULARY
    )


def read_vocabulary(folder: Path) -> NDArray[np.float32]:
    """The vocabulary's vectors (V, d), row i being token id i."""
    _check(folder)
    width = pl.read_parquet_schema(folder / VOCABULARY)[VIEW]
    table = read_table(folder / VOCABULARY, {"text_id": pl.UInt64, VIEW: width}, "teacher_parts")
    return table[VIEW].to_numpy().astype(np.float32)


def read_encoder(folder: Path) -> "PreTrainedModel":
    """The teacher's encoder, in float32."""
    import torch
    from transformers import AutoModel

    _check(folder)
    return AutoModel.from_pretrained(folder, use_safetensors=True, dtype=torch.float32)


def read_tokenizer(folder: Path) -> "Tokenizer":
    """The teacher's tokenizer, without the padding and truncation that its file may carry."""
    from tokenizers import Tokenizer

    _check(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _check(folder: Path) -> None:
    missing = [
        name
        for name in ("config.json", "tokenizer.json", "model.safetensors", VOCABULARY)
        if not (folder / name).exists()
    ]
    if missing:
        raise UserError(f"{folder} lacks {', '.join(missing)}; run `dvc repro -f teacher_parts`")
