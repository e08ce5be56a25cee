import json

import numpy as np
import polars as pl
import pytest
from flipped import flip
from refusals import refuses
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pipeline.core import seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError
from pipeline.core.facts import check_facts

CONTENT = {"a": 1, "text": f"it says {seal.BLANK}", "deep": {"b": [1.5, None]}}


def write_json(path):
    path.write_text(seal.to_json(CONTENT))
    return path


def write_parquet(path):
    # Texts that look like a seal must not be taken for it, in statistics either.
    texts = [seal.BLANK, *map(str, range(50))]
    pl.DataFrame({"text": texts}).write_parquet(path, metadata={seal.KEY: seal.BLANK})
    seal.fill(path)
    return path


def write_safetensors(path):
    save_file({"x": np.frombuffer(seal.BLANK.encode(), np.uint8)}, path, {seal.KEY: seal.BLANK})
    seal.fill(path)
    return path


READERS = {
    "f.json": (write_json, lambda path: seal.read_json(path, "look")),
    "f.parquet": (write_parquet, lambda path: pl.read_parquet(path).to_dict(as_series=False)),
    "f.safetensors": (write_safetensors, lambda path: load_file(path)["x"].tobytes()),
}


@pytest.mark.parametrize("name", READERS)
def test_every_single_flipped_bit_is_found_or_changes_nothing(tmp_path, name):
    write, read = READERS[name]
    path = write(tmp_path / name)
    intact, wanted = path.read_bytes(), read(path)
    assert seal.fault(path) is None
    unfound = 0
    for bit in range(8 * len(intact)):
        flip(path, bit)
        if seal.fault(path) is None:
            try:
                assert read(path) == wanted
                unfound += 1
            except (UserError, SafetensorError):
                pass  # found by its reader
        path.write_bytes(intact)
    assert unfound <= 8 * len(seal.BLANK)  # of the seal itself


@pytest.mark.parametrize("name", READERS)
def test_equal_content_gives_equal_bytes(tmp_path, name):
    (tmp_path / "again").mkdir()
    assert (
        READERS[name][0](tmp_path / name).read_bytes()
        == READERS[name][0](tmp_path / "again" / name).read_bytes()
    )


def test_a_json_comes_back_without_its_seal(tmp_path):
    assert seal.read_json(write_json(tmp_path / "f.json"), "look") == CONTENT
    assert json.loads((tmp_path / "f.json").read_text()).keys() == {*CONTENT, "seal"}
    check_facts(tmp_path / "f.json", {"a": 1}, "look")


@pytest.mark.parametrize("content", ["[1]", '{"a": 1', "\udc80"])
def test_what_is_no_json_object_names_file_and_stage(tmp_path, content):
    (tmp_path / "f.json").write_bytes(content.encode(errors="surrogateescape"))
    with refuses(tmp_path / "f.json", "JSON", "`dvc repro -f look`"):
        seal.read_json(tmp_path / "f.json", "look")


@pytest.fixture
def folder(tmp_path):
    with atomic_folder(tmp_path / "student") as made:
        (made / "deep").mkdir()
        (made / "deep/weights.bin").write_bytes(bytes(range(256)))
        (made / "config.json").write_text("{}")
    return tmp_path / "student"


def test_every_flipped_bit_of_a_folder_names_its_file(folder):
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        intact = path.read_bytes()
        for bit in range(0, 8 * len(intact), 7):
            flip(path, bit)
            told = seal.fault(folder)
            assert told is None or str(folder) in told
            if path.name != seal.NAME:
                assert str(path) in told
            elif told is None:  # a bit of the seal itself
                assert not seal.SEAL.search(path.read_bytes())
            path.write_bytes(intact)
    assert seal.fault(folder) is None


def test_a_file_that_is_gone_or_of_another_length_is_told_with_the_fix(folder):
    (folder / "deep/weights.bin").write_bytes(b"")
    with refuses(folder / "deep/weights.bin", "damaged", "; mend"):
        seal.check(folder, "mend")
    seal.check(folder, "mend", "config.json")  # only what is used
    (folder / "deep/weights.bin").unlink()
    with refuses(folder / "deep/weights.bin", "missing", "; mend"):
        seal.check(folder, "mend")


def test_what_others_wrote_has_no_seal_and_passes(tmp_path, folder):
    (tmp_path / "plain.json").write_text('{"a": 1}')
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "plain.parquet")
    for path in (tmp_path / "plain.json", tmp_path / "plain.parquet", tmp_path):
        assert seal.fault(path) is None
    assert seal.read_json(tmp_path / "plain.json", "x") == {"a": 1}
    (folder / "more.txt").write_text("beside")
    assert seal.fault(folder) is None


def test_a_file_without_a_place_for_a_seal_cannot_get_one(tmp_path):
    (tmp_path / "f.json").write_text("{}")
    with pytest.raises(ValueError, match="no place"):
        seal.fill(tmp_path / "f.json")


@pytest.mark.parametrize("listed", ["3", "[1]", '{"a": 1}', "null"])
def test_a_folders_seal_that_lists_no_digests_is_damaged(folder, listed):
    (folder / "seal.json").write_text(f'{{"files": {listed}}}')
    assert "seal.json is damaged" in seal.fault(folder)
