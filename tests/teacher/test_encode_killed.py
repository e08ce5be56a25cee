import shutil
from itertools import chain
from pathlib import Path

import pytest
from encode_runs import (
    OUT,
    encode,
    published,
    run_slowly,
    stored,
    stored_ids,
    write_params,
    write_texts,
)
from killed import asked, kill_many, starter
from refusals import refuses

from pipeline.teacher.encoding import encode as stage
from pipeline.vectors.sets import published as vectors

KILLS = 20


@pytest.fixture
def seed(folder):
    """Eight shards of some fifteen pieces each."""
    write_params(shard_rows=64)
    return write_texts("word " * (i % 13) + f"text {i}" for i in range(500))


@pytest.fixture
def start(folder, processes):
    return starter(processes, run_slowly, folder)


def test_twenty_kills_cost_no_finished_piece_and_no_byte(folder, seed, start):
    start(folder / "undisturbed", 0).join()
    files = published()
    pieces = asked(folder / "undisturbed")
    assert sorted(chain(*pieces)) == sorted(seed)
    shutil.rmtree(".cache")
    shutil.rmtree(OUT)

    kept = len(kill_many(start, folder, pieces, kills=KILLS, within=8, slow=0.01, out=OUT, stored=stored_ids))
    assert 0 < kept < len(seed)

    start(log := folder / "rest", 0).join()
    assert len([*chain(*asked(log))]) == len(seed) - kept
    assert f"{len(seed) - kept} encoded, {kept} taken from the store" in (folder / "stderr").read_text()
    assert published() == files
    assert not [*Path(".cache").rglob(".partial-*")]


def test_a_kill_while_the_set_is_published_leaves_none_and_costs_no_vector(folder, seed, monkeypatch, capsys):
    files = encode()
    shutil.rmtree(OUT)
    write = stage.write_shard

    def stopped(ids, columns, path, storage):
        write(ids, columns, path, storage)
        if path.name == "00003.parquet":
            raise KeyboardInterrupt

    monkeypatch.setattr(stage, "write_shard", stopped)
    with pytest.raises(KeyboardInterrupt):
        encode()
    monkeypatch.setattr(stage, "write_shard", write)
    with refuses(OUT, "`dvc repro encode@corpus`"):
        vectors.open_set(OUT)
    assert encode() == files
    assert "0 encoded, 500 taken" in capsys.readouterr().err.splitlines()[-1]
    assert not [path for path in stored() if path.name.startswith(".")]
