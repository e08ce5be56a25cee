"""The report on tests/reporting/sample."""

from pathlib import Path

from pipeline.core.params.load import load
from pipeline.reporting import build, tables
from pipeline.reporting.page import Report
from pipeline.stages.report import Sources, read_inputs

SAMPLE = Path(__file__).parent / "reporting" / "sample"


def sample_report() -> Report:
    """What its page shows."""
    folders = {
        name: SAMPLE / name for name in ("metrics", "examined", "samples", "curves", "stages", "timings")
    }
    files = {name: SAMPLE / f"{name}.json" for name in ("footprint", "search", "significance")}
    inputs = read_inputs(load(SAMPLE / "params.yaml"), Sources(**folders, **files), last=None)
    board = tables.leaderboard(inputs.students, inputs.sizes, inputs.significance, "a small CPU, 2 cores")
    return build.report(inputs, board)[0]
