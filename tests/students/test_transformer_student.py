from itertools import pairwise

import numpy as np
import torch
from small_students import TEXTS, teacher, transformer_block
from transformers import AutoModel, AutoTokenizer

from pipeline.students import transformer
from pipeline.students.transformer import length_groups


def own_vectors(student: transformer.Transformer, texts: list[str]) -> np.ndarray:
    return student.vectors(student.tokenise(texts)).detach().numpy()


def targets() -> np.ndarray:
    return teacher().encode(TEXTS, ["sentence"])["sentence"][:, :8]


def mse(student: transformer.Transformer) -> float:
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


def test_vectors_do_not_depend_on_the_grouping_by_length(parts, monkeypatch):
    student = transformer.build(transformer_block(), parts)
    together = own_vectors(student, TEXTS)
    monkeypatch.setattr(transformer, "TOKENS_AT_A_TIME", 20)
    np.testing.assert_allclose(own_vectors(student, TEXTS), together, atol=1e-6)


def test_there_is_no_dropout_and_no_state_between_batches(parts):
    student = transformer.build(transformer_block(), parts)
    np.testing.assert_array_equal(own_vectors(student, TEXTS), own_vectors(student, TEXTS))


def test_every_weight_that_shapes_the_vectors_is_trained(parts):
    student = transformer.build(transformer_block(), parts)
    student.vectors(student.tokenise(TEXTS)).square().sum().backward()
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
