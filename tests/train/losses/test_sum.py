import numpy as np
import pytest
import torch
from small_batches import batch, context, vectors

from pipeline.data.tokens.tokens import Tokens
from pipeline.params.losses import SumLoss
from pipeline.train.losses import cosine
from pipeline.train.losses.shared import hsic, infonce
from pipeline.train.losses.sum import build

MSE = {"kind": "mse"}
COSINE = {"kind": "cosine"}
INFONCE = {"kind": "infonce"}
HSIC = {"kind": "hsic"}
CRD = {"kind": "crd", "features": 3, "negatives": 5}
TOKENS = {"kind": "token_embedding"}


def params_of(*terms: tuple[float, dict]) -> SumLoss:
    blocks = [{"weight": weight, "loss": loss} for weight, loss in terms]
    return SumLoss.model_validate({"kind": "sum", "terms": blocks})


def sum_of(*terms: tuple[float, dict], **more):
    return build(params_of(*terms), context(**more)).double()


def value_of(loss, of):
    """The weighted sum, as the training's objective adds it up."""
    return sum(weight * term(of) for weight, term in loss.terms)


def given():
    return batch(vectors(5, 4).requires_grad_(), vectors(5, 4, seed=1), inputs=vectors(5, 3, seed=2))


def test_the_sum_and_its_gradient_are_weighted_by_hand():
    """IBKD eq. 8 with a third term."""
    terms = [(1.0, INFONCE), (0.5, HSIC), (0.25, COSINE)]
    params = [term.loss for term in params_of(*terms).terms]
    together, value, gradient = given(), 0.0, 0.0
    for (weight, _), block, module in zip(terms, params, (infonce, hsic, cosine), strict=True):
        alone = given()
        loss = module.build(block, context())(alone)
        loss.backward()
        value, gradient = value + weight * loss.item(), gradient + weight * alone.vectors.grad.numpy()
    found = value_of(sum_of(*terms), together)
    found.backward()
    assert found.item() == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(together.vectors.grad, gradient, rtol=1e-12)


@pytest.mark.parametrize(
    ("terms", "over"),
    [
        ([MSE], "sentences"),
        ([MSE, COSINE], "sentences"),
        ([TOKENS], "tokens"),
        ([TOKENS, MSE], "batch"),
        ([MSE, HSIC], "batch"),
    ],
)
def test_only_terms_over_the_same_can_be_added_up_from_parts(terms, over, parts):
    assert sum_of(*((1.0, term) for term in terms), teacher=parts).over == over


def test_what_any_term_needs_is_needed(parts):
    def needs(*terms):
        loss = sum_of(*((1.0, term) for term in terms), teacher=parts)
        return loss.needs_inputs, loss.needs_embedded

    assert needs(MSE, COSINE) == (False, False)
    assert needs(MSE, HSIC) == (True, False)
    assert needs(TOKENS, MSE) == (False, True)
    assert needs(TOKENS, HSIC) == (True, True)


def test_simtde_adds_tokens_and_sentences(parts):
    """SimTDE eq. 5 with alpha 0.5."""
    loss = sum_of((0.5, TOKENS), (0.5, {"kind": "mse", "variant": "code"}), teacher=parts)
    tokens = Tokens(np.array([7, 8, 9], np.int32), np.array([0, 1, 3]))
    student, targets = vectors(2, 4), vectors(2, 4, seed=1)
    found = value_of(loss, batch(student, targets, tokens=tokens, embedded=vectors(3, 32))).item()
    values = loss.measures()
    assert values["loss_mse"] == pytest.approx(np.mean((student - targets).numpy() ** 2), rel=1e-12)
    assert found == pytest.approx((values["loss_token_embedding"] + values["loss_mse"]) / 2, rel=1e-12)


def test_measures_hold_every_terms_value_and_measures():
    loss = sum_of((1.0, INFONCE), (0.5, HSIC))
    value = value_of(loss, given()).item()
    measured = loss.measures()
    assert list(measured) == ["loss_infonce", "loss_hsic", "kernel_inputs", "kernel_vectors"]
    assert all(type(number) is float for number in measured.values())
    assert not any(value.requires_grad for value in loss._values.values()), (
        "a batch's graph is kept in memory"
    )
    assert measured["loss_infonce"] + 0.5 * measured["loss_hsic"] == pytest.approx(value, rel=1e-12)


def test_two_terms_of_a_kind_are_told_apart():
    rbf, imq = (hsic.Hsic(term.loss) for term in params_of((1, HSIC), (1, {**HSIC, "kernel": "imq"})).terms)
    loss = sum_of((1.0, HSIC), (2.0, {**HSIC, "kernel": "imq"}))
    value_of(loss, given())
    assert loss.measures()["loss_hsic"] == rbf(given()).item()
    assert loss.measures()["loss_hsic_2"] == imq(given()).item()
    assert loss.measures()["kernel_inputs_2"] == imq.measures()["kernel_inputs"]


def test_parameters_state_and_mode_are_the_terms():
    terms = (1.0, {**INFONCE, "projection": "learned"}), (1.0, CRD)
    loss = sum_of(*terms)
    assert len(list(loss.parameters())) == 5
    value_of(loss, given())
    other = sum_of(*terms)
    other.load_state_dict(loss.state_dict())
    assert value_of(loss, given()).item() == value_of(other, given()).item()
    loss.eval()
    before = loss.state_dict()["_losses.1.step"].item()
    value_of(loss, given())
    assert loss.state_dict()["_losses.1.step"].item() == before == 2


def test_one_equal_and_zero_sentences_are_finite():
    loss = sum_of((1.0, INFONCE), (1.0, HSIC), (1.0, CRD)).float()
    for rows in (torch.ones(1, 4), torch.ones(3, 4), torch.zeros(3, 4)):
        student = rows.clone().requires_grad_()
        found = value_of(loss, batch(student, rows, inputs=rows))
        found.backward()
        assert found.isfinite()
        assert student.grad.isfinite().all()
