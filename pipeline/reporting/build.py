"""From what the stages measured to what the page shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline.reporting import figures, sections
from pipeline.reporting.figures import Line, Panel, Point
from pipeline.reporting.inputs import FinetuneMetrics, Size, StudentMetrics
from pipeline.reporting.page import Figure, Report, alternative
from pipeline.reporting.recommend import front, picks
from pipeline.reporting.tables import Leaderboard, Row

SIZE_TITLE = "MB on disk (log scale)"
LATENCY_TITLE = "ms for one sentence, median (log scale)"


@dataclass(frozen=True)
class Inputs:
    """What the other stages wrote; mappings by student."""

    teacher: str
    students: Sequence[StudentMetrics]
    sizes: Mapping[str, Size]
    distill: Mapping[str, Mapping[str, Any]]
    finetune: Mapping[str, FinetuneMetrics]
    curves: Mapping[str, pl.DataFrame]
    """step, train_loss, dev_value."""
    selected_by: Mapping[str, str]
    """What dev_value is: "loss", or one minus the "agreement" with the teacher."""
    finetune_curves: Mapping[str, pl.DataFrame]
    """step, train_loss, dev_score; without rows where a student was not fine-tuned."""
    prepare: Mapping[str, Any]
    augment: Mapping[str, Any]


def report(inputs: Inputs, board: Leaderboard) -> tuple[Report, dict[str, str]]:
    """The page's content, and the figures (SVG by name) that also stand alone."""
    models = [row.size for row in board.rows if row.size]
    megabytes = [size.megabytes for size in models]  # 0 for a teacher without weights: not on a log scale
    latencies = [size.latency_ms_p50 for size in models]
    standalone = {
        "quality_size": figures.quality(_points(board, megabytes), SIZE_TITLE),
        "quality_speed": figures.quality(_points(board, latencies), LATENCY_TITLE),
    }
    panels = [panel for metrics in inputs.students for panel in _panels(metrics.student, inputs)]
    if panels:
        standalone["curves"] = figures.curves(panels)
    content = Report(
        teacher=inputs.teacher,
        board=board,
        picks=tuple(picks(board)),
        quality=(
            _quality(board, standalone["quality_size"], megabytes, "size on disk", "MB"),
            _quality(board, standalone["quality_speed"], latencies, "latency", "ms"),
        ),
        curves=tuple(_curve(panel) for panel in panels),
        finetuning=tuple(sections.finetuning(m, inputs.finetune[m.student]) for m in inputs.students),
        geometry=sections.geometry(inputs.students),
        classifiers=sections.classifiers(inputs.students),
        training=sections.training(inputs.distill),
        warnings=tuple(sections.warnings(inputs.students, inputs.distill)),
        corpus=(
            *sections.counts("corpus", inputs.prepare),
            *sections.counts("WordNet variants", inputs.augment),
        ),
    )
    return content, standalone


def _points(board: Leaderboard, costs: Sequence[float]) -> list[Point]:
    chosen = {row.model for row in front(board.shipped)}
    teacher = board.teacher
    return [
        Point(
            name=row.model,
            cost=cost,
            quality=row.average,
            note="" if row is teacher or row.kept is None else f"{100 * row.kept:.0f}%",
            teacher=row is teacher,
            chosen=row.model in chosen,
        )
        for row, cost in zip(_measured(board), costs, strict=True)
        if cost > 0
    ]


def _measured(board: Leaderboard) -> list[Row]:
    return [row for row in board.rows if row.size]


def _quality(board: Leaderboard, svg: str, costs: Sequence[float], cost: str, unit: str) -> Figure:
    hollow = len(front(board.shipped)) < len(board.shipped)
    caption = f"Average score against {cost}."
    if hollow:
        caption += " Hollow: another student is at least as good in score, latency and size."
    undrawn = [row.model for row, at in zip(_measured(board), costs, strict=True) if at <= 0]
    if undrawn:
        caption += f" Not drawn, since a log scale has no zero: {', '.join(undrawn)}."
    return Figure(svg, caption, alternative(board, costs, unit))


def _panels(student: str, inputs: Inputs) -> list[Panel]:
    """The student's trainings that have something to draw."""
    losses = _lines(inputs.curves[student], {"train": "train_loss", "dev": "dev_value"})
    scores = _lines(inputs.finetune_curves[student], {"dev": "dev_score"})
    agreement = inputs.selected_by[student] == "agreement"
    panels = [
        Panel(f"{student}: distillation loss" + (" (dev: 1 - agreement)" if agreement else ""), losses),
        Panel(f"{student}: fine-tuning score", scores),
    ]
    return [panel for panel in panels if panel.lines]


def _lines(curve: pl.DataFrame, columns: Mapping[str, str]) -> tuple[Line, ...]:
    """One line a column that has values."""
    lines = []
    for name, column in columns.items():
        seen = curve.filter(pl.col(column).is_finite())
        if seen.height:
            role = "accent" if name == "dev" else "warm"
            lines.append(Line(name, role, tuple(seen["step"]), tuple(seen[column])))
    return tuple(lines)


def _curve(panel: Panel) -> Figure:
    ends = [f"{line.name} {line.values[0]:.4g} to {line.values[-1]:.4g}" for line in panel.lines]
    caption = f"First to last evaluation: {', '.join(ends)}."
    return Figure(figures.curves([panel]), caption, f"{panel.title}. {caption}")
