"""What the stage takes from the store, and what it does not."""

import shutil
from pathlib import Path

import pytest
import small_students
from encode_runs import OUT, encode, sensitive, stored, view_of, write_params, write_texts
from refusals import refuses
from ruamel.yaml import YAML

from pipeline.teacher.encoding.engines import tried
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.kinds.hashing import Hashing
from pipeline.vectors.sets import published


def summary(capsys):
    return capsys.readouterr().err.splitlines()[-1]


def test_a_thousand_more_texts_encode_a_thousand(folder, capsys):
    write_params(shard_rows=4096)
    many = [f"text {i}" for i in range(20_000)]
    write_texts(many)
    encode()
    assert summary(capsys) == "encode corpus: 20,000 encoded, 0 taken from the store"
    write_texts([*many, *(f"new {i}" for i in range(1000))])
    grown = encode()
    assert summary(capsys) == "encode corpus: 1,000 encoded, 20,000 taken from the store"
    shutil.rmtree(".cache")
    assert encode() == grown


@pytest.mark.parametrize("mine", [None, {}])
def test_what_nobody_reads_is_not_encoded(folder, capsys, mine):
    write_params()
    document = YAML().load(Path("params.yaml"))
    document["finetune"] = {"data": {}, "mine": mine}
    YAML().dump(document, Path("params.yaml"))
    write_texts(f"text {i}" for i in range(3))
    assert encode(unless_null="finetune.mine", shard_index=0, num_shards=2) == {}
    encode(unless_null="finetune.mine")
    said = "not needed, for finetune.mine is null" if mine is None else "0 encoded, 3 taken from the store"
    assert summary(capsys) == f"encode corpus: {said}"
    assert published.open_set(OUT).rows == (0 if mine is None else 3)
    assert bool(stored()) == (mine is not None)


def test_a_mistyped_key_in_dvc_yaml_is_told(folder):
    write_params()
    write_texts(["text"])
    with refuses("'finetune.mined'", "params.yaml", "vars.text_sets in dvc.yaml"):
        encode(unless_null="finetune.mined")


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip])
def test_damage_between_runs_is_said_and_encoded_again_to_the_same_bytes(folder, monkeypatch, capsys, damage):
    quick, pieces = Hashing.encode, []

    def noted(self, together, views, role):
        pieces.append((together, list(views)))
        return {view: sensitive(part, together) for view, part in quick(self, together, views, role).items()}

    monkeypatch.setattr(Hashing, "encode", noted)
    monkeypatch.setattr(filling, "PIECE_CHARACTERS", 300)
    monkeypatch.setattr(tried, "TRIED", 0)
    write_params(shard_rows=64)
    write_texts("word " * (i % 5) + f"text {i}" for i in range(300))
    files, asked = encode(), pieces.copy()
    damaged = stored()[7]
    view = view_of(damaged)
    damage(damaged)
    shutil.rmtree(OUT)
    pieces.clear()
    assert encode() == files
    [(again, views)] = pieces
    assert again in [piece for piece, _ in asked]
    assert views == [view]
    error = capsys.readouterr().err
    assert error.count(f"{damaged} is damaged: dropped, its texts are encoded again") == 1
    assert (
        error.splitlines()[-1]
        == f"encode corpus: {len(again)} encoded, {300 - len(again)} taken from the store"
    )


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A two-layer BERT."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    small_students.teacher().save_parts(folder)
    return folder


def flip_a_weight(folder):
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-2] ^= 64
    weights.write_bytes(content)


def test_another_recipe_reuses_nothing_and_going_back_everything(folder, bert, capsys):
    plain = {"kind": "transformer", "model": "bert", "pooling": "mean", "prompts": {"text": "a "}}
    shutil.copytree(bert, "bert")
    write_texts(f"a text of letters {i}" for i in range(40))

    def run(teacher):
        write_params(teacher=teacher)
        return encode(), summary(capsys)

    all_encoded = "encode corpus: 40 encoded, 0 taken from the store"
    none_encoded = "encode corpus: 0 encoded, 40 taken from the store"
    first, said = run(plain)
    assert said == all_encoded
    for change in ({"prompts": {"text": "b "}}, {"max_length": 8}, {"precision": "bfloat16"}):
        changed, said = run({**plain, **change})
        assert said == all_encoded
        assert changed["cls/00000.parquet"] != first["cls/00000.parquet"]
        assert run(plain) == (first, none_encoded)
    shutil.copytree("bert", "kept")
    flip_a_weight(Path("bert"))
    changed, said = run(plain)
    assert said == all_encoded
    assert changed["cls/manifest.json"] != first["cls/manifest.json"]
    shutil.rmtree("bert")
    Path("kept").rename("bert")
    assert run(plain) == (first, none_encoded)
