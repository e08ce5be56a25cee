import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from terminal import Terminal
from typer.testing import CliRunner, Result

from pipeline.cli import changed_settings
from pipeline.cli.__main__ import app

MEASURES = [
    "relatedness (spearman)",
    "reverse_dictionary (mrr@10)",
    "average",
    "kept",
    "dim",
    "parameters",
    "MB",
    "sentences/s",
    "speedup",
    "ms/sentence p50",
    "ms/sentence p95",
]


SETTINGS = {
    "teacher": {"model": "small"},
    "students": {"hpd": {"dim": 128, "loss": {"kind": "mse"}}, "potion": {"dim": 256, "init": {}}},
}


@pytest.fixture(autouse=True)
def _reports(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checkouts with the same report: this folder and `other`."""
    monkeypatch.chdir(tmp_path)
    for folder in (Path("reports"), Path("other/reports")):
        shutil.copytree(repository / "tests/report/sample", folder)
        (folder / "params.json").write_text(json.dumps(SETTINGS))


def compare(*args: str) -> Result:
    return CliRunner().invoke(app, ["compare", *args])


def rows(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.stderr
    return [line.split("\t") for line in result.stdout.splitlines()]


def read(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_text())


def change(path: str, edit: Callable[[Any], object]) -> None:
    document = read(path)
    edit(document)
    Path(path).write_text(json.dumps(document))


def test_two_students_with_difference_and_ratio():
    result = compare("hpd", "potion")
    head, *body = rows(result)
    assert head == ["measure", "hpd", "potion", "difference", "ratio"]
    assert [row[0] for row in body] == MEASURES
    size = read("reports/footprint.json")
    before, after = (
        [
            *(metrics["scores"]["finetuned"][task][main] for task, main in metrics["main"].items()),
            *(metrics[key]["finetuned"] for key in ("average", "retention", "dims")),
            *(size[name][key] for key in ("parameters", "megabytes", "sentences_per_second", "speedup")),
            *(size[name][f"latency_ms_{percentile}"] for percentile in ("p50", "p95")),
        ]
        for name in ("hpd", "potion")
        for metrics in [read(f"reports/metrics/{name}.json")]
    )
    for row, a, b in zip(body, before, after, strict=True):
        assert [float(cell) for cell in row[1:]] == pytest.approx([a, b, b - a, b / a], rel=1e-5)


def test_how_sure_the_averages_of_one_report_are_is_said():
    both = "average with 95% interval: hpd 0.443 (0.428–0.458) and potion 0.353 (0.338–0.368); "
    assert compare("hpd", "potion").stderr == (
        f"{both}they differ by more than the choice of test rows explains (p ≤ 0.002)\n"
    )

    def overlap(document):
        for test in document["paired"]:
            test.update(low=-0.1, high=0.1, p=0.31)

    change("reports/significance.json", overlap)
    assert compare("hpd", "potion").stderr == f"{both}the test rows cannot tell them apart (p = 0.310)\n"
    change("reports/significance.json", lambda document: document.update(confidence=0.995))
    both = both.replace("95%", "99.5%")
    change("reports/significance.json", lambda document: document["paired"].clear())
    assert compare("hpd", "potion").stderr == f"{both}no test compares the two\n"
    Path("reports/significance.json").unlink()
    assert compare("hpd", "potion").stderr == ""


@pytest.mark.parametrize("other", ["other/reports/metrics/hpd.json", "other/reports", "other"])
def test_a_student_and_itself_in_another_report(other: str):
    change("other/reports/footprint.json", lambda sizes: sizes["hpd"].update(speedup=5.0))
    result = compare("hpd", other)
    assert "speeds are of two runs" in result.stderr
    differing = [row for row in rows(result)[1:] if float(row[3]) != 0]
    assert differing == [["speedup", "2.46", "5", "2.54", "2.03252"]]


def test_two_reports_are_compared_by_the_teacher_and_the_students_of_both():
    Path("other/reports/metrics/hpd.json").rename("other/reports/metrics/another.json")
    change("other/reports/footprint.json", lambda sizes: sizes.update(another=sizes.pop("hpd")))
    result = compare("reports", "other")
    assert [row[:2] for row in rows(result)[1:]] == [
        [model, measure] for model in ("teacher", "potion") for measure in MEASURES
    ]
    assert "only in reports: hpd\nonly in other/reports: another\n" in result.stderr
    Path("other/reports/metrics/potion.json").unlink()
    assert (
        "no student in common (reports has hpd, potion; other/reports has another)"
        in compare("reports", "other").stderr
    )


def settings_said(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    lines = result.stderr.splitlines()
    assert "settings that differ:" in lines
    return [line.strip() for line in lines[lines.index("settings that differ:") + 1 :]]


def test_settings_that_differ_are_said_of_what_is_compared_alone():
    def edit(settings: Any) -> None:
        settings["teacher"]["model"] = "large"
        settings["pca"] = {"centre": True}
        settings["students"]["hpd"]["loss"] = {}
        settings["students"]["potion"]["dim"] = 64
        settings["students"]["new"] = {"dim": 8}

    assert "the settings are the same\n" in compare("reports", "other").stderr
    change("other/reports/params.json", edit)
    shared = [
        "pca.centre: not set in reports, true in other/reports",
        "teacher.model: small in reports, large in other/reports",
    ]
    hpd = [
        "students.hpd.loss: not set in reports, {} in other/reports",
        "students.hpd.loss.kind: mse in reports, not set in other/reports",
    ]
    potion = ["students.potion.dim: 256 in reports, 64 in other/reports"]
    assert settings_said(compare("reports", "other")) == [shared[0], *hpd, *potion, shared[1]]
    assert settings_said(compare("hpd", "other")) == [shared[0], *hpd, shared[1]]


def test_the_settings_of_two_students_of_two_reports_are_compared_by_key():
    folder = Path("other/reports").absolute()
    assert settings_said(compare("hpd", f"{folder}/metrics/potion.json")) == [
        f"student.dim: 128 in reports, 256 in {folder}",
        f"student.init: not set in reports, {{}} in {folder}",
        f"student.loss.kind: mse in reports, not set in {folder}",
    ]


def test_the_order_of_keys_is_no_difference():
    one, other = (dict(pairs) for pairs in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)]))
    assert changed_settings.changes({"terms": [one]}, {"terms": [other]}, []) == []


def test_a_report_without_settings_is_compared_all_the_same():
    Path("other/reports/params.json").unlink()
    result = compare("reports", "other")
    assert result.exit_code == 0
    assert "settings are not compared, because other/reports/params.json does not exist" in result.stderr


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'<<<<<<< HEAD\n{"pca": {}}\n', "JSON"),
        (b"[1]", "JSON object"),
        (b'{"students": []}', "settings"),
    ],
)
def test_settings_that_cannot_be_read(content: bytes, fault: str):
    Path("other/reports/params.json").write_bytes(content)
    result = compare("reports", "other")
    assert result.exit_code == 1
    for name in ("other/reports/params.json ", fault, "`dvc repro -f report`"):
        assert name in result.stderr
    assert result.stdout == ""


def test_other_tasks_and_another_teacher_are_said():
    other = "other/reports/metrics/hpd.json"
    change(other, lambda metrics: metrics["main"].pop("relatedness"))
    result = compare("hpd", other)
    assert "scored on different tasks: average and kept do not compare" in result.stderr
    assert rows(result)[1:3] == [
        ["relatedness (spearman)", "0.497", "", "", ""],
        ["reverse_dictionary (mrr@10)", "0.389", "0.389", "0", "1"],
    ]
    assert "teacher's scores differ" not in result.stderr
    change(other, lambda m: m["scores"]["teacher"]["reverse_dictionary"].update({"mrr@10": 0.5}))
    assert "the teacher's scores differ" in compare("hpd", other).stderr


def test_there_is_no_ratio_to_a_score_that_is_not_positive():
    scores = ("scores", "finetuned", "relatedness")

    def edit(metrics: Any) -> None:
        for key in scores:
            metrics = metrics[key]
        metrics["spearman"] = -0.1

    change("other/reports/metrics/hpd.json", edit)
    assert rows(compare("other", "hpd"))[1][1:] == ["-0.1", "0.497", "0.597", ""]


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("hpd", "pot"), ("'pot'", "reports/metrics/pot.json", "hpd, potion")),
        (("hpd", "potion", "--reports", "nowhere"), ("nowhere ", "`dvc repro`")),
        (("hpd", "other/reports/metrics/lone.json"), ("footprint.json ", "lone,", "params.yaml")),
        (("other/reports/metrics/lone.json", "reports"), ("footprint.json ", "lone,", "params.yaml")),
        (("potion", "other"), ("other/reports/metrics/potion.json ", "`dvc repro evaluate@potion`")),
        (("reports/footprint.json", "hpd"), ("'reports/footprint.json'",)),
    ],
)
def test_what_cannot_be_compared(args: tuple[str, ...], named: tuple[str, ...]):
    lone = "other/reports/metrics/lone.json"
    Path("other/reports/metrics/potion.json").rename(lone)
    change(lone, lambda metrics: metrics.update(student="lone"))
    result = compare(*args)
    assert result.exit_code == 1
    assert [name for name in named if name not in result.stderr] == []
    assert result.stdout == ""


def test_a_student_that_left_the_params_is_left_out_of_its_report():
    change("other/reports/footprint.json", lambda sizes: sizes.pop("hpd"))
    result = compare("reports", "other")
    assert result.exit_code == 0
    assert (
        "left out, because other/reports/footprint.json lacks them: hpd\nonly in reports: hpd\n"
        in result.stderr
    )


def test_a_report_without_a_footprint():
    Path("other/reports/footprint.json").unlink()
    result = compare("reports", "other")
    assert result.exit_code == 1
    assert "other/reports/footprint.json does not exist; run `dvc repro footprint`" in result.stderr


def test_a_terminal_gets_a_table_of_rounded_numbers():
    terminal = Terminal()
    command = [sys.executable, "-m", "pipeline.cli", "compare", "hpd", "potion"]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb"}
    subprocess.run(command, stdout=terminal.writer, check=True, env=environment)
    shown = [line.split() for line in terminal.shown().splitlines()]
    assert ["measure", "hpd", "potion", "difference", "ratio"] in shown
    assert ["relatedness", "(spearman)", "0.497", "0.402", "-0.095", "0.809×"] in shown
    assert ["kept", "95.6%", "76.2%", "-19.4%", "0.797×"] in shown
    assert ["parameters", "17.3", "M", "7.63", "M", "-9.67", "M", "0.441×"] in shown
    assert ["MB", "69.4", "15.6", "-53.8", "0.225×"] in shown


def test_no_student_is_loaded() -> None:
    command = "import sys; from pipeline.cli.__main__ import app; app(sys.argv[1:], standalone_mode=False)"
    heavy = (
        "print([one for one in ('torch', 'onnxruntime', 'model2vec', 'transformers') if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{command}; {heavy}", "compare", "hpd", "potion"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("[]\n")
