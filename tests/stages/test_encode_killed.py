import random
import shutil
from itertools import chain
from pathlib import Path

import pytest
from encode_runs import (
    OUT,
    asked,
    encode,
    published,
    run_slowly,
    stored,
    stored_ids,
    write_params,
    write_texts,
)
from killed import kill_after

from pipeline.artifacts import encoding, texts, vectors
from pipeline.core.errors import UserError

KILLS = 20


@pytest.fixture
def seed(folder):
    """Eight shards of some fifteen pieces each."""
    write_params(shard_rows=64)
    return write_texts("word " * (i % 13) + f"text {i}" for i in range(500))


@pytest.fixture
def start(folder, processes):
    """Start the stage in a process of its own, with a teacher that notes its pieces here and is so slow."""

    def start(log, seconds):
        process = processes.Process(target=run_slowly, args=(folder, log, seconds))
        process.start()
        return process

    return start


def test_twenty_kills_cost_no_finished_piece_and_no_byte(folder, seed, start):
    start(folder / "undisturbed", 0).join()
    files = published()
    pieces = asked(folder / "undisturbed")
    assert sorted(chain(*pieces)) == sorted(seed)
    shutil.rmtree(".cache")
    shutil.rmtree(OUT)

    moments = random.Random(5)
    for kill in range(KILLS):
        before, log = stored_ids(), folder / f"asked {kill}"
        process, begun = start(log, 0.01), moments.randrange(8)
        kill_after(process, lambda log=log, begun=begun: len(asked(log)) >= begun, moments, seconds=0.015)
        assert not OUT.exists()
        assert not before & {texts.text_id(text) for text in chain(*asked(log))}
        assert all(piece in pieces for piece in asked(log))
    kept = len(stored_ids())
    assert 0 < kept < len(seed)

    start(log := folder / "rest", 0).join()
    assert len([*chain(*asked(log))]) == len(seed) - kept
    assert f"{len(seed) - kept} encoded, {kept} taken from the store" in (folder / "stderr").read_text()
    assert published() == files
    assert not [*Path(".cache").rglob(".partial-*")]


def test_a_kill_while_the_set_is_published_leaves_none_and_costs_no_vector(folder, seed, monkeypatch, capsys):
    files = encode()
    shutil.rmtree(OUT)
    write = encoding.write_shard

    def stopped(ids, columns, path, storage):
        write(ids, columns, path, storage)
        if path.name == "00003.parquet":
            raise KeyboardInterrupt

    monkeypatch.setattr(encoding, "write_shard", stopped)
    with pytest.raises(KeyboardInterrupt):
        encode()
    monkeypatch.setattr(encoding, "write_shard", write)
    with pytest.raises(UserError, match="run `dvc repro encode@seed`"):
        vectors.open_set(OUT)
    assert encode() == files
    assert "0 encoded, 500 taken" in capsys.readouterr().err.splitlines()[-1]
    assert not [path for path in stored() if path.name.startswith(".")]
