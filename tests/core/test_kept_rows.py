"""Rows of a killed run: which are made again, and what the files hold then."""

import json
from contextlib import suppress

import numpy as np
import pytest
from refusals import refuses
from small_disk import disk_of

from pipeline.core import kept_rows

BLOCKS = [[f"text {row}" for row in range(start, start + 10)] for start in range(0, 60, 10)]
DIM = 5


class Killed(BaseException):
    """What a kill is to a process that is not there any more: nothing but files is left."""


class Model:
    """Encodes blocks, and is killed before one of them."""

    def __init__(self, killed_at=None):
        self.asked, self.killed_at = [], killed_at

    def encode(self, block):
        if len(self.asked) == self.killed_at:
            raise Killed
        self.asked.append(block)
        return np.array([[of(text) + column for column in range(DIM)] for text in block], np.float32)


def of(text):
    return int(text.split()[1]) / 7


def run(file, model, seconds=0.0, precision="float32"):
    with suppress(Killed):
        told = (60, iter(BLOCKS), model.encode, precision, seconds)
        return kept_rows.made("a student", "texts", file, *told)


EXPECTED = np.array([[row / 7 + column for column in range(DIM)] for row in range(60)], np.float32)


@pytest.mark.parametrize("done", [0, 1, 4, 6])
def test_a_killed_run_goes_on_after_the_last_block_that_was_told(tmp_path, done):
    file = tmp_path / "finetuned.bin"
    run(file, Model(killed_at=done))
    later = Model()
    found = run(file, later)
    assert later.asked == BLOCKS[done:]
    np.testing.assert_array_equal(found, EXPECTED)
    assert file.read_bytes() == EXPECTED.tobytes()


def test_what_was_not_told_yet_is_encoded_again(tmp_path):
    file = tmp_path / "finetuned.bin"
    run(file, Model(killed_at=2))
    run(file, Model(killed_at=3), seconds=1e6)
    assert file.stat().st_size > 2 * 10 * DIM * 4
    later = Model()
    run(file, later)
    assert later.asked == BLOCKS[2:]
    assert file.read_bytes() == EXPECTED.tobytes()


def flip(file, record):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def cut(file, record):
    file.write_bytes(file.read_bytes()[:-3])


def tell(content):
    def write(file, record):
        record.write_text(content)

    return write


DAMAGE = {
    "a bit of a vector": flip,
    "a file that is cut": cut,
    "a record that is cut": tell('{"blocks": 3'),
    "a record of another kind": tell("[]"),
    "a record without a key": tell('{"blocks": 3, "rows": 30, "dim": 5}'),
    "a record with a word for a number": tell(
        '{"blocks": 3, "rows": "x", "dim": 5, "dtype": "float32", "sha256": "", "how": "float32"}'
    ),
    "a record of fewer blocks": lambda file, record: record.write_text(
        record.read_text().replace('"blocks": 3', '"blocks": 2')
    ),
    "a record in other letters": lambda file, record: record.write_bytes(b"\xff\xfe{}"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told_and_all_is_encoded_again(tmp_path, damage, capsys):
    file = tmp_path / "finetuned.bin"
    run(file, Model(killed_at=3))
    DAMAGE[damage](file, file.with_suffix(".json"))
    later = Model()
    run(file, later)
    assert f"{file} is damaged" in capsys.readouterr().err
    assert later.asked == BLOCKS
    assert file.read_bytes() == EXPECTED.tobytes()


@pytest.mark.parametrize("missing", ["finetuned.bin", "finetuned.json"])
def test_either_file_alone_is_no_state(tmp_path, missing, capsys):
    file = tmp_path / "finetuned.bin"
    run(file, Model(killed_at=3))
    (tmp_path / missing).unlink()
    later = Model()
    run(file, later)
    assert later.asked == BLOCKS
    assert "damaged" not in capsys.readouterr().err
    assert json.loads(file.with_suffix(".json").read_text())["rows"] == 60


def test_a_full_disk_is_told_and_the_run_goes_on_once_there_is_room(tmp_path):
    file = tmp_path / "finetuned.bin"
    with disk_of(3 * 10 * DIM * 4 + 50), refuses("finetuned.bin cannot be written"):
        run(file, Model())
    later = Model()
    run(file, later)
    assert later.asked == BLOCKS[3:]
    assert file.read_bytes() == EXPECTED.tobytes()


def test_vectors_of_another_precision_are_made_again(tmp_path, capsys):
    file = tmp_path / "finetuned.bin"
    run(file, Model(killed_at=3), precision="bfloat16")
    later = Model()
    run(file, later)
    assert later.asked == BLOCKS
    assert "made otherwise" in capsys.readouterr().err


def test_bytes_are_rows_too(tmp_path):
    blocks = [np.arange(start, start + 6, dtype=np.uint8).reshape(2, 3) for start in (0, 6)]
    file = tmp_path / "told.bin"
    for _ in range(2):
        found = kept_rows.made("bytes", "rows", file, 4, blocks, lambda block: block, "", 30.0)
        assert (found.dtype, found.tolist()) == (np.uint8, np.arange(12).reshape(4, 3).tolist())


def test_blocks_that_are_cut_otherwise_are_told_and_leave_nothing(tmp_path):
    file = tmp_path / "told.bin"
    run(file, Model(killed_at=3))
    with pytest.raises(RuntimeError, match=r"told.bin has 90 rows of 60"):
        kept_rows.made("rows", "texts", file, 60, [BLOCKS[0]] * 9, Model().encode, "float32", 30.0)
    assert list(tmp_path.iterdir()) == []
