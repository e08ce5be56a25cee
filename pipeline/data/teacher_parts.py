"""What the teacher leaves for students: teacher/ holds tokenizer, config, weights and vocabulary vectors."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError

from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import AutoModel, PretrainedConfig, PreTrainedModel

VOCABULARY = "vocabulary.parquet"
VIEW = "vector"
AGAIN = "run `dvc repro -f teacher_parts`"
WITH_DECODER = ("t5", "mt5", "umt5", "longt5")
"""Types of models whose encoder transformers, and so sentence-transformers, loads apart from its decoder."""


def write_vocabulary(vectors: NDArray[np.float32], folder: Path) -> None:
    """Keep the vocabulary's vectors (V, d), row i being token id i, as float16."""
    kind = pa.list_(pa.field("item", pa.float16(), nullable=False), vectors.shape[1])
    columns = {
        "token_id": pa.array(np.arange(len(vectors), dtype=np.uint64)),
        VIEW: pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float16).reshape(-1)), type=kind),
    }
    pq.write_table(pa.table(columns), folder / VOCABULARY, compression="none", use_dictionary=False)


def read_vocabulary(folder: Path) -> NDArray[np.float32]:
    """The vocabulary's vectors (V, d), row i being token id i."""
    _check(folder)
    try:
        column = pq.read_table(folder / VOCABULARY, columns=[VIEW])[VIEW].combine_chunks()
        return column.flatten().to_numpy().reshape(-1, column.type.list_size).astype(np.float32)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{folder / VOCABULARY} is damaged ({error}); {AGAIN}") from None


def read_encoder(folder: Path) -> "PreTrainedModel":
    """The teacher's encoder, in float32."""
    _check(folder)
    return load_encoder(folder, AGAIN)


def load_encoder(folder: Path, fix: str) -> "PreTrainedModel":
    """The encoder of any transformers folder, in float32.

    Of T5 and its like it is the encoder alone. A pooler that the folder lacks, as those of masked language
    models do, is random and always the same; so is a decoder, which no student takes.

    Raises:
        UserError: it cannot be loaded, or other weights are missing; `fix` says what to do.
    """
    import torch
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        loader = cast("Any", encoder_class(config))  # what it gives with loading info has no type
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            encoder, told = loader.from_pretrained(
                folder,
                use_safetensors=True,
                dtype=torch.float32,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if "trust_remote_code" in str(error):
            raise UserError(
                f"{folder}: the model runs code of its own, of whose encoder no student can be made; take "
                "the kind static, for bilstm `embeddings: file`, for transformer an `init.model`"
            ) from None
        raise UserError(f"{folder}: config.json or model.safetensors is damaged ({error}); {fix}") from None
    # No student starts from these, so that they may be missing; a model may also be a decoder and no more.
    not_taken = ("pooler.", "decoder.") if hasattr(encoder, "encoder") else ("pooler.",)
    if missing := sorted(name for name in told["missing_keys"] if not name.startswith(not_taken)):
        raise UserError(
            f"{folder}: model.safetensors lacks {len(missing):,} weights of the model in config.json, "
            f"{missing[0]} for one; {fix}"
        )
    return encoder


def encoder_class(config: "PretrainedConfig") -> "type[PreTrainedModel] | type[AutoModel]":
    """The class that loads the encoder of a model with this config, AutoModel for most."""
    import transformers

    if config.model_type in WITH_DECODER:
        name = type(config).__name__.removesuffix("Config") + "EncoderModel"
        return cast("type[PreTrainedModel]", getattr(transformers, name))
    return transformers.AutoModel


def read_tokenizer(folder: Path) -> "Tokenizer":
    """The teacher's tokenizer, without the padding and truncation that its file may carry."""
    from tokenizers import Tokenizer

    _check(folder)
    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises no narrower one
        raise UserError(f"{path} is damaged ({error}); {AGAIN}") from None
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
