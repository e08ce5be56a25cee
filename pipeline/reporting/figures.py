"""Figures as SVG text, equal for equal numbers: quality against cost, and training curves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.reporting.labels import Box, Label, place

if TYPE_CHECKING:
    import altair as alt

PALETTE = {
    "paper": "#ffffff",
    "ink": "#1c2128",
    "muted": "#66707c",
    "grid": "#e4e7eb",
    "accent": "#0b63ce",
    "warm": "#b45309",
}
"""By role: the page's style sheet finds these colours in the SVG and puts its own, also dark ones, there."""
FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif"
WIDTH, HEIGHT = 310, 240
CURVE_HEIGHT = 170
LOG_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Point:
    """A model in a figure of quality against cost."""

    name: str
    cost: float
    quality: float
    note: str
    """Behind the name: what it keeps."""
    teacher: bool = False
    chosen: bool = True
    """Whether no other student is better in everything; drawn hollow otherwise."""


@dataclass(frozen=True)
class Line:
    """A measure over the steps of a training, without its missing values; drawn in the colour of `role`."""

    name: str
    role: str
    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """One training."""

    title: str
    lines: tuple[Line, ...]


def quality(points: Sequence[Point], cost: str) -> str:
    """Average score against a positive cost (log scale); the dashed line is the teacher's score."""
    import altair as alt

    costs = _log_domain([point.cost for point in points])
    scores = _linear_domain([point.quality for point in points])
    texts = [f"{point.name} {point.note}".strip() for point in points]
    pixels = [_pixels(point, costs, scores) for point in points]
    ticks = alt.Axis(values=_log_ticks(costs), format="~g")
    x = alt.X("cost:Q", title=cost, axis=ticks).scale(type="log", domain=costs, nice=False)
    y = alt.Y("quality:Q", title="average score").scale(domain=scores, nice=False, zero=False)
    layers: list[alt.Chart] = []
    level = [
        Box(0, y - 2, WIDTH, y + 2) for point, (_, y) in zip(points, pixels, strict=True) if point.teacher
    ]
    labels = place(pixels, texts, Box(0, 0, WIDTH, HEIGHT), level)
    for point, text, label in zip(points, texts, labels, strict=True):
        row = alt.Data(values=[{"cost": point.cost, "quality": point.quality, "label": text}])
        base = alt.Chart(row).encode(x=x, y=y)
        if point.teacher:
            layers.insert(0, alt.Chart(row).mark_rule(color=PALETTE["muted"], strokeDash=[4, 4]).encode(y=y))
        layers += [_marker(base, point), _text(base, label, point.teacher)]
    return _svg(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT))


def curves(panels: Sequence[Panel]) -> str:
    """Training curves, one panel below the other."""
    import altair as alt

    return _svg(alt.vconcat(*(_panel(panel) for panel in panels), spacing=28))


def _marker(base: "alt.Chart", point: Point) -> "alt.Chart":
    colour = PALETTE["ink" if point.teacher else "accent"]
    shape = "square" if point.teacher else "circle"
    fill = colour if point.teacher or point.chosen else PALETTE["paper"]
    return base.mark_point(shape=shape, size=95, fill=fill, stroke=colour, strokeWidth=2, opacity=1)


def _text(base: "alt.Chart", label: Label, strong: bool) -> "alt.Chart":
    return base.mark_text(
        align=label.align,
        baseline="middle",
        dx=label.dx,
        dy=label.dy,
        fontSize=14,
        fontWeight=600 if strong else 500,
        color=PALETTE["ink"],
    ).encode(text="label:N")


def _panel(panel: Panel) -> "alt.LayerChart":
    import altair as alt

    layers: list[alt.Chart] = []
    # Two curves often end close together: the upper one's name goes above its end, the lower one's below.
    upper = max(panel.lines, key=lambda line: line.values[-1])
    for line in panel.lines:
        ends = zip(line.steps, line.values, strict=True)
        rows = [{"step": step, "value": value, "name": line.name} for step, value in ends]
        x = alt.X("step:Q", title="step").axis(format="~s", tickCount=5).scale(nice=False)
        y = alt.Y("value:Q", title=None).axis(tickCount=5, format="~g").scale(zero=False)
        colour, dy = PALETTE[line.role], -7 if line is upper else 7
        base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
        last = alt.Chart(alt.Data(values=rows[-1:])).encode(x=x, y=y)
        name = last.mark_text(align="left", dx=8, dy=dy, color=colour, fontSize=14, fontWeight=500)
        layers.append(base.mark_line(color=colour, strokeWidth=2))
        layers.append(last.mark_point(color=colour, fill=colour, opacity=1, size=40))
        layers.append(name.encode(text="name:N"))
    ink = PALETTE["ink"]
    title = alt.Title(panel.title, anchor="start", fontSize=14, fontWeight=600, color=ink, offset=8)
    return alt.LayerChart(layer=layers, width=WIDTH - 40, height=CURVE_HEIGHT, title=title)


def _svg(chart: "alt.TopLevelMixin") -> str:
    """Render; without clipped marks, whose ids the renderer counts up from call to call."""
    import vl_convert

    axis = {
        "labelColor": PALETTE["muted"],
        "titleColor": PALETTE["ink"],
        "gridColor": PALETTE["grid"],
        "domain": False,
        "ticks": False,
        "labelFontSize": 13,
        "labelPadding": 6,
        "titleFontSize": 13,
        "titleFontWeight": 500,
        "titlePadding": 10,
    }
    configured = chart.configure(
        background=PALETTE["paper"], font=FONT, aria=False, axis=axis, view={"stroke": None}, padding=8
    )
    return vl_convert.vegalite_to_svg(configured.to_dict(), allowed_base_urls=[])


def _log_domain(values: Sequence[float]) -> tuple[float, float]:
    """From below the least to above the greatest, with space for labels at both sides."""
    margin = max(1.5, (max(values) / min(values)) ** 0.18)
    return min(values) / margin, max(values) * margin


def _linear_domain(values: Sequence[float]) -> tuple[float, float]:
    margin = max(0.15 * (max(values) - min(values)), 0.02)
    return min(values) - margin, max(values) + margin


def _pixels(point: Point, costs: tuple[float, float], scores: tuple[float, float]) -> tuple[float, float]:
    across = math.log(point.cost / costs[0]) / math.log(costs[1] / costs[0])
    down = (scores[1] - point.quality) / (scores[1] - scores[0])
    return WIDTH * across, HEIGHT * down


def _log_ticks(domain: tuple[float, float]) -> list[float]:
    """1, 2 and 5 times the powers of ten in the domain; the powers alone where those are more than seven."""
    exponents = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    ticks = [float(f"{step}e{exponent}") for exponent in exponents for step in LOG_STEPS]
    inside = [tick for tick in ticks if domain[0] <= tick <= domain[1]]
    return inside if len(inside) <= 7 else [tick for tick in inside if math.log10(tick).is_integer()]
