from pathlib import Path

import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.core import memory
from pipeline.params.load import check, load


@pytest.mark.parametrize(
    "cache",
    [
        "",
        " ",
        ".",
        "~",
        "~/cache",
        "data",
        "data/cache",
        "./data/x",
        "x/../data",
        "reports/x",
        ".dvc/cache",
        "..",
        "/",
        "../../x/../..",
    ],
)
def test_a_cache_that_others_would_empty_is_refused(folder, cache):
    with refuses("params.yaml", "runtime.cache"):
        check(small_params(runtime={"cache": cache}), Path("params.yaml"))


def test_a_link_into_data_is_seen(folder):
    Path("data").mkdir()
    Path("link").symlink_to("data")
    for cache in ("link/cache", str(folder / "data" / "cache")):
        with refuses("params.yaml", "runtime.cache", "data/", ".cache"):
            check(small_params(runtime={"cache": cache}), Path("params.yaml"))


@pytest.mark.parametrize("cache", [".cache", "database", "../cache", "/tmp/cache", "my data"])
def test_a_folder_of_its_own_is_taken(folder, cache):
    assert check(small_params(runtime={"cache": cache}), Path("params.yaml")).runtime.cache == cache


def test_less_memory_than_python_takes_is_refused():
    with refuses("params.yaml", "runtime.memory", "0.3 GB", "0.5 or more"):
        check(small_params(runtime={"memory": 0.3}), Path("params.yaml"))
    assert check(small_params(runtime={"memory": 0.5}), Path("params.yaml")).runtime.memory == 0.5


def test_a_process_keeps_to_what_the_file_says(folder, monkeypatch):
    monkeypatch.setattr(memory, "_bound", memory.DEFAULT)
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(runtime={"memory": 0.7}), file)
    load(Path("params.yaml"))
    assert memory.bound() == 0.7


def test_a_file_is_no_cache(folder):
    (folder / "params.yaml").touch()
    with refuses("runtime.cache", "'params.yaml' is a file", ".cache"):
        check(small_params(runtime={"cache": "params.yaml"}), Path("params.yaml"))
