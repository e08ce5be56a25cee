"""The section on agreement with the teacher, beside tasks and alone."""

import json
from dataclasses import replace

import pytest
from sample_report import SAMPLE, sample_report

from pipeline.report import agreement, page, tables
from pipeline.report.checked import sizes, student_metrics
from pipeline.report.inputs import Significance
from pipeline.report.leaderboard import leaderboard

GROUPS = {
    "hpd": [
        {"group": "up to 16 tokens", "scores": {"texts": 480, "overlap@10": 0.71, "spearman": 0.95}},
        {"group": "17 to 32 tokens", "scores": {"texts": 220, "overlap@10": 0.42, "spearman": 0.81}},
    ],
    "potion": [
        {"group": "up to 16 tokens", "scores": {"texts": 480, "overlap@10": 0.53, "spearman": 0.88}},
        {"group": "17 to 32 tokens", "scores": {"texts": 220, "overlap@10": 0.31, "spearman": 0.64}},
    ],
}
WHOLE = {"hpd": 0.62, "potion": 0.46}
INTERVALS = {
    name: {"agreement": {"overlap@10": (value - 0.01, value + 0.01)}} for name, value in WHOLE.items()
}
SIGNIFICANCE = Significance(samples=100, confidence=0.95, intervals={}, metrics=INTERVALS, paired=())


def metrics(name, *, alone=False, **changes):
    document = json.loads((SAMPLE / "metrics" / f"{name}.json").read_text())
    if alone:
        document["main"], document["scores"] = {}, {model: {} for model in document["scores"]}
    document["main"]["agreement"] = "overlap@10"
    for model, scores in document["scores"].items():
        value = 1.0 if model == "teacher" else WHOLE[name]
        scores["agreement"] = {"overlap@10": value, "spearman": (1 + value) / 2, "texts": 720}
    document["agreement"] = {"left_out": None, "groups": GROUPS[name]}
    return student_metrics({**document, **changes}, name)


def shown(**changes):
    return agreement.agreement([metrics(name, **changes) for name in GROUPS], SIGNIFICANCE)


def board(**changes):
    footprint = json.loads((SAMPLE / "footprint.json").read_text())
    return leaderboard([metrics(name, **changes) for name in GROUPS], sizes(footprint, [*GROUPS]))


def test_every_student_is_shown_as_a_whole_and_by_group():
    found = shown()
    assert not found.alone
    assert found.said.startswith("720 texts of the corpus that no student is trained on")
    assert found.measures.models == ("hpd", "potion")
    assert [(name, values) for name, _, values in found.measures.rows] == [
        ("overlap@10", ("0.620 (0.610–0.630)", "0.460 (0.450–0.470)")),
        ("spearman", ("0.810", "0.730")),
        ("overlap@10, up to 16 tokens", ("0.710", "0.530")),
        ("overlap@10, 17 to 32 tokens", ("0.420", "0.310")),
        ("spearman, up to 16 tokens", ("0.950", "0.880")),
        ("spearman, 17 to 32 tokens", ("0.810", "0.640")),
    ]
    assert found.measures.rows[2][1] == "480 texts"


@pytest.fixture(scope="module")
def report():
    return sample_report()


@pytest.mark.parametrize("alone", [False, True])
def test_it_comes_first_where_there_is_no_task(report, alone):
    html = page.render(replace(report, agreement=shown(alone=alone)))
    assert (html.index('id="agreement"') < html.index('id="quality"')) is alone
    assert (html.index('href="#agreement"') < html.index('href="#quality"')) is alone
    assert html.count('id="agreement"') == 1


def test_why_it_is_not_measured_is_said(report):
    why = "The corpus' dev split has 12 texts, and 100 are needed; raise `corpus.dev_fraction`."
    first = json.loads((SAMPLE / "metrics" / "hpd.json").read_text())
    left_out = student_metrics({**first, "agreement": {"left_out": why, "groups": []}}, "hpd")
    found = agreement.agreement([left_out], SIGNIFICANCE)
    assert found.said == f"Not measured. {why}"
    html = page.render(replace(report, agreement=found))
    assert "has 12 texts, and 100 are needed; raise <code>corpus.dev_fraction</code>." in html
    assert not agreement.agreement([student_metrics(first, "hpd")], SIGNIFICANCE).measures.models


def test_it_is_the_last_column_and_no_part_of_the_average():
    found = board()
    assert [task.name for task in found.tasks] == ["relatedness", "reverse_dictionary", "agreement"]
    assert [row.scores[-1] for row in found.shipped] == [0.62, 0.46]
    assert "finds too; no average counts it." in tables.markdown(found)
    assert "there is no task, so the average is it." in tables.markdown(board(alone=True))


def test_without_a_task_a_pick_is_not_said_to_keep_scores(report):
    found = board(alone=True)
    assert found.without_labels
    pick = replace(report.picks[0], row=found.shipped[0])
    assert page.keeps(pick, found) == "Finds 44.3% of the texts that the teacher finds nearest"
    assert not board().without_labels
