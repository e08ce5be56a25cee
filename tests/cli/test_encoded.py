"""How many texts are embedded at a time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline.cli import encoded as module
from pipeline.cli.encoded import CHUNK, SECONDS, encoded

SHORT, LONG = "a short text", "a long text " * 100
TEXTS = {
    "short": [SHORT] * 40_000,
    "long": [LONG] * 2000,
    "short, then long": [SHORT] * 20_000 + [LONG] * 1000,
    "long, then short": [LONG] * 1000 + [SHORT] * 20_000,
}


class Model:
    """It needs so many seconds for a letter, on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds
        monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return self.now

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.now += self.seconds * sum(len(text) + 1 for text in texts)
        return np.array([[len(text)] for text in texts], np.float64)


def times(model: Model, blocks: list[list[str]]) -> list[float]:
    """When each chunk's vectors were there; they have to be those of all texts, in order."""
    found, vectors = [], []
    for chunk, of_chunk in encoded(model.encode, blocks, Path("student")):
        assert [len(text) for text in chunk] == of_chunk[:, 0].tolist()
        vectors.append(of_chunk)
        found.append(model.now)
    assert np.concatenate(vectors)[:, 0].tolist() == [len(text) for block in blocks for text in block]
    return found


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("seconds", [1e-6, 1e-5, 1e-4, 1e-3])
def test_vectors_come_each_second_after_a_slow_first_chunk(
    monkeypatch: pytest.MonkeyPatch, seconds: float, texts: str
) -> None:
    found = times(Model(monkeypatch, seconds), [TEXTS[texts]])
    passed = np.diff([0.0, *found])
    assert passed[1:].max() < SECONDS + seconds * (len(LONG) + 2)
    assert passed[0] < 6


def test_a_slow_text_is_a_chunk_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(monkeypatch, 2 * SECONDS / len(LONG))
    assert len(times(model, [[LONG] * 20])) >= 17


def test_a_quick_model_gets_whole_chunks_at_once_and_in_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(monkeypatch, 0.0)
    blocks = [[SHORT] * CHUNK] * 6
    assert len(times(model, blocks)) < 2 * len(blocks) + 6


def test_lines_that_trickle_in_are_chunks_and_say_nothing_of_the_speed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model(monkeypatch, 1e-3)
    found = times(model, [[SHORT]] * 100 + [[LONG] * 100])
    assert np.diff(found).max() < 6
