"""A tokenizer's padding."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def give_padding(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Have a tokenizer pad that names no token for it, as GPT-2's and Llama's do; padding is masked."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
