"""Linear layers by oneDNN against torch's own, and against float64."""

import pytest
import torch
from torch.nn.functional import linear

from pipeline.encoders import products


@pytest.mark.parametrize("activation", [None, torch.nn.functional.gelu, torch.nn.functional.relu])
def test_without_torchs_private_part_the_numbers_are_the_same(activation, monkeypatch, capsys):
    products._say_slower.cache_clear()
    weight, bias, states = torch.randn(8, 4), torch.randn(8), torch.randn(5, 4)
    fast = products.prepared(weight, bias, activation)(states)

    def absent(*_args):
        raise AttributeError

    monkeypatch.setattr(products, "_prepacked", absent)
    plain = products.prepared(weight, bias, activation)(states)
    expected = torch.nn.functional.linear(states, weight, bias)
    expected = activation(expected) if activation else expected
    torch.testing.assert_close(plain, expected)
    torch.testing.assert_close(fast, expected, atol=1e-5, rtol=1e-5)
    products.prepared(weight, bias)
    assert capsys.readouterr().err.count("the same vectors, slower") == 1


@pytest.mark.parametrize("shape", [(7, 5, 3), (1, 4, 4), (130, 17, 33)])
def test_the_trained_products_and_gradients_are_those_of_float64(shape):
    tokens, inputs, outputs = shape
    torch.manual_seed(0)
    given = [torch.randn(tokens, inputs), torch.randn(outputs, inputs), torch.randn(outputs)]
    pull = torch.randn(outputs, tokens).T  # as it comes from a layer that transposes: not contiguous
    found, exact = (
        [tensor.to(dtype).clone().requires_grad_() for tensor in given]
        for dtype in (torch.float32, torch.float64)
    )
    product = products.trained(*found)
    product.backward(pull)
    expected = linear(*exact)
    expected.backward(pull.double())
    torch.testing.assert_close(product.double(), expected, atol=1e-4, rtol=1e-5)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one.grad.double(), other.grad, atol=1e-4, rtol=1e-5)


def test_what_onednn_does_not_compute_is_torchs(monkeypatch):
    calls = []
    own = products._product
    monkeypatch.setattr(products, "_product", lambda *given: calls.append(1) or own(*given))
    given = [torch.randn(5, 4), torch.randn(3, 4), torch.randn(3)]
    products.trained(*given)
    assert calls == [1]
    with torch.autocast("cpu", torch.bfloat16):
        assert products.trained(*given).dtype == torch.bfloat16
    products.trained(*(tensor.double() for tensor in given))
    monkeypatch.setattr(products, "_has_products", lambda: False)
    torch.testing.assert_close(products.trained(*given), linear(*given), atol=0, rtol=0)
    assert calls == [1]


def test_a_torch_without_the_private_parts_is_noticed(monkeypatch):
    products._has_products.cache_clear()

    def absent(*_given):
        raise AttributeError

    monkeypatch.setattr(products, "_product", absent)
    assert not products._has_products()
    products._has_products.cache_clear()
