import json
import shutil

import numpy as np
import pytest
import torch
from refusals import refuses
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import (
    AutoModel,
    AutoTokenizer,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
    XLNetConfig,
    XLNetModel,
)

from pipeline.teacher.kinds.hashing import letter_tokenizer

TEXTS = ["the cat sat", "", "a", "Hello, World 42!", "word " * 60]
POOLED = {
    "mean": lambda states: states.mean(0),
    "cls": lambda states: states[0],
    "max": lambda states: states.max(0),
    "lasttoken": lambda states: states[-1],
}


@pytest.mark.parametrize("pooling", POOLED)
def test_a_plain_model_is_pooled_as_asked(load, bert, pooling):
    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert).eval()
    with torch.no_grad():
        states = [
            model(**tokenizer(text, return_tensors="pt", truncation=True, max_length=128)).last_hidden_state
            for text in TEXTS
        ]
    found = load(bert, tokens_per_batch=80, pooling=pooling).encode(TEXTS, ["sentence"])["sentence"]
    expected = [POOLED[pooling](one[0].numpy()) for one in states]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_plain_model_without_pooling_says_what_to_set(load, bert):
    with refuses("teacher.model", bert, "modules.json", "set teacher.pooling (mean, cls, max, last"):
        load(bert)


def test_a_model_with_a_pooling_of_its_own_takes_no_other(load, minilm):
    with refuses("teacher.pooling", "'cls'", minilm.folders[0], "leave teacher.pooling"):
        load(minilm.folders[0], pooling="cls")


def test_more_tokens_than_positions(load, bert):
    with refuses("teacher.max_length", " 129;", bert, " 128 positions"):
        load(bert, pooling="mean", max_length=129)


@pytest.mark.parametrize("positions", [-1, None])
def test_a_model_without_a_longest_text_asks_for_one(load, bert, tmp_path, positions):
    """XLNet's positions are -1, T5 has none; neither has a length in a tokenizer that says none."""
    tokenizer = letter_tokenizer()
    tokenizer.model_max_length = 10**30
    shape = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 32}
    small = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 32, "d_kv": 8}
    model = (
        XLNetModel(XLNetConfig(vocab_size=len(tokenizer), **shape))
        if positions
        else T5EncoderModel(T5Config(vocab_size=len(tokenizer), **small))
    )
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with refuses("teacher.max_length", tmp_path, "set it to 512"):
        load(tmp_path, pooling="mean")
    found = load(tmp_path, pooling="mean", max_length=8).encode(TEXTS, ["sentence"])["sentence"]
    assert found.shape == (5, 16)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.3), ("float16", 0.05)])
def test_lower_precision_is_used_and_stays_close(load, bert, precision, tolerance):
    low, full = (load(bert, pooling="mean", precision=kind) for kind in (precision, "float32"))
    assert {str(parameter.dtype) for parameter in low.module.parameters()} == {f"torch.{precision}"}
    difference = (
        low.encode(TEXTS, ["token_mean"])["token_mean"] - full.encode(TEXTS, ["token_mean"])["token_mean"]
    )
    assert 0 < np.abs(difference).max() < tolerance


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("config.json", lambda _: "{"),
        ("model.safetensors", lambda _: "cut"),
        ("config.json", lambda text: text.replace('"hidden_size": 16', '"hidden_size": 32')),
    ],
)
def test_a_broken_model_names_itself(load, bert, tmp_path, name, spoil):
    folder = shutil.copytree(bert, tmp_path / "broken")
    before = (folder / name).read_bytes()
    (folder / name).write_text(spoil(before.decode(errors="ignore")))
    assert (folder / name).read_bytes() != before
    with refuses("teacher.model", f"{folder} ", "loaded"):
        load(folder, pooling="mean")


MODULES = "sentence_transformers.models"
ENCODER = {"idx": 0, "name": "0", "path": "", "type": f"{MODULES}.Transformer"}


@pytest.mark.parametrize(
    ("modules", "named"),
    [
        (
            [ENCODER, {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{MODULES}.Pooling"}],
            "Pooling.__init__()",
        ),
        (
            [ENCODER, {"idx": 1, "name": "1", "path": "1_Head", "type": "no_such_package.Head"}],
            "'no_such_package.Head'",
        ),
        ([{"idx": 0, "name": "0", "path": ""}], "KeyError: 'type'"),
        ([], "An empty modules list"),
        ([ENCODER], "add a Pooling"),
        (
            [ENCODER, {"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{MODULES}.Normalize"}],
            "add a Pooling",
        ),
    ],
)
def test_an_incomplete_folder_says_what_is_missing(load, bert, tmp_path, modules, named):
    folder = shutil.copytree(bert, tmp_path / "incomplete")
    (folder / "modules.json").write_text(json.dumps(modules))
    with refuses("teacher.model", f"{folder} ", named):
        load(folder)


def test_a_package_that_a_models_own_code_needs_is_named(load, bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "needy")
    (folder / "needy.py").write_text("import einops_of_nobody\n")
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "needy.NeedyConfig", "AutoModel": "needy.Needy"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "needy", "auto_map": classes}))
    with refuses("teacher.model", folder, "einops_of_nobody"):
        load(folder, pooling="mean", trust_remote_code=True)


def test_a_plain_models_own_code_runs_where_it_is_trusted(load, bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "own")
    (folder / "own.py").write_text(
        "from transformers import BertConfig, BertModel\n"
        "class OwnConfig(BertConfig):\n    model_type = 'own'\n"
        "class Own(BertModel):\n    config_class = OwnConfig\n"
    )
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.Own"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": classes}))
    teacher = load(folder, pooling="mean", trust_remote_code=True)
    assert type(teacher.module[0].model).__name__ == "Own"


def test_a_model_that_counts_positions_from_its_padding_token(load, tmp_path):
    tokenizer = letter_tokenizer()
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=34, pad_token_id=0, **shape)
    RobertaModel(config).save_pretrained(tmp_path / "roberta")
    tokenizer.save_pretrained(tmp_path / "roberta")
    load(tmp_path / "roberta", pooling="mean").encode(["word " * 60], ["sentence"])


def test_a_model_that_is_no_transformer_is_refused(load, tmp_path):
    table = StaticEmbedding(letter_tokenizer().backend_tokenizer, embedding_dim=8)
    SentenceTransformer(modules=[table], device="cpu").save(str(tmp_path / "static"))
    with refuses("teacher.model", tmp_path / "static", "StaticEmbedding"):
        load(tmp_path / "static")
