"""What sentence-transformers 3 to 5 and servers ask of a folder; `make compat` loads it in them."""

import json

import numpy as np
import pytest
import torch
from exported_students import BUILDS, HARD, saved
from refusals import refuses
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import Pooling
from small_students import TEXTS, own_vectors, targets

from pipeline.data.student import layout, student_folder

KNOWN = {
    "Transformer",
    "Pooling",
    "Dense",
    "Normalize",
    "LSTM",
    "WordEmbeddings",
    "WordWeights",
    "StaticEmbedding",
}
"""Modules that sentence_transformers.models has in version 3."""

BERT = {
    **dict.fromkeys(("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads"), int),
    **dict.fromkeys(("max_position_embeddings", "type_vocab_size"), int),
    **dict.fromkeys(("num_hidden_layers", "pad_token_id"), int),
    **dict.fromkeys(("hidden_dropout_prob", "initializer_range", "layer_norm_eps"), float),
}
"""What text-embeddings-inference takes no default for in `config.json`."""


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", BUILDS)
def test_modules_have_the_names_and_settings_of_version_3(parts, tmp_path, kind):
    folder = saved(kind, parts, tmp_path / "student")
    modules = read(folder / "modules.json")
    assert [module["idx"] for module in modules] == list(range(len(modules)))
    places = {}
    for module in modules:
        room, _, name = module["type"].rpartition(".")
        assert room == "sentence_transformers.models"
        assert name in KNOWN
        places[name] = folder / module["path"]
    assert list(places)[-1] == "Normalize"
    if "Transformer" in places:
        assert read(folder / "sentence_bert_config.json") == {"max_seq_length": 12, "do_lower_case": False}
    if "Pooling" in places:
        pooling = read(places["Pooling"] / "config.json")
        modes = [key for key, chosen in pooling.items() if key.startswith("pooling_mode_") and chosen]
        assert modes == [
            "pooling_mode_max_tokens" if kind in ("bilstm", "bilstm-max") else "pooling_mode_mean_tokens"
        ]
        assert set(pooling) - {"word_embedding_dimension", "include_prompt"} == {*layout.POOLING.values()}
    if "Dense" in places:
        dense = read(places["Dense"] / "config.json")
        assert set(dense) == {"in_features", "out_features", "bias", "activation_function"}


def test_a_transformer_has_what_text_embeddings_inference_reads(parts, tmp_path):
    """router/src/lib.rs, backends/src/lib.rs, backends/candle/src/models/{bert,dense}.rs of 1.8.3."""
    folder = saved("transformer", parts, tmp_path / "student")
    config = read(folder / "config.json")
    assert config["model_type"] == "bert"
    assert not any(name.endswith("Classification") for name in config["architectures"])
    assert {name: type(config[name]) for name in BERT} == BERT
    assert config["hidden_act"] in ("gelu", "relu", "silu", "swiglu")
    assert config.get("position_embedding_type", "absolute") == "absolute"
    assert "_name_or_path" not in config
    prompts = read(folder / "config_sentence_transformers.json")["prompts"]
    assert all(isinstance(prompt, str) for prompt in prompts.values())
    assert read(folder / "tokenizer_config.json").get("padding_side", "right") == "right"
    pooling = read(folder / "1_Pooling/config.json")
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    assert [pooling[f"pooling_mode_{mode}"] for mode in modes] == [False, True, False, False]
    assert read(folder / "sentence_bert_config.json")["max_seq_length"] <= config["max_position_embeddings"]
    modules = {module["type"]: folder / module["path"] for module in read(folder / "modules.json")}
    names = ("Transformer", "Pooling", "Dense", "Normalize")
    assert set(modules) <= {f"sentence_transformers.models.{name}" for name in names}
    dense = modules["sentence_transformers.models.Dense"]
    settings = read(dense / "config.json")
    assert settings["activation_function"] == "torch.nn.modules.linear.Identity"
    weights = {name: tuple(one.shape) for name, one in load_file(dense / "model.safetensors").items()}
    width = settings["out_features"]
    assert settings["bias"] is True
    assert weights == {"linear.weight": (width, settings["in_features"]), "linear.bias": (width,)}
    assert settings["in_features"] == config["hidden_size"]
    assert (folder / "tokenizer.json").exists()
    tensors = load_file(folder / "model.safetensors")
    rows = {"word": "vocab_size", "position": "max_position_embeddings", "token_type": "type_vocab_size"}
    for table, key in rows.items():
        shape = tensors[f"embeddings.{table}_embeddings.weight"].shape
        assert tuple(shape) == (config[key], config["hidden_size"])
    last = f"encoder.layer.{config['num_hidden_layers'] - 1}.output.dense.weight"
    assert tuple(tensors[last].shape) == (config["hidden_size"], config["intermediate_size"])


def test_a_compact_student_has_what_its_image_for_cpus_reads(parts, tmp_path):
    """backends/ort/src/lib.rs; it has no ELECTRA of its own. test_onnx.py asks for the graph's outputs."""
    folder = saved("compact", parts, tmp_path / "student")
    config = read(folder / "config.json")
    assert (config["model_type"], config["architectures"]) == ("electra", ["ElectraModel"])
    numbers = ("hidden_size", "num_hidden_layers", "max_position_embeddings", "pad_token_id")
    assert [type(config[name]) for name in numbers] == [int] * len(numbers)
    assert read(folder / "tokenizer_config.json").get("padding_side", "right") == "right"
    assert read(folder / "1_Pooling/config.json")["pooling_mode_mean_tokens"]
    assert read(folder / "sentence_bert_config.json")["max_seq_length"] <= config["max_position_embeddings"]


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("kind", [kind for kind in BUILDS if not kind.startswith("static")])
def test_a_student_reads_as_it_was_but_for_its_lengths(parts, tmp_path, kind, unit):
    built = BUILDS[kind](parts)
    built.fit_projection(built.tokenise(TEXTS), targets())
    student_folder.write(built, "", tmp_path / "student", unit=unit)
    assert layout.is_unit(tmp_path / "student") == unit
    expected = own_vectors(built, HARD)
    found = SentenceTransformer(str(tmp_path / "student"), device="cpu").encode(HARD)
    if unit:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=3e-6, rtol=1e-5)
    goes_on = student_folder.read_to_train(tmp_path / "student", "distill@student")
    assert not isinstance(goes_on[-1], Normalize)


def test_all_modes_of_pooling_and_the_settings_of_dense_survive(tmp_path):
    words = torch.randn(1, 4, 6)
    features = {"token_embeddings": words, "attention_mask": torch.tensor([[1, 1, 1, 0]])}
    for modes in ("cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens", ("mean", "max")):
        pooling = Pooling(6, modes)
        pooling.save(str(tmp_path))
        layout.SETTINGS["Pooling"](tmp_path)
        again = Pooling.load(str(tmp_path))
        one, other = (module(dict(features))["sentence_embedding"] for module in (pooling, again))
        assert sorted(one[0].tolist()) == pytest.approx(sorted(other[0].tolist()))
    dense = Dense(6, 3, bias=False, activation_function=torch.nn.Tanh())
    dense.save(str(tmp_path))
    layout.SETTINGS["Dense"](tmp_path)
    again = Dense.load(str(tmp_path))
    given = {"sentence_embedding": words[0]}
    expected = dense(dict(given))["sentence_embedding"]
    torch.testing.assert_close(again(dict(given))["sentence_embedding"], expected)


def test_a_folder_that_lists_no_modules_is_named(tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    with refuses(tmp_path / "modules.json", "make the student again"):
        layout.is_unit(tmp_path)
