"""Figures as SVG text, equal for equal numbers: models as points, and measures as lines."""

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
LONGEST_LABEL = 28
LOG_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Point:
    """A model in a figure of two measures: `across` is a cost, `up` a quality, for one."""

    name: str
    across: float
    up: float
    note: str = ""
    """Behind the name: what it keeps."""
    teacher: bool = False
    chosen: bool = True
    """Whether no other student is better in everything; drawn hollow otherwise."""


@dataclass(frozen=True)
class Line:
    """A measure without its missing values; drawn in the colour of `role`."""

    name: str
    role: str
    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """One training, or one student's vectors at several sizes; `x` titles the axis."""

    title: str
    lines: tuple[Line, ...]
    x: str = "step"
    log: bool = False


def quality(points: Sequence[Point], cost: str) -> str:
    """Average score against a positive cost (log scale); the dashed line is the teacher's score."""
    import altair as alt

    costs = _log_domain([point.across for point in points])
    scores = _linear_domain([point.up for point in points])
    pixels = [
        (WIDTH * math.log(point.across / costs[0]) / math.log(costs[1] / costs[0]), _down(point.up, scores))
        for point in points
    ]
    ticks = alt.Axis(values=_log_ticks(costs), format="~g")
    x = alt.X("across:Q", title=cost, axis=ticks).scale(type="log", domain=costs, nice=False)
    y = alt.Y("up:Q", title="average score").scale(domain=scores, nice=False, zero=False)
    level = [(point, height) for point, (_, height) in zip(points, pixels, strict=True) if point.teacher]
    rules = [
        alt.Chart(_data(point)).mark_rule(color=PALETTE["muted"], strokeDash=[4, 4]).encode(y=y)
        for point, _ in level
    ]
    taken = [Box(0, height - 2, WIDTH, height + 2) for _, height in level]
    return _scatter(points, pixels, x, y, rules, taken)


def spread(points: Sequence[Point]) -> str:
    """How evenly vectors fill the sphere (across) against how near alike texts are (up); linear scales."""
    import altair as alt

    across, up = _linear_domain([p.across for p in points]), _linear_domain([p.up for p in points])
    pixels = [(WIDTH * (p.across - across[0]) / (across[1] - across[0]), _down(p.up, up)) for p in points]
    axis = alt.Axis(tickCount=5, format="~g")
    x = alt.X("across:Q", title="uniformity", axis=axis).scale(domain=across, nice=False, zero=False)
    y = alt.Y("up:Q", title="alignment", axis=axis).scale(domain=up, nice=False, zero=False)
    return _scatter(points, pixels, x, y)


def curves(panels: Sequence[Panel]) -> str:
    """Lines, one panel below the other."""
    import altair as alt

    return _svg(alt.vconcat(*(_panel(panel) for panel in panels), spacing=28))


def _scatter(
    points: Sequence[Point],
    pixels: Sequence[tuple[float, float]],
    x: "alt.X",
    y: "alt.Y",
    below: "Sequence[alt.Chart]" = (),
    taken: Sequence[Box] = (),
) -> str:
    """Markers and names at `pixels`, which are where x and y put the points; names avoid `taken`."""
    import altair as alt

    layers = list(below)
    texts = [_label(point) for point in points]
    labels = place(pixels, texts, Box(0, 0, WIDTH, HEIGHT), taken)
    for point, label in zip(points, labels, strict=True):
        base = alt.Chart(_data(point)).encode(x=x, y=y)
        layers += [_marker(base, point), _text(base, label, point.teacher)]
    return _svg(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT))


def _label(point: Point) -> str:
    text = f"{point.name} {point.note}".strip()
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def _data(point: Point) -> "alt.Data":
    import altair as alt

    return alt.Data(values=[{"across": point.across, "up": point.up, "label": _label(point)}])


def _down(up: float, domain: tuple[float, float]) -> float:
    return HEIGHT * (domain[1] - up) / (domain[1] - domain[0])


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
    # Curves often end close together: names go above and below the ends in turn, the upper one's first.
    by_end = sorted(panel.lines, key=lambda line: (line.steps[-1], -line.values[-1]))
    above = {line.name for line in by_end[::2]}
    for line in panel.lines:
        ends = zip(line.steps, line.values, strict=True)
        rows = [{"step": step, "value": value, "name": line.name} for step, value in ends]
        x = _across(panel)
        y = alt.Y("value:Q", title=None).axis(tickCount=5, format="~g").scale(zero=False)
        colour, dy = PALETTE[line.role], -7 if line.name in above else 7
        base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
        last = alt.Chart(alt.Data(values=rows[-1:])).encode(x=x, y=y)
        name = last.mark_text(align="left", dx=8, dy=dy, color=colour, fontSize=14, fontWeight=500)
        layers.append(base.mark_line(color=colour, strokeWidth=2))
        layers.append(last.mark_point(color=colour, fill=colour, opacity=1, size=40))
        layers.append(name.encode(text="name:N"))
    ink = PALETTE["ink"]
    title = alt.Title(
        panel.title, limit=WIDTH, anchor="start", fontSize=14, fontWeight=600, color=ink, offset=8
    )
    return alt.LayerChart(layer=layers, width=WIDTH - 40, height=CURVE_HEIGHT, title=title)


def _across(panel: Panel) -> "alt.X":
    import altair as alt

    if not panel.log:
        return alt.X("step:Q", title=panel.x).axis(format="~s", tickCount=5).scale(nice=False)
    seen = [step for line in panel.lines for step in line.steps]
    domain = (min(seen) / 1.2, max(seen) * 1.2)
    axis = alt.Axis(values=_log_ticks(domain), format="~g")
    return alt.X("step:Q", title=panel.x, axis=axis).scale(type="log", domain=domain, nice=False)


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


def _log_ticks(domain: tuple[float, float]) -> list[float]:
    """1, 2 and 5 times the powers of ten in the domain; the powers alone where those are more than seven."""
    exponents = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    ticks = [float(f"{step}e{exponent}") for exponent in exponents for step in LOG_STEPS]
    inside = [tick for tick in ticks if domain[0] <= tick <= domain[1]]
    return inside if len(inside) <= 7 else [tick for tick in inside if math.log10(tick).is_integer()]
