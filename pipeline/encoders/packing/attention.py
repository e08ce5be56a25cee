"""Attention within packed texts: short ones in padded blocks on a CPU, all at once where a GPU can."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import groupby
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

SHORT = 64
"""Tokens up to which attention is computed by plain products on a CPU."""
FEW = 32
"""Texts from which a block takes no further lengths."""
WIDEST = 2
"""A block's longest text over its shortest."""
ROUND_TOKENS, ROUND_LENGTH, ROUND_TEXTS = 128, 8, 16
"""On a CPU, packed tokens and the sides of a block of several lengths are filled up to multiples of these:
oneDNN makes a kernel for every shape, which takes as long as to run it several times."""
FLASH_CAPABILITY = (8, 0)
"""NVIDIA compute capability from which flash attention runs."""
FLASH_WIDTHS = range(8, 257, 8)
"""Dimensions of a head that it takes."""
GPU_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""For texts of one length: all but cuDNN's, which is planned anew for every shape."""

Context = Any
"""What autograd keeps from forward for backward: torch's type does not tell what that is."""


class Group(NamedTuple):
    """Texts of one length that lie together."""

    length: int
    texts: int

    @property
    def tokens(self) -> int:
        """Tokens of all its texts."""
        return self.length * self.texts


@dataclass(frozen=True)
class Packing:
    """Where the texts lie in the packed tokens."""

    groups: Sequence[Group]
    edges: Tensor
    """(texts + 1,) int32: text i is tokens[edges[i]:edges[i + 1]]."""
    bias: Tensor | None = None
    """Added to the scores, (1, heads, l, l), l at least `rounded_length(longest)`; texts take its corner."""

    @property
    def filler(self) -> int:
        """Tokens of no text, at the end of the packed ones."""
        tokens = sum(group.tokens for group in self.groups)
        return -tokens % ROUND_TOKENS if self.edges.device.type == "cpu" else 0

    @property
    def longest(self) -> int:
        """Most tokens of a text."""
        return max(group.length for group in self.groups)

    @cached_property
    def stretches(self) -> list["list[PaddedBlock] | Group"]:
        """The texts in order: short ones in blocks on a CPU, others by length."""
        most = SHORT if self.edges.device.type == "cpu" else 0
        stretches: list[list[PaddedBlock] | Group] = []
        for short, same in groupby(self.groups, lambda group: group.length <= most):
            groups = list(same)
            stretches += [list(_blocks(groups))] if short else groups
        return stretches


class PaddedBlock:
    """Short texts of similar length that lie together, padded to the longest or more."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.length = max(group.length for group in groups)
        self.texts = sum(group.texts for group in groups)
        self.tokens = sum(group.tokens for group in groups)
        if len(groups) > 1:
            self.length = rounded_length(self.length)
            self.texts += -self.texts % ROUND_TEXTS

    @cached_property
    def mask(self) -> Tensor | None:
        """What is added to the scores of a text's keys, (texts, 1, length, 1): -inf to those of padding."""
        if len(self.groups) == 1:
            return None
        sizes = torch.tensor([group.texts for group in self.groups])
        lengths = torch.tensor([group.length for group in self.groups]).repeat_interleave(sizes)
        mask = torch.zeros(self.texts, self.length)
        # A text that is not there has all keys: without any, it would be no number.
        mask[: len(lengths)][torch.arange(self.length) >= lengths[:, None]] = -torch.inf
        return mask[:, None, :, None]

    def pad(self, packed: Tensor) -> Tensor:
        """(tokens, parts, heads, d) -> (parts, texts, heads, length, d), zeros where a text has ended."""
        _, parts, heads, width = packed.shape
        shape = parts, self.texts, heads, self.length, width
        padded = packed.new_empty(shape) if self.mask is None else packed.new_zeros(shape)
        for there, here in self._pairs(padded, packed):
            there.copy_(here)
        return padded

    def unpad(self, padded: Tensor, packed: Tensor) -> None:
        """The reverse, into `packed`."""
        for here, there in self._pairs(padded, packed):
            there.copy_(here)

    def _pairs(self, padded: Tensor, packed: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """For each length, where its texts lie in both layouts: (parts, texts, heads, length, d)."""
        texts = tokens = 0
        for group in self.groups:
            lying = packed[tokens : tokens + group.tokens].unflatten(0, (group.texts, group.length))
            yield padded[:, texts : texts + group.texts, :, : group.length], lying.permute(2, 0, 3, 1, 4)
            texts, tokens = texts + group.texts, tokens + group.tokens


def rounded_length(length: int) -> int:
    """The length of a block whose longest text has this one."""
    return length + -length % ROUND_LENGTH


def attend(query_key_value: Tensor, packing: Packing) -> Tensor:
    """Softmax attention within each text: (tokens, 3, heads, d) -> (tokens, heads, d); 0 for the filler."""
    if can_vary(query_key_value, packing):
        return attention_at_once(query_key_value, packing)
    sizes = [
        stretch.tokens if isinstance(stretch, Group) else sum(block.tokens for block in stretch)
        for stretch in packing.stretches
    ]
    tokens, _, heads, width = query_key_value.shape
    texts = query_key_value[: tokens - packing.filler]
    with sdpa_kernel(GPU_KERNELS) if query_key_value.is_cuda else nullcontext():
        found = [
            _attend_group(part, stretch, packing.bias)
            if isinstance(stretch, Group)
            else cast("Tensor", _BlockAttention.apply(part, packing.bias, stretch))
            for part, stretch in zip(texts.split(sizes), packing.stretches, strict=True)
        ]
    if packing.filler:
        found.append(query_key_value.new_zeros(packing.filler, heads, width))
    return torch.cat(found) if len(found) > 1 else found[0]


def _blocks(groups: Iterable[Group]) -> Iterator[PaddedBlock]:
    """Neighbours of similar length, until they are no longer few."""
    together: list[Group] = []
    for group in groups:
        lengths = [other.length for other in (*together, group)]
        if together and (
            sum(other.texts for other in together) >= FEW or max(lengths) > WIDEST * min(lengths)
        ):
            yield PaddedBlock(together)
            together = []
        together.append(group)
    yield PaddedBlock(together)


def _attend_group(query_key_value: Tensor, group: Group, bias: Tensor | None) -> Tensor:
    """Equally long texts: (tokens, 3, heads, d) -> (tokens, heads, d).

    Half precision is widened on a CPU where a gradient is asked for: torch's kernel for that is five to
    thirty times as fast in float32.
    """
    query, key, value = query_key_value.unflatten(0, (group.texts, group.length)).permute(2, 0, 3, 1, 4)
    if bias is not None:
        bias = bias[..., : group.length, : group.length]
    widens = query.requires_grad and not query.is_cuda and query.dtype.itemsize < torch.float32.itemsize
    if widens:
        query, key, value = query.float(), key.float(), value.float()
        bias = bias if bias is None else bias.float()
    with torch.autocast(query.device.type, enabled=False) if widens else nullcontext():
        found = scaled_dot_product_attention(query, key, value, attn_mask=bias)
    return found.to(query_key_value.dtype).transpose(1, 2).flatten(0, 1)


class _BlockAttention(torch.autograd.Function):
    """Attention of short texts by plain products, block by block.

    torch's fused kernel is made for long texts; on short ones plain products are two to three times as
    fast, and a step of random texts has so many lengths that its time goes into the number of operations:
    the gradient is written out to need few.
    """

    @staticmethod
    def forward(
        ctx: Context, query_key_value: Tensor, bias: Tensor | None, blocks: Sequence[PaddedBlock]
    ) -> Tensor:
        """(tokens, 3, heads, d) -> (tokens, heads, d)."""
        tokens, _, heads, width = query_key_value.shape
        found = query_key_value.new_empty(tokens, 1, heads, width)
        sizes = [block.tokens for block in blocks]
        kept: list[Tensor] = []
        for block, here, there in zip(blocks, query_key_value.split(sizes), found.split(sizes), strict=True):
            padded = block.pad(here)
            query, key, value = padded.flatten(1, 2)
            mask = query.new_empty(1)
            if block.mask is not None:
                mask = block.mask.to(query.dtype).expand(-1, heads, -1, -1).flatten(0, 1)
            # Keys come before queries: softmax is faster over rows than within short rows.
            scores = torch.baddbmm(
                mask, key, query.transpose(1, 2), beta=int(block.mask is not None), alpha=width**-0.5
            )
            if bias is not None:
                corner = bias[..., : block.length, : block.length].transpose(2, 3)
                scores.unflatten(0, (block.texts, heads)).add_(corner)
            weights = scores.softmax(1)
            attended = torch.bmm(weights.transpose(1, 2), value)
            block.unpad(attended.unflatten(0, (block.texts, heads))[None], there)
            if any(ctx.needs_input_grad):
                kept += padded, weights
        ctx.blocks, ctx.biased = blocks, None if bias is None else bias.shape
        ctx.save_for_backward(*kept)
        return found.squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        """From (tokens, heads, d) to (tokens, 3, heads, d), and to the bias."""
        tokens, heads, width = gradient.shape
        found = gradient.new_empty(tokens, 3, heads, width)
        to_bias = gradient.new_zeros(ctx.biased) if ctx.needs_input_grad[1] else None
        sizes = [block.tokens for block in ctx.blocks]
        layout = zip(ctx.blocks, gradient.unsqueeze(1).split(sizes), found.split(sizes), strict=True)
        for i, (block, here, there) in enumerate(layout):
            padded, weights = ctx.saved_tensors[2 * i : 2 * i + 2]
            query, key, value = padded.flatten(1, 2)
            pull = block.pad(here)[0].flatten(0, 1)
            pulls = torch.empty_like(padded)
            to_query, to_key, to_value = pulls.flatten(1, 2)
            torch.bmm(weights, pull, out=to_value)
            to_weights = torch.bmm(value, pull.transpose(1, 2))
            to_scores = torch.ops.aten._softmax_backward_data(to_weights, weights, 1, weights.dtype)
            none = query.new_empty(1)
            torch.baddbmm(none, to_scores.transpose(1, 2), key, beta=0, alpha=width**-0.5, out=to_query)
            torch.baddbmm(none, to_scores, query, beta=0, alpha=width**-0.5, out=to_key)
            block.unpad(pulls, there)
            if to_bias is not None:
                of_texts = to_scores.unflatten(0, (block.texts, heads)).sum(0, keepdim=True)
                to_bias[..., : block.length, : block.length] += of_texts.transpose(2, 3)
        return found, to_bias, None


def can_vary(query_key_value: Tensor, packing: Packing) -> bool:
    """Whether the GPU's kernel for texts of all lengths takes these (tokens, 3, heads, d)."""
    half = query_key_value.dtype in (torch.float16, torch.bfloat16)
    fits = packing.bias is None and query_key_value.is_cuda and query_key_value.shape[-1] in FLASH_WIDTHS
    if not (half and fits):
        return False
    has_kernel = (
        find_spec("torch.nn.attention.varlen") is not None
        and torch.backends.cuda.is_flash_attention_available()
    )
    return has_kernel and torch.cuda.get_device_capability(query_key_value.device) >= FLASH_CAPABILITY


def attention_at_once(query_key_value: Tensor, packing: Packing) -> Tensor:
    """Softmax attention within texts of all lengths: (tokens, 3, heads, d) -> (tokens, heads, d)."""
    from torch.nn.attention import varlen

    query, key, value = query_key_value.unbind(1)
    edges, longest = packing.edges, packing.longest
    return cast("Tensor", varlen.varlen_attn(query, key, value, edges, edges, longest, longest))
