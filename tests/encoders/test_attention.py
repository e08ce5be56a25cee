"""Attention of packed texts against torch's own, text by text."""

import numpy as np
import pytest
import torch
from small_encoders import small_encoder
from torch.nn.functional import pad, scaled_dot_product_attention

from pipeline.encoders.packing import attention, packing

HEADS, WIDTH = 2, 4


def packed(lengths, dtype=torch.float64):
    """Random queries, keys and values of texts of these lengths, and where they lie."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(sum(lengths), 3, HEADS, WIDTH, dtype=dtype, generator=generator)
    side = attention.rounded_length(max(lengths))
    bias = torch.randn(1, HEADS, side, side, dtype=dtype, generator=generator)
    runs = [attention.Group(int(length), lengths.count(length)) for length in dict.fromkeys(lengths)]
    edges = torch.tensor([0, *lengths]).cumsum(0).int()
    return states.requires_grad_(), bias.requires_grad_(), runs, edges


def text_by_text(states, bias, lengths):
    found = []
    for text in states.split(lengths):
        query, key, value = text.permute(1, 2, 0, 3)
        corner = None if bias is None else bias[0, :, : len(text), : len(text)]
        found.append(scaled_dot_product_attention(query, key, value, attn_mask=corner).transpose(0, 1))
    return torch.cat(found)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    "lengths",
    [
        [1],
        [3] * 40,
        sorted(np.random.default_rng(0).integers(1, 40, 60).tolist()),
        [attention.SHORT + 9, attention.SHORT + 1, attention.SHORT, 40, 40, 9, 8, 1, 1],
    ],
    ids=["one text", "one length", "many lengths", "long to short"],
)
def test_vectors_and_gradients_are_those_of_each_text(lengths, biased):
    states, bias, groups, edges = packed(lengths)
    bias = bias if biased else None
    inputs = [states, bias] if biased else [states]
    layout = attention.Packing(groups, edges, bias)
    found = attention.attend(pad(states, (0, 0) * 3 + (0, layout.filler)), layout)
    assert not found[sum(lengths) :].any()
    found = found[: sum(lengths)]
    expected = text_by_text(states, bias, lengths)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    pull = torch.randn(found.shape, dtype=found.dtype, generator=torch.Generator().manual_seed(1))
    for here, there in zip(
        torch.autograd.grad(found, inputs, pull), torch.autograd.grad(expected, inputs, pull), strict=True
    ):
        torch.testing.assert_close(here, there, atol=1e-11, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("biased", [False, True])
def test_long_texts_in_training_are_rounded_once_and_not_within(biased, dtype):
    lengths = [attention.SHORT + 9, attention.SHORT + 1, attention.SHORT + 1]
    states, bias, groups, edges = packed(lengths, dtype)
    bias = bias if biased else None
    inputs = [states, bias] if biased else [states]
    layout = attention.Packing(groups, edges, bias)
    with torch.autocast("cpu", dtype):
        found = attention.attend(pad(states, (0, 0) * 3 + (0, layout.filler)), layout)[: sum(lengths)]
    wide = [tensor.detach().float().requires_grad_() for tensor in inputs]
    expected = text_by_text(wide[0], wide[1] if biased else None, lengths)
    rounding = {"atol": 1e-6, "rtol": torch.finfo(dtype).eps}
    torch.testing.assert_close(found, expected.to(dtype), **rounding)
    pull = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    here = torch.autograd.grad(found, inputs, pull)[0]
    there = torch.autograd.grad(expected, wide, pull.float())[0]
    torch.testing.assert_close(here, there.to(dtype), **rounding)


def test_neighbours_of_similar_length_share_a_block_while_they_are_few():
    lengths = [4, 5, 8, 9, *[10] * attention.FEW, 11, 12]
    _, _, groups, edges = packed(lengths)
    (blocks,) = attention.Packing(groups, edges).stretches
    assert [[group.length for group in block.groups] for block in blocks] == [[4, 5, 8], [9, 10], [11, 12]]
    assert sum(block.tokens for block in blocks) == sum(lengths)
    assert [(block.texts, block.length) for block in blocks] == [(16, 8), (48, 16), (16, 16)]


def varying_attention(query, key, value, edges, key_edges, longest, key_longest):
    """What torch's varlen_attn computes, text by text."""
    assert torch.equal(edges, key_edges)
    assert longest == key_longest == int(edges.diff().max())
    found = torch.empty_like(query)
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        scores = torch.einsum("qhd,khd->hqk", query[start:stop], key[start:stop]) / query.shape[-1] ** 0.5
        found[start:stop] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), value[start:stop])
    return found


def test_attention_at_once_equals_attention_by_length(monkeypatch):
    model = small_encoder("bert")
    random = np.random.default_rng(0)
    lengths = sorted([attention.SHORT + 1, *random.integers(1, 40, 20).tolist()], reverse=True)
    ids = torch.from_numpy(random.integers(0, 20, sum(lengths)))
    with torch.inference_mode():
        expected = packing.PackedEncoder(model)(ids, lengths)
        monkeypatch.setattr(attention, "can_vary", lambda *_: True)
        monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varying_attention)
        found = packing.PackedEncoder(model)(ids, lengths)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="attention at once needs a CUDA device")
def test_a_gpu_attends_at_once():
    states = torch.randn(29, 3, 2, 32, device="cuda", dtype=torch.bfloat16)
    edges = torch.tensor([0, 20, 29], device="cuda", dtype=torch.int32)
    layout = attention.Packing([attention.Group(20, 1), attention.Group(9, 1)], edges)
    assert attention.can_vary(states, layout)
    expected = varying_attention(*states.float().unbind(1), edges, edges, 20, 20)
    torch.testing.assert_close(
        attention.attention_at_once(states, layout).float(), expected, atol=0.03, rtol=0
    )
