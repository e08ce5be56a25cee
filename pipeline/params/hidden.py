"""`encode.hidden`: the teacher's hidden states that are cached, token by token."""

from pipeline.core.errors import UserError
from pipeline.params.base import Block, Count
from pipeline.params.layers import ListedLayers


class Hidden(Block):
    """Hidden states of the teacher's layers, which the loss `hidden_states` reads: int8, in data/hidden."""

    texts: Count = 20_000
    """Training texts of the corpus that have states, the first by text id."""
    layers: ListedLayers | None = None
    """The teacher's layers whose states are kept, in order, counted from 0. null: all."""
    max_tokens: Count = 64
    """Tokens of a text whose states are kept: its first, without special ones. The teacher reads the whole
    text, without a prompt."""

    def numbered(self, count: int) -> tuple[int, ...]:
        """The layers of a teacher of `count` layers that are kept.

        Raises:
            UserError: it has fewer.
        """
        found = self.layers or tuple(range(count))
        if max(found) >= count:
            raise UserError(
                f"encode.hidden.layers names layer {max(found)}, the teacher has {count} (0 to "
                f"{count - 1}); correct it"
            )
        return found
