from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer as TransformerModule
from sentence_transformers.sentence_transformer.modules import Pooling
from small_students import TEXTS, bilstm_block, own_vectors, targets, transformer_block, write_encoder
from transformers import (
    AutoModel,
    AutoTokenizer,
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    BloomConfig,
    BloomModel,
    CanineTokenizer,
    DebertaV2Config,
    DebertaV2Model,
)

from pipeline.data.tokens import tokens as module_of_tokens
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.kinds import bilstm, transformer
from pipeline.train.students.shared import encoder as encoder_student
from pipeline.train.students.shared.encoder import EncoderStudent, length_groups


@pytest.fixture(scope="module")
def unpackable(tmp_path_factory) -> Path:
    """A teacher of a family without the packed path."""
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = DebertaV2Config(vocab_size=len(letter_tokenizer()), max_position_embeddings=128, **shape)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return write_encoder(DebertaV2Model(config), tmp_path_factory.mktemp("deberta"))


def mse(student: EncoderStudent) -> float:
    return float(np.square(own_vectors(student, TEXTS) - targets()).mean())


def test_vectors_are_the_projected_mean_of_the_last_hidden_states(parts):
    student = transformer.build(transformer_block(), parts)
    encoder, tokenizer = AutoModel.from_pretrained(parts), AutoTokenizer.from_pretrained(parts)
    weights = {name.split(".")[-1]: value for name, value in student.module[2].state_dict().items()}
    for text, found in zip(TEXTS, own_vectors(student, TEXTS), strict=True):
        with torch.no_grad():
            hidden = encoder(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        expected = hidden.mean(dim=0) @ weights["weight"].T + weights["bias"]
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_projection_is_fitted_by_so_many_tokens_at_a_time(parts, monkeypatch):
    """Memory is theirs, whatever the window: the same fit comes of it."""
    whole = transformer.build(transformer_block(), parts)
    tokens = whole.tokenise(TEXTS)
    whole.fit_projection(tokens, targets())
    monkeypatch.setattr(module_of_tokens, "PART_TOKENS", 40)
    sizes, pooled = [], EncoderStudent._pooled
    monkeypatch.setattr(
        EncoderStudent, "_pooled", lambda self, part, *more: sizes.append(len(part.ids)) or pooled(self, part)
    )
    student = transformer.build(transformer_block(), parts)
    student.fit_projection(tokens, targets())
    assert sum(sizes) == len(tokens.ids)
    assert 1 < len(sizes) < len(TEXTS)
    assert max(sizes) < 40 + tokens.lengths.max()
    np.testing.assert_allclose(own_vectors(student, TEXTS), own_vectors(whole, TEXTS), atol=1e-5)


def test_fit_projection_lowers_the_mse_to_the_targets(parts):
    student = transformer.build(transformer_block(), parts)
    before = mse(student)
    student.fit_projection(student.tokenise(TEXTS), targets())
    mean_predictor = float(np.square(targets() - targets().mean(axis=0)).mean())
    assert mse(student) < mean_predictor < before


def test_a_random_projection_is_left_alone(parts):
    student = transformer.build(transformer_block(init={"projection": "random"}), parts)
    before = own_vectors(student, TEXTS)
    student.fit_projection(student.tokenise(TEXTS), targets())
    np.testing.assert_array_equal(own_vectors(student, TEXTS), before)


def test_random_weights_depend_on_the_seed_alone(parts):
    block = transformer_block(init={"projection": "random"})
    one, other = (own_vectors(transformer.build(block, parts), TEXTS) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_vectors_do_not_depend_on_batch_mates(parts):
    student = transformer.build(transformer_block(), parts)
    together = own_vectors(student, TEXTS)
    alone = np.concatenate([own_vectors(student, [text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(own_vectors(student, TEXTS[::-1])[::-1], together, atol=1e-6)


def test_vectors_do_not_depend_on_the_grouping_by_length(unpackable, monkeypatch):
    student = transformer.build(transformer_block(), unpackable)
    together = own_vectors(student, TEXTS)
    monkeypatch.setattr(encoder_student, "TOKENS_AT_A_TIME", 20)
    np.testing.assert_allclose(own_vectors(student, TEXTS), together, atol=1e-6)


@pytest.mark.parametrize("family", ["parts", "unpackable"])
def test_vectors_and_embedded_tokens_are_those_of_the_models_own_forward(family, request):
    folder = request.getfixturevalue(family)
    student = transformer.build(transformer_block(dim=32, init={"projection": "none"}), folder)
    encoder, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    tokens = student.tokenise(TEXTS)
    vectors, embedded, _ = student.encode(tokens, embedded=True)
    assert len(embedded) == len(tokens.ids)
    for text, vector, start in zip(TEXTS, vectors, tokens.offsets[:-1], strict=True):
        with torch.no_grad():
            states = encoder(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
        first, last = states[0][0], states[-1][0]
        torch.testing.assert_close(embedded[start : start + len(first)], first, rtol=0, atol=1e-6)
        torch.testing.assert_close(vector, last.mean(dim=0), rtol=0, atol=1e-6)


def test_a_model_of_its_own_takes_the_teachers_place(parts, bert):
    block = transformer_block(dim=16, init={"model": str(bert), "projection": "none"})
    expected = own_vectors(transformer.build(block, parts), TEXTS)
    plain = SentenceTransformer(modules=[TransformerModule(str(bert)), Pooling(16, "mean")], device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), expected, atol=1e-5)


def test_there_is_no_dropout_and_no_state_between_batches(parts):
    student = transformer.build(transformer_block(), parts)
    np.testing.assert_array_equal(own_vectors(student, TEXTS), own_vectors(student, TEXTS))


def test_every_weight_that_shapes_the_vectors_is_trained(parts):
    student = transformer.build(transformer_block(), parts)
    student.encode(student.tokenise(TEXTS)).vectors.square().sum().backward()
    still = [name for name, parameter in student.module.named_parameters() if parameter.grad is None]
    assert all("pooler" in name for name in still), still


def test_length_groups_hold_every_row_once_within_the_budget():
    lengths = np.random.default_rng(0).integers(1, 40, 100)
    lengths[7] = 200
    groups = length_groups(lengths, 64)
    assert sorted(np.concatenate(groups).tolist()) == list(range(100))
    padded = [len(group) * lengths[group].max() for group in groups]
    assert all(size <= 64 or len(group) == 1 for size, group in zip(padded, groups, strict=True))
    assert all((len(group) + 1) * lengths[after[0]] > 64 for group, after in pairwise(groups))


def test_long_texts_are_cut_at_max_length(parts):
    student = transformer.build(transformer_block(init={"max_length": 6}), parts)
    tokens = student.tokenise(["abcdefgh", "a"])
    spelled = AutoTokenizer.from_pretrained(parts).convert_ids_to_tokens(tokens.ids)
    assert spelled == ["[CLS]", "a", "##b", "##c", "##d", "[SEP]", "[CLS]", "a", "[SEP]"]
    cut, same = own_vectors(student, ["abcdefgh", "abcdxyz"])
    np.testing.assert_array_equal(cut, same)


def test_positions_that_are_relative_alone_limit_no_length(tmp_path, parts):
    config = BloomConfig(vocab_size=len(letter_tokenizer()), hidden_size=16, n_layer=2, n_head=2)
    write_encoder(BloomModel(config), tmp_path)
    block = transformer_block(dim=8, init={"model": str(tmp_path), "layers": None})
    assert own_vectors(transformer.build(block, parts), TEXTS).shape == (len(TEXTS), 8)


def test_a_model_of_its_own_with_a_slow_tokenizer_is_refused(tmp_path, parts):
    config = BertConfig(vocab_size=9, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    BertModel(config).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"ぁあぃい"])
    )
    CanineTokenizer().save_pretrained(tmp_path)
    block = transformer_block(dim=8, init={"model": str(tmp_path), "layers": None})
    with refuses("init.model", tmp_path, "tokenizer.json"):
        transformer.build(block, parts)


def test_an_encoder_with_a_decoder_gives_no_layers_but_its_words(tmp_path):
    shape = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = BartConfig(vocab_size=len(letter_tokenizer()), d_model=16, **shape, **heads)
    folder = write_encoder(BartModel(config), tmp_path)
    with refuses(folder, " bart ", "bilstm and static", "init.model"):
        transformer.build(transformer_block(), folder)
    student = bilstm.build(bilstm_block(), folder)
    assert own_vectors(student, TEXTS).shape == (len(TEXTS), 8)
