"""data/tokenizer: what a text may be so that the teacher reads all of it; empty where no source asks."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.core import json_text, seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER, WINDOW = "tokenizer.json", "window.json"
STAGE = "look"


@dataclass(frozen=True)
class Window:
    """A teacher's tokenizer, and how much of a text it reads."""

    tokenizer: str
    """In the JSON of the library `tokenizers`."""
    max_length: int | None
    """Tokens, special ones and the prompt's included; None: not known."""
    prompt: str
    """What is put before every text."""

    def counter(self, *, bare: bool = False) -> Callable[[str], int]:
        """Counts the tokens of a whole text as the teacher reads it; bare: no prompt, no special ones."""
        tokenizer, prompt = self._whole, "" if bare else self.prompt
        return lambda text: len(tokenizer.encode(prompt + text, add_special_tokens=not bare).ids)

    @cached_property
    def _whole(self) -> "Tokenizer":
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self.tokenizer)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer


def word_tokenizer() -> str:
    """For a teacher without a tokenizer: words and punctuation marks count, and each Chinese character."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"": 0}, unk_token=""))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer.to_str()


def write(window: Window | None, folder: Path) -> None:
    """Write a window, or that none is asked for."""
    with atomic_folder(folder) as inner:
        facts = {} if window is None else {"max_length": window.max_length, "prompt": window.prompt}
        (inner / WINDOW).write_text(json.dumps(facts, sort_keys=True) + "\n", encoding="utf-8")
        if window is not None:
            (inner / TOKENIZER).write_text(window.tokenizer, encoding="utf-8")


def read(folder: Path) -> Window:
    """Read a window.

    Raises:
        UserError: it is not there, damaged or cannot be read.
    """
    seal.check(folder, f"run `dvc repro -f {STAGE}`")
    try:
        facts = json_text.parse((folder / WINDOW).read_text(encoding="utf-8"))
        tokenizer = (folder / TOKENIZER).read_text(encoding="utf-8")
        return Window(tokenizer, facts["max_length"], facts["prompt"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder} holds no tokenizer ({type(error).__name__}: {error}); run `dvc repro -f {STAGE}`"
        ) from None
