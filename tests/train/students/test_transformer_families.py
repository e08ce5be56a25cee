"""Some layers of encoders, decoders and halves of both: the saved student is the trained one."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, own_vectors, targets, transformer_block, write_encoder
from transformers import (
    AlbertConfig,
    AlbertModel,
    BloomConfig,
    BloomModel,
    DebertaConfig,
    DebertaModel,
    DebertaV2Config,
    DebertaV2Model,
    Gemma3TextConfig,
    Gemma3TextModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    MistralConfig,
    MistralModel,
    ModernBertConfig,
    ModernBertModel,
    PretrainedConfig,
    PreTrainedModel,
    Qwen3Config,
    Qwen3Model,
    RoFormerConfig,
    RoFormerModel,
    T5Config,
    T5EncoderModel,
    T5Model,
    UMT5Config,
    UMT5EncoderModel,
    XLNetConfig,
    XLNetModel,
)

from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.kinds import transformer
from pipeline.train.students.shared.base.settings import settings_of, write_settings
from pipeline.train.students.shared.teacher_layers import keep_layers

VOCABULARY = {"vocab_size": len(letter_tokenizer())}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
SHAPE = {
    **VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 90,
}
HEADS = {"num_key_value_heads": 1, "head_dim": 8}
WINDOWS = {**HEADS, "sliding_window": 8, "sliding_window_pattern": 2}
T5_SHAPE = {**VOCABULARY, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 4, "num_heads": 2}
GPT_SHAPE = {**VOCABULARY, "n_layer": 4, "n_head": 2, "bos_token_id": 2, "eos_token_id": 3}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    "albert": lambda: AlbertModel(AlbertConfig(**SHAPE, **SPECIAL, embedding_size=8)),
    "albert of two groups": lambda: AlbertModel(
        AlbertConfig(**SHAPE, **SPECIAL, embedding_size=8, num_hidden_groups=2)
    ),
    "deberta": lambda: DebertaModel(DebertaConfig(**SHAPE, **RELATIVE)),
    "deberta-v2": lambda: DebertaV2Model(DebertaV2Config(**SHAPE, **RELATIVE, position_buckets=8)),
    "roformer": lambda: RoFormerModel(RoFormerConfig(**SHAPE, embedding_size=8)),
    "modernbert": lambda: ModernBertModel(
        ModernBertConfig(**SHAPE, **SPECIAL, cls_token_id=2, sep_token_id=3, local_attention=4)
    ),
    "t5": lambda: T5EncoderModel(T5Config(**T5_SHAPE)),
    "t5 with its decoder": lambda: T5Model(T5Config(**T5_SHAPE)),
    "umt5": lambda: UMT5EncoderModel(UMT5Config(**T5_SHAPE)),
    "qwen3": lambda: Qwen3Model(Qwen3Config(**SHAPE, **SPECIAL, **HEADS)),
    "llama": lambda: LlamaModel(LlamaConfig(**SHAPE, **SPECIAL)),
    "mistral": lambda: MistralModel(
        MistralConfig(**SHAPE, **SPECIAL, num_key_value_heads=1, sliding_window=4)
    ),
    "gemma3": lambda: Gemma3TextModel(Gemma3TextConfig(**SHAPE, **SPECIAL, **WINDOWS)),
    "gemma3 both ways": lambda: Gemma3TextModel(
        Gemma3TextConfig(**SHAPE, **SPECIAL, **WINDOWS, use_bidirectional_attention=True)
    ),
    "gpt2": lambda: GPT2Model(GPT2Config(**GPT_SHAPE, n_embd=16, n_positions=90)),
    "bloom": lambda: BloomModel(BloomConfig(**GPT_SHAPE, hidden_size=16)),
    "xlnet": lambda: XLNetModel(XLNetConfig(**GPT_SHAPE, d_model=16, d_inner=32, pad_token_id=0)),
}
LAYERS = (0, 2)
IDS = torch.tensor([[2, 7, 9, 30, 11, 8, 12, 3]])


def made(name: str) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = FAMILIES[name]().eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def teacher(name: str, folder: Path) -> Path:
    """Its parts, with a config that reads as the model's."""
    model = made(name)
    write_encoder(model, folder)
    write_settings(model.config, folder)
    return folder


@pytest.mark.parametrize("name", FAMILIES)
def test_the_saved_student_is_the_trained_one(name, tmp_path):
    block = transformer_block(dim=16, layers=LAYERS, init={"projection": "none", "max_length": 64})
    student = transformer.build(block, teacher(name, tmp_path / "teacher"))
    student.encode(student.tokenise(TEXTS)).vectors.sum().backward()
    student.fit_projection(student.tokenise(TEXTS), targets(16))
    student.save(tmp_path / "student")
    texts = [*TEXTS, "", "漢字 cat", "abc " * 40]
    expected = own_vectors(student, texts)
    plain = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    for batch in (1, 4, 32):
        np.testing.assert_allclose(plain.encode(texts, batch_size=batch), expected, rtol=1e-5, atol=1e-5)
    loaded = transformer.load(block, tmp_path / "student")
    np.testing.assert_array_equal(own_vectors(loaded, texts), expected)
    again = tmp_path / "again"
    loaded.save(again)
    for file in ("config.json", "model.safetensors"):
        assert (again / file).read_bytes() == (tmp_path / "student" / file).read_bytes()


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_a_tokenizer_that_pads_on_the_left_does_not_move_positions(name, tmp_path):
    folder = teacher(name, tmp_path / "teacher")
    tokenizer = letter_tokenizer()
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(folder)
    block = transformer_block(dim=16, layers=LAYERS, init={"projection": "none", "max_length": 64})
    student = transformer.build(block, folder)
    student.save(tmp_path / "student")
    plain = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), own_vectors(student, TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("groups", "layers", "runs"), [(1, (1, 3), (0, 0)), (2, (1, 3), (0, 1)), (2, (2, 3), (1, 1))]
)
def test_albert_runs_as_often_as_layers_are_named(groups, layers, runs):
    config = AlbertConfig(**SHAPE, **SPECIAL, embedding_size=8, num_hidden_groups=groups)
    whole = AlbertModel(config).eval()
    kept = keep_layers(whole, layers).eval()
    with torch.no_grad():
        states = whole.encoder.embedding_hidden_mapping_in(whole.embeddings(IDS))
        for run in runs:
            states = whole.encoder.albert_layer_groups[run](states, None)
        torch.testing.assert_close(kept(IDS).last_hidden_state, states)
    assert len(kept.encoder.albert_layer_groups) == len(set(runs))


def test_t5s_first_layer_hands_on_the_biases_of_all(tmp_path):
    whole = made("t5")
    kept = keep_layers(whole, (1, 3)).eval()
    biases = "SelfAttention.relative_attention_bias"
    first, expected = (
        model.encoder.block[0].layer[0].get_submodule(biases).weight for model in (kept, whole)
    )
    torch.testing.assert_close(first, expected)
    with torch.no_grad():
        states, bias = whole.encoder.embed_tokens(IDS), None
        bias = whole.encoder.block[0].layer[0].SelfAttention.compute_bias(8, 8, "cpu")
        for layer in (1, 3):
            states = whole.encoder.block[layer](states, position_bias=bias)[0]
        expected = whole.encoder.final_layer_norm(states)
        torch.testing.assert_close(kept(IDS).last_hidden_state, expected)


def test_transformers_4_knows_the_tokenizers_class(tmp_path):
    folder = teacher("qwen3", tmp_path / "teacher")
    transformer.build(transformer_block(layers=LAYERS, init={"max_length": 64}), folder).save(tmp_path / "s")
    assert json.loads((tmp_path / "s" / "tokenizer_config.json").read_text())["tokenizer_class"] == (
        "PreTrainedTokenizerFast"
    )


@pytest.mark.parametrize("window", [8, 9, 512])
def test_a_window_that_halves_is_saved_so_that_it_reads_as_it_was(window, tmp_path):
    settings = {**SHAPE, **SPECIAL, **WINDOWS, "sliding_window": window, "use_bidirectional_attention": True}
    config = Gemma3TextConfig(**settings)
    model = Gemma3TextModel(config)
    model.save_pretrained(tmp_path)
    write_settings(config, tmp_path)
    for _ in range(2):
        read = Gemma3TextConfig.from_pretrained(tmp_path)
        assert read.sliding_window == config.sliding_window
    assert (
        json.loads((tmp_path / "config.json").read_text())["sliding_window"] == 2 * config.sliding_window - 2
    )


def test_a_config_that_reads_as_itself_is_left_as_it_is(tmp_path):
    model = made("qwen3")
    model.save_pretrained(tmp_path)
    before = (tmp_path / "config.json").read_bytes()
    write_settings(model.config, tmp_path)
    assert (tmp_path / "config.json").read_bytes() == before


class Shrinking(PretrainedConfig):
    model_type = "shrinking"

    def __init__(self, width: int = 8, **more: object) -> None:
        super().__init__(**more)
        self.width = width // 2


def test_settings_that_change_in_another_way_are_refused():
    with refuses("shrinking", "width", " 8 to 4;", "bilstm and static", "init.model"):
        settings_of(Shrinking(width=16))
