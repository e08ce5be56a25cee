"""The engine `ray`: the same bytes; a deadly text, a cache that is not shared, a silent cluster are told."""

import socket
import subprocess
import sys

import deadly_text
import pytest
from encode_runs import encode, published, write_params, write_texts
from refusals import refuses

from pipeline.core.errors import UserError
from pipeline.data.common.texts import text_id
from pipeline.teacher.encoding.engines import ray_actors, ray_cluster

REASON = "runtime.engine ray needs `pip install ray`"
STAGE = ["-m", "pipeline.teacher.encoding.encode", "--texts", "corpus.parquet", "--out", "vectors/corpus"]


@pytest.fixture(scope="module")
def cluster():
    """Ray on this machine, with two processors."""
    ray = pytest.importorskip("ray", reason=REASON)
    ray.init(address="local", num_cpus=2, include_dashboard=False)
    yield ray
    ray.shutdown()


@pytest.fixture
def corpus(folder):
    """A corpus with one text that may kill, on two workers of Ray."""
    write_params(engine="ray", workers=2)
    return write_texts([deadly_text.POISON, *(f"text {i}" for i in range(200))])


def test_ray_that_is_missing_is_named(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with refuses("runtime.engine", "`pip install ray`"):
        encode()


def test_two_actors_give_the_bytes_of_one_process(corpus):
    pytest.importorskip("ray", reason=REASON)
    done = subprocess.run([sys.executable, *STAGE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "encode corpus: 201 encoded, 0 taken from the store" in done.stderr
    files = published()
    write_params(cache="another")
    assert encode() == files


def test_a_text_that_kills_its_actor_is_retried_twice_and_named(cluster, corpus, monkeypatch, capsys):
    monkeypatch.setattr(ray_actors, "Actor", deadly_text.Actor)
    with refuses("corpus.parquet", "00001.parquet", repr(deadly_text.POISON), text_id(deadly_text.POISON)):
        encode()
    told = capsys.readouterr().err
    assert "retry 1 of 2" in told
    assert "retry 2 of 2" in told
    assert deadly_text.LOG.read_text() == "+++."


@pytest.mark.parametrize("kind", [deadly_text.Blind, deadly_text.Mute])
def test_a_cache_that_nodes_do_not_share_is_told_before_work(cluster, corpus, monkeypatch, folder, kind):
    monkeypatch.setattr(ray_actors, "Actor", kind)
    monkeypatch.setattr(ray_actors, "SEEN_SECONDS", 0.2)
    with refuses("runtime.cache", folder / ".cache", socket.gethostname()):
        encode()
    assert not [*(folder / ".cache").rglob("*.parquet")]


def test_an_error_of_an_actor_is_the_users_error(cluster, corpus, folder):
    (folder / "vectors").write_text("a file")
    (folder / ".cache").mkdir()
    (folder / ".cache/vectors").write_text("no folder")
    with refuses(".cache/vectors/", "Not a directory") as error:
        encode()
    assert type(error.value) is UserError
    assert "Traceback" not in str(error.value)


def test_a_cluster_that_does_not_answer_is_told_soon(corpus, monkeypatch):
    pytest.importorskip("ray", reason=REASON)
    monkeypatch.setattr(ray_cluster, "ANSWER_SECONDS", 2.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with refuses(f"RAY_ADDRESS={address}", "unset"):
            ray_cluster.check_answers(address)


def test_an_address_of_rays_client_that_nothing_listens_at_is_told_at_once():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"ray://127.0.0.1:{closed.getsockname()[1]}"
        with refuses(f"RAY_ADDRESS={address}", "refused", "unset"):
            ray_cluster.check_listens(address)
    with refuses("RAY_ADDRESS=ray://head:port", "mend it"):
        ray_cluster.check_listens("ray://head:port")
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        ray_cluster.check_listens(f"ray://127.0.0.1:{head.getsockname()[1]}")


def test_a_token_that_is_missing_is_named(monkeypatch, tmp_path):
    pytest.importorskip("ray", reason=REASON)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("HOME", str(tmp_path))
    with refuses("RAY_ADDRESS=127.0.0.1:6399", "RAY_AUTH_TOKEN", "~/.ray/auth_token"):
        ray_cluster.check_answers("127.0.0.1:6399")


@pytest.mark.parametrize(
    ("nodes", "workers", "cpus"),
    [([2], 2, 1), ([2], 1, 2), ([8, 8, 8], 3, 8), ([8, 8], 3, 4), ([16, 2], 2, 8), ([2], 9, 1), ([], 1, 1)],
)
def test_actors_get_as_many_cpus_as_fit(nodes, workers, cpus):
    found = ray_actors.shares([{"CPU": node} for node in nodes], workers, "auto")
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
    found = ray_actors.shares([{"CPU": 4, "GPU": gpus}], workers, device)
    assert found == {"num_cpus": 4 // workers, "num_gpus": share}


def test_actors_with_gpus_fit_on_the_nodes_that_have_some():
    nodes = [{"CPU": 64}, {"CPU": 8, "GPU": 4}]
    assert ray_actors.shares(nodes, 4, "auto") == {"num_cpus": 2, "num_gpus": 1}
    assert ray_actors.shares(nodes, 4, "cpu") == {"num_cpus": 16, "num_gpus": 0}
