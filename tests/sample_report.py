"""The report on tests/report/sample."""

from pathlib import Path

from pipeline.params.load import load
from pipeline.report import build
from pipeline.report.leaderboard import leaderboard
from pipeline.report.page import Report
from pipeline.report.report import Sources, read_inputs

SAMPLE = Path(__file__).parent / "report" / "sample"


def sample_report() -> Report:
    """What its page shows."""
    folders = {
        name: SAMPLE / name for name in ("metrics", "examined", "samples", "curves", "stages", "timings")
    }
    files = {name: SAMPLE / f"{name}.json" for name in ("footprint", "search", "significance")}
    inputs = read_inputs(load(SAMPLE / "params.yaml"), Sources(**folders, **files))
    board = leaderboard(inputs.students, inputs.sizes, inputs.significance, "a small CPU, 2 cores")
    return build.report(inputs, board)[0]
