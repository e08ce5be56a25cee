"""data/hidden: a teacher's hidden states, token by token, as int8 with a scale for each token and layer.

    manifest.json      layers, width, before and after: special tokens around a text
    text_ids.bin       (n,) ascending
    lengths.bin        (n,) tokens of each text whose states are kept, without special ones
    tokens.bin         (T,) their ids
    scales.bin         (T, L) 1/127 of a state's largest magnitude: a number is off by half of it at most
    levels.bin         (T, L, width)

A folder without manifest.json holds none: they were not asked for.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.core import seal
from pipeline.core.errors import UserError
from pipeline.data.tokens.mapped import Rows, gather, map_file, positions, read_ahead

MANIFEST, AGAIN = "manifest.json", "run `dvc repro -f hidden`"
TYPES: Mapping[str, type[np.generic]] = {
    "text_ids": np.uint64,
    "lengths": np.int64,
    "tokens": np.int32,
    "scales": np.float32,
    "levels": np.int8,
}
"""Of the files' numbers. Shards end to end are the whole."""
MOST = 127
"""The largest level."""


def quantise(states: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Levels (T, L, d) and scales (T, L) of states (T, L, d). A state of zeros has scale 1."""
    scales = np.abs(states).max(axis=2) / np.float32(MOST)
    scales[scales == 0] = 1
    return np.rint(states / scales[:, :, None]).astype(np.int8), scales


def write(arrays: Mapping[str, NDArray], folder: Path) -> None:
    """Write one shard: an array for each of `TYPES`."""
    for name, kind in TYPES.items():
        with (folder / f"{name}.bin").open("wb") as file:  # `tofile` does not notice a full disk
            file.write(np.ascontiguousarray(arrays[name], kind).data)


def join(
    shards: Iterable[Path], folder: Path, layers: Sequence[int], width: int, ends: Sequence[int]
) -> None:
    """Write data/hidden from its shards; `ends` are the special tokens before and after a text."""
    found = list(shards)
    for name in TYPES:
        with (folder / f"{name}.bin").open("wb") as file:
            for shard in found:
                with (shard / f"{name}.bin").open("rb") as part:
                    shutil.copyfileobj(part, file)
    before, after = ends
    told = {"layers": list(layers), "width": width, "before": before, "after": after}
    (folder / MANIFEST).write_text(json.dumps(told) + "\n", encoding="utf-8")


class Matched(NamedTuple):
    """The tokens of a batch that have states, m of them."""

    student: Rows
    """(m,) where they lie among the batch's tokens."""
    stored: Rows
    """(k,) where those of each text begin in the files."""
    lengths: Rows
    """(k,) how many of each text there are."""


@dataclass(frozen=True)
class TeacherStates:
    """The states of the first of the corpus' training texts; the arrays lie on the disk."""

    layers: tuple[int, ...]
    """The teacher's, ascending."""
    width: int
    first: int
    """Row of the first of them among the training texts of a student; the others follow it."""
    share: float
    """Of the texts that an epoch reads, how many have states, 0 to 1."""
    before: int
    """Special tokens before a text."""
    after: int
    offsets: Rows
    """(n + 1,) where the tokens of each text begin."""
    tokens: NDArray[np.int32]
    scales: NDArray[np.float32]
    levels: NDArray[np.int8]

    def match(self, rows: Rows, ids: NDArray[np.int32], offsets: Rows) -> Matched:
        """The tokens that have states, of training texts (n,) with these token ids and offsets (n + 1,).

        Raises:
            UserError: the student reads other tokens than the teacher.
        """
        places = rows - self.first
        kept = self._kept(places)
        own = offsets[kept + 1] - offsets[kept] - self.before - self.after
        places = places[kept]
        lengths = np.minimum(own, self.offsets[places + 1] - self.offsets[places]).clip(0)
        found = Matched(positions(offsets[kept] + self.before, lengths), self.offsets[places], lengths)
        if not np.array_equal(ids[found.student], gather(self.tokens, found.stored, lengths)):
            raise UserError(
                "loss: hidden_states needs the teacher's tokens, and the student reads others of the "
                f"same text; {AGAIN}, or leave the loss out. Where the teacher's tokenizer cuts texts on the "
                "left, init.max_length has to be the teacher's window"
            )
        return found

    def read_ahead(self, rows: Rows) -> None:
        """Have the disk read what there is of these training texts."""
        places = rows - self.first
        places = places[self._kept(places)]
        for part in (self.tokens, self.scales, self.levels):
            read_ahead(part, self.offsets[places], self.offsets[places + 1] - self.offsets[places])

    def _kept(self, places: Rows) -> Rows:
        """Which of these have states."""
        return np.flatnonzero((places >= 0) & (places < len(self.offsets) - 1))

    def read(self, matched: Matched, layers: Sequence[int]) -> NDArray[np.float32]:
        """States (m, len(layers), width) of these tokens."""
        columns = [self.layers.index(layer) for layer in layers]
        _, starts, lengths = matched
        levels, scales = (gather(part, starts, lengths)[:, columns] for part in (self.levels, self.scales))
        return levels * scales[:, :, None]


def read(folder: Path, train_ids: NDArray[np.uint64], first: int, epoch_share: float) -> TeacherStates:
    """The states in data/hidden.

    Args:
        folder: data/hidden.
        train_ids: of the corpus' training texts, ascending.
        first: row of the first of these among the training texts of a student.
        epoch_share: share of the rows of an epoch that one of these has, on average.

    Raises:
        UserError: there are none, or those of other texts, or a file is damaged.
    """
    seal.check(folder, AGAIN)
    if not (folder / MANIFEST).exists():
        raise UserError(
            f"{folder} holds no hidden states; set encode.hidden to {{}} and run `dvc repro hidden`"
        )
    told = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    ids, lengths = (np.fromfile(folder / f"{name}.bin", TYPES[name]) for name in ("text_ids", "lengths"))
    if not len(ids) or not np.array_equal(ids, train_ids[: len(ids)]):
        raise UserError(f"{folder} holds the hidden states of other texts; {AGAIN}")
    tokens, layers, width = int(lengths.sum()), tuple(told["layers"]), int(told["width"])
    shapes = {"tokens": (tokens,), "scales": (tokens, len(layers)), "levels": (tokens, len(layers), width)}
    mapped = {name: map_file(folder / f"{name}.bin", TYPES[name], shape) for name, shape in shapes.items()}
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    share = len(ids) * epoch_share
    return TeacherStates(layers, width, first, share, told["before"], told["after"], offsets, **mapped)
