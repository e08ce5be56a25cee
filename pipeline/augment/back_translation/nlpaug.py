"""The engine `nlpaug`: its BackTranslationAug with a pivot's two models, for comparison."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeline.augment.back_translation.codec import Codec
from pipeline.augment.back_translation.models import Model
from pipeline.augment.back_translation.transformers import load_seq2seq, settings
from pipeline.core.machine import find_device
from pipeline.params.augment import BackTranslationAugment

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchEncoding


class Translator:
    """BackTranslationAug, whose models decode as params say."""

    def __init__(self, pivot: Sequence[Model], params: BackTranslationAugment, device: str) -> None:
        from nlpaug.augmenter.word import BackTranslationAug
        from nlpaug.model.lang_models import LanguageModels, MtTransformers

        self._budget = params.tokens_per_batch
        where = find_device(device)

        class Loaded(MtTransformers):
            """A pivot's models, whose own loader has no messages that name them."""

            def __init__(self) -> None:
                LanguageModels.__init__(self, where)
                self.max_length = params.max_length + 1
                for side, model in zip(("src", "tgt"), pivot, strict=True):
                    codec, network = Codec(model, params.max_length), load_seq2seq(model, where)
                    network.generation_config = settings(network, codec.forced, params)
                    network.generation_config.max_new_tokens = None  # nlpaug passes max_length
                    setattr(self, f"{side}_tokenizer", Tokenizer(codec))
                    setattr(self, f"{side}_model", network)

        class Augmenter(BackTranslationAug):
            """It, with models that are there."""

            @classmethod
            def get_model(cls, **_names: object) -> MtTransformers:
                return Loaded()

        self._augmenter = Augmenter(device=where)
        self._model: Any = self._augmenter.model

    def translate(self, texts: Sequence[str], seed: int) -> list[str]:
        """The texts through both models; `seed` decides what sampling draws."""
        import torch

        self._model.batch_size = max(1, self._budget // self._model.src_tokenizer.longest(texts))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return list(self._augmenter.substitute(list(texts)))


class Tokenizer:
    """A codec as nlpaug calls a tokenizer."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def __call__(self, texts: Sequence[str], **_layout: object) -> "BatchEncoding":
        """Padded ids and mask."""
        return self._codec.pad(self._codec.encode(texts))

    def batch_decode(self, ids: "Tensor", **_special: object) -> list[str]:
        """The texts."""
        return self._codec.decode(ids)

    def longest(self, texts: Sequence[str]) -> int:
        """Tokens of the longest text."""
        return max(map(len, self._codec.encode(texts)))
