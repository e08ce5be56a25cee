"""Models that treat queries apart, bring code of their own, or say their lengths in unusual places."""

import json

import numpy as np
import pytest
from refusals import refuses
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from test_preprocessing import TEXTS, plain_folder, saved_model

from pipeline.params.teacher import TransformerTeacher
from pipeline.teacher.kinds import transformer

TASKS = (
    "[SEP]{% for message in messages %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}"
    "{% endfor %}{% if task == 'query' %} [MASK][MASK]{% endif %}"
)
OWN = """
import torch
from sentence_transformers.base.modules import Transformer as Theirs
from transformers.models.bert import modeling_bert


class BertModel(modeling_bert.BertModel):
    def forward(self, *args, **given):
        found = super().forward(*args, **given)
        found["last_hidden_state"] = found["last_hidden_state"].flip(-1)
        return found


class Transformer(Theirs):
    def preprocess(self, inputs, prompt=None, **given):
        return super().preprocess([text.replace("a", "b") for text in inputs], prompt=prompt, **given)

    def forward(self, features, **given):
        found = super().forward(features, **given)
        found["token_embeddings"] = found["token_embeddings"] ** 2
        return found
"""


def theirs(folder, role, **options):
    """sentence-transformers' own vectors of texts in a role."""
    model = SentenceTransformer(str(folder), device="cpu", **options)
    by_role = {"text": model.encode, "query": model.encode_query, "document": model.encode_document}
    return by_role[role](TEXTS)


MAPPED = {("query", "text"): "one", ("document", "text"): "other", (None, "text"): "other"}
"""Heads by task and modality."""


@pytest.fixture(params=["float32", "bfloat16", "mapped"])
def router(request, tmp_path):
    """A model with a head for queries and one for documents, and the precision of its encoder."""
    first = Transformer(str(plain_folder(tmp_path / "plain", "bert", template=False)))
    names = ("one", "other") if request.param == "mapped" else ("query", "document")
    heads = {name: [Dense(16, 12), Normalize()] for name in names}
    how = {"route_mappings": MAPPED} if request.param == "mapped" else {"default_route": "document"}
    modules = [first, Pooling(16, "mean"), Router(heads, **how)]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "model"), create_model_card=False)
    return tmp_path / "model", request.param.replace("mapped", "float32")


@pytest.mark.parametrize("role", ["text", "query", "document"])
def test_a_head_of_queries_and_one_of_documents(load, router, role):
    folder, precision = router
    teacher = load(folder, precision=precision)
    found = teacher.encode(TEXTS, ["sentence"], role)["sentence"]
    np.testing.assert_allclose(found, theirs(folder, role), atol=1e-5 if precision == "float32" else 0.05)
    assert teacher.recipes["query"]["task"] == "query"
    assert "task" not in teacher.recipes["text"]


@pytest.mark.parametrize("role", ["text", "query", "document"])
def test_a_chat_template_that_knows_the_task(load, tmp_path, monkeypatch, role):
    monkeypatch.setattr("test_preprocessing.TEMPLATE", TASKS)
    folder = saved_model(tmp_path, template=True)
    teacher = load(folder)
    found = teacher.encode(TEXTS, ["sentence"], role)["sentence"]
    np.testing.assert_allclose(found, theirs(folder, role), atol=1e-5)
    assert teacher.recipes["query"]["task"] == "query"


def test_a_chat_template_is_one_of_the_files_that_decide(load, tmp_path):
    folder = saved_model(tmp_path, template=True)
    before = load(folder).recipes["text"]
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text().replace("[MASK]", "[SEP]", 1))
    assert load(folder).recipes["text"]["weights"] != before["weights"]


@pytest.mark.parametrize("own", ["encoder", "first module", "both"])
def test_a_models_own_code_runs(load, tmp_path, own):
    folder = saved_model(tmp_path)
    (folder / "mine.py").write_text(OWN)
    if own != "first module":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(
            json.dumps(config | {"auto_map": {"AutoModel": "mine.BertModel"}})
        )
    if own != "encoder":
        modules = json.loads((folder / "modules.json").read_text())
        modules[0]["type"] = "mine.Transformer"
        (folder / "modules.json").write_text(json.dumps(modules))
    expected = theirs(folder, "text", trust_remote_code=True)
    assert np.abs(expected - theirs(saved_model(tmp_path / "stock"), "text")).max() > 0.1
    teacher = load(folder, trust_remote_code=True)
    np.testing.assert_allclose(teacher.encode(TEXTS, ["sentence"])["sentence"], expected, atol=1e-5)
    assert (teacher.recipes["text"].get("code") == "own") == (own != "first module")
    assert ("task" in teacher.recipes["query"]) == (own != "encoder")


def test_special_tokens_in_a_text_that_its_tokenizer_takes_for_letters(load, tmp_path):
    folder = saved_model(tmp_path)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"split_special_tokens": True}))
    texts = ["a [SEP] b", "[MASK]"]
    teacher = load(folder)
    model = SentenceTransformer(str(folder), device="cpu")
    found = teacher.encode(texts, ["sentence"])["sentence"]
    np.testing.assert_allclose(found, model.encode(texts), atol=1e-5)
    assert (
        np.abs(found - load(saved_model(tmp_path / "stock")).encode(texts, ["sentence"])["sentence"]).max()
        > 0.01
    )


def as_roberta(folder):
    (folder / "sentence_bert_config.json").rename(folder / "sentence_roberta_config.json")
    path = folder / "sentence_roberta_config.json"
    path.write_text(json.dumps({"max_seq_length": 32}))


def of_the_tokenizer(folder):
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"tokenizer_args": {"model_max_length": 20}})
    )


def of_the_text(folder):
    path = folder / "sentence_bert_config.json"
    told = json.loads(path.read_text()) | {"processing_kwargs": {"text": {"max_length": 9}}}
    path.write_text(json.dumps(told))


@pytest.mark.parametrize(("say", "expected"), [(as_roberta, 32), (of_the_tokenizer, 20), (of_the_text, 9)])
def test_look_says_the_window_that_is_read(load, tmp_path, say, expected):
    folder = saved_model(tmp_path)
    say(folder)
    params = TransformerTeacher(kind="transformer", model=str(folder))
    assert transformer.look(params).window == load(folder).max_length == expected


def test_a_head_that_texts_without_a_role_have_none_of(load, tmp_path):
    first = Transformer(str(plain_folder(tmp_path / "plain", "bert", template=False)))
    heads = {name: [Dense(16, 12)] for name in ("query", "document")}
    modules = [first, Pooling(16, "mean"), Router(heads, allow_empty_key=False)]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "model"), create_model_card=False)
    with refuses("teacher.model", "cannot encode a text", "route", "correct its modules"):
        load(tmp_path / "model")
