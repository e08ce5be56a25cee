import json
import shutil

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Normalize, Pooling
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

TEXTS = ["the cat sat", "", "a", "Hello, World 42!", "word " * 60]


@pytest.fixture(scope="module", params=[True, False], ids=["prompt pooled", "prompt left out"])
def folder(request, tmp_path_factory, bert):
    """A model with a default prompt, with or without it in its pooling."""
    folder = tmp_path_factory.mktemp("prompted") / "model"
    pooling = Pooling(16, "mean", include_prompt=request.param)
    model = SentenceTransformer(
        modules=[Transformer(str(bert)), pooling, Normalize()],
        prompts={"query": "find: ", "document": ""},
        default_prompt_name="query",
        device="cpu",
    )
    model.save(str(folder))
    return folder


@pytest.mark.parametrize("prompt", [None, "", "another one: "])
def test_a_prompt_is_prepended_as_sentence_transformers_does(load, folder, prompt):
    teacher = load(folder, tokens_per_batch=64, prompts={"text": prompt})
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, prompt=prompt)
    np.testing.assert_allclose(teacher.encode(TEXTS, ["sentence"])["sentence"], expected, atol=1e-5)
    assert teacher.recipes["text"]["prompt"] == ("find: " if prompt is None else prompt)


def named(folder, tmp_path, prompts, default=None):
    """The same model with other prompts of its own."""
    changed = shutil.copytree(folder, tmp_path / "changed")
    config = changed / "config_sentence_transformers.json"
    settings = {**json.loads(config.read_text()), "prompts": prompts, "default_prompt_name": default}
    config.write_text(json.dumps(settings))
    return changed


@pytest.mark.parametrize(
    ("prompts", "default"),
    [
        ({"query": "query: ", "document": "passage: "}, None),
        ({"query": "ask ", "document": ""}, "query"),
        ({"query": "", "document": "say "}, "document"),
        ({"query": "Represent: "}, None),
        ({"classify": "sort: "}, "classify"),
        ({}, None),
    ],
)
def test_queries_and_documents_are_encoded_as_sentence_transformers_does(
    load, folder, tmp_path, prompts, default
):
    changed = named(folder, tmp_path, prompts, default)
    teacher, model = load(changed), SentenceTransformer(str(changed), device="cpu")
    ways = {"text": model.encode, "query": model.encode_query, "document": model.encode_document}
    for role, encode in ways.items():
        found = teacher.encode(TEXTS, ["sentence"], role)["sentence"]
        np.testing.assert_allclose(found, encode(TEXTS), atol=1e-5, err_msg=role)


@pytest.mark.parametrize("name", ["passage", "corpus"])
def test_a_prompt_for_documents_may_have_another_name(load, folder, tmp_path, name):
    teacher = load(named(folder, tmp_path, {"query": "query: ", name: "passage: "}))
    assert {role: recipe["prompt"] for role, recipe in teacher.recipes.items()} == {
        "text": "",
        "query": "query: ",
        "document": "passage: ",
    }


def test_prompts_of_params_stand_for_the_models_role_by_role(load, folder):
    teacher = load(folder, prompts={"document": "mine: ", "text": ""})
    assert {role: recipe["prompt"] for role, recipe in teacher.recipes.items()} == {
        "text": "",
        "query": "find: ",
        "document": "mine: ",
    }


@pytest.mark.parametrize("prompt", [None, "another one: ", ""])
def test_the_footprints_reference_has_the_same_prompt(load, folder, prompt):
    teacher = load(folder, prompts={"text": prompt})
    found = teacher.encode(TEXTS, ["sentence"])["sentence"]
    np.testing.assert_allclose(teacher.encode_as_users_do(TEXTS), found, atol=1e-5)


def test_the_models_own_prompt_changes_the_vectors(load, folder):
    with_prompt, without = (
        load(folder, prompts={"text": prompt}).encode(TEXTS, ["sentence"]) for prompt in (None, "")
    )
    assert np.abs(with_prompt["sentence"] - without["sentence"]).max(axis=1).min() > 0.01


def test_further_modules_of_the_model_are_applied(load, bert, tmp_path):
    modules = [Transformer(str(bert)), Pooling(16, ("cls", "max")), Dense(32, 4)]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save(str(tmp_path / "dense"))
    teacher = load(tmp_path / "dense")
    found = teacher.encode(TEXTS, ["sentence"])["sentence"]
    assert teacher.dims == {"sentence": 4, "token_mean": 16, "cls": 16}
    assert found.shape == (5, 4)
    np.testing.assert_allclose(found, model.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_heads_of_an_encoder_in_lower_precision_keep_all_their_digits(load, bert, tmp_path, precision):
    torch.manual_seed(0)
    modules = [Transformer(str(bert)), Pooling(16, "mean"), Dense(16, 8), LayerNorm(8), Dense(8, 4)]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save(str(tmp_path / "heads"))
    low = load(tmp_path / "heads", precision=precision)
    encoder, *heads = low.module
    assert {str(weights.dtype) for weights in encoder.parameters()} == {f"torch.{precision}"}
    for head, trained in zip(heads, list(model)[1:], strict=True):
        for name, weights in trained.state_dict().items():
            np.testing.assert_array_equal(head.state_dict()[name], weights, strict=True)
    found = low.encode(TEXTS, ["sentence"])["sentence"]
    assert 0 < np.abs(found - model.encode(TEXTS)).max() < 0.05


def test_a_model_that_lowers_its_texts(load, bert, tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "ας", "ασ"]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    modules = [Transformer(str(bert)), Pooling(16, "mean")]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "st"))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    ).save_pretrained(tmp_path / "st")
    config = tmp_path / "st" / "sentence_bert_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "do_lower_case": True}))
    expected = SentenceTransformer(str(tmp_path / "st"), device="cpu").encode(["ΑΣ"])
    found = load(tmp_path / "st").encode(["ΑΣ"], ["sentence"])["sentence"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
