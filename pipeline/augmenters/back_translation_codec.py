"""A translation model's tokenizer between two languages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from pipeline.augmenters.back_translation_models import EXTRA, Model
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchEncoding


class Codec:
    """Texts to token ids and back.

    Raises:
        UserError: the tokenizer cannot be loaded, or does not know a language.
    """

    def __init__(self, model: Model, max_length: int) -> None:
        from transformers import AutoTokenizer

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(model.folder)
        except ImportError as error:
            raise UserError(f"{model.key}: {str(error).strip().splitlines()[0]} {EXTRA}") from None
        except (OSError, ValueError, KeyError, AssertionError) as error:
            raise UserError(f"{model.key}: the tokenizer cannot be loaded: {error}") from None
        self.forced: int | None = None
        """The token that a translation begins with: M2M-100's and NLLB's target language."""
        self._prefix = model.prefix
        self._max_length = max_length
        if model.kind == "m2m_100":
            self._token(model, "source_language", model.source)
            self.tokenizer.src_lang = model.source
            self.forced = self._token(model, "target_language", model.target)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, with special tokens."""
        prefixed = [self._prefix + text for text in texts]
        return list(self.tokenizer(prefixed, truncation=True, max_length=self._max_length)["input_ids"])

    def pad(self, ids: Sequence[Sequence[int]]) -> "BatchEncoding":
        """Ids and mask as tensors (texts, longest)."""
        return cast("BatchEncoding", self.tokenizer.pad({"input_ids": ids}, return_tensors="pt"))

    def decode(self, ids: "Sequence[Sequence[int]] | Tensor") -> list[str]:
        """The texts of token ids, without special tokens."""
        return list(self.tokenizer.batch_decode(ids, skip_special_tokens=True))

    def _token(self, model: Model, key: str, language: str | None) -> int:
        """The id of a language's token: `en` is __en__ to M2M-100, `eng_Latn` itself to NLLB."""
        codes = getattr(self.tokenizer, "lang_code_to_token", {})
        ids = self.tokenizer.convert_tokens_to_ids([codes.get(language, language)])
        if ids[0] in (None, self.tokenizer.unk_token_id):
            raise UserError(
                f"{model.key}.{key} is {language!r}, which {model.folder.name} does not know (M2M-100 writes "
                "`en`, NLLB `eng_Latn`)"
            )
        return int(ids[0])
