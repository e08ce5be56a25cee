import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from pipeline.tasks import heads
from pipeline.tasks.heads import Data, linear, mlp

RANDOM = np.random.default_rng(0)


def data(count, labels=3):
    """Classes by the angle of two features, which no line tells apart, and two features of noise."""
    features = RANDOM.normal(size=(count, 4)).astype(np.float32)
    turns = np.arctan2(features[:, 1], features[:, 0]) / (2 * np.pi) + 0.5
    return Data(features, (turns * 2 * labels).astype(np.int64) % labels)


TRAIN, DEV, TEST = data(1200), data(300), data(1000)


def accuracy(classifier, part=TEST):
    return (classifier.predict(part.features) == part.classes).mean()


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_the_perceptron_is_as_good_as_scikit_learns_where_a_regression_is_not():
    reference = MLPClassifier((256,), learning_rate_init=1e-3, batch_size=256, max_iter=80, random_state=0)
    reference.fit(TRAIN.features, TRAIN.classes)
    reached = accuracy(mlp(TRAIN, DEV, 1e-3, 0))
    assert reached == pytest.approx(reference.score(TEST.features, TEST.classes), abs=0.04)
    assert reached > 0.85
    assert accuracy(linear(TRAIN, DEV, 1.0, 0)) < 0.5


def test_the_perceptron_is_one_hidden_layer_of_256_relu_units(monkeypatch):
    built = []
    sequential = torch.nn.Sequential
    monkeypatch.setattr(torch.nn, "Sequential", lambda *parts: built.append(sequential(*parts)) or built[-1])
    predict = mlp(TRAIN, DEV, 1e-3, 0).predict
    weight, bias, out, out_bias = (p.detach().double().numpy() for p in built[0].parameters())
    assert weight.shape == (256, 4)
    hidden = np.maximum(TEST.features @ weight.T + bias, 0)
    np.testing.assert_array_equal(predict(TEST.features), (hidden @ out.T + out_bias).argmax(axis=1))


def test_a_regression_minimises_the_penalised_loss():
    """Negative log-likelihood plus ||W||^2 / (2 C), the offsets free, in float64."""
    strength, few = 0.01, TRAIN.select(np.arange(60))

    def loss(flat):
        weights = flat.reshape(3, 5)
        logits = few.features.astype(np.float64) @ weights[:, :4].T + weights[:, 4]
        likelihood = log_softmax(logits, axis=1)[np.arange(len(logits)), few.classes].sum()
        return np.square(weights[:, :4]).sum() / (2 * strength) - likelihood

    best = minimize(loss, np.zeros(15), options={"gtol": 1e-4}).x.reshape(3, 5)
    expected = (TEST.features @ best[:, :4].T + best[:, 4]).argmax(axis=1)
    assert (linear(few, DEV, strength, 0).predict(TEST.features) == expected).mean() > 0.99
    assert (linear(few, DEV, 1.0, 0).predict(TEST.features) == expected).mean() < 0.9


def test_a_penalty_is_judged_by_the_mean_log_likelihood_of_the_dev_rows():
    few = TRAIN.select(np.arange(60))
    for strength in (0.01, 0.3):
        model = LogisticRegression(C=strength, max_iter=1000).fit(few.features, few.classes)
        logits = DEV.features.astype(np.float64) @ model.coef_.T + model.intercept_
        likelihood = log_softmax(logits, axis=1)[np.arange(len(logits)), DEV.classes].mean()
        assert linear(few, DEV, strength, 0).fits_dev == pytest.approx(likelihood, rel=1e-5)


@pytest.mark.parametrize("labels", [2, 3])
def test_the_softmax_of_a_regressions_logits_is_scikit_learns_probability(labels):
    train, dev, test = data(200, labels), data(60, labels), data(50, labels)
    model = LogisticRegression(C=0.3, max_iter=1000).fit(train.features, train.classes)
    found = softmax(linear(train, dev, 0.3, 0).logits(test.features), axis=1)
    np.testing.assert_allclose(found, model.predict_proba(test.features), atol=1e-5)


def test_training_is_the_same_again_and_leaves_chance_alone():
    state = torch.random.get_rng_state()
    first, again, other = (mlp(TRAIN, DEV, 5e-4, seed).predict(TEST.features) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert torch.random.get_rng_state().equal(state)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_threads_are_as_before_after_one_thread():
    from threadpoolctl import threadpool_info

    before = [pool["num_threads"] for pool in threadpool_info()]

    @heads.one_thread()
    def failing():
        assert torch.get_num_threads() == 1
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert torch.get_num_threads() == 2
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_the_weights_of_the_best_round_on_dev_are_kept(monkeypatch):
    seen = []
    logits = heads._logits

    def recorded(model, features):
        found = logits(model, features)
        seen.append((found.argmax(axis=1) == DEV.classes).mean())
        return found

    monkeypatch.setattr(heads, "_logits", recorded)
    monkeypatch.setattr(heads, "ROUNDS", 100)
    noisy = Data(TRAIN.features, np.random.default_rng(1).integers(0, 3, len(TRAIN.classes)))
    trained = mlp(noisy, DEV, 1e-3, 0)
    kept = trained.predict(DEV.features)
    *rounds, last = seen
    assert last == max(rounds) == (kept == DEV.classes).mean() == trained.fits_dev
    assert last > rounds[-1]
    assert len(rounds) == rounds.index(max(rounds)) + heads.PATIENCE + 1 < heads.ROUNDS


@pytest.mark.parametrize("head", [mlp, linear])
def test_vectors_that_are_all_equal_are_one_class(head):
    nothing = Data(np.zeros((6, 4), np.float32), np.array([0, 1, 1, 1, 1, 0]))
    assert set(head(nothing, nothing, 1e-3, 0).predict(np.zeros((5, 4), np.float32))) == {1}
