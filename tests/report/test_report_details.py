"""Differences, what was added, budgets and examples."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from pipeline.report import added, budget, differences, heatmaps
from pipeline.report.checked import searches, significance, sizes, student_metrics
from pipeline.report.inputs import Budget, FinetuneMetrics
from pipeline.report.leaderboard import leaderboard
from pipeline.report.recommend import lead, picks
from pipeline.report.tables import markdown, summary

SAMPLE = Path(__file__).parent / "sample"
NAMES = ["hpd", "potion"]


def read(path):
    return json.loads((SAMPLE / path).read_text())


def students():
    return [student_metrics(read(f"metrics/{name}.json"), name) for name in NAMES]


def significance_with(**changes):
    return significance({**read("significance.json"), **changes}, NAMES)


def board(found=None):
    return leaderboard(students(), sizes(read("footprint.json"), NAMES), found)


def test_intervals_stand_in_the_leaderboard_behind_average_and_kept_of_what_is_measured():
    text = markdown(board(significance_with()))
    assert "| **0.443 (0.428–0.458)** | **95.6% (92.6–98.6%)** |" in text
    assert "95% bootstrap intervals" in text
    line = next(line for line in text.splitlines() if line.startswith("| hpd | distilled"))
    assert "(" not in line
    assert "bootstrap" not in markdown(board())


@pytest.mark.parametrize(
    ("confidence", "shown"), [(0.995, "99.5%"), (0.975, "97.5%"), (0.29, "29%"), (0.9999999, "99.99999%")]
)
def test_a_confidence_has_all_its_digits(confidence, shown):
    found = significance_with(confidence=confidence)
    assert f"Ranges are {shown} bootstrap" in markdown(board(found))
    assert f"range holds {shown} of" in differences.differences(found, board(found)).note


def test_nothing_is_kept_of_a_teacher_that_cannot_be_told_from_zero():
    known = significance_with().intervals
    shown = board(
        significance_with(intervals={**known, "teacher": {**known["teacher"], "relatedness": (0, 0.5)}})
    )
    assert {row.kept for row in shown.rows} == {None}
    assert {values["kept"] for values in summary(shown).values()} == {None}
    assert "| **0.443 (0.428–0.458)** | **–** |" in markdown(shown)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"intervals": {"teacher": {}, "hpd": {}}}, "potion"),
        ({"paired": [{"student": "hpd"}]}, "paired.0.other:"),
    ],
)
def test_significance_that_cannot_be_right_names_the_stage_to_rerun(change, named):
    with refuses(named, "`dvc repro -f significance`"):
        significance_with(**change)


def paired(student, other, low, high):
    row = {"student": student, "other": other, "task": "average", "p": 0.2}
    return {**row, "difference": (low + high) / 2, "low": low, "high": high}


def test_differences_are_split_by_average_and_task_with_the_best_student_first():
    found = differences.differences(significance_with(), board())
    assert [(row.student, row.other) for row in found.averages] == [
        ("hpd", "teacher"),
        ("hpd", "potion"),
        ("potion", "teacher"),
        ("potion", "hpd"),
    ]
    row = found.averages[0]
    assert (row.difference, row.interval, row.p) == ("-0.019", "-0.032 to -0.007", "0.004")
    assert row.verdict == "yes, worse"
    assert [(row.task, row.verdict, row.p) for row in found.tasks] == [
        ("relatedness", "cannot tell", "0.310")
    ]


@pytest.mark.parametrize(
    ("samples", "p", "shown"),
    # As the metrics keep them: at least 2 / (samples + 1), with six digits.
    [
        (1000, 0.001998, "≤ 0.002"),
        (1000, 0.003996, "0.004"),
        (100, 0.019802, "≤ 0.02"),
        (1500, 0.00133245, "≤ 0.002"),
        (10**5, 4e-4, "0.0004"),
    ],
)
def test_the_least_p_that_so_many_resamples_can_show_is_a_bound(samples, p, shown):
    tests = [{**paired("hpd", "potion", 0.01, 0.03), "p": p}]
    found = differences.differences(significance_with(samples=samples, paired=tests), board())
    assert [row.p for row in found.averages] == [shown]


def test_models_of_no_student_in_params_are_left_out_of_the_tests():
    gone = [paired("gone", "hpd", 0.1, 0.2), paired("hpd", "gone", 0.1, 0.2)]
    assert significance_with(paired=gone).paired == ()


def test_the_lead_names_each_pick_once():
    assert lead(picks(board(), significance_with())) == [("hpd", "quality"), ("potion", "speed and size")]


def test_the_summary_is_short_and_rounded():
    assert summary(board())["hpd"] == {"avg": 0.443, "kept": 0.956, "mb": 69.4, "ms": 2.21}
    assert list(summary(board())) == ["teacher", *NAMES]


def test_what_each_step_added_to_a_student():
    stage = FinetuneMetrics(kept="finetuned", reason="why", dev_before=0.42, dev_after=0.44)
    row = added.added(students()[0], stage, {"epoch_texts": {"corpus": 58793, "wordnet": 18211}})
    assert (row.augmented, row.distilling, row.finetuning) == ("18,211 (23.6%)", "+0.214", "+0.014")
    assert added.added(students()[0], stage, {}).augmented == "–"
    assert added.added(students()[0], stage, {"epoch_texts": {"corpus": 5}}).augmented == "0 (0.0%)"


def test_a_student_that_is_not_distilled_gains_by_fine_tuning_alone():
    stage = FinetuneMetrics(kept="untrained", reason="why", whitened_dim=128)
    distilled = students()[0]
    start = distilled.average["untrained"]
    alone = distilled.model_copy(update={"average": {**distilled.average, "distilled": start}})
    row = added.added(alone, stage, {"steps": 0})
    assert (row.augmented, row.distilled, row.distilling) == ("–", "–", "–")
    assert row.finetuning == f"{distilled.average['finetuned'] - start:+.3f}"
    assert row.ships == "untrained weights, whitened"
    block = {"dim": 128, "train": {"texts": {"corpus": 1.0}}}
    assert added.by_augmentation(students(), {"hpd": {**block, "train": None}, "potion": block}) == []


def test_students_that_differ_in_their_texts_alone_show_what_augmentation_added():
    block = {"dim": 128, "train": {"texts": {"corpus": 1.0, "wordnet": 1.0}, "lr": 1}}
    bare = {"dim": 128, "train": {"texts": {"corpus": 1.0}, "lr": 1}}
    said = added.by_augmentation(students(), {"hpd": block, "potion": bare})
    scores = {m.student: m.average["distilled"] for m in students()}
    figures = f"{scores['potion']:.3f} (potion) to {scores['hpd']:.3f} (hpd)"
    [sentence] = said
    for part in ("wordnet", figures, f"{scores['hpd'] - scores['potion']:+.3f}"):
        assert part in sentence
    half = {**block, "train": {"texts": {"corpus": 1.0, "wordnet": 0.5}, "lr": 1}}
    [sentence] = added.by_augmentation(students(), {"hpd": half, "potion": bare})
    assert "wordnet (each 0.5 times an epoch)" in sentence
    assert figures in sentence
    for other in ({**bare, "dim": 64}, {**bare, "train": {"texts": {"corpus": 2.0}, "lr": 1}}):
        assert added.by_augmentation(students(), {"hpd": block, "potion": other}) == []


def test_budget_choices_leave_out_what_another_beats_at_no_more_bytes():
    rows = [(row.vectors, row.megabytes, row.kept) for row in budget.choices(students())]
    assert rows == [
        ("128 × float32", "512", "95.8%"),
        ("128 × int8", "128", "95.6%"),
        ("64 × int8", "64", "86.5%"),
        ("128 × binary", "16", "82.2%"),
        ("64 × binary", "8", "71.4%"),
    ]
    (panel,) = budget.panels(students()[0])
    assert [(line.name, line.steps) for line in panel.lines] == [
        ("float32", (256.0, 512.0)),
        ("int8", (64.0, 128.0)),
        ("binary", (8.0, 16.0)),
    ]
    assert budget.panels(students()[1]) == []
    assert budget.asymmetric(students()) == [("reverse_dictionary › hpd", ("0.413", "0.371", "0.389"))]


def test_of_equally_many_bytes_the_better_vectors_are_chosen_and_said_to_be_trained_for():
    def entry(average: float, *, trained: bool, megabytes: float = 64.0) -> Budget:
        told = {
            "dim": 64,
            "type": "int8",
            "megabytes_per_million": megabytes,
            "average": average,
            "kept": None,
        }
        return Budget(**told, trained=trained)

    entries = [entry(0.4, trained=False), entry(0.5, trained=True), entry(0.3, trained=False, megabytes=8.0)]
    for order in permutations(entries):
        assert [one.average for one in budget._front(order)] == [0.5, 0.3]
    assert [budget._shown("hpd", one).trained for one in entries] == ["no", "yes", "no"]


def test_indexes_are_shown_once_for_the_teacher_with_their_settings():
    row = {
        "task": "reverse_dictionary",
        "index": "ivf",
        "nlist": 8,
        "nprobe": 2,
        "documents": 9,
        "dim": 4,
        "bytes": 2_500_000,
    }
    row |= {"mrr@10": 0.5, "recall@10": 0.75, "ndcg@10": 0.6, "exact@10": 0.9}
    both = [{**row, "model": "teacher"}, {**row, "model": "finetuned"}]
    scored = [
        student_metrics({**read(f"metrics/{name}.json"), "indexes": both, "budget_left_out": ["sst2"]}, name)
        for name in NAMES
    ]
    of_hpd = {**row, "model": "hpd", "queries": 5, "build_seconds": 0.0125, "ms_per_1000_queries": 3.2}
    of_hpd |= {"build_spread": 0.04, "search_spread": 0.31}
    times = searches({"searches": [{**of_hpd, "nprobe": 1, "build_seconds": 9.0}, of_hpd], "rounds": 3})
    shown = budget.indexes(scored, times)
    assert [(row.build, row.search) for row in shown] == [
        ("", ""),
        ("12.5 ±4%", "3.20 noisy: other work was running (±31%)"),
        ("", ""),
    ]
    assert [row.model for row in shown] == ["teacher", "hpd", "potion"]
    assert (shown[0].index, shown[0].megabytes) == ("ivf, nlist 8, nprobe 2", "2.50")
    assert shown[0].scores == ("0.500", "0.750", "0.900")
    assert "left out: sst2" in budget.note(scored)
    assert "left out" not in budget.note(students())


def test_times_of_a_single_round_are_shown_without_a_spread():
    row = {"task": "a", "model": "hpd", "index": "flat", "documents": 9, "dim": 4, "bytes": 1}
    metrics = student_metrics({**read("metrics/hpd.json"), "indexes": [{**row, "model": "finetuned"}]}, "hpd")
    times = {"queries": 5, "build_seconds": 0.0125, "ms_per_1000_queries": 3.2}
    found = searches({"searches": [{**row, **times, "build_spread": None, "search_spread": None}]})
    [shown] = budget.indexes([metrics], found)
    assert (shown.build, shown.search) == ("12.5", "3.20")


def test_a_heat_map_is_a_png_of_four_pixels_a_cell_with_clipped_values():
    first = heatmaps.heatmap(np.array([[1.0, 0.0, -1.0], [0.0, 5.0, 0.0]]), 1.0)
    assert first.startswith(b"\x89PNG")
    assert (int.from_bytes(first[16:20], "big"), int.from_bytes(first[20:24], "big")) == (12, 8)
    assert heatmaps.heatmap(np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 0.0]]), 1.0) == first
    assert heatmaps.heatmap(np.array([[1.0, 0.0, -1.0], [0.0, 0.5, 0.0]]), 1.0) != first
