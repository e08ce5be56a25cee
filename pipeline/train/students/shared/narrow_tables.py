"""The tables of an encoder's embedding block, and their narrow forms."""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from pipeline.encoders.packing.packing import first_position, to_width

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Tables:
    """A teacher's word, position and type tables, numbered as students number them, and what its block gives.

    Rows are of the teacher's own embedding size: ELECTRA, ALBERT and some DeBERTas have narrow ones already,
    and bring them to their width.

    Args:
        teacher: of a family that has such a block.
        tokens: (V,) the teacher's tokens that students know, by the students' numbers; None: all.
    """

    def __init__(self, teacher: "PreTrainedModel", tokens: Tensor | None = None) -> None:
        block = cast("Any", teacher).embeddings  # its parts differ from family to family
        self.block = block
        self.first = first_position(teacher)
        self.back = to_width(teacher)
        self.tokens = tokens
        words: Tensor = block.word_embeddings.weight.detach()
        self.words = words if tokens is None else words[tokens]
        self.positions = _rows(block, "position_embeddings", self.first)
        self.types = _rows(block, "token_type_embeddings", 0)

    def sums(self, ids: Tensor, places: Tensor) -> Tensor:
        """What the block adds up for tokens at these places in their texts, (tokens, d)."""
        found = self.words[ids]
        if self.positions is not None:
            found = found + self.positions[places]
        return found if self.types is None else found + self.types[0]

    def outputs(self, ids: Tensor, places: Tensor) -> Tensor:
        """What the first layer reads of these tokens, (tokens, width)."""
        theirs = ids if self.tokens is None else self.tokens[ids]
        found = self.block(input_ids=theirs[None], position_ids=places[None] + self.first)[0]
        # DeBERTa's block does it by itself
        return self.back(found) if self.back and not hasattr(self.block, "embed_proj") else found

    @torch.no_grad()
    def project(self, axes: Tensor, block: nn.Module, back: nn.Linear) -> None:
        """Write the tables into a narrow block in the coordinates of `axes` (d, k), and the way back."""
        for name, rows in (
            ("word_embeddings", self.words),
            ("position_embeddings", self.positions),
            ("token_type_embeddings", self.types),
        ):
            table = getattr(block, name, None)
            if table is None:
                continue
            narrow = cast("nn.Embedding", table).weight
            narrow.copy_(rows @ axes if rows is not None else torch.zeros_like(narrow))
        back.weight.copy_(self.back.weight @ axes if self.back else axes)


def directions(rows: Tensor, count: int) -> Tensor:
    """The first right singular vectors V_k (d, count) of a matrix (n, d): rows @ V_k is U_k S_k."""
    wide = rows.double()
    # The same as the SVD's, in a fraction of its time: n is the size of a vocabulary.
    _, vectors = torch.linalg.eigh(wide.T @ wide)
    return vectors.flip(1)[:, :count].float()


def _rows(block: nn.Module, name: str, first: int) -> Tensor | None:
    table = getattr(block, name, None)
    return None if table is None else cast("nn.Embedding", table).weight.detach()[first:]
