"""Figures as SVG text, equal for equal numbers: models as points, and measures as lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipeline.report import axes
from pipeline.report.axes import Domain
from pipeline.report.labels import Box, Label, covered_by, place

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
CURVE_WIDTH, CURVE_HEIGHT = 270, 170
BESIDE, EDGE = 70, 4
"""Pixels right of a panel, and above and below it, that names may take."""
LONGEST_LABEL = 28
PLAIN = ",.9~g"
"""Numbers in full, up to nine digits: without a precision the ticks 8 and 10 would be 8 and 1e+1."""


@dataclass(frozen=True)
class Point:
    """A model in a figure of two measures, for example a cost (`across`) and a quality (`up`)."""

    name: str
    across: float
    up: float
    note: str = ""
    """Written after the name: what the model keeps."""
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

    costs = axes.log_domain([point.across for point in points])
    scores = axes.linear_domain([point.up for point in points])
    pixels = [
        (axes.along(point.across, costs, WIDTH, log=True), HEIGHT - axes.along(point.up, scores, HEIGHT))
        for point in points
    ]
    ticks = alt.Axis(values=axes.log_ticks(costs), format=PLAIN)
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
    """How evenly vectors fill the sphere (across) against how near similar texts lie (up); linear scales."""
    import altair as alt

    across, up = axes.linear_domain([p.across for p in points]), axes.linear_domain([p.up for p in points])
    pixels = [(axes.along(p.across, across, WIDTH), HEIGHT - axes.along(p.up, up, HEIGHT)) for p in points]
    axis = alt.Axis(tickCount=5, format=PLAIN)
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
        layers += [_marker(base, point), _text(base, label, PALETTE["ink"], 600 if point.teacher else 500)]
    return _svg(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT))


def _label(point: Point) -> str:
    """Name and note; a long name is cut in the middle, because such names often begin alike."""
    note = f" {point.note}" if point.note else ""
    room = LONGEST_LABEL - len(note) - 1
    if len(point.name) <= room + 1:
        return f"{point.name}{note}"
    end = room // 2
    return f"{point.name[: room - end]}…{point.name[-end:]}{note}"


def _data(point: Point) -> "alt.Data":
    import altair as alt

    return alt.Data(values=[{"across": point.across, "up": point.up, "label": _label(point)}])


def _marker(base: "alt.Chart", point: Point) -> "alt.Chart":
    colour = PALETTE["ink" if point.teacher else "accent"]
    shape = "square" if point.teacher else "circle"
    fill = colour if point.teacher or point.chosen else PALETTE["paper"]
    return base.mark_point(shape=shape, size=95, fill=fill, stroke=colour, strokeWidth=2, opacity=1)


def _text(base: "alt.Chart", label: Label, colour: str, weight: Literal[500, 600] = 500) -> "alt.Chart":
    return base.mark_text(
        align=label.align,
        baseline="middle",
        dx=label.dx,
        dy=label.dy,
        fontSize=14,
        fontWeight=weight,
        color=colour,
    ).encode(text="label:N")


def _panel(panel: Panel) -> "alt.LayerChart":
    import altair as alt

    across, axis = _steps(panel)
    values = [value for line in panel.lines for value in line.values]
    up = axes.values_domain(min(values), max(values))
    x = alt.X("across:Q", title=panel.x, axis=axis)
    x = x.scale(type="log" if panel.log else "linear", domain=across, nice=False)
    y = alt.Y("up:Q", title=None).axis(tickCount=5, format=PLAIN).scale(domain=up, nice=False, zero=False)
    layers: list[alt.Chart] = []
    for line, label in zip(panel.lines, _names(panel, across, up), strict=True):
        ends = zip(line.steps, line.values, strict=True)
        rows = [{"across": step, "up": value, "label": line.name} for step, value in ends]
        colour = PALETTE[line.role]
        base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
        last = alt.Chart(alt.Data(values=rows[-1:])).encode(x=x, y=y)
        layers.append(base.mark_line(color=colour, strokeWidth=2))
        layers.append(last.mark_point(color=colour, fill=colour, opacity=1, size=40))
        layers.append(_text(last, label, colour))
    ink = PALETTE["ink"]
    title = alt.Title(
        panel.title, limit=WIDTH, anchor="start", fontSize=14, fontWeight=600, color=ink, offset=8
    )
    return alt.LayerChart(layer=layers, width=CURVE_WIDTH, height=CURVE_HEIGHT, title=title)


def _names(panel: Panel, across: Domain, up: Domain) -> list[Label]:
    """Where each line's name is written: beside its end, so that it covers no line."""
    drawn = [
        [
            (
                axes.along(step, across, CURVE_WIDTH, panel.log),
                CURVE_HEIGHT - axes.along(value, up, CURVE_HEIGHT),
            )
            for step, value in zip(line.steps, line.values, strict=True)
        ]
        for line in panel.lines
    ]
    # From the right; of lines that end at one step the upper one's first.
    order = sorted(range(len(drawn)), key=lambda at: (-drawn[at][-1][0], drawn[at][-1][1]))
    placed = place(
        [drawn[at][-1] for at in order],
        [panel.lines[at].name for at in order],
        Box(0, -EDGE, CURVE_WIDTH + BESIDE, CURVE_HEIGHT + EDGE),
        [box for line in drawn for box in covered_by(line)],
    )
    return [placed[order.index(at)] for at in range(len(drawn))]


def _steps(panel: Panel) -> "tuple[Domain, alt.Axis]":
    import altair as alt

    steps = sorted({step for line in panel.lines for step in line.steps})
    if panel.log:
        domain = steps[0] / 1.2, steps[-1] * 1.2
        ticks = steps if steps[-1] < 2 * steps[0] else axes.log_ticks(domain)
        return domain, alt.Axis(values=ticks, format=PLAIN)
    if len(steps) == 1:
        return (steps[0], steps[0] + 1), alt.Axis(values=steps, format=PLAIN)
    return (steps[0], steps[-1]), alt.Axis(tickCount=4, format=PLAIN)


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
