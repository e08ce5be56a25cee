import numpy as np
import pytest
import torch
from refusals import refuses
from safetensors.numpy import load_file
from small_students import TEXTS, bilstm_block, own_vectors, targets, write_encoder
from tokenizers import processors
from transformers import AutoModel

from pipeline.data import teacher_parts
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.kinds import bilstm

POOLINGS = ["max", "mean", "last"]


@pytest.fixture
def student(parts) -> bilstm.Bilstm:
    return bilstm.build(bilstm_block(), parts)


def table_of(student: bilstm.Bilstm) -> torch.Tensor:
    return student.module[0].emb_layer.weight


def states(student: bilstm.Bilstm, ids: np.ndarray) -> np.ndarray:
    """The LSTM's states (tokens, 2 units) for one text alone, cell by cell in float64 (SRA's BiLSTM)."""
    weights = {name: value.double().numpy() for name, value in student.module[1].encoder.state_dict().items()}
    words = table_of(student).detach().double().numpy()[ids]

    def one_way(inputs: np.ndarray, suffix: str) -> np.ndarray:
        into, within = weights[f"weight_ih_l0{suffix}"], weights[f"weight_hh_l0{suffix}"]
        bias = weights[f"bias_ih_l0{suffix}"] + weights[f"bias_hh_l0{suffix}"]
        cell = hidden = np.zeros(within.shape[1])
        found = []
        for word in inputs:
            gates = np.split(into @ word + within @ hidden + bias, 4)
            admit, keep, show = (1 / (1 + np.exp(-gates[place])) for place in (0, 1, 3))
            cell = keep * cell + admit * np.tanh(gates[2])
            hidden = show * np.tanh(cell)
            found.append(hidden)
        return np.stack(found)

    return np.concatenate([one_way(words, ""), one_way(words[::-1], "_reverse")[::-1]], axis=1)


@pytest.mark.parametrize("activation", ["tanh", "none"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_vectors_are_the_papers(parts, pooling, activation):
    student = bilstm.build(bilstm_block(init={"pooling": pooling, "activation": activation}), parts)
    tokenizer = teacher_parts.read_tokenizer(parts)
    pool = {
        "max": lambda s: s.max(axis=0),
        "mean": lambda s: s.mean(axis=0),
        "last": lambda s: (s[0] + s[-1]) / 2,
    }
    output = student.module[-1].linear
    assert output.bias is None
    for text, found in zip(TEXTS, own_vectors(student, TEXTS), strict=True):
        pooled = pool[pooling](states(student, tokenizer.encode(text).ids))
        expected = output.weight.detach().double().numpy() @ pooled
        np.testing.assert_allclose(found, np.tanh(expected) if activation == "tanh" else expected, atol=1e-6)


def test_last_pooling_is_both_directions_last_states_and_a_constant(parts):
    student = bilstm.build(bilstm_block(init={"pooling": "last", "activation": "none"}), parts)
    weight = student.module[-1].linear.weight.detach().double().numpy()
    rest = []
    for text, found in zip(TEXTS, own_vectors(student, TEXTS), strict=True):
        forward, backward = np.split(states(student, student.tokenise([text]).ids), 2, axis=1)
        rest.append(2 * found - weight @ np.concatenate([forward[-1], backward[0]]))
    np.testing.assert_allclose(rest, np.tile(rest[0], (len(TEXTS), 1)), atol=1e-6)


def test_vectors_do_not_depend_on_batch_mates(student):
    together = own_vectors(student, TEXTS)
    alone = np.concatenate([own_vectors(student, [text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(own_vectors(student, TEXTS[::-1])[::-1], together, atol=1e-6)


def test_word_vectors_start_from_the_teachers_table(student, parts):
    expected = load_file(parts / "model.safetensors")["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(table_of(student).detach(), expected)
    tokens = student.tokenise(TEXTS)
    embedded = student.encode(tokens, embedded=True).embedded
    np.testing.assert_array_equal(embedded.detach(), expected[tokens.ids])
    assert student.encode(tokens).embedded is None


@pytest.mark.parametrize("activation", ["tanh", "none"])
def test_fit_projection_is_the_best_linear_map_to_what_the_activation_needs(parts, activation):
    block = bilstm_block(init={"activation": activation, "pooling": "mean", "ridge_lambda": 1e-9})
    student = bilstm.build(block, parts)
    wanted = targets().astype(np.float64)
    wanted[0, 0], wanted[1, 1] = 3.0, -1.0  # out of the reach of tanh
    student.fit_projection(student.tokenise(TEXTS), wanted.astype(np.float32))
    pooled = np.stack([states(student, student.tokenise([text]).ids).mean(axis=0) for text in TEXTS])
    if activation == "tanh":
        wanted = np.arctanh(np.clip(wanted, -0.99, 0.99))
    best = pooled @ np.linalg.lstsq(pooled, wanted, rcond=None)[0]
    found = own_vectors(student, TEXTS).astype(np.float64)
    np.testing.assert_allclose(np.arctanh(found) if activation == "tanh" else found, best, atol=2e-3)


def test_a_random_projection_is_left_alone(parts):
    student = bilstm.build(bilstm_block(init={"projection": "random"}), parts)
    before = own_vectors(student, TEXTS)
    student.fit_projection(student.tokenise(TEXTS), targets())
    np.testing.assert_array_equal(own_vectors(student, TEXTS), before)


def test_random_weights_depend_on_the_seed_alone(parts):
    one, same, other = (
        own_vectors(bilstm.build(bilstm_block(train={"seed": seed}), parts), TEXTS) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_weight_is_trained_and_of_the_table_the_rows_of_the_texts(parts, pooling):
    student = bilstm.build(bilstm_block(init={"pooling": pooling}), parts)
    tokens = student.tokenise(TEXTS)
    student.encode(tokens).vectors.square().sum().backward()
    trained = [parameter for parameter in student.module.parameters() if parameter.requires_grad]
    assert len(trained) == 10
    assert all(parameter.grad.any() for parameter in trained)
    rows = table_of(student).grad.any(dim=1).nonzero().flatten()
    assert rows.tolist() == sorted(set(tokens.ids.tolist()))


def test_sparse_gradients_are_the_dense_ones(student, parts):
    sparse = bilstm.build(bilstm_block(train={"sparse": True}), parts)
    for one in (student, sparse):
        one.encode(one.tokenise(TEXTS)).vectors.square().sum().backward()
    assert table_of(sparse).grad.is_sparse
    torch.testing.assert_close(table_of(sparse).grad.to_dense(), table_of(student).grad)


@pytest.mark.parametrize(("dim", "millions"), [(768, 4.12), (1024, 4.38)])
def test_the_papers_size(tmp_path, dim, millions):
    path = tmp_path / "glove.txt"
    path.write_text("the " + " ".join(["0.5"] * 300), encoding="utf-8")
    init = {"units": 512, "embeddings": "file", "path": str(path)}
    student = bilstm.build(bilstm_block(dim=dim, init=init), tmp_path)
    count = sum(parameter.numel() for part in list(student.module)[1:] for parameter in part.parameters())
    assert count == 2 * 4 * 512 * (300 + 512 + 2) + 1024 * dim
    assert round(count / 1e6, 2) == millions


def test_with_its_classifier_of_pairs_it_has_the_papers_4_8_million_parameters(tmp_path):
    student = 2 * 4 * 512 * (300 + 512 + 2) + 1024 * 768
    classifier = 4 * 768 * 256 + 256 + 256 * 2 + 2
    assert 4.8e6 < student + classifier < 4.95e6


def test_long_texts_are_cut_at_max_length(parts):
    student = bilstm.build(bilstm_block(init={"max_length": 5}), parts)
    tokens = student.tokenise(["abcdefgh", "a", ""])
    tokenizer = teacher_parts.read_tokenizer(parts)
    assert [tokenizer.id_to_token(token) for token in tokens.ids] == [
        *["[CLS]", "a", "##b", "##c", "##d"],
        *["[CLS]", "a", "[SEP]"],
        *["[CLS]", "[SEP]"],
    ]
    assert tokens.offsets.tolist() == [0, 5, 8, 10]


def test_a_teacher_without_special_tokens(parts, tmp_path):
    tokenizer = letter_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    folder = write_encoder(AutoModel.from_pretrained(parts), tmp_path, tokenizer)
    with refuses("init.embeddings", " 0 special tokens", "`pooling: max`", " 1"):
        bilstm.build(bilstm_block(), folder)
