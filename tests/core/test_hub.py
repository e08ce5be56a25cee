"""Against a real hub that stalls: what is cached is used, and nothing hangs."""

import pytest
from refusals import refuses
from small_hub import COMMIT, dripping, silent, small_hub

from pipeline.core import hub as bounds
from pipeline.data.models.locate import find_model
from pipeline.look import model_cards

STALLS = {
    "silent": silent,
    "dripping": dripping(b""),
    "dripping headers": dripping(b"HTTP/1.1 200 OK\r\nX: "),
    "dripping body": dripping(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"),
    "endless body": lambda handler: flood(handler),
}


def flood(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while not handler.server.closing.is_set() and getattr(handler.server, "flooded", 0) < 64 << 20:
        handler.server.flooded = getattr(handler.server, "flooded", 0) + handler.wfile.write(b" " * 65_536)


@pytest.fixture
def hub(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(bounds, "ANSWER_SECONDS", 0.6)
    monkeypatch.setattr(bounds, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(bounds, "MOST_JSON", 1 << 20)
    with small_hub(bert, tmp_path / "hub") as running:
        yield running


def find(**choices):
    return find_model("owner/tiny", "teacher.model", **choices)


@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_what_is_whole_in_the_cache_is_used_before_the_hub_is_asked(hub, bert, revision):
    first = find(revision=revision)
    assert {path.name for path in bert.iterdir()} == {path.name for path in first.iterdir()}
    hub.asked.clear()
    hub.stalls[""] = silent
    assert find(revision=revision) == first
    assert not hub.asked


def test_what_is_not_whole_is_completed(hub):
    (find() / "tokenizer.json").unlink()
    assert (find() / "tokenizer.json").exists()


@pytest.mark.parametrize("name", STALLS)
def test_a_hub_that_stalls_is_given_up(hub, name):
    hub.stalls[""] = STALLS[name]
    with refuses("teacher.model", "owner/tiny", "run again"):
        find()
    assert getattr(hub, "flooded", 0) < 16 << 20


@pytest.mark.parametrize("name", ["silent", "dripping headers"])
def test_a_cache_of_another_program_is_used_where_the_hub_stalls(hub, name, tmp_path):
    first = find()
    for path in tmp_path.glob("hub/*/trees/*"):
        path.unlink()  # earlier libraries kept no list
    hub.stalls[""] = STALLS[name]
    assert find() == first
    assert hub.asked


def test_a_file_that_drips_is_given_up(hub):
    drip = dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n")
    hub.stalls["/model.safetensors"] = lambda handler: (
        drip(handler) if handler.command == "GET" else handler.give_file()
    )
    with refuses("teacher.model", "model.safetensors", "bytes in", "again"):
        find()


def test_the_licence_of_a_cached_model_is_read_without_the_hub(hub, tmp_path):
    folder = find()
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    hub.asked.clear()
    assert model_cards._card("owner/tiny", None) == (folder / "README.md").read_text()
    assert not hub.asked


def test_a_dataset_is_not_waited_for(hub):
    pytest.importorskip("datasets")
    from pipeline.prepare.readers.hub_datasets import load

    hub.stalls[""] = silent
    with refuses("hub:owner/data", "cannot be loaded"):
        load("hub:owner/data", "owner/data", {})
