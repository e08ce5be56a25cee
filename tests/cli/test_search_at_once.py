"""Several `pipeline search` at once: each puts its index in place by moving what is there aside first."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import test_search
from small_params import small_params

from pipeline.cli import search as command

INDEX = Path("mine")


@pytest.fixture(autouse=True)
def student(folder: Path) -> None:
    Path("params.yaml").write_text(json.dumps(small_params()))
    Path("corpus.txt").write_text("\n".join(test_search.TEXTS))
    test_search.save_student(Path("data/finetuned/tiny"), seed=0)


def search() -> list[list[str]]:
    return test_search.lines(test_search.search("cat", "--index", str(INDEX)))


def aside_at_first(real: Callable, moments: list[str]) -> Callable:
    """A function that at its first call finds the index as another process has it at that moment: aside."""

    def look(*args: object) -> object:
        moments.append("look")
        if len(moments) > 1:
            return real(*args)
        INDEX.rename("aside")
        try:
            return real(*args)
        finally:
            Path("aside").rename(INDEX)

    return look


def test_an_index_that_another_moves_aside_at_once_is_searched(monkeypatch: pytest.MonkeyPatch):
    real = command._write

    def write(*args: object) -> None:
        real(*args)
        INDEX.rename("aside")

    monkeypatch.setattr(command, "_write", write)
    assert search() == test_search.expected("cat", len(test_search.TEXTS))


@pytest.mark.parametrize("name", ["_manifest", "_read"])
def test_an_index_that_is_aside_for_a_moment_is_looked_at_again(monkeypatch: pytest.MonkeyPatch, name: str):
    first, moments = search(), []
    monkeypatch.setattr(command, name, aside_at_first(getattr(command, name), moments))
    assert search() == first
    assert len(moments) > 1


def test_an_index_that_another_corpus_replaces_at_that_moment_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    first, real = search(), command._is_kept
    Path("other.txt").write_text("of another corpus")
    assert test_search.search("cat", "--index", "other", corpus="other.txt").exit_code == 0

    def kept_then_replaced(place: Path, key: str) -> bool:
        was_kept = real(place, key)
        monkeypatch.setattr(command, "_is_kept", real)
        INDEX.rename("aside")
        Path("other").rename(INDEX)
        return was_kept

    monkeypatch.setattr(command, "_is_kept", kept_then_replaced)
    assert search() == first
    assert search() == first
