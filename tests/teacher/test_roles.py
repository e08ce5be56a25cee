"""Texts in roles: each has the vectors of its prompt, and another prompt costs its role alone."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encode_runs import OUT, encode, write_params
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_params import small_params

from pipeline.data.common import texts
from pipeline.params.load import check
from pipeline.params.runtime import Runtime
from pipeline.prepare.sources import read_sources
from pipeline.prepare.triplets import finetuning
from pipeline.teacher.kinds import transformer
from pipeline.vectors.sets import published

TEXTS = ["the cat sat", "another, longer text", "42"]
PROMPTS = {"text": "query: ", "query": "query: ", "document": "passage: "}


@pytest.fixture
def model(folder, bert):
    """An E5-like teacher, whose card asks for prompts that its folder does not name."""
    SentenceTransformer(modules=[Transformer(str(bert)), Pooling(16, "mean")], device="cpu").save("e5")
    return SentenceTransformer("e5", device="cpu")


def write_texts():
    """Every text in every role."""
    ids = np.array([texts.text_id(text) for text in TEXTS], np.uint64)
    roles = ("text", "query", "document")
    tables = [
        pl.DataFrame({"text_id": texts.in_role(ids, role), "text": TEXTS, "role": [role] * 3})
        for role in roles
    ]
    texts.write(pl.concat(tables), texts.LABELLED_SCHEMA, Path("corpus.parquet"))


def run(**prompts):
    """Vectors by role in the order of TEXTS, as they are published."""
    write_params(teacher={"kind": "transformer", "model": "./e5", "prompts": prompts})
    encode()
    opened = published.open_set(OUT, "sentence")
    ids, vectors = opened.read("sentence")
    own = np.array([texts.text_id(text) for text in TEXTS], np.uint64)
    return {
        role: vectors[np.searchsorted(ids, texts.in_role(own, role))].astype(np.float32) for role in PROMPTS
    }, opened


def test_the_vectors_of_each_role_are_sentence_transformers_with_its_prompt(model):
    write_texts()
    found, opened = run(**PROMPTS)
    for role, prompt in PROMPTS.items():
        np.testing.assert_allclose(found[role], model.encode(TEXTS, prompt=prompt), atol=2e-3)
    assert np.abs(found["query"] - found["document"]).max() > 0.01
    assert opened.prompts == PROMPTS
    model.prompts = {"query": "query: ", "document": "passage: "}
    model.save("named")
    write_params(teacher={"kind": "transformer", "model": "./named"})
    teacher = transformer.load(check_teacher("./named"), Runtime(device="cpu"))
    for role, encode_as in (("query", model.encode_query), ("document", model.encode_document)):
        np.testing.assert_allclose(
            teacher.encode(TEXTS, ["sentence"], role)["sentence"], encode_as(TEXTS), atol=1e-5
        )


def check_teacher(model):
    return check(small_params(teacher={"kind": "transformer", "model": model}), Path("params.yaml")).teacher


@pytest.mark.parametrize("role", PROMPTS)
def test_another_prompt_encodes_the_texts_of_its_role_alone(model, capsys, role):
    write_texts()
    before, _ = run(**PROMPTS)
    assert "6 encoded, 3 taken from the store" in capsys.readouterr().err  # two roles have one prompt
    after, _ = run(**{**PROMPTS, role: "other: "})
    assert "3 encoded, 6 taken from the store" in capsys.readouterr().err
    for name in PROMPTS:
        assert (before[name] == after[name]).all() == (name != role)


def test_a_source_and_triplets_name_the_roles_of_their_texts(folder):
    Path("texts.txt").write_text("a first text\na second one\n")
    Path("pairs.tsv").write_text("anchor\tpositive\tno\nwhat is it\ta first text\tnot this\n")
    data = {
        "mine": {"kind": "triplets", "path": "pairs.tsv", "roles": ["query", "document"], "negatives": ["no"]}
    }
    sources = [{"kind": "files", "path": "texts.txt", "role": "document"}]
    corpus = {"sources": sources, "dev_fraction": 0.2}
    params = check(small_params(corpus=corpus, finetune={"data": data, "mine": None}), Path("params.yaml"))
    [source] = read_sources(params.corpus.sources, lambda: None, lambda: None, folder)
    assert source.role == "document"
    labelled, _ = finetuning(params.finetune.data, lambda: None, pl.Series([], dtype=pl.String))
    roles = dict(labelled.texts.select("text", "role").iter_rows())
    assert roles == {"what is it": "query", "a first text": "document", "not this": "document"}
