import json
import shutil

import numpy as np
import polars as pl
import pytest
import torch
from refusals import refuses
from safetensors.torch import load_file, save_file
from small_students import vectors_of
from transformers import BertModel

from pipeline.data import teacher_parts
from pipeline.params.teacher import HashingTeacher
from pipeline.teacher.kinds.hashing import Hashing, letter_tokenizer

FILES = ["config.json", "tokenizer.json", "model.safetensors", "vocabulary.parquet"]
READERS = [teacher_parts.read_encoder, teacher_parts.read_tokenizer, teacher_parts.read_vocabulary]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The hashing teacher's parts and its vocabulary vectors."""
    folder = tmp_path_factory.mktemp("parts") / "teacher"
    vocabulary = vectors_of(Hashing(HashingTeacher(kind="hashing", dim=8)).save_parts(folder))
    teacher_parts.write_vocabulary(vocabulary, folder)
    return folder, vocabulary


@pytest.fixture
def folder(written, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(written[0], tmp_path / "teacher")


def test_a_model_with_code_of_its_own_is_told_apart_from_a_damaged_one(folder):
    config = json.loads((folder / "config.json").read_text())
    own = {"model_type": "ours", "auto_map": {"AutoConfig": "a--b.C", "AutoModel": "a--b.M"}}
    (folder / "config.json").write_text(json.dumps(config | own))
    with refuses(folder, "kind static", "`embeddings: file`", "`init.model`"):
        teacher_parts.read_encoder(folder)
    assert len(teacher_parts.read_vocabulary(folder))


def test_a_missing_weight_is_not_made_up(folder):
    weights = load_file(folder / "model.safetensors")
    gone = {name: value for name, value in weights.items() if ".layer.1." not in name}
    assert len(gone) < len(weights)
    save_file(gone, folder / "model.safetensors", {"format": "pt"})
    absent = f" {len(weights) - len(gone)} weights"
    with refuses(folder, "model.safetensors", absent, "encoder.layer.1.", "`dvc repro -f teacher_parts`"):
        teacher_parts.read_encoder(folder)


def test_a_missing_pooler_is_always_the_same(folder):
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: value for name, value in weights.items() if not name.startswith("pooler.")},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    torch.manual_seed(1)
    before = torch.rand(())
    torch.manual_seed(1)
    first, again = (teacher_parts.read_encoder(folder).pooler.dense.weight for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.rand(()), before)


def test_vocabulary_row_i_is_token_i(written):
    folder, vocabulary = written
    read = teacher_parts.read_vocabulary(folder)
    assert read.dtype == np.float32
    assert np.array_equal(read, vocabulary.astype(np.float16))
    assert len(read) == teacher_parts.read_tokenizer(folder).get_vocab_size()


def test_the_encoder_comes_back_in_float32(folder):
    half = BertModel.from_pretrained(folder).to(torch.bfloat16)
    half.save_pretrained(folder)
    encoder = teacher_parts.read_encoder(folder)
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    for name, parameter in half.named_parameters():
        assert torch.equal(encoder.get_parameter(name), parameter.float())


def test_the_tokenizer_neither_pads_nor_cuts(folder):
    tokenizer = letter_tokenizer().backend_tokenizer
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(8)
    tokenizer.save(str(folder / "tokenizer.json"))
    lengths = [len(teacher_parts.read_tokenizer(folder).encode(text).ids) for text in ("ab", "a" * 50)]
    assert lengths == [4, 52]


@pytest.mark.parametrize(
    ("name", "read"), zip(FILES, [READERS[0], READERS[1], READERS[0], READERS[2]], strict=True)
)
def test_a_missing_file_is_named_with_the_stage(folder, name, read):
    (folder / name).unlink()
    with refuses(folder, name, "`dvc repro -f teacher_parts`"):
        read(folder)


def test_a_missing_folder_lacks_them_all(tmp_path):
    with refuses(tmp_path / "none", "config.json", "model.safetensors", "`dvc repro -f teacher_parts`"):
        teacher_parts.read_encoder(tmp_path / "none")


@pytest.mark.parametrize("vectors", [None, np.ones((77, 4))])
def test_a_reader_has_the_vectors_with_the_tokenizer_or_is_told_that_it_was_none(written, tmp_path, vectors):
    teacher_parts.write_reader(vectors, written[0], tmp_path / "static")
    if vectors is None:
        with refuses(tmp_path / "static", "params.yaml", "`dvc repro teacher_parts`"):
            teacher_parts.read_vocabulary(tmp_path / "static")
    else:
        assert np.array_equal(teacher_parts.read_vocabulary(tmp_path / "static"), vectors)
        assert teacher_parts.read_tokenizer(tmp_path / "static").get_vocab_size() == 77


def cut(path):
    path.write_bytes(path.read_bytes()[:40])


@pytest.mark.parametrize(
    ("name", "spoil", "read"),
    [
        ("model.safetensors", cut, READERS[0]),
        ("tokenizer.json", lambda path: path.write_text(json.dumps({})), READERS[1]),
        ("vocabulary.parquet", cut, READERS[2]),
        ("vocabulary.parquet", lambda path: pl.DataFrame({"x": [1]}).write_parquet(path), READERS[2]),
    ],
)
def test_a_damaged_file_is_named_with_the_stage(folder, name, spoil, read):
    spoil(folder / name)
    with refuses(folder, name, "`dvc repro -f teacher_parts`"):
        read(folder)
