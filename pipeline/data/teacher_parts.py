"""What the teacher leaves for students: tokenizer, config and weights; vocabulary vectors for some of them.

teacher/            a transformers folder
vocabulary/READER/  needed.json; where it says so, the tokenizer's files and vocabulary.parquet
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError

from pipeline.core import json_text, seal
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

VOCABULARY = "vocabulary.parquet"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
ENCODER = ("config.json", "model.safetensors")
NEEDED = "needed.json"
NOBODY = {"needed": False}
VIEW = "vector"
OTHER = "take another model"
AGAIN = "run `dvc repro -f teacher_parts`"
WITH_DECODER = ("t5", "mt5", "umt5", "longt5")
"""Types of models whose encoder transformers, and so sentence-transformers, loads apart from its decoder."""


def write_reader(vectors: NDArray[np.floating] | None, parts: Path, folder: Path) -> None:
    """Write vocabulary/READER.

    Args:
        vectors: as `write_vocabulary` takes them; None: the reader does not need them.
        parts: the teacher's, whose tokenizer goes along.
        folder: vocabulary/READER.
    """
    folder.mkdir()
    (folder / NEEDED).write_text(
        json.dumps(NOBODY if vectors is None else {"needed": True}) + "\n", encoding="utf-8"
    )
    if vectors is not None:
        for file in (TOKENIZER, TOKENIZER_CONFIG):
            shutil.copyfile(parts / file, folder / file)
        write_vocabulary(vectors, folder)
    seal.write_folder(folder)


def write_vocabulary(vectors: NDArray[np.floating], folder: Path) -> None:
    """Keep the vocabulary's vectors (V, d), row i being token id i, as float16."""
    kind = pa.list_(pa.field("item", pa.float16(), nullable=False), vectors.shape[1])
    columns = {
        "token_id": pa.array(np.arange(len(vectors), dtype=np.uint64)),
        VIEW: pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float16).reshape(-1)), type=kind),
    }
    pq.write_table(pa.table(columns), folder / VOCABULARY, compression="none", use_dictionary=False)


def read_vocabulary(folder: Path) -> NDArray[np.float32]:
    """The vocabulary's vectors (V, d), row i being token id i.

    Raises:
        UserError: they are missing or damaged, or params.yaml had no reader of them.
    """
    seal.check(folder, AGAIN)
    if (folder / NEEDED).exists() and json_text.parse(
        (folder / NEEDED).read_text(encoding="utf-8")
    ) == NOBODY:
        raise UserError(
            f"{folder} holds no vocabulary vectors: nothing in params.yaml read them when it was made; "
            "run `dvc repro teacher_parts`"
        )
    _check(folder, VOCABULARY)
    try:
        column = pq.read_table(folder / VOCABULARY, columns=[VIEW])[VIEW].combine_chunks()
        return column.flatten().to_numpy().reshape(-1, column.type.list_size).astype(np.float32)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{folder / VOCABULARY} is damaged ({error}); {AGAIN}") from None


def read_encoder(folder: Path) -> "PreTrainedModel":
    """The teacher's encoder, in float32."""
    _check(folder, *ENCODER)
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

    with _told(folder, fix), torch.random.fork_rng(devices=[]):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        loader = cast("Any", encoder_class(config))  # what it gives with loading info has no type
        torch.manual_seed(0)
        encoder, told = loader.from_pretrained(
            folder,
            use_safetensors=True,
            dtype=torch.float32,
            trust_remote_code=False,
            output_loading_info=True,
        )
    # No student starts from these, so that they may be missing; a model may also be a decoder and no more.
    not_taken = ("pooler.", "decoder.") if hasattr(encoder, "encoder") else ("pooler.",)
    if missing := sorted(name for name in told["missing_keys"] if not name.startswith(not_taken)):
        raise UserError(
            f"{folder}: model.safetensors lacks {len(missing):,} weights of the model in config.json, "
            f"{missing[0]} for one; {fix}"
        )
    return encoder


def encoder_class(config: "PreTrainedConfig") -> "type[PreTrainedModel] | type[AutoModel]":
    """The class that loads the encoder of a model with this config, AutoModel for most."""
    import transformers

    if config.model_type in WITH_DECODER:
        name = type(config).__name__.removesuffix("Config") + "EncoderModel"
        return cast("type[PreTrainedModel]", getattr(transformers, name))
    return transformers.AutoModel


def empty_encoder(config: Path | Mapping[str, Any]) -> "PreTrainedModel":
    """The encoder that `load_encoder` gives, but without weights: on torch's meta device.

    Args:
        config: its folder, or what config.json holds.

    Raises:
        UserError: no student can be made of such an encoder.
    """
    import torch

    with _told(_name(config), OTHER), torch.device("meta"):
        settings = read_config(config)
        made = cast("Any", encoder_class(settings))
        if hasattr(made, "from_config"):
            return cast(
                "PreTrainedModel", made.from_config(settings, trust_remote_code=False, dtype=torch.float32)
            )
        return cast("PreTrainedModel", made(settings))


def read_config(config: Path | Mapping[str, Any]) -> "PreTrainedConfig":
    """The config of an encoder's folder, or the one that config.json's content says.

    Raises:
        UserError: no student can be made of such an encoder.
    """
    from transformers import AutoConfig

    with _told(_name(config), OTHER), tempfile.TemporaryDirectory() as name:
        if isinstance(config, Mapping):
            (Path(name) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        folder = Path(name) if isinstance(config, Mapping) else config
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)


def _name(config: Path | Mapping[str, Any]) -> object:
    return "the teacher" if isinstance(config, Mapping) else config


@contextmanager
def _told(name: object, fix: str) -> Iterator[None]:
    """Tell why transformers cannot make an encoder."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if "trust_remote_code" in str(error):
            raise UserError(
                f"{name}: the model runs code of its own, of whose encoder no student can be made; take "
                "the kind static, for bilstm `embeddings: file`, for transformer an `init.model`"
            ) from None
        raise UserError(f"{name}: config.json or model.safetensors is damaged ({error}); {fix}") from None


def read_tokenizer(folder: Path) -> "Tokenizer":
    """The teacher's tokenizer, without the padding and truncation that its file may carry."""
    from tokenizers import Tokenizer

    _check(folder, TOKENIZER)
    path = folder / TOKENIZER
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises no narrower one
        raise UserError(f"{path} is damaged ({error}); {AGAIN}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _check(folder: Path, *names: str) -> None:
    if missing := [name for name in names if not (folder / name).exists()]:
        raise UserError(f"{folder} lacks {', '.join(missing)}; {AGAIN}")
    seal.check(folder, AGAIN)
