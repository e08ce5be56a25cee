import json
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refuses

from pipeline.report.checked import sizes, student_metrics
from pipeline.report.inputs import FinetuneMetrics, Significance, StudentMetrics
from pipeline.report.leaderboard import leaderboard
from pipeline.report.numbers import number
from pipeline.report.sections import counts, no_warnings, scores, warnings
from pipeline.report.tables import markdown, plain_rows

SAMPLE = Path(__file__).parent / "sample"
NAMES = ["hpd", "potion"]


def metrics(name, **changes):
    document = json.loads((SAMPLE / "metrics" / f"{name}.json").read_text())
    return student_metrics({**document, **changes}, name)


def footprint():
    return json.loads((SAMPLE / "footprint.json").read_text())


def board(students=None):
    return leaderboard(students or [metrics(name) for name in NAMES], sizes(footprint(), NAMES))


def test_rows_are_the_teacher_its_pca_by_dimension_and_every_student_before_and_after():
    rows = [(row.model, row.variant, row.dim) for row in board().rows]
    assert rows == [
        ("teacher", "as it is", 384),
        ("teacher", "after PCA", 256),
        ("teacher", "after PCA", 128),
        *(("hpd", variant, 128) for variant in ("untrained", "distilled", "shipped")),
        *(("potion", variant, 256) for variant in ("untrained", "distilled", "shipped")),
    ]


def test_a_shipped_row_holds_the_headline_scores_and_the_footprint():
    row = board().shipped[0]
    assert row.scores == (0.497, 0.389)
    assert (row.average, row.kept) == (0.443, 0.956296)
    assert row.size is not None
    assert row.size.megabytes == 69.4


def test_pca_rows_of_one_dimension_are_one_row_only_if_they_read_the_same():
    dims = metrics("hpd").dims
    same = metrics("potion", dims=dims, scores=metrics("potion").scores | pca_of("hpd"))
    differs = metrics("potion", dims=dims)
    variants = [
        [row.variant for row in board([metrics("hpd"), other]).rows if row.variant.startswith("after")]
        for other in (same, differs)
    ]
    assert variants == [["after PCA"], ["after PCA, for hpd", "after PCA, for potion"]]


def test_a_pca_row_names_the_view_that_is_not_the_one_users_have():
    own = {"teacher": "sentence", "teacher_pca": "sentence"}
    other = {"teacher": "sentence", "teacher_pca": "token_mean"}
    dims = metrics("hpd").dims
    shown = board([metrics("hpd", views=own), metrics("potion", views=other, dims=dims)]).rows[:3]
    assert [row.variant for row in shown] == ["as it is", "after PCA", "after PCA of token_mean"]


def test_of_teachers_that_read_differently_the_first_is_measured():
    """A head that another processor trained may score otherwise."""
    known = metrics("potion").scores
    teacher = {**known["teacher"], "relatedness": {"spearman": 0.9}}
    shown = board([metrics("hpd"), metrics("potion", scores={**known, "teacher": teacher})])
    rows = [row for row in shown.rows if row.variant.startswith("as it is")]
    assert [(row.variant, row.size is None) for row in rows] == [
        ("as it is, for hpd", False),
        ("as it is, for potion", True),
    ]
    assert [row["model"] for row in plain_rows(shown)] == ["teacher", "hpd", "potion"]


def test_a_teacher_that_lost_no_dimension_has_no_row_after_pca():
    dims = {**metrics("hpd").dims, "teacher_pca": 384}
    shown = board([metrics("hpd", dims=dims), metrics("potion")])
    assert [row.dim for row in shown.rows if row.variant.startswith("after")] == [256]


def pca_of(name):
    return {"teacher_pca": metrics(name).scores["teacher_pca"]}


@pytest.mark.parametrize("teacher_score", [0.0, -0.2, None])
def test_nothing_is_kept_of_a_teacher_without_a_positive_score(teacher_score):
    scores = json.loads((SAMPLE / "metrics/hpd.json").read_text())["scores"]
    scores["teacher"]["relatedness"]["spearman"] = teacher_score
    shown = board([metrics("hpd", scores=scores), metrics("potion")])
    assert [row.kept for row in shown.rows if row.model == "hpd"] == [None] * 3
    assert "| **0.443** | **–** |" in markdown(shown)


def test_markdown_marks_proxies_and_escapes_what_would_break_the_table():
    text = markdown(board())
    assert r"relatedness (spearman)\*" in text
    assert "built-in proxies made from WordNet" in text
    assert "| **hpd** | **shipped** | **128** | **0.497** | **0.389** | **0.443** | **95.6%** |" in text
    odd = metrics("hpd", main={"relatedness": "a|b<c"}, builtin=[])
    assert r"relatedness (a\|b&lt;c) |" in markdown(board([odd, metrics("potion", main={}, builtin=[])]))


def test_speeds_are_those_of_a_processor_that_is_named_where_it_is_known():
    assert "measured on" not in markdown(board())
    known = replace(board(), machine="a CPU, 2 cores")
    assert "measured on a CPU, 2 cores." in markdown(known)


def test_every_line_of_the_markdown_table_has_as_many_cells():
    lines = [line for line in markdown(board()).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(board().rows)
    assert len({line.count("|") for line in lines}) == 1


def test_plain_rows_are_the_teacher_and_what_ships():
    rows = plain_rows(board())
    assert [row["model"] for row in rows] == ["teacher", "hpd", "potion"]
    assert rows[2]["latency_ms"] == 0.081


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (41230.4, "41,230"),
        (90.9, "90.9"),
        (2.214, "2.21"),
        (0.0814, "0.0814"),
        (0.15, "0.150"),
        (1.0, "1"),
        (0.0, "0"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_a_student_that_did_not_learn_is_warned_about():
    idle = metrics("hpd", average={"teacher": 0.4, "untrained": 0.3, "finetuned": 0.3})
    stage = {"best_dev_value": 0.9, "mean_predictor_loss": 0.9}
    found = warnings([idle], {"hpd": stage}, {})
    assert [" ".join(line.split()[:3]) for line in found] == [
        "hpd is no",
        "hpd learnt no",
    ]
    fine = {"best_dev_value": 0.1, "mean_predictor_loss": 0.9}
    assert warnings([metrics("hpd")], {"hpd": fine}, {}) == []
    tuned = FinetuneMetrics(kept="finetuned", reason="", saturated_kernels="kernel_vectors")
    dead = {**fine, "saturated_kernels": "kernel_inputs"}
    first, second = warnings([metrics("hpd")], {"hpd": dead}, {"hpd": tuned})
    assert "kernel_inputs: saturated); set students.hpd.loss to variant: fixed" in first
    assert "kernel_vectors: saturated); set students.hpd.finetune.hsic to" in second


def test_a_student_that_is_not_trained_at_all_is_not_warned_about():
    idle = metrics("hpd", average={"teacher": 0.4, "untrained": 0.3, "finetuned": 0.3})
    start = {"hpd": {"steps": 0}}
    for kept, warned in (("not fine-tuned", 0), ("untrained", 1)):
        stage = FinetuneMetrics(kept=kept, reason="")
        assert len(warnings([idle], start, {"hpd": stage})) == warned
    assert "before training" not in no_warnings([idle], start)


def test_without_warnings_the_page_says_what_was_looked_at():
    whole = {"teacher": 0.4, "untrained": 0.3, "finetuned": 0.35}
    students = [metrics("hpd", average=whole), metrics("potion", average=whole)]
    stages = {"hpd": {"mean_predictor_loss": 0.9}, "potion": {"mean_predictor_loss": 0.9}}
    assert no_warnings(students, stages) == (
        "No warnings: no student has collapsed; each is better than before training; each is closer to the "
        "targets than their mean is."
    )
    stages["potion"] = {"select": "agreement"}
    assert "; hpd is closer to the targets than their mean is." in no_warnings(students, stages)


def test_every_metric_is_shown_with_its_interval_the_headline_first():
    found = {"accuracy": 0.8, "accuracy@5%": 0.5, "accuracy@20%": 0.61, "f1": 0.9, "train": 90}
    sizes = {"hpd": {"sst2": found}, "potion": {"sst2": {"accuracy": 0.75, "f1": 0.85}}}
    students = [
        metrics(
            name,
            main={"sst2": "f1"},
            scores={"teacher": {"sst2": {"accuracy": 0.9, "f1": 0.95}}, "finetuned": scored},
        )
        for name, scored in sizes.items()
    ]
    around = {name: (value - 0.1, value + 0.1) for name, value in found.items() if name != "train"}
    intervals = {"hpd": {"sst2": around}, "teacher": {"sst2": {"f1": (0.9, 1.0)}}}
    table = scores(
        students, Significance(samples=9, confidence=0.9, intervals={}, metrics=intervals, paired=())
    )
    assert table.models == ("teacher", "hpd", "potion")
    assert [(row.task, row.metric, row.headline) for row in table.rows] == [
        ("sst2", "f1", True),
        ("sst2", "accuracy", False),
        ("sst2", "accuracy@5%", False),
        ("sst2", "accuracy@20%", False),
    ]
    assert table.rows[0].values == (("0.950", "0.900–1.000"), ("0.900", "0.800–1.000"), ("0.850", ""))
    assert table.rows[3].values == (("–", ""), ("0.610", "0.510–0.710"), ("–", ""))


def test_nested_counts_are_one_table_a_block():
    tables = counts("corpus", {"texts": 3, "my_texts.txt": {"in": 1200, "dropped": {"too_short": 2}}})
    assert [(table.title, table.rows) for table in tables] == [
        ("corpus", (("texts", "3"),)),
        ("corpus › my_texts.txt", (("in", "1,200"),)),
        ("corpus › my_texts.txt › dropped", (("too short", "2"),)),
    ]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"dim": "wide"}, "dim:"),
        ({"student": "other"}, " other;"),
        ({"average": {"teacher": 0.4}}, " finetuned;"),
    ],
)
def test_metrics_that_cannot_be_right_name_the_stage_to_rerun(change, named):
    with refuses("metrics of hpd", named, "`dvc repro -f evaluate@hpd`"):
        metrics("hpd", **change)


def test_a_footprint_without_a_student_names_it():
    with refuses("newcomer", "`dvc repro -f footprint`"):
        sizes(footprint(), ["hpd", "newcomer"])


def test_further_fields_of_the_metrics_are_allowed():
    assert isinstance(metrics("hpd", later="field"), StudentMetrics)
