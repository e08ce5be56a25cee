"""A translation model's tokenizer between two languages."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from pipeline.augment.back_translation.models import EXTRA, Model
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchEncoding

_NLLB = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
"""A language and its script, as NLLB writes them."""


class Codec:
    """Texts to token ids and back.

    Raises:
        UserError: the tokenizer cannot be loaded, or does not know a language.
    """

    def __init__(self, model: Model, max_length: int) -> None:
        from transformers import AutoTokenizer, NllbTokenizer

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(model.folder)
            if model.kind == "m2m_100" and not hasattr(self.tokenizer, "lang_code_to_token"):
                # NLLB's models are M2M-100's: AutoTokenizer gives a class that knows of no source language.
                self.tokenizer = NllbTokenizer.from_pretrained(model.folder)
        except ImportError as error:
            raise UserError(f"{model.key}: {str(error).strip().splitlines()[0]} {EXTRA}") from None
        except (OSError, ValueError, KeyError, AssertionError) as error:
            raise UserError(f"{model.key}: the tokenizer cannot be loaded: {error}") from None
        self.forced: int | None = None
        """The token that a translation begins with: M2M-100's and NLLB's target language."""
        self._special = frozenset(self.tokenizer.all_special_ids)
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
        # transformers' own way to skip them collects the ids of all languages anew for every token.
        rows = ids if isinstance(ids, Sequence) else ids.tolist()
        kept = [[token for token in row if token not in self._special] for row in rows]
        return list(self.tokenizer.batch_decode(kept))

    def _token(self, model: Model, key: str, language: str | None) -> int:
        """The id of a language's token: `en` is __en__ to M2M-100, `eng_Latn` itself to NLLB.

        Only what the tokenizer lists as languages counts: any piece of its vocabulary has an id.
        """
        codes = getattr(self.tokenizer, "lang_code_to_token", None) or {
            token: token for token in map(str, self.tokenizer.all_special_tokens) if _NLLB.fullmatch(token)
        }
        if language not in codes:
            near = ", ".join(get_close_matches(str(language), codes, 5, 0.4) or sorted(codes)[:5])
            raise UserError(
                f"{model.key}.{key} is {language!r}, which {model.folder.name} does not know; of the "
                f"{len(codes)} that it lists, the nearest are: {near or 'none'}"
            )
        return int(self.tokenizer.convert_tokens_to_ids([codes[language]])[0])
