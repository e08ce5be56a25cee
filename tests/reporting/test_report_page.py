import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.core.params.load import load
from pipeline.reporting import build, page, tables
from pipeline.reporting.sections import Measures
from pipeline.stages.report import read_inputs

SAMPLE = Path(__file__).parent / "sample"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *"--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync".split(),
    *"--disable-background-networking --disable-component-update --hide-scrollbars".split(),
    "--allow-file-access-from-files",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
PROBE = """
<body style="margin:0"><iframe id="f" src="index.html" style="border:0;width:{width}px;height:900px"></iframe>
<script>
onload = () => {{
  const page = document.getElementById("f").contentDocument, root = page.documentElement;
  const sort = page.querySelectorAll(".board thead button")[6];
  sort.click();
  sort.click();
  document.body.dataset.seen = JSON.stringify({{
    width: root.clientWidth, scroll: root.scrollWidth,
    rows: page.querySelectorAll(".board tbody tr").length,
    figures: [...page.querySelectorAll("figure svg")].filter((svg) => svg.clientHeight > 100).length,
    sorted: page.querySelectorAll(".board th")[6].getAttribute("aria-sort"),
    first: page.querySelector(".board tbody tr").innerText,
    requests: page.defaultView.performance.getEntriesByType("resource").length,
  }});
}};
</script>
"""


@pytest.fixture(scope="module")
def report():
    inputs = read_inputs(
        load(SAMPLE / "params.yaml"),
        SAMPLE / "metrics",
        SAMPLE / "footprint.json",
        SAMPLE / "curves",
        SAMPLE / "stages",
    )
    return build.report(inputs, tables.leaderboard(inputs.students, inputs.sizes))[0]


def test_classifiers_are_on_the_page_where_a_task_has_labels(report):
    assert "Classifiers on the vectors" not in page.render(report)
    rows = (("sst2 › f1", "with 20% of the labels", ("0.912", "0.845")),)
    shown = page.render(replace(report, classifiers=Measures(("teacher", "hpd"), rows)))
    table = shown[shown.index("<caption>Classifiers on the vectors") :]
    assert "<td>0.845</td>" in table[: table.index("</table>")]


def test_the_page_names_nothing_to_load(report):
    html = page.render(report)
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"|@import|url\(", html)
    addresses = set(re.findall(r"https?://[^\"'\s<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_the_page_recommends_by_the_stated_rule(report):
    html = page.render(report)
    start = html.index('id="recommendation"')
    cards = html[start : html.index("</header>")]
    assert (
        cards.index("best quality")
        < cards.index("hpd")
        < cards.index("fastest, smallest")
        < cards.index("potion")
    )
    assert "Keeps 95.6% of the teacher" in cards
    assert "15.6 MB, 5.83× smaller" in cards
    assert "0.081 ms a sentence, 63.2× faster" in cards
    assert "built-in proxies made from WordNet" in cards


def test_texts_are_escaped(report):
    attack = "<script>alert(1)</script>"
    tuned = tuple(replace(row, reason=f"`{attack}` {attack}") for row in report.finetuning)
    html = page.render(replace(report, teacher=attack, warnings=(attack,), finetuning=tuned))
    assert attack not in html
    assert html.count("&lt;script&gt;") == 2 + 2 * len(tuned)


def test_a_student_that_is_larger_and_slower_is_said_to_be(report):
    size = report.board.teacher.size.model_copy(update={"megabytes": 181.8, "latency_ms_p50": 10.24})
    pick = replace(report.picks[0], row=replace(report.picks[0].row, size=size, kept=None))
    assert page.costs(pick, report.board) == ["182 MB, 2× larger", "10.2 ms a sentence, 2× slower"]
    assert page.keeps(pick, report.board) == "average score 0.443, teacher's 0.463"


def test_a_teacher_without_weights_has_no_size_to_compare_with(report):
    row = report.board.teacher
    light = replace(row, size=row.size.model_copy(update={"megabytes": 0.0}))
    board = replace(report.board, rows=(light, *report.board.rows[1:]))
    assert page.costs(report.picks[0], board)[0] == "69.4 MB"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")
@pytest.mark.parametrize("width", [360, 1440])
def test_in_a_browser_without_network_the_page_shows_all_and_does_not_overflow(report, tmp_path, width):
    (tmp_path / "index.html").write_text(page.render(report))
    (tmp_path / "probe.html").write_text(PROBE.format(width=width))
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}"]
    command += [f"--window-size={max(width, 500)},900", "--dump-dom", (tmp_path / "probe.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.search(r"data-seen=\"([^\"]*)\"", dom)
    assert found, dom[:2000]
    seen = json.loads(found.group(1).replace("&quot;", '"'))
    assert (seen["width"], seen["scroll"]) == (width, width)
    assert (seen["rows"], seen["figures"], seen["requests"]) == (9, 5, 0)
    assert seen["sorted"] == "ascending"
    assert seen["first"].split()[:2] == ["hpd", "untrained"]
