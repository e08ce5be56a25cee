"""From what the stages measured to what the page shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.report import (
    added,
    agreement,
    augmentation,
    budget,
    classifiers,
    cut,
    differences,
    effort,
    examples,
    figures,
    heatmaps,
    ledger,
    planned,
    sections,
    timings,
    transfer,
)
from pipeline.report.figures import Line, Panel, Point
from pipeline.report.inputs import (
    FINETUNED,
    TEACHER,
    AugmentMetrics,
    ClassifierMetrics,
    EncodeMetrics,
    FinetuneMetrics,
    GateMetrics,
    Searches,
    Significance,
    Size,
    StudentMetrics,
    Timing,
    TransferMetrics,
)
from pipeline.report.leaderboard import Leaderboard, Row, leaderboard
from pipeline.report.numbers import number
from pipeline.report.page import Figure, Picture, Report, alternative
from pipeline.report.planned import Expected
from pipeline.report.recommend import front, picks
from pipeline.score.statistics.examined import Examples

SIZE_TITLE = "MB on disk (log scale)"
LATENCY_TITLE = "ms for one sentence, median (log scale)"


@dataclass(frozen=True)
class Inputs:
    """What the other stages wrote; mappings by student."""

    teacher: str
    blocks: Mapping[str, Mapping[str, Any]]
    """The students' params, defaults included."""
    students: Sequence[StudentMetrics]
    sizes: Mapping[str, Size]
    significance: Significance
    searches: Searches
    examples: Mapping[str, Examples]
    correlation: Mapping[str, Mapping[str, NDArray[np.floating]]]
    """Correlations of the first features: student -> "teacher" or "finetuned" -> (f, f)."""
    distill: Mapping[str, Mapping[str, Any]]
    finetune: Mapping[str, FinetuneMetrics]
    curves: Mapping[str, pl.DataFrame]
    """Columns step, train_loss, dev_value; also examples and examples_per_second if the stage wrote them."""
    finetune_curves: Mapping[str, pl.DataFrame]
    """The same with dev_score instead of dev_value; no rows if a student was not fine-tuned."""
    teacher_curve: pl.DataFrame
    """As one of `finetune_curves`, of the teacher itself."""
    prepare: Mapping[str, Any]
    encode: Mapping[str, EncodeMetrics]
    """By text set."""
    augment: Mapping[str, AugmentMetrics]
    """By method; like `gates` and `samples`, only the methods that are enabled."""
    gates: Mapping[str, GateMetrics]
    samples: Mapping[str, pl.DataFrame]
    """Tables of `texts.SAMPLE_SCHEMA`."""
    transfer: Mapping[str, TransferMetrics]
    """By labelled task."""
    timings: Mapping[str, Timing]
    """By stage, named as in `timings.addresses`."""
    ledger: Mapping[str, Any]
    """What every artifact is made of: `ledger.ledger`."""
    refused: Sequence[str] = ()
    """The students that the teacher cannot give: reason and fix."""
    plan: Mapping[str, Expected] = field(default_factory=dict)
    """What `pipeline plan` said of stages before they ran."""
    classifiers: Mapping[str, ClassifierMetrics] = field(default_factory=dict)
    classifier_curves: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """As `finetune_curves`."""
    refused_classifiers: Mapping[str, str] = field(default_factory=dict)
    """Those whose student the teacher cannot give: reason and fix."""


def board(inputs: Inputs) -> Leaderboard:
    """The leaderboard of all students."""
    machine = inputs.timings["footprint"].machine
    found = leaderboard(inputs.students, inputs.sizes, inputs.significance, machine)
    return replace(found, refused=tuple(inputs.refused))


def report(inputs: Inputs, board: Leaderboard) -> tuple[Report, dict[str, bytes]]:
    """The page's content, and by file name the figures that are also files of their own."""
    models = [row.size for row in board.rows if row.size]
    megabytes = [size.megabytes for size in models]  # 0 for a teacher without weights: not on a log scale
    latencies = [size.latency_ms_p50 for size in models]
    standalone = {
        "quality_size": figures.quality(_points(board, megabytes), SIZE_TITLE),
        "quality_speed": figures.quality(_points(board, latencies), LATENCY_TITLE),
    }
    lying = _spread_points(inputs.students)
    if lying:
        standalone["uniformity_alignment"] = figures.spread(lying)
    budgets = [panel for metrics in inputs.students for panel in budget.panels(metrics)]
    if budgets:
        standalone["budget"] = figures.curves(budgets)
    panels = [
        *_fine_tuning("teacher", inputs.teacher_curve),
        *(panel for metrics in inputs.students for panel in _panels(metrics.student, inputs)),
    ]
    if panels:
        standalone["curves"] = figures.curves(panels)
    maps = _heatmaps(inputs)
    content = Report(
        teacher=inputs.teacher,
        board=board,
        picks=tuple(picks(board, inputs.significance)),
        caveats=tuple(differences.caveats(board, inputs.significance)),
        agreement=agreement.agreement(inputs.students, inputs.significance),
        quality=(
            _quality(board, standalone["quality_size"], megabytes, "size on disk", "MB"),
            _quality(board, standalone["quality_speed"], latencies, "latency", "ms"),
        ),
        differences=differences.differences(inputs.significance, board),
        budgets=tuple(_curve(panel, "least to most bytes") for panel in budgets),
        budget_note=budget.note(inputs.students),
        choices=tuple(budget.choices(inputs.students)),
        indexes=tuple(budget.indexes(inputs.students, inputs.searches)),
        asymmetric=tuple(budget.asymmetric(inputs.students)),
        added=tuple(_added(metrics, inputs) for metrics in inputs.students),
        augmented=augmentation.became(inputs.augment, inputs.gates),
        pairs=tuple(augmentation.views(inputs.samples)),
        augmentation=tuple(added.by_augmentation(inputs.students, inputs.blocks)),
        transfer=transfer.measures(inputs.transfer),
        examples=tuple(examples.nearest(inputs.examples)),
        disagreements=tuple(examples.disagreements(inputs.examples)),
        spread=_spread(standalone["uniformity_alignment"], lying) if lying else None,
        heatmaps=tuple(_picture(model, png) for model, png in maps.items()),
        geometry=sections.geometry(inputs.students),
        scores=sections.scores(inputs.students, inputs.significance),
        curves=tuple(_curve(panel, "first to last evaluation") for panel in panels),
        training=sections.training(inputs.distill),
        timings=timings.timings(inputs.timings),
        planned=planned.compared(inputs.plan, inputs.timings),
        efforts=tuple(_efforts(inputs)),
        warnings=tuple(sections.warnings(inputs.students, inputs.distill, inputs.finetune)),
        no_warnings=sections.no_warnings(inputs.students, inputs.distill),
        classifiers=classifiers.classifiers(inputs.classifiers, inputs.refused_classifiers),
        classifier_curves=tuple(
            _curve(Panel(f"{name}: dev score", lines), "first to last evaluation")
            for name, curve in inputs.classifier_curves.items()
            if (lines := _lines(curve, {"dev": "dev_score"}))
        ),
        cut=cut.summary(inputs.encode),
        cut_texts=cut.measures(inputs.encode),
        corpus=tuple(sections.counts("corpus", inputs.prepare)),
        ledger=ledger.view(inputs.ledger),
    )
    files = {f"{name}.svg": svg.encode("utf-8") for name, svg in standalone.items()}
    return content, files | {f"correlation_{model}.png": png for model, png in maps.items()}


def _heatmaps(inputs: Inputs) -> dict[str, bytes]:
    """The teacher's, then each student's."""
    first = inputs.students[0].student
    matrices = {TEACHER: inputs.correlation[first][TEACHER]}
    matrices |= {
        metrics.student: inputs.correlation[metrics.student][FINETUNED] for metrics in inputs.students
    }
    return {model: heatmaps.heatmap(matrix, 1.0) for model, matrix in matrices.items()}


def _picture(model: str, png: bytes) -> Picture:
    return Picture(heatmaps.data_uri(png), model, f"How the first dimensions of {model} correlate.")


def _points(board: Leaderboard, costs: Sequence[float]) -> list[Point]:
    chosen = {row.model for row in front(board.shipped)}
    teacher = board.teacher
    return [
        Point(
            name=row.model,
            across=cost,
            up=row.average,
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


def _spread_points(students: Sequence[StudentMetrics]) -> list[Point]:
    """The teacher and the shipped students, if their geometry was measured."""
    found = {TEACHER: students[0].geometry.get(TEACHER, {})}
    found |= {metrics.student: metrics.geometry.get(FINETUNED, {}) for metrics in students}
    points = []
    for model, geometry in found.items():
        across, up = geometry.get("uniformity"), geometry.get("alignment")
        if across is not None and up is not None:
            points.append(Point(model, across, up, teacher=model == TEACHER))
    return points


def _spread(svg: str, points: Sequence[Point]) -> Figure:
    caption = (
        "Lower is better on both axes. Further left, vectors fill the sphere more evenly; further down, "
        "texts that mean the same lie closer together. A student should lie near the teacher."
    )
    places = [f"{p.name} uniformity {p.across:.3g}, alignment {p.up:.3g}" for p in points]
    return Figure(svg, caption, f"Alignment against uniformity: {'; '.join(places)}.")


def _added(metrics: StudentMetrics, inputs: Inputs) -> added.Added:
    name = metrics.student
    return added.added(metrics, inputs.finetune[name], inputs.distill[name])


def _efforts(inputs: Inputs) -> list[effort.Effort]:
    trainings = [
        ("teacher", "fine-tuning", inputs.teacher_curve),
        *(
            (metrics.student, stage, curves[metrics.student])
            for metrics in inputs.students
            for stage, curves in (("distillation", inputs.curves), ("fine-tuning", inputs.finetune_curves))
        ),
    ]
    return [found for training in trainings if (found := effort.effort(*training))]


def _panels(student: str, inputs: Inputs) -> list[Panel]:
    """The student's trainings that have something to draw."""
    losses = _lines(inputs.curves[student], {"train": "train_loss", "dev": "dev_value"})
    train = inputs.blocks[student]["train"]
    agreed = train is not None and train["select"] == "agreement"
    distillation = Panel(
        f"{student}: distillation loss" + (" (dev: 1 - agreement)" if agreed else ""), losses
    )
    return [
        *([distillation] if losses else []),
        *_fine_tuning(student, inputs.finetune_curves[student]),
    ]


def _fine_tuning(model: str, curve: pl.DataFrame) -> list[Panel]:
    """The dev scores of a student's or the teacher's fine-tuning, if there was one."""
    lines = _lines(curve, {"dev": "dev_score"})
    return [Panel(f"{model}: fine-tuning score", lines)] if lines else []


def _lines(curve: pl.DataFrame, columns: Mapping[str, str]) -> tuple[Line, ...]:
    """One line per column that has values."""
    lines = []
    for name, column in columns.items():
        seen = curve.filter(pl.col(column).is_finite())
        if seen.height:
            role = "accent" if name == "dev" else "warm"
            lines.append(Line(name, role, tuple(seen["step"]), tuple(seen[column])))
    return tuple(lines)


def _curve(panel: Panel, ends_are: str) -> Figure:
    ends = [f"{line.name} {number(line.values[0])} to {number(line.values[-1])}" for line in panel.lines]
    caption = f"{ends_are.capitalize()}: {', '.join(ends)}."
    return Figure(figures.curves([panel]), caption, f"{panel.title}. {caption}")
