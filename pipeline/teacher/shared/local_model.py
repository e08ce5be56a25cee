"""A local model, loaded from its folder, and the parts of it that students start from."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from pipeline.core.errors import UserError
from pipeline.core.machine import find_device
from pipeline.data.locate import check_modules, find_model
from pipeline.encoders.packed_model import encoder_of, special_around
from pipeline.encoders.packing.packing import PackedEncoder, can_pack
from pipeline.params.teacher import TransformerTeacher

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Module
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SEQUENCES_AT_A_TIME = 1024
"""Tokens of the vocabulary, each with the special tokens around it, that go through the encoder at a time."""

UNLIMITED = 10**9
"""Tokens that stand for any number: transformers' tokenizers say 10**30."""


def find_teacher(params: TransformerTeacher, key: str = "teacher.model") -> Path:
    """The local folder of a teacher; `key` is where params.yaml names it, for messages."""
    folder = find_model(params.model, key, revision=params.revision, code=params.trust_remote_code)
    check_modules(folder, params.model, key)
    return folder


def load_model(folder: Path, params: TransformerTeacher, device: str) -> "SentenceTransformer":
    """The model of a folder, its encoder in the precision that is asked for, what follows in float32.

    Raises:
        UserError: it cannot be loaded, says nothing of its pooling, or has no fast tokenizer.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer as TransformerModule
    from sentence_transformers.sentence_transformer.modules import Pooling

    complete = check_pooling(folder, params)
    where = find_device(device)
    weights = {"use_safetensors": True, "dtype": getattr(torch, params.precision)}
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # a pooler that the model lacks is made up: always the same one
            if complete:
                model = SentenceTransformer(
                    str(folder),
                    device=where,
                    trust_remote_code=params.trust_remote_code,
                    model_kwargs=weights,
                )
                _read_heads(model, folder)
            else:
                code = {"trust_remote_code": params.trust_remote_code}
                encoder = TransformerModule(
                    str(folder), model_kwargs={**weights, **code}, config_kwargs=code, processor_kwargs=code
                )
                pooling = Pooling(encoder.get_embedding_dimension(), params.pooling)
                model = SentenceTransformer(modules=[encoder, pooling], device=where)
    except ImportError as error:
        raise UserError(
            f"teacher.model: {params.model} cannot be loaded: {error}; install what its code needs, or name "
            "another model"
        ) from None
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(f"teacher.model: {params.model} cannot be loaded: {error}") from None
    except (
        LookupError,
        TypeError,
        AttributeError,
    ) as error:  # as libraries say that a file or key is missing
        raise UserError(
            f"teacher.model: {params.model} cannot be loaded ({type(error).__name__}: {error}); complete the "
            "files that its modules.json names, or name another model"
        ) from None
    if not isinstance(model[0], TransformerModule):
        raise UserError(f"teacher.model: {params.model} is no transformer but a {type(model[0]).__name__}")
    check_tokenizer(model.tokenizer)
    model[0].to(getattr(torch, params.precision))
    return model.eval()


def check_pooling(folder: Path, params: TransformerTeacher) -> bool:
    """Whether a model brings modules of its own.

    Raises:
        UserError: how it pools is said nowhere, or twice.
    """
    complete = (folder / "modules.json").exists()
    if complete and params.pooling:
        raise UserError(
            f"teacher.pooling is {params.pooling!r}, but {params.model} brings its own pooling in "
            "modules.json; leave teacher.pooling out"
        )
    if not complete and not params.pooling:
        raise UserError(
            f"teacher.model: {params.model} has no modules.json, so it does not say how to pool; "
            "set teacher.pooling (mean, cls, max, lasttoken)"
        )
    return complete


def check_tokenizer(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Fail unless a teacher's tokenizer is a fast one."""
    if not tokenizer.is_fast:
        raise UserError(
            "teacher.model: its tokenizer has no tokenizer.json (only fast tokenizers are supported)"
        )


def positions_of(encoder: "PreTrainedModel") -> int | None:
    """How many tokens an encoder has positions for; None: any number."""
    stated = getattr(encoder.config, "max_position_embeddings", None)
    if not stated or stated < 0:  # XLNet, which has none, says -1
        return None
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    return stated if table is None or table.padding_idx is None else stated - table.padding_idx - 1


def longest_text(params: TransformerTeacher, own: int, positions: int | None) -> int:
    """Tokens after which a teacher cuts texts.

    Args:
        params: may say so.
        own: what the model says.
        positions: how many it has; None: any number.

    Raises:
        UserError: params ask for more than there are positions, or nobody says a length.
    """
    most = positions or UNLIMITED
    if params.max_length and params.max_length > most:
        raise UserError(f"teacher.max_length is {params.max_length}; {params.model} has {most} positions")
    found = params.max_length or min(own, most)
    if found >= UNLIMITED:
        raise UserError(f"teacher.max_length: {params.model} names no longest text; set it to 512, say")
    return found


def _read_heads(model: "SentenceTransformer", folder: Path) -> None:
    """Read the weights behind the encoder again, in float32: they were rounded to the encoder's precision."""
    listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for module, described in zip(list(model)[1:], listed[1:], strict=True):
        dtypes = {str(weights.dtype) for weights in module.parameters()}
        if dtypes - {"torch.float32"}:
            head = cast("Module", module.float())
            head.load_torch_weights(str(folder), subfolder=described["path"], model=head)


def save_parts(model: "SentenceTransformer", folder: Path) -> NDArray[np.float32]:
    """Save the encoder as a transformers folder; return each token's vector (V, d) on its own (model2vec).

    Tokens that the encoder has no embedding for (of images, say) have zeros.
    """
    encoder, tokenizer = encoder_of(model).model, model.tokenizer
    encoder.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    before, after = special_around(tokenizer)
    tokens = max(tokenizer.get_vocab().values()) + 1
    embedded = min(tokens, getattr(encoder.config, "vocab_size", tokens))
    sequences = [[*before, token, *after] for token in range(embedded)]
    found = _means(encoder, sequences, tokenizer.pad_token_id or 0)
    return np.pad(found, ((0, tokens - embedded), (0, 0)))


def _means(encoder: "PreTrainedModel", sequences: list[list[int]], pad_id: int) -> NDArray[np.float32]:
    """Mean last hidden states (n, d) of sequences of one length, as model2vec has them; packed if can be."""
    import torch

    device, length = next(encoder.parameters()).device, len(sequences[0])
    if not can_pack(encoder):
        from model2vec.distill.inference import create_embeddings

        return create_embeddings(encoder, sequences, str(device), pad_id).astype(np.float32)
    packed, parts = PackedEncoder(encoder), []
    with torch.inference_mode():
        for start in range(0, len(sequences), SEQUENCES_AT_A_TIME):
            ids = torch.tensor(sequences[start : start + SEQUENCES_AT_A_TIME], device=device)
            hidden = packed(ids.flatten(), [length] * len(ids)).float()
            parts.append(hidden.unflatten(0, (len(ids), length)).mean(1).cpu().numpy())
    return np.concatenate(parts)
