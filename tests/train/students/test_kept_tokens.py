"""`init.tokens` of the kinds that read the teacher's tokens: fewer rows, and a tokenizer that ships as it was
trained."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from model2vec import StaticModel
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_batches import batch, context
from small_students import bilstm_block, compact_block, own_vectors, static_block, transformer_block
from small_tokenizers import KINDS, SENTENCES
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from pipeline.data import teacher_parts
from pipeline.params.losses import TokenEmbeddingLoss
from pipeline.train.losses.token_embedding import build as token_embedding
from pipeline.train.students.kinds import bilstm, compact, static, transformer

ANY = [
    *SENTENCES,
    "",
    " ",
    "zyzzyva 🤗🏳️‍🌈",
    "漢字かな 한국어",
    "מה שלומך  ؟",
    "a\tb\nc",
    "<mask> [SEP] </s>",
    "ꙮ" * 30,
]
"""Texts of the corpus, and of scripts and signs that it lacks."""
SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
HEADS = {"num_key_value_heads": 1, "head_dim": 8}


def ids_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, int | None]:
    return {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}


def of_class(config_class: type, model_class: type, **more: object) -> Callable:
    def made(tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
        settings = {"vocab_size": len(tokenizer), **ids_of(tokenizer), **SHAPE, **more}
        return model_class(config_class(**settings))

    return made


def t5(tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    shape = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    return T5EncoderModel(T5Config(vocab_size=len(tokenizer) + 7, **ids_of(tokenizer), **shape))


TEACHERS = {
    "bert": ("wordpiece", of_class(BertConfig, BertModel)),
    "mpnet": ("byte-level", of_class(MPNetConfig, MPNetModel)),  # which counts positions from padding
    "roberta": ("byte-level", of_class(RobertaConfig, RobertaModel)),
    "xlm-r": ("unigram", of_class(XLMRobertaConfig, XLMRobertaModel)),
    "t5": ("unigram", t5),  # its table is tied, and has more rows than there are tokens
    "qwen3": ("byte-level", of_class(Qwen3Config, Qwen3Model, **HEADS)),
    "gemma": (
        "byte fallback",
        of_class(Gemma3TextConfig, Gemma3TextModel, **HEADS, use_bidirectional_attention=True),
    ),
}
COMPACT = ("bert", "mpnet", "roberta", "xlm-r")


@pytest.fixture(scope="module")
def teachers(tmp_path_factory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            kind, model = TEACHERS[name]
            made[name] = tmp_path_factory.mktemp(name.replace(" ", "-"))
            tokenizer = KINDS[kind]()
            with torch.random.fork_rng():
                torch.manual_seed(0)
                encoder = model(tokenizer)
            encoder.save_pretrained(made[name])
            tokenizer.save_pretrained(made[name])
            rows = np.random.default_rng(0).standard_normal((len(tokenizer), 16), np.float32)
            teacher_parts.write_vocabulary(rows, made[name])
        return made[name]

    return folder


def blocks(kind: str, tokens: int | None):
    init = {"tokens": tokens}
    if kind == "transformer":
        return transformer, transformer_block(layers=(0, 1), init={**init, "max_length": 40})
    if kind == "compact":
        return compact, compact_block(init={**init, "table_dim": 8, "max_length": 40})
    if kind == "bilstm":
        return bilstm, bilstm_block(init={**init, "pooling": "last", "max_length": 40})
    return static, static_block(init=init)


def learn(kind: str, folder: Path, tokens: int | None):
    module, block = blocks(kind, tokens)
    student = module.build(block, folder)
    student.learn_vocabulary(lambda: iter([SENTENCES[:2], SENTENCES[2:]]))
    return student


def rows(kind: str, student) -> int:
    """Of its token table."""
    if kind == "static":
        return len(student.module["table"].weight)
    if kind == "bilstm":
        return len(student.module[0].emb_layer.weight)
    return len(student.module[0].model.get_input_embeddings().weight)


CASES = [
    *(("transformer", name) for name in TEACHERS),
    *(("compact", name) for name in COMPACT),
    *(("bilstm", name) for name in TEACHERS),
    *(("static", name) for name in TEACHERS),
]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_shipped_student_reads_any_text_as_the_trained_one_does(kind, name, teachers, tmp_path):
    folder = teachers(name)
    size = len(AutoTokenizer.from_pretrained(folder))
    most = size - 20
    student = learn(kind, folder, most)
    assert rows(kind, student) <= most
    student.save(tmp_path / "student")
    plain = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    texts = [text for text in ANY if len(student.tokenise([text]).ids)]  # model2vec gives nan for none
    expected = own_vectors(student, texts)
    if kind == "static":
        expected = expected / np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-12)
        np.testing.assert_allclose(
            StaticModel.from_pretrained(tmp_path / "student").encode(texts), expected, atol=1e-5
        )
    np.testing.assert_allclose(plain.encode(texts), expected, atol=1e-5)
    module, block = blocks(kind, most)
    again = module.load(block, tmp_path / "student")
    for text in ANY:
        assert again.tokenise([text]).ids.tolist() == student.tokenise([text]).ids.tolist()


@pytest.mark.parametrize(("kind", "name"), [case for case in CASES if case[0] != "static"])
def test_texts_of_kept_tokens_have_the_vectors_that_they_had(kind, name, teachers):
    folder = teachers(name)
    whole, cut = (
        learn(kind, folder, None),
        learn(kind, folder, len(AutoTokenizer.from_pretrained(folder)) - 8),
    )
    names = AutoTokenizer.from_pretrained(folder).convert_ids_to_tokens
    same = []
    for text in [word for sentence in SENTENCES for word in sentence.split()]:
        ids = cut.tokenise([text]).ids
        assert (
            "".join(names(cut.teacher_ids[ids].tolist()))
            == "".join(names(whole.tokenise([text]).ids.tolist()))
            or name == "bert"
        )
        if cut.teacher_ids[ids].tolist() == whole.tokenise([text]).ids.tolist():
            same.append(text)
    assert len(same) > 5
    np.testing.assert_allclose(own_vectors(cut, same), own_vectors(whole, same), atol=1e-5)


def test_embeddings_are_fitted_to_the_rows_that_are_kept(teachers):
    folder = teachers("mpnet")
    student = learn("compact", folder, 300)
    tokens = student.tokenise(SENTENCES)
    student.fit_projection(tokens, np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32))
    assert np.isfinite(own_vectors(student, ANY)).all()


@pytest.mark.parametrize("reading", ["block", "table"])
def test_token_embeddings_are_compared_with_the_teachers_of_the_same_tokens(reading, teachers):
    folder = teachers("bert")
    student = learn("transformer", folder, 120)
    params = TokenEmbeddingLoss.model_validate({"kind": "token_embedding", "reading": reading})
    loss = token_embedding(
        params, context(teacher=folder, token_table=student.token_table, teacher_ids=student.teacher_ids)
    )
    tokens = student.tokenise(SENTENCES)
    embedded = student.encode(tokens, embedded=True).embedded
    value = loss(batch(torch.zeros(len(tokens), 4), tokens=tokens, embedded=embedded))
    assert value.item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", ["transformer", "compact", "bilstm", "static"])
def test_fewer_tokens_than_letters(kind, teachers):
    with refuses("init.tokens", " 12;", "raise it"):
        learn(kind, teachers("bert"), 12)


def test_enough_tokens_change_nothing_and_no_text_is_read(teachers):
    student = transformer.build(blocks("transformer", 10**6)[1], teachers("bert"))
    before = own_vectors(student, ANY)
    student.learn_vocabulary(lambda: (pytest.fail("read") for _ in range(1)))
    assert student.teacher_ids is None
    np.testing.assert_array_equal(own_vectors(student, ANY), before)
