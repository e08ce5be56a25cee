"""A local model, loaded from its folder, and the parts of it that students start from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from pipeline.core import json_text
from pipeline.core.errors import UserError
from pipeline.core.machine import find_device
from pipeline.data.models.locate import check_modules, find_model
from pipeline.data.models.padding import give_padding
from pipeline.encoders.packed_model import encoder_of, special_around
from pipeline.encoders.packing.packing import PackedEncoder, can_pack, is_namesake
from pipeline.params.teacher import TransformerTeacher
from pipeline.teacher.shared.local.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Module
    from sentence_transformers.base.modules import Transformer as TransformerModule
    from sentence_transformers.base.modules.transformer import ModalityParams
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

TOKEN_VECTORS: "ModalityParams" = {"method": "forward", "method_output_name": "last_hidden_state"}
"""How a transformers model gives them, as sentence-transformers says it."""
VOCABULARY_VERSION = 1
"""Of the way in which a token is encoded on its own."""

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
                trusted = params.trust_remote_code
                model = SentenceTransformer(
                    str(folder), device=where, trust_remote_code=trusted, model_kwargs=weights
                )
                _read_heads(model, folder, params)
            else:
                code = {"trust_remote_code": params.trust_remote_code}
                encoder = TransformerModule(
                    str(folder),
                    model_kwargs={**weights, **code},
                    config_kwargs=code,
                    processor_kwargs=code,
                    # Else a tokenizer with a chat template would wrap every text.
                    modality_config={"text": TOKEN_VECTORS},
                    module_output_name="token_embeddings",
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
    except (LookupError, TypeError, AttributeError) as error:  # of a file or key that is missing
        raise UserError(
            f"teacher.model: {params.model} cannot be loaded ({type(error).__name__}: {error}); complete the "
            "files that its modules.json names, or name another model"
        ) from None
    if not isinstance(model[0], TransformerModule):
        raise UserError(f"teacher.model: {params.model} is no transformer but a {type(model[0]).__name__}")
    check_tokenizer(model.tokenizer)
    give_padding(model.tokenizer)
    _check_preprocessing(encoder_of(model), params.model)
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


def _check_preprocessing(first: "TransformerModule", name: str) -> None:
    """Refuse what a first module may be told and no vector here would follow.

    Raises:
        UserError: naming the setting.
    """
    where = f"teacher.model: sentence_bert_config.json of {name} sets"
    if first.transformer_task != "feature-extraction":
        raise UserError(
            f"{where} transformer_task {first.transformer_task!r}, which gives no token vectors; set it to "
            "'feature-extraction', or name an embedding model"
        )
    if not {"text", "message"} & first.modality_config.keys():
        raise UserError(f"{where} a modality_config without 'text' and 'message'; name a model of texts")
    if first.module_output_name != "token_embeddings":
        raise UserError(
            f"{where} module_output_name {first.module_output_name!r}; set it to 'token_embeddings' and add "
            "a Pooling to modules.json"
        )
    for key in ("query_length", "document_length", "query_expansion"):
        if getattr(first, key) is not None:
            raise UserError(
                f"{where} {key}, which treats queries and documents apart; remove it, and set "
                "teacher.max_length"
            )


def _read_heads(model: "SentenceTransformer", folder: Path, params: TransformerTeacher) -> None:
    """Read the weights behind the encoder again, in float32: they were rounded to the encoder's precision."""
    from sentence_transformers.base.modules import Router

    listed = json_text.parse((folder / "modules.json").read_text(encoding="utf-8"))
    for number, (module, described) in enumerate(zip(list(model)[1:], listed[1:], strict=True), start=1):
        dtypes = {str(weights.dtype) for weights in module.parameters()}
        place, code = described["path"], params.trust_remote_code
        if isinstance(module, Router):  # its weights are those of several modules
            model[number] = Router.load(str(folder), subfolder=place, trust_remote_code=code).to(model.device)
        elif dtypes - {"torch.float32"}:
            head = cast("Module", module.float())
            head.load_torch_weights(str(folder), subfolder=place, model=head)


def save_parts(
    model: "SentenceTransformer",
    folder: Path,
    params: TransformerTeacher,
    weights: str,
    tokens_per_batch: int,
) -> Vocabulary:
    """Save the encoder as a transformers folder; return what encodes each token on its own (model2vec).

    A token's vector is the mean of the last hidden states of the token and the special tokens around it.
    Tokens that the encoder has no embedding for (of images, say) have zeros.

    Args:
        model: as `load_model` gives it.
        folder: the out folder.
        params: which model it is, and in what precision.
        weights: the hash of its files.
        tokens_per_batch: tokens that go through the encoder at a time.
    """
    encoder, tokenizer = encoder_of(model).model, model.tokenizer
    encoder.save_pretrained(folder)
    keep_settings(encoder, folder)
    save_tokenizer(tokenizer, folder)
    size = max(tokenizer.get_vocab().values()) + 1
    before, after = special_around(tokenizer)
    embedded = min(size, getattr(encoder.config, "vocab_size", size))
    means = _means(encoder, before, after, tokens_per_batch, tokenizer.pad_token_id or 0)

    def encode(ids: NDArray[np.int64]) -> NDArray[np.float32]:
        known = ids < embedded
        found = np.zeros((len(ids), encoder_of(model).get_embedding_dimension()), np.float32)
        if known.any():
            found[known] = means(ids[known])
        return found

    recipe = {
        "vocabulary": VOCABULARY_VERSION,
        "kind": params.kind,
        "model": Path(params.model).name,
        "weights": weights,
        "precision": params.precision,
        "trust_remote_code": params.trust_remote_code,
        **({"code": "own"} if is_namesake(encoder) else {}),
    }
    return Vocabulary(recipe, size, encode)


def save_tokenizer(tokenizer: "PreTrainedTokenizerBase", folder: Path) -> None:
    """Save a tokenizer without its chat template, with which sentence-transformers would wrap every text."""
    template, tokenizer.chat_template = tokenizer.chat_template, None
    try:
        tokenizer.save_pretrained(folder)
    finally:
        tokenizer.chat_template = template


def keep_settings(encoder: "PreTrainedModel", folder: Path) -> None:
    """Have a saved config read as the encoder's own.

    Gemma 3 with attention both ways makes w // 2 + 1 of its window w whenever it is read, EmbeddingGemma
    therefore too.

    Raises:
        UserError: another setting changes.
    """
    path, config = folder / "config.json", encoder.config
    stated = json_text.parse(path.read_text(encoding="utf-8"))
    if (window := getattr(config, "sliding_window", None)) and _read(config, stated).sliding_window != window:
        stated["sliding_window"] = 2 * (window - 1)
        path.write_text(json.dumps(stated, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if getattr(_read(config, stated), "sliding_window", None) != window:
        raise UserError(
            f"teacher.model: the sliding_window of a {config.model_type} model changes from {window} when "
            "its config is saved and read; name another model"
        )


def _read(config: "PretrainedConfig", stated: dict[str, Any]) -> "PretrainedConfig":
    return type(config).from_dict(dict(stated))


def _means(
    encoder: "PreTrainedModel", before: list[int], after: list[int], tokens: int, pad_id: int
) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
    """Token ids (n,) to mean last hidden states (n, d), as model2vec has them; packed where that can be."""
    import torch

    device = next(encoder.parameters()).device
    length = len(before) + 1 + len(after)
    packed = PackedEncoder(encoder) if can_pack(encoder) else None

    @torch.inference_mode()
    def batch(ids: NDArray[np.int64]) -> NDArray[np.float32]:
        sequences = np.empty((len(ids), length), np.int64)
        sequences[:] = [*before, 0, *after]
        sequences[:, len(before)] = ids
        if packed is None:
            from model2vec.distill.inference import create_embeddings

            return create_embeddings(encoder, sequences.tolist(), str(device), pad_id).astype(np.float32)
        # All have one length: whatever their number, no token is padding.
        hidden = packed(torch.from_numpy(sequences.ravel()).to(device), [length] * len(ids)).float()
        return hidden.unflatten(0, (len(ids), length)).mean(1).cpu().numpy()

    def means(ids: NDArray[np.int64]) -> NDArray[np.float32]:
        most = max(1, tokens // length)
        return np.concatenate([batch(ids[start : start + most]) for start in range(0, len(ids), most)])

    return means
