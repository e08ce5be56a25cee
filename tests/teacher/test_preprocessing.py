"""What sentence-transformers does to a text before the encoder: done here too, or refused by name."""

import json
import shutil

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_encoders import small_encoder
from transformers import Gemma3TextConfig, Gemma3TextModel, Qwen3Config, Qwen3Model

from pipeline.core.errors import UserError
from pipeline.data import teacher_parts
from pipeline.params.students import TransformerStudent
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.kinds import transformer as transformer_student

TEMPLATE = (
    "{% for message in messages %}[MASK]{{ message['role'] }} "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}[SEP]{% endfor %}"
    "{% if add_generation_prompt %}[MASK]a{% endif %}"
)
TEXTS = ["the cat sat", "", "a", "Hello, World 42!", "word " * 60, "ÜBER alles"]
SMALL = {
    "vocab_size": len(letter_tokenizer()),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "intermediate_size": 32,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}


def qwen3():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = Qwen3Model(Qwen3Config(**SMALL)).eval()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return made


ENCODERS = {"bert": lambda: small_encoder("bert"), "qwen3": qwen3}


def plain_folder(folder, encoder, *, template=True, padding_side="right"):
    tokenizer = letter_tokenizer()
    tokenizer.padding_side = padding_side
    tokenizer.chat_template = TEMPLATE if template else None
    ENCODERS[encoder]().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def saved_model(tmp_path, encoder="bert", pooling="mean", *, template=False, prompts=None, **settings):
    """A sentence-transformers folder whose first module has these settings."""
    side = settings.pop("padding_side", "right")
    include_prompt = settings.pop("include_prompt", True)
    plain = plain_folder(tmp_path / "plain", encoder, template=template, padding_side=side)
    first = Transformer(str(plain), **settings)
    model = SentenceTransformer(
        modules=[first, Pooling(16, pooling, include_prompt=include_prompt)],
        prompts=prompts,
        default_prompt_name="any" if prompts else None,
        device="cpu",
    )
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    return tmp_path / "model"


def assert_equal(teacher, folder, tolerance=1e-5):
    theirs = SentenceTransformer(str(folder), device="cpu")
    found = teacher.encode(TEXTS, ["sentence"])["sentence"]
    np.testing.assert_allclose(found, theirs.encode(TEXTS), atol=tolerance)
    np.testing.assert_allclose(teacher.encode_as_users_do(TEXTS), found, atol=tolerance)


SETTINGS = {
    "message": {"template": True},
    "message of a decoder": {
        "template": True,
        "encoder": "qwen3",
        "pooling": "lasttoken",
        "padding_side": "left",
    },
    "message and a prompt": {"template": True, "prompts": {"any": "find it: "}},
    "chat_template": {
        "template": True,
        "processing_kwargs": {"chat_template": {"add_generation_prompt": True}},
    },
    "max_length": {"processing_kwargs": {"text": {"max_length": 9}}},
    "max_length in common": {"processing_kwargs": {"common": {"max_length": 7}}},
    "add_special_tokens": {"processing_kwargs": {"text": {"add_special_tokens": False}}, "texts": TEXTS[2:]},
    "do_lower_case": {"do_lower_case": True},
    "a prompt": {"prompts": {"any": "find it: "}},
    "include_prompt": {"prompts": {"any": "find it: "}, "include_prompt": False},
    "padding_side": {"encoder": "qwen3", "pooling": "lasttoken", "padding_side": "left"},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_vectors_are_sentence_transformers(load, tmp_path, setting, monkeypatch):
    settings = dict(SETTINGS[setting])
    monkeypatch.setattr(f"{__name__}.TEXTS", settings.pop("texts", TEXTS))
    folder = saved_model(tmp_path, **settings)
    teacher = load(folder, tokens_per_batch=80)
    assert_equal(teacher, folder)
    changes = "message" in setting or "processing_kwargs" in settings
    assert (teacher.recipes["text"].get("preprocessing") == "sentence-transformers") == changes


def test_the_template_changes_vectors_that_the_store_would_else_share(load, tmp_path):
    one = load(saved_model(tmp_path / "a", template=True))
    other = load(saved_model(tmp_path / "b"))
    cut = np.abs(one.encode(TEXTS, ["sentence"])["sentence"] - other.encode(TEXTS, ["sentence"])["sentence"])
    assert cut.max() > 0.1


def test_views_of_a_text_that_is_padded_in_front_are_those_of_the_text_alone(load, tmp_path):
    folder = saved_model(tmp_path, "qwen3", "lasttoken", template=True, padding_side="left")
    teacher = load(folder)
    views = ["sentence", "token_mean", "cls"]
    together, alone = teacher.encode(TEXTS, views), [teacher.encode([text], views) for text in TEXTS]
    for view in views:
        np.testing.assert_allclose(together[view], np.concatenate([one[view] for one in alone]), atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_plain_model_is_read_without_its_chat_template(load, tmp_path, encoder):
    plain_folder(tmp_path / "with", encoder), plain_folder(tmp_path / "without", encoder, template=False)
    found, expected = (
        load(tmp_path / name, pooling="mean").encode(TEXTS, ["sentence"])["sentence"]
        for name in ("with", "without")
    )
    np.testing.assert_array_equal(found, expected)
    teacher = load(tmp_path / "with", pooling="mean")
    np.testing.assert_allclose(teacher.encode_as_users_do(TEXTS), found, atol=1e-5)


def edit(folder, **settings):
    path = folder / "sentence_bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


MEANT = {
    "query_length": 8,
    "document_length": 8,
    "query_expansion": {"strategy": "fixed", "length": 8},
    "module_output_name": "sentence_embedding",
    "modality_config": {"image": {"method": "forward", "method_output_name": "last_hidden_state"}},
}


@pytest.mark.parametrize("key", MEANT)
def test_what_cannot_be_honoured_is_refused_by_name(load, tmp_path, key):
    folder = saved_model(tmp_path)
    edit(folder, **{key: MEANT[key]})
    with pytest.raises(UserError, match=rf"teacher\.model.*sentence_bert_config\.json.*{key}.*;"):
        load(folder)


def test_two_lengths_that_contradict_each_other_are_both_named(load, tmp_path):
    folder = saved_model(tmp_path, processing_kwargs={"text": {"max_length": 9}})
    assert load(folder).recipes["text"]["max_length"] == 9
    assert load(folder, max_length=9).max_length == 9
    with pytest.raises(
        UserError, match=r"teacher\.max_length is 12.*processing_kwargs\.text\.max_length.* 9"
    ):
        load(folder, max_length=12)


@pytest.mark.parametrize("layers", [None, [1]])
def test_a_saved_student_never_wraps_a_text(load, tmp_path, layers):
    """Of a teacher like Qwen3-Embedding: what is saved equals what is trained, read in any way."""
    folder = saved_model(tmp_path, "qwen3", "lasttoken", template=True, padding_side="left")
    parts = tmp_path / "parts"
    teacher = load(folder)
    teacher.save_parts(parts)
    assert not (parts / "chat_template.jinja").exists()
    assert json.loads((parts / "tokenizer_config.json").read_text()).get("chat_template") is None
    assert_equal(teacher, folder)  # saving its parts has changed nothing in the teacher
    block = TransformerStudent(
        kind="transformer",
        view="sentence",
        dim=16,
        init={"layers": layers, "projection": "none", "max_length": 128},
        loss={"kind": "mse"},
        train={"epochs": 1, "batch_size": 4, "lr": 0.01},
        finetune=None,
    )
    student = transformer_student.build(block, parts)
    with torch.no_grad():
        trained = student.encode(student.tokenise(TEXTS)).vectors.numpy()
    student.save(tmp_path / "student")
    np.testing.assert_allclose(
        SentenceTransformer(str(tmp_path / "student"), device="cpu").encode(TEXTS), trained, atol=1e-5
    )


def test_a_student_of_another_model_is_not_wrapped_by_that_models_template(tmp_path):
    parts = plain_folder(tmp_path / "other", "bert")
    teacher_parts.read_encoder(parts)
    module = transformer_student.as_module(teacher_parts.read_encoder(parts), parts, 64)
    assert list(module.modality_config) == ["text"]
    module.save(str(tmp_path / "saved"))
    assert not (tmp_path / "saved/chat_template.jinja").exists()


@pytest.mark.parametrize("window", [16, 32])
def test_a_window_that_each_reading_halves_is_read_once(load, tmp_path, window):
    """As EmbeddingGemma's: its config says 512 and means 257 to each side."""
    config = Gemma3TextConfig(
        **SMALL,
        sliding_window=window,
        use_bidirectional_attention=True,
        layer_types=["sliding_attention"] * 2,
    )
    Gemma3TextModel(config).save_pretrained(tmp_path / "gemma")
    letter_tokenizer().save_pretrained(tmp_path / "gemma")
    stated = json.loads((tmp_path / "gemma/config.json").read_text())
    (tmp_path / "gemma/config.json").write_text(json.dumps({**stated, "sliding_window": window}))
    teacher = load(tmp_path / "gemma", pooling="mean")
    reference = teacher_parts.load_encoder(tmp_path / "gemma", "")
    encoder = teacher.module[0].model
    assert encoder.config.sliding_window == reference.config.sliding_window == window // 2 + 1
    teacher.save_parts(tmp_path / "parts")
    shutil.copytree(tmp_path / "parts", tmp_path / "again")
    again = teacher_parts.read_encoder(tmp_path / "again")
    ids = torch.arange(5, 65)[None]
    with torch.no_grad():
        found = [model(input_ids=ids).last_hidden_state for model in (encoder, reference, again.eval())]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
