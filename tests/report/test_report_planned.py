"""Plan against fact."""

import re
from dataclasses import replace

from sample_report import sample_report

from pipeline.report import page, planned
from pipeline.report.inputs import Timing
from pipeline.report.planned import Compared, Expected

PLAN = {
    "prepare": Expected(seconds=30, peak_megabytes=1000),
    "encode@corpus": Expected(seconds=100, peak_megabytes=700),
    "encode@eval": Expected(seconds=50, peak_megabytes=800),
    "export@hpd": Expected(seconds=20, peak_megabytes=900),
}
FACTS = {
    "prepare": Timing(seconds=20, peak_megabytes=900),
    "encode@corpus": Timing(seconds=200, peak_megabytes=750),
    "encode@eval": Timing(seconds=0, peak_megabytes=100),
    "distill@hpd": Timing(seconds=9, peak_megabytes=100),
}
ROWS = (
    Compared("prepare", "30 s", "20 s", "1.50", "1,000", "900"),
    Compared("encode", "2 min 30 s", "3 min 20 s", "0.75", "800", "750"),
    Compared("all", "3 min 00 s", "3 min 40 s", "0.82", "1,000", "900"),
)


def test_stages_that_were_planned_and_run_are_compared_by_name():
    assert planned.compared(PLAN, FACTS) == ROWS
    assert planned.compared({}, FACTS) == ()
    assert planned.compared(PLAN, {"mine": Timing(seconds=1, peak_megabytes=1)}) == ()


def test_the_page_shows_the_table_where_there_is_a_plan(tmp_path):
    assert planned.read(tmp_path / planned.FILE) == {}
    assert "Plan against fact" not in page.render(sample_report())
    html = page.render(replace(sample_report(), planned=ROWS))
    table = html[html.index("<caption>Plan against fact") :]
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", table[: table.index("</table>")])
    assert cells[6:12] == ["prepare", "30 s", "20 s", "1.50", "1,000", "900"]
    assert len(cells) == 6 * 4
