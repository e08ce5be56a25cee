"""A transformers tokenizer with fewer tokens: `init.tokens` of the kinds that read the teacher's."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from pipeline.train.students.shared.corpus_words import kept_tokens, with_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast


def learn(
    tokenizer: "PreTrainedTokenizerBase",
    size: int,
    texts: Iterable[list[str]],
    most: int | None,
    needed: Iterable[int] = (),
) -> list[int] | None:
    """The ids that are kept of a table of `size` rows, ascending, special tokens and `needed` among them.

    None where all are; then no text is read.

    Raises:
        UserError: the tokens that are always kept are more than `most`.
    """
    if most is None or most >= size:
        return None
    special = [*tokenizer.all_special_ids, *needed]
    return kept_tokens(_plain(tokenizer), size, texts, most, special)


def cut(tokenizer: "PreTrainedTokenizerBase", kept: list[int]) -> "PreTrainedTokenizerFast":
    """A tokenizer with only these tokens, numbered anew in their order, without padding and truncation.

    Raises:
        UserError: the tokenizer cannot be cut so.
    """
    from transformers import PreTrainedTokenizerFast

    names = {name: value for name, value in tokenizer.special_tokens_map.items() if isinstance(value, str)}
    # It reads tokenizer.json as it is; a family's own class may put its own rules in.
    return PreTrainedTokenizerFast(
        tokenizer_object=with_tokens(_plain(tokenizer), kept),
        model_input_names=tokenizer.model_input_names,
        model_max_length=tokenizer.model_max_length,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        **names,
    )


def _plain(tokenizer: "PreTrainedTokenizerBase") -> Tokenizer:
    """Its Rust tokenizer, without padding and truncation."""
    plain = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    plain.no_padding()
    plain.no_truncation()
    return plain
