"""`pipeline compare`: two students, or two reports, number by number and setting by setting."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli import changed_settings, tabular
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.common.files import metrics
from pipeline.report import numbers
from pipeline.report.checked import significance, sizes, student_metrics
from pipeline.report.differences import p_value
from pipeline.report.inputs import AVERAGE, TEACHER, Significance
from pipeline.report.leaderboard import Leaderboard, Row, leaderboard

METRICS = "metrics"
FOOTPRINT = "footprint.json"
SIGNIFICANCE = "significance.json"


@dataclass(frozen=True)
class Side:
    """What is compared: a student of a report, or all of its students."""

    report: Path
    student: str | None


@dataclass(frozen=True)
class Measure:
    """A number, and how a person reads it."""

    value: float | None
    shown: Callable[[float], str]

    @property
    def text(self) -> str:
        """For a person."""
        return numbers.NOTHING if self.value is None else self.shown(self.value)

    @property
    def plain(self) -> str:
        """For a program: all digits, without units; empty for none."""
        if self.value is None or isinstance(self.value, int):
            return "" if self.value is None else str(self.value)
        return f"{self.value:.{metrics.DIGITS}g}"


def compare(
    a: Annotated[str, typer.Argument(help="A student's name, its metrics .json, or a folder of reports.")],
    b: Annotated[str, typer.Argument(help="The same; a student is compared to its namesake in a report.")],
    reports: Annotated[Path, typer.Option(help="Where students are looked up by name.")] = Path("reports"),
) -> None:
    """Compare what two students ship, or all students of two reports: B's difference from A, and B / A.

    For two reports it also says which settings differ.
    """
    left, right = (find(name, reports) for name in (a, b))
    names = _pairs(left, right)
    mine = _board(left.report, [name for name, _ in names])
    theirs = _board(right.report, [name for _, name in names])
    _warn(mine, theirs)
    if left.report.resolve() == right.report.resolve():
        _say_how_sure(left.report, mine.shipped[0], theirs.shipped[0])
    else:
        say(f"speeds are of two runs: compare the speedup, which is over the {TEACHER} in the same run")
        _say_settings(left.report, right.report, names)
    models = list(zip(mine.shipped, theirs.shipped, strict=True))
    whole = left.student is None and right.student is None
    if whole:
        models.insert(0, (mine.teacher, theirs.teacher))
    plain = not tabular.on_terminal()
    rows = [
        [*([one.model] if whole else []), *row]
        for one, other in models
        for row in _rows(measures(mine, one), measures(theirs, other), plain=plain)
    ]
    words = ["model", "measure"] if whole else ["measure"]
    columns = [*words, a, b, "difference", "ratio"]
    if plain:
        tabular.lines([columns, *rows])
    else:
        tabular.table(columns, rows, left=words)


def find(name: str, reports: Path) -> Side:
    """A student by name or by its metrics file, or a report by its folder or by the checkout around it.

    Raises:
        UserError: there is none; the message lists the students that there are.
    """
    path = Path(name)
    if (reports / METRICS / f"{name}.json").is_file():
        return Side(reports, name)
    if path.is_file() and path.suffix == ".json" and path.absolute().parent.name == METRICS:
        return Side(path.absolute().parent.parent, path.stem)
    for folder in (path, path / "reports"):
        if (folder / METRICS).is_dir():
            return Side(folder, None)
    known = _students(reports)
    there = f"{reports} has {', '.join(known)}" if known else f"{reports} has none; run `dvc repro`"
    raise UserError(
        f"there is no student or report {name!r} (no {reports / METRICS / name}.json, and no folder "
        f"{path / METRICS}); {there}"
    )


def measures(board: Leaderboard, row: Row) -> dict[str, Measure]:
    """All numbers of a model that ships, or of the teacher, by name."""
    scores = {
        f"{task.name} ({task.metric})": Measure(value, numbers.score)
        for task, value in zip(board.tasks, row.scores, strict=True)
    }
    found = scores | {
        "average": Measure(row.average, numbers.score),
        "kept": Measure(row.kept, numbers.percent),
        "dim": Measure(row.dim, numbers.number),
    }
    if size := row.size:
        found |= {
            "parameters": Measure(size.parameters, lambda value: f"{numbers.number(value / 1e6)} M"),
            "MB": Measure(size.megabytes, numbers.number),
            "sentences/s": Measure(size.sentences_per_second, numbers.number),
            "speedup": Measure(size.speedup, _times),
            "ms/sentence p50": Measure(size.latency_ms_p50, numbers.number),
            "ms/sentence p95": Measure(size.latency_ms_p95, numbers.number),
        }
    return found


def _pairs(left: Side, right: Side) -> list[tuple[str, str]]:
    """Which students of the two sides are compared."""
    if left.student or right.student:
        return [(left.student or str(right.student), right.student or str(left.student))]
    known = [_whole(side.report) for side in (left, right)]
    common = [name for name in known[0] if name in known[1]]
    if not common:
        has = "; ".join(
            f"{side.report} has {', '.join(names) or 'none'}"
            for side, names in zip((left, right), known, strict=True)
        )
        raise UserError(f"the reports have no student in common ({has}); name a student of each")
    for side, names in zip((left, right), known, strict=True):
        if alone := [name for name in names if name not in common]:
            say(f"only in {side.report}: {', '.join(alone)}")
    return [(name, name) for name in common]


def _students(report: Path) -> list[str]:
    """Students that a report has metrics of."""
    return sorted(path.stem for path in (report / METRICS).glob("[!.]*.json"))


def _whole(report: Path) -> list[str]:
    """The students that it has now: metrics of a student that left the params may still lie there."""
    names, measured = _students(report), metrics.read(report / FOOTPRINT, "footprint")
    documents = {n: metrics.read(report / METRICS / f"{n}.json", f"evaluate@{n}") for n in names}
    for name in [name for name, found in documents.items() if metrics.REFUSED in found]:
        say(f"not in {report}: the teacher cannot give {documents[name][metrics.REFUSED]}")
        names.remove(name)
    if gone := [name for name in names if name not in measured]:
        say(f"left out, because {report / FOOTPRINT} lacks them: {', '.join(gone)}")
    return [name for name in names if name in measured]


def _board(report: Path, names: list[str]) -> Leaderboard:
    students = [
        student_metrics(metrics.read(report / METRICS / f"{name}.json", f"evaluate@{name}"), name)
        for name in names
    ]
    footprint = metrics.read(report / FOOTPRINT, "footprint")
    if gone := [name for name in names if name not in footprint]:
        raise UserError(
            f"{report / FOOTPRINT} lacks {', '.join(gone)}, which params.yaml may no longer name; "
            "give the student a block there and run `dvc repro`, or compare others"
        )
    measured = sizes(footprint, names)
    return leaderboard(students, measured, _significance(report, names))


def _significance(report: Path, names: list[str]) -> Significance | None:
    path = report / SIGNIFICANCE
    return significance(metrics.read(path, "significance"), names) if path.exists() else None


def _warn(mine: Leaderboard, theirs: Leaderboard) -> None:
    """Say what does not compare."""
    scores = [
        {
            (task.name, task.metric): value
            for task, value in zip(board.tasks, board.teacher.scores, strict=True)
        }
        for board in (mine, theirs)
    ]
    if scores[0].keys() != scores[1].keys():
        say("scored on different tasks: average and kept do not compare")
    if any(scores[0][task] != scores[1][task] for task in scores[0].keys() & scores[1].keys()):
        say(f"the {TEACHER}'s scores differ: another {TEACHER}, or other data; kept does not compare")
    rows = [row for board in (mine, theirs) for row in board.rows]
    noisy = dict.fromkeys(row.model for row in rows if row.size and numbers.is_noisy(row.size))
    if noisy:
        say(f"speeds of {', '.join(noisy)} are {numbers.NOISE}; `dvc repro -f footprint` measures again")


def _say_settings(one: Path, other: Path, students: list[tuple[str, str]]) -> None:
    """Say which settings of two reports differ."""
    for report in (one, other):
        if not (path := report / changed_settings.SETTINGS).exists():
            say(f"settings are not compared, because {path} does not exist; `dvc repro report` writes it")
            return
    changes = changed_settings.changes(changed_settings.read(one), changed_settings.read(other), students)
    say("settings that differ:" if changes else "the settings are the same")
    for change in changes:
        say(f"  {change.path}: {change.first} in {one}, {change.second} in {other}")


def _say_how_sure(report: Path, one: Row, other: Row) -> None:
    """Say the intervals of two students' averages, and what the paired test says of their difference."""
    found = _significance(report, [one.model, other.model])
    if one.model == other.model or not found:
        return
    averages = " and ".join(
        f"{row.model} {numbers.score(row.average)} ({numbers.span(found.interval(row.model, AVERAGE))})"
        for row in (one, other)
    )
    test = found.between(one.model, other.model, AVERAGE)
    if test is None:
        said = "no test compares the two"
    else:
        p = p_value(test.p, found.samples)
        p = p if p.startswith("≤") else f"= {p}"
        apart = "they differ by more than the choice of test rows explains"
        said = f"{apart if test.real else 'the test rows cannot tell them apart'} (p {p})"
    say(f"average with {numbers.level(found.confidence)} interval: {averages}; {said}")


def _rows(mine: dict[str, Measure], theirs: dict[str, Measure], *, plain: bool) -> Iterator[list[str]]:
    """Name, both values, difference and ratio of each measure of either."""
    for name in dict.fromkeys([*mine, *theirs]):
        shown = (mine.get(name) or theirs[name]).shown
        pair = [side.get(name, Measure(None, shown)) for side in (mine, theirs)]
        cells = [*pair, *_difference([measure.value for measure in pair], shown)]
        yield [name, *(cell.plain if plain else cell.text for cell in cells)]


def _difference(pair: Sequence[float | None], shown: Callable[[float], str]) -> tuple[Measure, Measure]:
    """The second minus the first, and their ratio, which is None unless the first is positive."""
    first, second = pair
    if first is None or second is None:
        return Measure(None, shown), Measure(None, _times)

    def signed(value: float) -> str:
        sign = "+" if value > 0 else "-" if value < 0 else ""
        return sign + shown(abs(value))

    return Measure(second - first, signed), Measure(second / first if first > 0 else None, _times)


def _times(value: float) -> str:
    return f"{numbers.number(value)}×"
