"""Where to write the names of points so that they do not cover each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

CHARACTER_WIDTH = 8.2
"""In pixels, of DejaVu Sans at 14 pixels, which is wider than most fonts that a browser may take."""
LINE_HEIGHT = 16.0
GAP = 9.0
MARKER = 6.0
PIECE = 4.0
"""How many pixels of a line one obstacle covers."""
NEARNESS = 0.6
"""How many square pixels of overlap count as much as one pixel between a label's line and its point."""


class Box(NamedTuple):
    """A rectangle in pixels; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Label:
    """Offset in pixels from the point to the text's anchor, its vertical middle."""

    dx: float
    dy: float
    align: Literal["left", "center", "right"]


CANDIDATES = (
    Label(GAP, 0, "left"),
    Label(-GAP, 0, "right"),
    Label(0, -GAP - 6, "center"),
    Label(0, GAP + 6, "center"),
    Label(GAP, -GAP - 6, "left"),
    Label(GAP, GAP + 6, "left"),
    Label(-GAP, -GAP - 6, "right"),
    Label(-GAP, GAP + 6, "right"),
    Label(GAP, -2 * GAP - 12, "left"),
    Label(GAP, 2 * GAP + 12, "left"),
    Label(-GAP, -2 * GAP - 12, "right"),
    Label(-GAP, 2 * GAP + 12, "right"),
)
"""In the order of preference."""


def place(
    points: Sequence[tuple[float, float]], texts: Sequence[str], plot: Box, obstacles: Sequence[Box] = ()
) -> list[Label]:
    """Give each point the near candidate that least overlaps markers, earlier labels and the plot's edges.

    Args:
        points: positions in pixels.
        texts: the label of each.
        plot: the area that labels should not leave.
        obstacles: what else they should not cover.
    """
    taken = [*obstacles, *(Box(x - MARKER, y - MARKER, x + MARKER, y + MARKER) for x, y in points)]
    placed = []
    for (x, y), text in zip(points, texts, strict=True):
        boxes = [_box(x, y, len(text) * CHARACTER_WIDTH, label) for label in CANDIDATES]
        costs = [
            sum(_overlap(box, other) for other in taken) + _outside(box, plot) + NEARNESS * abs(label.dy)
            for box, label in zip(boxes, CANDIDATES, strict=True)
        ]
        best = costs.index(min(costs))
        taken.append(boxes[best])
        placed.append(CANDIDATES[best])
    return placed


def covered_by(line: Sequence[tuple[float, float]]) -> list[Box]:
    """A line through points in pixels, as obstacles."""
    found = []
    for (x, y), (next_x, next_y) in pairwise(line):
        pieces = max(1, round(math.hypot(next_x - x, next_y - y) / PIECE))
        across, down = (next_x - x) / pieces, (next_y - y) / pieces
        for piece in range(pieces):
            ends_x, ends_y = (
                sorted((start + piece * step, start + (piece + 1) * step))
                for start, step in ((x, across), (y, down))
            )
            found.append(Box(ends_x[0] - 1, ends_y[0] - 1, ends_x[1] + 1, ends_y[1] + 1))
    return found


def _box(x: float, y: float, width: float, label: Label) -> Box:
    left = x + label.dx - {"left": 0.0, "center": width / 2, "right": width}[label.align]
    return Box(left, y + label.dy - LINE_HEIGHT / 2, left + width, y + label.dy + LINE_HEIGHT / 2)


def _overlap(one: Box, other: Box) -> float:
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    return max(width, 0.0) * max(height, 0.0)


def _outside(box: Box, plot: Box) -> float:
    whole = (box.right - box.left) * (box.bottom - box.top)
    return whole - _overlap(box, plot)
