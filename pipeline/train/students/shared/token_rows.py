"""An encoder that knows fewer tokens."""

from typing import TYPE_CHECKING, Any, cast

from torch import nn

from pipeline.core.errors import UserError
from pipeline.train.students.shared.base.settings import settings_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IDS = "_token_id"
"""How the settings that name a token end."""


def pinned(encoder: "PreTrainedModel") -> list[int]:
    """Ids of the tokens that an encoder cannot do without: of padding, and of its settings.

    RoBERTa and its like count positions from the id of padding, which therefore keeps those before it.
    """
    size = len(cast("nn.Embedding", encoder.get_input_embeddings()).weight)
    padding = encoder.config.pad_token_id
    named = [value for key, value in _token_ids(encoder.config.to_dict()).items() if isinstance(value, int)]
    positions = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if getattr(positions, "padding_idx", None) is not None:
        named += range(padding)
    return sorted({token for token in named if 0 <= token < size})


def keep_rows(encoder: "PreTrainedModel", kept: list[int]) -> "PreTrainedModel":
    """The same encoder with only these rows of its token table, in this order.

    Raises:
        UserError: it has more tables of as many rows.
    """
    new = {old: row for row, old in enumerate(kept)}
    table = cast("nn.Embedding", encoder.get_input_embeddings()).weight
    settings = settings_of(encoder.config)
    for key, value in _token_ids(settings).items():
        many = isinstance(value, list)
        settings[key] = [new[one] for one in value if one in new] if many else new.get(value)
    fewer = type(encoder)(type(encoder.config).from_dict({**settings, "vocab_size": len(kept)})).eval()
    state = {
        name: tensor[kept] if tensor.data_ptr() == table.data_ptr() else tensor
        for name, tensor in encoder.state_dict().items()
    }
    try:
        fewer.load_state_dict(state)
    except RuntimeError:
        raise UserError(
            f"init.tokens: a {encoder.config.model_type} model has more than one table of its tokens; set it "
            "to null"
        ) from None
    return fewer


def _token_ids(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key.endswith(IDS) and value is not None}
