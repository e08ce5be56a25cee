"""A student that the teacher cannot give holds up nobody: `dvc repro` ends with a report that says why."""

import copy
import json

import pytest

REASON = "students.wide: init.layers names layer 9, the encoder has 2 (0 to 1)"


@pytest.fixture(scope="module")
def refusing(project):
    """The project with one student more, after `dvc repro`."""
    wide = copy.deepcopy(project.params["students"]["hpd"])
    wide["init"] = {"layers": [1, 9]}
    project.params["students"]["wide"] = wide
    ran, said = project.repro()
    return project, ran, said


def test_all_stages_run_and_no_other_student_runs_again(refusing):
    _, ran, said = refusing
    own = {f"{stage}@wide" for stage in ("distill", "finetune", "evaluate", "export")}
    assert ran == {*own, "look", "significance", "footprint", "search_speed", "report"}
    assert f"look: the teacher cannot give {REASON}" in said


def test_every_folder_of_the_student_says_why(refusing):
    root = refusing[0].root
    for folder in ("untrained", "distilled", "finetuned", "examined", "exported"):
        place = root / "data" / folder / "wide"
        assert sorted(path.name for path in place.iterdir()) == ["refused.json", "seal.json"]
        told = json.loads((place / "refused.json").read_text())
        assert told["reason"] == REASON
        assert told["fix"]
    for place in ("metrics", "exports"):
        assert REASON in json.loads((root / f"reports/{place}/wide.json").read_text())["refused"]


def test_the_report_has_the_others_and_the_reason(refusing):
    root = refusing[0].root
    leaderboard = (root / "reports/leaderboard.md").read_text()
    assert REASON in leaderboard
    assert "| **hpd** |" in leaderboard
    assert REASON in (root / "reports/index.html").read_text()
    assert set(json.loads((root / "reports/summary.json").read_text())) == {"teacher", "hpd", "potion"}


@pytest.mark.parametrize(
    "command",
    [
        "embed data/raw/texts.txt --student wide --out x.parquet",
        "search data/raw/texts.txt x --student wide",
        "compare hpd wide",
    ],
)
def test_a_use_of_the_student_ends_with_the_reason(refusing, command):
    said = refusing[0].shell(f"! python -m pipeline.cli {command}")
    assert REASON in said
    assert "Traceback" not in said


def test_what_is_there_can_be_looked_at(refusing):
    project = refusing[0]
    assert REASON in project.shell("python -m pipeline.cli inspect data/distilled/wide")
    checked = project.shell("python -m pipeline.cli check")
    rows = {line.split("\t")[0]: line.split("\t")[1] for line in checked.splitlines() if "\t" in line}
    assert (rows["wide"], rows["hpd"]) == ("no", "yes")
    said = project.shell("python -m pipeline.cli compare reports reports")
    assert f"not in reports: the teacher cannot give {REASON}" in said


def test_a_run_that_would_make_nothing_ends_before_anything_is_encoded(refusing):
    project = refusing[0]
    project.params["students"] = {"wide": project.params["students"]["wide"]}
    project.params["teacher"]["seed"] = 1
    project.write_params()
    said = project.shell("! dvc repro encode@corpus")
    assert "error: the teacher can give none of the students" in said
    assert REASON in said
    assert "Running stage 'encode@corpus'" not in said
