"""The same bytes by one worker or several, by job arrays and on Ray."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import deadly_text
import pytest
import small_students
from encode_runs import OUT, die, die_before_any_text, encode, run_slowly, stored, write_params, write_texts
from killed import asked
from published_sets import published_files
from refusals import refuses

from pipeline.data.common.texts import text_id
from pipeline.teacher.encoding.engines import local

STAGE = [
    sys.executable,
    "-m",
    "pipeline.teacher.encoding.encode",
    "--texts",
    "corpus.parquet",
    "--out",
    "vectors/corpus",
]


@pytest.fixture
def files(folder):
    """What one undisturbed worker publishes; the store is empty again."""
    write_params()
    write_texts(f"text {i}" for i in range(500))
    files = encode()
    assert len(files) == 18
    shutil.rmtree(OUT)
    shutil.rmtree(".cache")
    return files


def test_two_workers(files, capfd):
    write_params(workers=2)
    assert encode() == files
    assert "encode corpus: 500 encoded, 0 taken from the store" in capfd.readouterr().err
    assert encode() == files
    assert "encode corpus: 0 encoded, 500 taken from the store" in capfd.readouterr().err


def test_two_workers_of_a_transformer(folder):
    small_students.teacher().save_parts(folder / "bert")
    write_texts("word " * (i % 7) + f"text {i}" for i in range(200))
    bert = {"kind": "transformer", "model": "bert", "pooling": "mean"}
    write_params(teacher=bert)
    files = encode()
    write_params(teacher=bert, workers=2, cache="another")
    assert encode() == files


def test_a_job_array_of_three_and_the_run_that_publishes(files, capsys):
    for part in (2, 0, 1):
        assert encode(shard_index=part, num_shards=3) == {}
    told = [line for line in capsys.readouterr().err.splitlines() if "taken from the store" in line]
    assert [line.partition(":")[0] for line in told] == [f"encode corpus ({part} of 3)" for part in (2, 0, 1)]
    assert sum(int(line.split()[-7]) for line in told) == 500
    assert encode() == files
    assert "encode corpus: 0 encoded, 500 taken from the store" in capsys.readouterr().err


def test_a_job_array_may_have_more_jobs_than_there_are_shards(files, capsys):
    assert encode(shard_index=8, num_shards=20) == {}
    assert "encode corpus (8 of 20): 0 encoded, 0 taken from the store" in capsys.readouterr().err
    assert not stored()


@pytest.mark.parametrize(("index", "parts"), [(3, 3), (-1, 3), (0, 0), (0, None), (None, 3)])
def test_a_part_out_of_bounds(folder, files, index, parts):
    with refuses(f"--shard-index is {index} ", f"--num-shards {parts};"):
        encode(shard_index=index, num_shards=parts)
    assert not stored()


def test_two_processes_on_one_store(folder, files, processes):
    (folder / ".cache").mkdir()
    runs = []
    for name in ("one", "two", "alone"):
        (folder / name).mkdir()
        for file in ("corpus.parquet", "params.yaml"):
            shutil.copy(file, name)
        if name != "alone":
            (folder / name / ".cache").symlink_to(folder / ".cache")
        runs.append(processes.Process(target=run_slowly, args=(folder / name, folder / f"{name}.log", 0.002)))
        runs[-1].start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0, 0]
    assert asked(folder / "one.log")
    assert asked(folder / "two.log")
    one, two, alone = (published_files(folder / name / OUT) for name in ("one", "two", "alone"))
    assert one == two == alone


def test_an_error_of_a_worker_is_the_users_error(files):
    write_params(workers=2, cache="params.yaml/cache")
    with refuses("params.yaml/cache/vectors/", "Not a directory"):
        encode()


def test_workers_end_with_their_parent(files):
    write_params(workers=2, shard_rows=1)
    parent = subprocess.Popen(STAGE, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    if not children.exists():
        pytest.skip("no list of children in /proc")
    try:
        wait_for(lambda: len(stored()) >= 2 or parent.poll() is not None)
        workers = children.read_text().split()
        assert len(workers) >= 2
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not any(map(is_running, workers)))
    assert not [worker for worker in workers if is_running(worker)]


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def is_running(process):
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_an_api_is_asked_by_one_process(files):
    api = {"kind": "openai_api", "url": "http://localhost/v1", "model": "tiny", "parts": "none"}
    write_params(teacher=api, workers=2)
    with refuses("runtime.workers", " 2;", "API"):
        encode()


def test_workers_that_die_at_their_start_are_told(files, monkeypatch):
    write_params(workers=2)
    monkeypatch.setattr(local, "_fill", die)
    monkeypatch.setattr(local, "_try_texts", die_before_any_text)
    with refuses("corpus.parquet", "shard 0000", "3 times", "loads the teacher", "lower runtime.workers"):
        encode()


@pytest.mark.parametrize("options", [{"shard_index": 0, "num_shards": 1}, {}])
def test_a_text_that_kills_its_worker_is_retried_twice_and_named(folder, monkeypatch, options, capsys):
    write_params(workers=1 if options else 2)
    write_texts([deadly_text.POISON, *(f"text {i}" for i in range(200))])
    monkeypatch.setattr(local, "_fill", deadly_text.fill)
    monkeypatch.setattr(local, "_try_texts", deadly_text.try_texts)
    with refuses("corpus.parquet", "00001.parquet", repr(deadly_text.POISON), text_id(deadly_text.POISON)):
        encode(**options)
    told = capsys.readouterr().err
    assert "retry 1 of 2" in told
    assert "retry 2 of 2" in told
    assert deadly_text.LOG.read_text() == "+++."
    assert not [*Path(".cache").glob(".partial-*")]


def test_a_worker_that_died_while_it_had_nothing_to_do_is_one_that_died(ready_workers):
    process = local.Process(None, 0, 1)
    process._submit(os._exit, 1).exception()
    for future in (process.fill("00000.parquet"), process.try_texts("00000.parquet", Path("note"))):
        assert local._why(future.exception())
    process.end()


def test_gpus_are_dealt_out_to_workers(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [local.device_of(number, "auto") for number in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert [local.device_of(number, "cuda") for number in range(2)] == ["cuda:0", "cuda:1"]
    assert [local.device_of(number, "cuda:1") for number in range(2)] == ["cuda:1", "cuda:1"]
    assert local.device_of(1, "cpu") == "cpu"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert local.device_of(1, "auto") == "auto"
