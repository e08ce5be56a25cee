"""The engine `transformers`: every model's own `generate`, the reference for the others."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.augment.back_translation.codec import Codec
from pipeline.augment.back_translation.models import Model
from pipeline.core.errors import UserError
from pipeline.core.machine import find_device
from pipeline.params.augment import BackTranslationAugment

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import GenerationConfig, GenerationMixin, PreTrainedModel


class Translator:
    """A pivot's models in turn."""

    def __init__(self, pivot: Sequence[Model], params: BackTranslationAugment, device: str) -> None:
        self._device = find_device(device)
        self._budget = params.tokens_per_batch
        loaded: dict[Path, PreTrainedModel] = {}
        for model in pivot:
            if model.folder not in loaded:
                loaded[model.folder] = load_seq2seq(model, self._device)
        self._steps = []
        for model in pivot:
            codec, network = Codec(model, params.max_length), loaded[model.folder]
            self._steps.append((codec, network, settings(network, codec.forced, params)))

    def translate(self, texts: Sequence[str], seed: int) -> list[str]:
        """The texts through all models; `seed` decides what sampling draws."""
        import torch

        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(seed)
            found = list(texts)
            for codec, network, config in self._steps:
                found = self._step(codec, network, config, found)
            return found

    def _step(
        self, codec: Codec, network: "PreTrainedModel", config: "GenerationConfig", texts: list[str]
    ) -> list[str]:
        ids = codec.encode(texts)
        found = [""] * len(texts)
        for rows in batches([len(row) for row in ids], self._budget):
            padded = codec.pad([ids[row] for row in rows]).to(self._device)
            made = cast("GenerationMixin", network).generate(**padded, generation_config=config)
            for row, text in zip(rows, codec.decode(cast("Tensor", made).cpu()), strict=True):
                found[row] = text
        return found


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Rows from long to short, together as many as hold at most `tokens` when padded; one at least."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def load_seq2seq(model: Model, device: str) -> "PreTrainedModel":
    """The network in evaluation mode.

    Raises:
        UserError: it cannot be loaded.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForSeq2SeqLM

    try:
        found = AutoModelForSeq2SeqLM.from_pretrained(model.folder, use_safetensors=True, dtype="float32")
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"{model.key}.model: {model.folder.name} cannot be loaded: {error}") from None
    return found.to(device).eval()


def settings(
    network: "PreTrainedModel", forced: int | None, params: BackTranslationAugment
) -> "GenerationConfig":
    """How `generate` decodes: the model's own settings but for what params say and what engines share.

    A beam search ends with as many whole hypotheses as it follows, which count by their mean log-probability.
    """
    config = deepcopy(network.generation_config)
    chosen: dict[str, Any] = {
        "max_new_tokens": params.max_length,
        "max_length": None,
        "length_penalty": 1.0,
        "no_repeat_ngram_size": 0,
        "forced_eos_token_id": None,
        "forced_bos_token_id": forced,
    }
    if network.config.model_type == "marian":
        chosen["suppress_tokens"] = [network.config.pad_token_id]  # which Marian itself does not have
    match params.decoding:
        case beam if beam.kind == "beam":
            chosen |= {"num_beams": beam.size, "do_sample": False, "early_stopping": beam.size > 1}
        case draw:
            chosen |= {"num_beams": 1, "do_sample": True, "early_stopping": False}
            chosen |= {"top_k": draw.top_k, "top_p": 1.0, "temperature": draw.temperature}
    config.update(**chosen)
    return config
