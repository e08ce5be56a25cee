from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses
from small_encoders import FAMILIES, small_encoder
from small_students import TEXTS, compact_block, own_vectors, targets, write_encoder
from transformers import AutoTokenizer, BertConfig, BertModel, ElectraModel

from pipeline.train.students.kinds import compact
from pipeline.train.students.shared import narrow_electra
from pipeline.train.students.shared.encoder import EncoderStudent
from pipeline.train.students.shared.narrow_tables import directions

HELD = [family for family in FAMILIES if family != "mpnet"]
IDS = torch.tensor([[2, 7, 9, 30, 3]])


def electra(student: EncoderStudent) -> ElectraModel:
    return student.module[0].model


def embeddings_of(model, ids=IDS) -> tuple[torch.Tensor, torch.Tensor]:
    """The sums that the embedding block normalises, and the first hidden state; both (tokens, d)."""
    seen = []
    hook = model.embeddings.LayerNorm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0]))
    with torch.no_grad():
        hidden = model(ids, output_hidden_states=True).hidden_states[0][0]
    hook.remove()
    return seen[0], hidden


@pytest.fixture(scope="module", params=HELD)
def family(request, tmp_path_factory) -> tuple[torch.nn.Module, Path]:
    """A teacher of 16 dimensions whose tables all lie in the same four of them."""
    teacher = small_encoder(request.param)
    with torch.no_grad():
        torch.manual_seed(1)
        axes = torch.randn(4, teacher.embeddings.word_embeddings.embedding_dim)
        for table in teacher.embeddings.modules():
            if isinstance(table, torch.nn.Embedding):
                table.weight.copy_(torch.randn(len(table.weight), 4) @ axes)
    return teacher, write_encoder(teacher, tmp_path_factory.mktemp("teacher"))


@pytest.fixture(scope="module")
def kept(family) -> EncoderStudent:
    """The student of its last layer, with just as many dimensions as the tables use."""
    return compact.build(compact_block(init={"table_dim": 4, "max_length": 64}), family[1])


def test_a_table_of_full_rank_is_the_teachers_in_other_coordinates(family, kept):
    expected, _ = embeddings_of(family[0])
    sums, _ = embeddings_of(electra(kept))
    if hasattr(family[0], "embeddings_project"):
        expected = expected @ family[0].embeddings_project.weight.T
    assert sums.shape == (5, 4)
    torch.testing.assert_close(
        sums @ electra(kept).embeddings_project.weight.T, expected, rtol=1e-4, atol=1e-4
    )


def test_the_layers_are_the_teachers_last(family, kept):
    with torch.no_grad():
        states = family[0](IDS, output_hidden_states=True).hidden_states
        found = electra(kept).encoder(states[-2], attention_mask=None).last_hidden_state
    torch.testing.assert_close(found, states[-1], rtol=1e-5, atol=1e-5)


def test_all_positions_of_the_teacher_are_there(family, kept):
    positions = electra(kept).config.max_position_embeddings
    first = 1 if "oberta" in type(family[0]).__name__ or "Camem" in type(family[0]).__name__ else 0
    assert positions == family[0].config.max_position_embeddings - first


@pytest.mark.parametrize("count", [1, 5, 12])
def test_directions_are_the_first_right_singular_vectors(count):
    rows = np.random.default_rng(0).standard_normal((40, 12)) * np.arange(1, 13) + 3
    left, scale, right = np.linalg.svd(rows, full_matrices=False)
    axes = directions(torch.from_numpy(rows), count).double().numpy()
    expected = (left[:, :count] * scale[:count]) @ right[:count]
    np.testing.assert_allclose(rows @ axes @ axes.T, expected, atol=1e-4)
    np.testing.assert_allclose(axes.T @ axes, np.eye(count), atol=1e-6)


def test_fitted_embeddings_come_as_close_to_the_teachers_as_a_linear_map_can(tmp_path):
    teacher = small_encoder("bert")
    block = compact_block(init={"table_dim": 6, "ridge_lambda": 1e-6, "max_length": 64})
    student = compact.build(block, write_encoder(teacher, tmp_path))
    tokens = student.tokenise(TEXTS)

    def pairs() -> list[tuple[torch.Tensor, ...]]:
        """Inputs of the projection, its outputs, the teacher's embedding block; text by text."""
        found = []
        for start, stop in zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True):
            ids = torch.from_numpy(tokens.ids[start:stop].astype(np.int64))[None]
            model = electra(student)
            normed = model.embeddings(ids)[0]
            found.append((normed, model.embeddings_project(normed), embeddings_of(teacher, ids)[1]))
        return [torch.cat(part).detach().double().numpy() for part in zip(*found, strict=True)]

    _, before, wanted = pairs()
    student.fit_projection(tokens, targets())
    inputs, after, _ = pairs()
    inputs = np.column_stack([inputs, np.ones(len(inputs))])
    # Normalised sums add up to zero, but for rounding, which is no input to fit to.
    best = inputs @ np.linalg.lstsq(inputs, wanted, rcond=1e-5)[0]
    np.testing.assert_allclose(after, best, atol=1e-3)
    assert np.square(after - wanted).mean() < 0.5 * np.square(before - wanted).mean()


def test_vectors_and_embedded_tokens_are_those_of_electras_own_forward(parts):
    student = compact.build(compact_block(dim=32, init={"projection": "none"}), parts)
    tokenizer, tokens = AutoTokenizer.from_pretrained(parts), student.tokenise(TEXTS)
    vectors, embedded, _ = student.encode(tokens, embedded=True)
    model, projected = electra(student), []
    model.embeddings_project.register_forward_hook(lambda *call: projected.append(call[2][0]))
    for text, vector in zip(TEXTS, vectors, strict=True):
        last = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        torch.testing.assert_close(vector, last.mean(dim=0), rtol=0, atol=1e-6)
    torch.testing.assert_close(embedded, torch.cat(projected), rtol=0, atol=1e-6)


def test_every_weight_is_trained(parts):
    student = compact.build(compact_block(), parts)
    vectors, embedded, _ = student.encode(student.tokenise(TEXTS), embedded=True)
    (vectors.square().sum() + embedded.square().sum()).backward()
    still = {name for name, parameter in student.module.named_parameters() if parameter.grad is None}
    # Softmax does not see what a key's bias adds to all scores.
    assert not {name for name in still if not name.endswith("key.bias")}
    tables = [electra(student).embeddings.word_embeddings, electra(student).embeddings_project]
    assert all(table.weight.grad.any() for table in tables)


def test_a_random_table_depends_on_the_seed_alone_and_is_left_alone(parts):
    def build(seed: int) -> EncoderStudent:
        block = compact_block(init={"table": "random", "projection": "random"}, train={"seed": seed})
        return compact.build(block, parts)

    student, other = build(0), build(1)
    np.testing.assert_array_equal(own_vectors(build(0), TEXTS), own_vectors(student, TEXTS))
    assert not np.allclose(own_vectors(other, TEXTS), own_vectors(student, TEXTS))
    before = own_vectors(student, TEXTS)
    student.fit_projection(student.tokenise(TEXTS), targets())
    np.testing.assert_array_equal(own_vectors(student, TEXTS), before)


def test_the_output_layer_is_fitted_after_the_embeddings(parts):
    student = compact.build(compact_block(), parts)
    student.fit_projection(student.tokenise(TEXTS), targets())
    distance = np.square(own_vectors(student, TEXTS) - targets()).mean()
    assert distance < 0.9 * targets().var(axis=0).mean()


@pytest.mark.parametrize(
    ("init", "named"),
    [
        ({"table_dim": 32}, ("init.table_dim", " 32,")),
        ({"layers": (2,)}, ("init.layers", "layer 2,", "(0 to 1)")),
        ({"max_length": 200}, ("init.max_length", " 200,", " 128 ")),
        ({"projection": "none"}, ("dim ", " 8,", " 32;", "auto", "set init.projection")),
    ],
)
def test_what_the_teacher_does_not_have(parts, init, named):
    with refuses(*named):
        compact.build(compact_block(init=init), parts)


@pytest.mark.parametrize(
    ("teacher", "table_dim", "layers", "millions"),
    [
        ((768, 12, 3072), 384, 3, 34.1),
        ((768, 12, 3072), 384, 12, 97.9),
        ((384, 12, 1536), 128, 3, 9.5),
        ((128, 2, 512), 64, 2, 2.4),
        ((128, 2, 512), 32, 2, 1.4),
    ],
)
def test_the_papers_sizes(teacher, table_dim, layers, millions):
    hidden, heads, inner = teacher
    shape = {"hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": inner}
    with torch.device("meta"):
        cut = BertModel(BertConfig(num_hidden_layers=layers, **shape))
        student = ElectraModel(narrow_electra.config(cut, table_dim))
    pooler = hidden * hidden + hidden
    assert round((student.num_parameters() + pooler) / 1e6, 1) == millions
