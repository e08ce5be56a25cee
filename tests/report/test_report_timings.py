"""What the stages and the steps of training took: the numbers of the tables, and the page."""

import re
from dataclasses import replace

import polars as pl
import pytest
from refusals import refuses
from sample_report import sample_report

from pipeline.report import effort, page, timings
from pipeline.report.checked import timing
from pipeline.report.inputs import Timing
from pipeline.report.timings import Took

FOUND = {
    "prepare": Timing(seconds=30, peak_megabytes=812.4),
    "encode@corpus": Timing(seconds=7200, peak_megabytes=1432),
    "encode@eval": Timing(seconds=360, peak_megabytes=1640),
    "distill@hpd": Timing(seconds=2400, peak_megabytes=900),
    "significance": Timing(seconds=10, peak_megabytes=99),
}
ALL = Took("all", "", "2 h 47 min", "100%", "1,640")


def test_stages_of_a_name_add_up_and_keep_the_largest_memory():
    found = timings.timings(FOUND)
    assert found.names == (
        Took("prepare", "", "30 s", "<1%", "812"),
        Took("encode", "2 text sets", "2 h 06 min", "76%", "1,640"),
        Took("distill", "1 student", "40 min", "24%", "900"),
        Took("significance", "", "10 s", "<1%", "99"),
    )
    assert [(row.stage, row.time, row.share) for row in found.each] == [
        ("prepare", "30 s", "<1%"),
        ("encode@corpus", "2 h 00 min", "72%"),
        ("encode@eval", "6 min 00 s", "4%"),
        ("distill@hpd", "40 min", "24%"),
        ("significance", "10 s", "<1%"),
    ]
    assert not any(row.runs for row in found.each)
    assert found.total == ALL


def test_stages_without_time_have_no_share():
    found = timings.timings({"mine": Timing(seconds=0, peak_megabytes=0)})
    assert found.names == (Took("mine", "", "0 s", "–", "0"),)


def test_every_method_text_set_and_student_has_its_stages():
    found = timings.addresses(["wordnet", "other"], ["hpd"])
    assert found[:12] == [
        *("look", "prepare", "augment@wordnet", "augment@other", "transfer"),
        *("finetune_teacher", "members"),
        *("encode@corpus", "encode@wordnet", "encode@other", "encode@transfer", "encode@eval"),
    ]
    assert found[12:19] == [
        "encode@finetune",
        "teacher_parts",
        "hidden",
        "fit_pca",
        "gate@wordnet",
        "gate@other",
        "distill@hpd",
    ]
    assert found[19:] == ["mine", "finetune@hpd", "evaluate@hpd", "significance", "footprint", "search_speed"]


@pytest.mark.parametrize("document", [{"seconds": 3}, {"seconds": "x", "peak_megabytes": 3}, [1]])
def test_a_time_of_another_form_names_the_stage(document):
    with refuses("time of encode@corpus", "`dvc repro -f encode@corpus`"):
        timing(document, "encode@corpus")


def test_the_page_has_both_tables_with_the_total_at_the_foot():
    html = page.render(replace(sample_report(), timings=timings.timings(FOUND)))
    shown = html[html.index('<h2 id="time">') : html.index('<h2 id="corpus">')]
    names, each, steps = re.findall(r"<table>(.*?)</table>", shown, flags=re.DOTALL)
    for table, stages in ((names, 4), (each, 5)):
        assert table.count('<tr><th scope="row">') == stages + 1
        foot = table[table.index("<tfoot>") :]
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", foot)
        assert cells == [ALL.stage, ALL.time, ALL.share, ALL.megabytes]
    assert "encode<small>2 text sets</small>" in names
    assert '<th scope="row">encode@eval</th><td>6 min 00 s</td><td>4%</td><td>1,640</td>' in each
    assert "<td>&lt;1%</td>" in each
    assert "examples/s" in steps
    assert re.search(
        r'<th scope="row">hpd</th><td class="text">distillation</td><td class="text">bfloat16</td>'
        r"<td>[\d,]+</td><td>\d",
        steps,
    )
    assert "<details>" in shown[: shown.index("encode@eval")]


def test_the_time_of_a_training_is_the_sum_over_its_evaluations():
    curve = pl.DataFrame(
        {
            "step": [0.0, 10.0, 20.0],
            "examples": [0.0, 640.0, 1280.0],
            "examples_per_second": [None, 64.0, 6.4],
        }
    )
    found = effort.effort("hpd", "distillation", curve)
    assert found.seconds == pytest.approx(640 / 64 + 640 / 6.4)
    assert (found.steps, found.examples, found.speed, found.time) == ("20", "1,280", "11.6", "1 min 50 s")
    assert found.precision == "–"
    of_precision = curve.with_columns(precision=pl.lit("float32"))
    assert effort.effort("hpd", "distillation", of_precision).precision == "float32"
    unknown = effort.effort("hpd", "fine-tuning", curve.select("step"))
    assert (unknown.steps, unknown.time) == ("20", "–")
    assert effort.effort("hpd", "fine-tuning", curve.head(0)) is None
    assert effort.total([found, unknown]) == "1 min 50 s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (12.4, "12 s"),
        (59.7, "1 min 00 s"),
        (599.4, "9 min 59 s"),
        (599.6, "10 min"),
        (3599, "1 h 00 min"),
        (7380, "2 h 03 min"),
    ],
)
def test_durations_read_well(seconds, text):
    assert effort.duration(seconds) == text
