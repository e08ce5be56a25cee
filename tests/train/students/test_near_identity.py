import numpy as np
import pytest
import torch
from model2vec.distill.inference import compute_weights
from small_students import TEXTS, bilstm_block, own_vectors, teacher, write_encoder
from torch import nn
from transformers import AutoTokenizer, BertConfig, BertModel

from pipeline.data import teacher_parts
from pipeline.teacher.kinds import hashing
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.kinds import bilstm
from pipeline.train.students.shared.near_identity import copy_words

STARTED = {"pooling": "mean", "lstm": "identity", "embeddings": "vocabulary", "activation": "none"}


def lstm_of(dim: int, units: int, seed: int = 1) -> nn.LSTM:
    torch.manual_seed(seed)
    return nn.LSTM(dim, units, bidirectional=True, batch_first=True)


def words_of(rows: int, dim: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(rows, dim) * torch.linspace(0.2, 2, dim)  # some directions count more


def residual(inputs: np.ndarray, outputs: np.ndarray) -> float:
    """The share of the outputs' square that no linear map of the inputs reaches."""
    found = inputs @ np.linalg.lstsq(inputs, outputs, rcond=None)[0]
    return float(np.square(outputs - found).sum() / np.square(outputs).sum())


@pytest.mark.parametrize(("dim", "units"), [(12, 6), (12, 20), (7, 4)])
def test_the_mean_of_states_is_nearly_a_linear_map_of_the_mean_of_words(dim, units):
    words = words_of(300, dim)
    texts = torch.randint(300, (400, 9))
    shares = []
    for start in ("identity", "random"):
        lstm = lstm_of(dim, units)
        if start == "identity":
            copy_words(lstm, words, 0)
        states = lstm(words[texts])[0].mean(1).detach().double().numpy()
        shares.append(residual(states, words[texts].mean(1).double().numpy()))
    assert shares[0] < min(0.05, shares[1] / 2)


def test_a_copy_of_a_single_word_is_its_gates_formula():
    words, lstm = words_of(50, 8), lstm_of(8, 4)
    copy_words(lstm, words, 0)
    found = lstm(words[:5, None])[0][:, 0].detach().double().numpy()
    rows = np.concatenate([lstm.weight_ih_l0[8:12].detach(), lstm.weight_ih_l0_reverse[8:12].detach()])
    gate = 1 / (1 + np.exp(-2.0))
    expected = gate * np.tanh(gate * np.tanh(words[:5].double().numpy() @ rows.astype(np.float64).T))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    norm = words.double().norm(dim=1).mean().item()
    np.testing.assert_allclose(rows @ rows.T * norm**2, np.eye(8), atol=1e-5)


def test_fewer_units_copy_the_principal_dimensions_and_more_stay_random():
    words = words_of(300, 12)
    few = lstm_of(12, 3)
    copy_words(few, words, 0)
    rows = np.concatenate([few.weight_ih_l0[6:9].detach(), few.weight_ih_l0_reverse[6:9].detach()])
    principal = np.linalg.svd(words.double().numpy(), full_matrices=False)[2][:6]
    span = np.linalg.qr(rows.astype(np.float64).T)[0]
    np.testing.assert_allclose(span @ span.T, principal.T @ principal, atol=1e-4)

    many, before = lstm_of(12, 10), lstm_of(12, 10)
    copy_words(many, words, 0)
    for name, weight in many.named_parameters():
        for gate in range(4):
            rest = slice(gate * 10 + 6, (gate + 1) * 10)
            assert torch.equal(weight[rest], dict(before.named_parameters())[name][rest])


def test_the_seed_alone_turns_the_copies():
    started = [lstm_of(8, 4) for _ in range(3)]
    for lstm, seed in zip(started, (0, 0, 1), strict=True):
        copy_words(lstm, words_of(50, 8), seed)
    one, same, other = (lstm.weight_ih_l0 for lstm in started)
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


def test_vocabulary_vectors_are_model2vecs_weighted_ones(parts):
    student = bilstm.build(bilstm_block(init=STARTED), parts)
    vectors = teacher_parts.read_vocabulary(parts).astype(np.float64)
    expected = (vectors - vectors.mean(axis=0)) * compute_weights(len(vectors), 1e-4)[:, None]
    expected /= np.linalg.norm(expected, axis=1).mean()
    np.testing.assert_allclose(student.module[0].emb_layer.weight.detach(), expected, atol=1e-6)
    ids = AutoTokenizer.from_pretrained(parts)(TEXTS[0])["input_ids"]
    assert student.tokenise(TEXTS[:1]).ids.tolist() == ids


@pytest.mark.parametrize("embeddings", ["vocabulary", "teacher"])
def test_its_numbers_are_counted_before_it_is_built(parts, embeddings):
    block = bilstm_block(init=STARTED | {"embeddings": embeddings})
    built = sum(one.numel() for one in bilstm.build(block, parts).module.parameters())
    assert bilstm.weigh(block, hashing.look(teacher().params)) == built


@pytest.mark.parametrize("lstm", ["identity", "random"])
def test_a_student_that_starts_so_is_near_a_map_of_the_mean_of_its_words(parts, lstm):
    student = bilstm.build(bilstm_block(init=STARTED | {"lstm": lstm, "ridge_lambda": 1e-9}), parts)
    letters = np.random.default_rng(0).choice(list("abcdefghij "), (500, 12))
    texts = ["".join(row) for row in letters]
    tokens = student.tokenise(texts)
    table = student.module[0].emb_layer.weight.detach().numpy()
    means = np.add.reduceat(table[tokens.ids], tokens.offsets[:-1]) / tokens.lengths[:, None]
    wanted = means[:, :8].astype(np.float32)
    student.fit_projection(tokens, wanted)
    missed = np.square(own_vectors(student, texts) - wanted).sum() / np.square(wanted).sum()
    assert missed < 0.02 if lstm == "identity" else missed > 0.05


def test_a_vocabulary_without_its_teachers_layers_is_enough(parts, tmp_path):
    """What the stage teacher_parts leaves for a reader of vocabulary vectors."""
    teacher_parts.write_reader(teacher_parts.read_vocabulary(parts), parts, tmp_path / "bilstm")
    assert not (tmp_path / "bilstm" / "model.safetensors").exists()
    expected = own_vectors(bilstm.build(bilstm_block(init=STARTED), parts), TEXTS)
    student = bilstm.build(bilstm_block(init=STARTED), tmp_path / "bilstm")
    np.testing.assert_array_equal(own_vectors(student, TEXTS), expected)


def test_ids_without_a_token_stay_zeros(tmp_path):
    tokenizer = letter_tokenizer()
    size = len(tokenizer) + 3
    config = BertConfig(
        vocab_size=size, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    write_encoder(BertModel(config), tmp_path, tokenizer)
    vectors = np.random.default_rng(0).standard_normal((size, 8)).astype(np.float32)
    teacher_parts.write_vocabulary(vectors, tmp_path)
    student = bilstm.build(bilstm_block(init=STARTED), tmp_path)
    table = student.module[0].emb_layer.weight.detach()
    assert not table[-3:].any()
    assert table[:-3].any(dim=1).all()
    assert own_vectors(student, TEXTS).any()
