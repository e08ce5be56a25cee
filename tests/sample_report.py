"""The report on tests/report/sample."""

from pathlib import Path

from pipeline.params.load import load
from pipeline.report import build
from pipeline.report.artifacts import Places
from pipeline.report.leaderboard import leaderboard
from pipeline.report.page import Report
from pipeline.report.report import Sources, read_inputs

SAMPLE = Path(__file__).parent / "report" / "sample"


def sample_report() -> Report:
    """What its page shows."""
    names = ("metrics", "examined", "samples", "curves", "stages", "timings", "cards")
    folders = {name: SAMPLE / name for name in names}
    files = {name: SAMPLE / f"{name}.json" for name in ("footprint", "search", "significance", "origins")}
    places = Places(**{name: SAMPLE / name for name in ("gated", "vectors", "finetuned")})
    sources = Sources(**folders, **files, artifacts=places)
    inputs = read_inputs(load(SAMPLE / "params.yaml"), sources)
    board = leaderboard(inputs.students, inputs.sizes, inputs.significance, "a small CPU, 2 cores")
    return build.report(inputs, board)[0]
