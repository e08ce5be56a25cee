"""The same bytes by one worker or several, by job arrays and on Ray."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_students
from encode_runs import OUT, die, encode, run_slowly, stored, write_params, write_texts
from killed import asked
from published_sets import published_files
from refusals import refuses

from pipeline.teacher.encoding.engines import local, ray_data

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


def test_a_worker_that_dies_is_said(files, monkeypatch):
    write_params(workers=2)
    monkeypatch.setattr(local, "_fill", die)
    with refuses("2 workers", "lower runtime.workers"):
        encode()


def test_gpus_are_dealt_out_to_workers(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [local.device_of(number, "auto") for number in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert [local.device_of(number, "cuda") for number in range(2)] == ["cuda:0", "cuda:1"]
    assert [local.device_of(number, "cuda:1") for number in range(2)] == ["cuda:1", "cuda:1"]
    assert local.device_of(1, "cpu") == "cpu"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert local.device_of(1, "auto") == "auto"


def test_ray_that_is_missing_is_named(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    write_params(engine="ray")
    with refuses("runtime.engine", "`pip install 'ray[data]'`"):
        encode()


def test_two_actors_of_ray(files):
    pytest.importorskip("ray", reason="runtime.engine ray needs `pip install 'ray[data]'`")
    write_params(engine="ray", workers=2)
    done = subprocess.run(STAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "encode corpus: 500 encoded, 0 taken from the store" in done.stderr
    assert {path.name: path.read_bytes() for path in OUT.iterdir()} == files


@pytest.mark.parametrize(
    ("nodes", "workers", "cpus"),
    [([2], 2, 1), ([2], 1, 2), ([8, 8, 8], 3, 8), ([8, 8], 3, 4), ([16, 2], 2, 8), ([2], 9, 1), ([], 1, 1)],
)
def test_actors_get_as_many_cpus_as_fit(nodes, workers, cpus):
    found = ray_data.shares([{"CPU": node} for node in nodes], workers, "auto")
    assert found == {"num_cpus": cpus, "num_gpus": 0}


@pytest.mark.parametrize(
    ("gpus", "workers", "device", "share"),
    [
        (4, 2, "auto", 1),
        (1, 2, "cuda", 0.5),
        (2, 3, "auto", 0.5),  # no worker has two thirds of two GPUs
        (1, 3, "cuda:0", 0.3333),
        (4, 2, "cpu", 0),
    ],
)
def test_actors_share_gpus_where_there_are_too_few(gpus, workers, device, share):
    found = ray_data.shares([{"CPU": 4, "GPU": gpus}], workers, device)
    assert found == {"num_cpus": 4 // workers, "num_gpus": share}


def test_actors_with_gpus_fit_on_the_nodes_that_have_some():
    nodes = [{"CPU": 64}, {"CPU": 8, "GPU": 4}]
    assert ray_data.shares(nodes, 4, "auto") == {"num_cpus": 2, "num_gpus": 1}
    assert ray_data.shares(nodes, 4, "cpu") == {"num_cpus": 16, "num_gpus": 0}
