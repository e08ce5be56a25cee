import shutil

import numpy as np
import pytest
import torch
from refusals import refuses
from small_batches import batch, context, vectors
from small_encoders import FAMILIES, small_encoder
from torch.autograd import gradcheck
from transformers import AlbertConfig, AlbertModel

from pipeline.data.tokens.tokens import Tokens
from pipeline.params.losses import TokenEmbeddingLoss
from pipeline.train.losses.token_embedding import build

LENGTHS = (3, 6, 1, 3)


@pytest.fixture
def teacher(parts, tmp_path):
    """Parts of a teacher with this encoder."""

    def made(encoder):
        shutil.copytree(parts, tmp_path / "teacher")
        encoder.save_pretrained(tmp_path / "teacher")
        return tmp_path / "teacher"

    return made


def loss_of(folder, reading: str = "block", **more):
    params = TokenEmbeddingLoss.model_validate({"kind": "token_embedding", "reading": reading})
    return build(params, context(teacher=folder, **more))


def tokens_of(*lengths: int) -> Tokens:
    ids = np.random.default_rng(0).integers(5, 40, size=sum(lengths)).astype(np.int32)
    return Tokens(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def value(loss, tokens: Tokens, embedded):
    return loss(batch(torch.zeros(len(tokens), 4), tokens=tokens, embedded=embedded))


def first_hidden_states(encoder, tokens: Tokens) -> np.ndarray:
    """Text by text through the model's own forward: (T, d)."""
    texts = np.split(torch.from_numpy(tokens.ids).long(), tokens.offsets[1:-1])
    with torch.no_grad():
        states = [encoder(text[None], output_hidden_states=True).hidden_states[0][0] for text in texts]
    return torch.cat(states).double().numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_equation_against_transformers_hidden_state_0(family, teacher):
    encoder, tokens = small_encoder(family), tokens_of(*LENGTHS)
    student = vectors(sum(LENGTHS), 16)
    expected = np.mean((student.numpy() - first_hidden_states(encoder, tokens)) ** 2)
    assert value(loss_of(teacher(encoder)), tokens, student).item() == pytest.approx(expected, rel=1e-5)


def test_gradients(parts):
    loss, tokens = loss_of(parts), tokens_of(*LENGTHS)
    student = vectors(sum(LENGTHS), 32).requires_grad_()
    assert gradcheck(lambda embedded: value(loss, tokens, embedded), (student,))


def test_the_teachers_own_embeddings_cost_nothing(teacher):
    encoder, tokens = small_encoder("electra"), tokens_of(*LENGTHS)
    own = torch.from_numpy(first_hidden_states(encoder, tokens))
    assert value(loss_of(teacher(encoder)), tokens, own).item() == pytest.approx(0, abs=1e-12)


def test_positions_start_anew_with_every_text(parts):
    loss, student = loss_of(parts), vectors(1, 32).repeat(2, 1)
    ids = np.array([7, 7], np.int32)
    apart = value(loss, Tokens(ids, np.array([0, 1, 2])), student).item()
    alone = value(loss, Tokens(ids[:1], np.array([0, 1])), student[:1]).item()
    together = value(loss, Tokens(ids, np.array([0, 2])), student).item()
    assert apart == pytest.approx(alone, rel=1e-6)
    assert together != pytest.approx(apart, rel=1e-3)


def test_a_mode_changes_nothing_since_the_teacher_has_no_dropout(parts):
    loss, tokens, student = loss_of(parts), tokens_of(*LENGTHS), vectors(sum(LENGTHS), 32)
    assert value(loss.train(), tokens, student).item() == value(loss.eval(), tokens, student).item()


@pytest.mark.parametrize("reading", ["block", "table"])
def test_the_teachers_tables_are_neither_trained_nor_saved(reading, parts):
    loss = loss_of(parts, reading, token_table=lambda: torch.zeros(1))
    assert list(loss.parameters()) == []
    assert loss.state_dict() == {}


def test_one_token_equal_tokens_and_none(parts):
    loss = loss_of(parts)
    for tokens in (tokens_of(1), Tokens(np.full(4, 7, np.int32), np.array([0, 2, 4])), tokens_of(0)):
        student = torch.zeros(len(tokens.ids), 32, requires_grad=True)
        found = value(loss, tokens, student)
        found.backward()
        assert found.isfinite()
        assert student.grad.isfinite().all()


def test_a_student_of_another_width_is_a_users_mistake(parts):
    with refuses("loss.kind", "token_embedding", "(13, 8)", "(13, 32)", "kind: compact"):
        value(loss_of(parts), tokens_of(*LENGTHS), torch.zeros(13, 8))


@pytest.mark.parametrize(("family", "positions"), [("bert", 64), ("roberta", 64)])
def test_a_text_beyond_the_teachers_positions_is_told_before_the_training(family, positions, teacher):
    encoder = small_encoder(family)
    rows = encoder.embeddings.position_embeddings.num_embeddings
    positions = rows - (0 if family == "bert" else encoder.config.pad_token_id + 1)
    folder, width = teacher(encoder), encoder.config.hidden_size
    loss = loss_of(folder, longest=positions)
    assert value(loss, tokens_of(2, positions), torch.zeros(positions + 2, width)).isfinite()
    with refuses("token_embedding", f" {positions + 1} tokens", f"init.max_length to {positions}"):
        loss_of(folder, longest=positions + 1)


def test_a_teacher_of_an_unknown_family_is_named(teacher):
    config = AlbertConfig(vocab_size=45, embedding_size=8, hidden_size=16, intermediate_size=16)
    config.num_attention_heads, config.num_hidden_layers = 2, 1
    with refuses("token_embedding", "AlbertModel", " BertModel", "set reading to table"):
        loss_of(teacher(AlbertModel(config)))


@pytest.mark.parametrize("family", ["bert", "mpnet", "distilbert", "electra"])
def test_the_table_is_the_vocabularys_in_the_space_of_the_first_layer(family, teacher):
    encoder = small_encoder(family)
    words = encoder.get_input_embeddings().weight.detach().double().numpy()
    if family == "electra":
        project = encoder.embeddings_project
        words = words @ project.weight.detach().double().numpy().T + project.bias.detach().double().numpy()
    student = vectors(len(words), 16).requires_grad_()
    loss = loss_of(teacher(encoder), "table", token_table=lambda: 2 * student)
    found = loss(batch(torch.zeros(3, 4)))
    own = 2 * student.detach().numpy()
    assert found.item() == pytest.approx(np.mean((own - words) ** 2), rel=1e-5)
    found.backward()
    np.testing.assert_allclose(student.grad, 4 * (own - words) / words.size, rtol=1e-4, atol=1e-9)


def test_a_student_without_a_table_is_a_users_mistake(parts):
    with refuses("loss.reading", "table", "set it to block"):
        loss_of(parts, "table")


def test_what_each_reading_is_a_mean_over(parts):
    block, table = loss_of(parts), loss_of(parts, "table", token_table=lambda: torch.zeros(1))
    assert (block.over, block.needs_embedded, block.needs_inputs) == ("tokens", True, False)
    assert (table.over, table.needs_embedded, table.needs_inputs) == ("sentences", False, False)
