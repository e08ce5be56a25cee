"""recipes/teachers.md: every block is a teacher, and a model of its class gives what the page says."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from pages import blocks
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_params import small_params
from transformers import (
    BertConfig,
    Gemma3TextConfig,
    ModernBertConfig,
    MPNetConfig,
    Qwen3Config,
    XLMRobertaConfig,
)

from pipeline.look.look import look, verdicts
from pipeline.params.load import check
from pipeline.params.runtime import Runtime
from pipeline.teacher.kinds import transformer
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.shared.verdict import Possible

PAGE = Path(__file__).parents[1] / "recipes/teachers.md"
BLOCKS = blocks(PAGE, "yaml")
SHAPE = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
HEADS = {**SHAPE, "num_key_value_heads": 1, "head_dim": 8}
CLASSES = {
    "BertModel": BertConfig(**SHAPE),
    "MPNetModel": MPNetConfig(**SHAPE),
    "XLMRobertaModel": XLMRobertaConfig(**SHAPE, pad_token_id=0),
    "ModernBertModel": ModernBertConfig(**SHAPE, pad_token_id=0),
    "Qwen3Model": Qwen3Config(**HEADS),
    "Gemma3TextModel": Gemma3TextConfig(**HEADS, use_bidirectional_attention=True),
}
TEXTS = ["the cat sat", "a", "words " * 20]


def params_of(block: str, **teacher: object):
    stated = YAML(typ="safe").load(block)["teacher"]
    tiny = small_params()["students"]["tiny"]
    layered = {**tiny, "kind": "transformer", "dim": "auto", "init": {"layers": "auto", "max_length": 40}}
    whole = small_params(teacher={**stated, **teacher}, students={"tiny": tiny, "layered": layered})
    return check(whole, Path("params.yaml"))


def write(folder: Path, name: str) -> Path:
    """A model of this class with a mean pooling, and a prompt for queries of its own."""
    import transformers

    config = CLASSES[name]
    config.vocab_size = len(letter_tokenizer())
    config.max_position_embeddings = 90
    getattr(transformers, name)(config).save_pretrained(folder / "encoder")
    letter_tokenizer().save_pretrained(folder / "encoder")
    modules = [Transformer(str(folder / "encoder")), Pooling(16, "mean")]
    SentenceTransformer(modules=modules, prompts={"query": "own: "}, device="cpu").save(str(folder / "model"))
    return folder / "model"


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_is_a_teacher_block(block):
    assert params_of(block).teacher.kind in ("transformer", "openai_api", "elmo", "ensemble")


def test_every_class_that_the_page_names_is_built_here():
    named = {found for block in BLOCKS for found in re.findall(r"^# (\w+Model)$", block, re.MULTILINE)}
    assert named == CLASSES.keys()


@pytest.mark.parametrize("block", [block for block in BLOCKS if re.match(r"# \w+Model\n", block)])
def test_a_model_of_that_class_gives_vectors_by_role_and_students(block, tmp_path):
    folder = write(tmp_path, re.match(r"# (\w+)", block)[1])
    params = params_of(block, model=str(folder), max_length=64)
    facts = look(params)
    assert {name for name, one in verdicts(params, facts).items() if isinstance(one, Possible)} == {
        "tiny",
        "layered",
    }
    teacher = transformer.load(params.teacher, Runtime(device="cpu"))
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = 64
    stated = params.teacher.prompts
    for role, encode in (("query", model.encode_query), ("document", model.encode_document)):
        expected = encode(TEXTS, prompt=stated.given(role))
        np.testing.assert_allclose(teacher.encode(TEXTS, ["sentence"], role)["sentence"], expected, atol=1e-5)
    assert json.dumps(teacher.recipes["query"]["prompt"]) == json.dumps(stated.query or "own: ")
