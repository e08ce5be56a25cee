"""A real `dvc repro` on the hashing teacher, in a copy of the repository: what runs, and what does not.

The README's commands run in it too: a second copy would take as long as all of this.
"""

import json
import sys
from pathlib import Path

import pytest
from project import Project, sentence
from readme import blocks

ALL_STAGES = {
    "prepare",
    "augment@wordnet",
    "augment@back_translation",
    "encode@seed",
    "encode@wordnet",
    "encode@back_translation",
    "encode@eval",
    "encode@finetune",
    "gate@wordnet",
    "gate@back_translation",
    "mine",
    "teacher_parts",
    "fit_pca",
    *(
        f"{stage}@{name}"
        for stage in ("distill", "finetune", "evaluate", "export")
        for name in ("hpd", "potion")
    ),
    "significance",
    "footprint",
    "search_speed",
    "report",
}


@pytest.fixture(scope="module")
def project(project) -> Project:
    """The copy, up to date with the params it starts from."""
    project.repro()
    return project


def test_the_first_run_runs_every_stage_and_ends_with_a_report_of_every_model(project):
    assert project.first_run == ALL_STAGES
    leaderboard = (project.root / "reports/leaderboard.md").read_text()
    for model in ("teacher", "hpd", "potion"):
        assert model in leaderboard
    page = (project.root / "reports/index.html").read_text()
    assert page.count("<svg") >= 3
    scores = json.loads((project.root / "reports/metrics/hpd.json").read_text())["scores"]
    assert set(scores) == {"teacher", "teacher_pca", "untrained", "distilled", "finetuned"}
    timed = {path.stem for path in (project.root / "data/timings").iterdir()}
    untimed = {"report", "export@hpd", "export@potion"}
    assert timed == {stage.replace("@", "_") for stage in ALL_STAGES - untimed}
    assert all(f'<th scope="row">{stage}</th>' in page for stage in ALL_STAGES - untimed)


def test_the_metrics_of_dvc_are_a_line_a_model(project):
    shown = json.loads(project.shell("dvc metrics show --json"))[""]["data"]
    assert list(shown) == ["reports/summary.json"]
    summary = shown["reports/summary.json"]["data"]
    assert set(summary) == {"teacher", "hpd", "potion"}
    assert all(set(values) <= {"avg", "kept", "mb", "ms"} for values in summary.values())


def test_the_reports_figures_are_dvcs_plots(project):
    said = project.shell("dvc plots show reports/plots --out shown")
    assert "WARNING" not in said
    shown = (project.root / "shown/index.html").read_text()
    figures = [path.name for path in (project.root / "reports/plots").glob("*.svg")]
    assert figures
    assert [name for name in figures if name not in shown] == []


def test_a_second_run_runs_nothing(project):
    ran, said = project.repro()
    assert ran == set(), said


def test_the_readmes_shell_commands(repository, project):
    commands = [block for block in blocks(repository, "sh") if not block.startswith("make ")]
    assert len(commands) == 2
    said = project.shell("\n".join(commands))
    assert '"vector"' in said
    assert "flowchart" in said


@pytest.mark.parametrize("number", [0, 1])
def test_the_readmes_python_snippets(repository, project, number):
    snippets = blocks(repository, "python")
    assert len(snippets) == 2
    (project.root / "snippet.py").write_text(f"{snippets[number]}\nprint(vectors.shape)\n")
    assert project.shell(f"{sys.executable} snippet.py").endswith("(2, 16)\n")


def test_editing_a_student_reruns_its_stages_and_the_report(project):
    time = project.root / "data/timings/distill_potion.json"
    took = time.read_bytes()
    project.params["students"]["potion"]["train"]["lr"] = 2e-3
    ran, _ = project.repro()
    mine = {f"{stage}@potion" for stage in ("distill", "finetune", "evaluate", "export")}
    assert ran == {*mine, "significance", "footprint", "search_speed", "report"}
    measured = (project.root / "reports/metrics/potion.json").read_bytes()
    project.params["students"]["potion"]["train"]["lr"] = 1e-3
    ran, _ = project.repro()
    assert ran == {"report"}  # DVC's run-cache has the rest
    assert (project.root / "reports/metrics/potion.json").read_bytes() != measured
    assert time.read_bytes() == took


def test_editing_the_gate_reruns_neither_augment_nor_encode(project):
    project.params["gate"]["wordnet"] = {"min_similarity": 0.1}
    ran, _ = project.repro()
    assert ran == {"gate@wordnet", "report"}  # which keeps all texts that there are: none


def test_editing_the_fine_tuning_keeps_the_distilled_student(project):
    project.params["students"]["hpd"]["finetune"]["temperature"] = 0.1
    ran, _ = project.repro("finetune@hpd")
    assert ran == {"finetune@hpd"}


def test_another_teacher_and_back_encodes_nothing_twice(project):
    sets = ("encode@seed", "encode@wordnet", "encode@eval")
    of_parts = ("teacher_parts", "augment@wordnet")  # whose texts stay the same
    before = published(project.root)
    project.params["teacher"]["seed"] = 1
    ran, said = project.repro(*sets)
    assert ran == {*sets, *of_parts}
    assert "encode seed: 400 encoded, 0 taken from the store" in said
    assert published(project.root) != before

    del project.params["teacher"]["seed"]
    # DVC's run-cache would not even start the stage: without it, the store alone has to answer.
    ran, said = project.repro("--no-run-cache", *sets)
    assert ran == {*sets, *of_parts}
    assert "encode seed: 0 encoded, 400 taken from the store" in said
    assert published(project.root) == before
    ran, _ = project.repro(*sets)
    assert ran == set()


def test_a_grown_corpus_encodes_its_new_texts_alone(project):
    texts = project.root / "data/raw/texts.txt"
    texts.write_text("\n".join([texts.read_text(), *(sentence(50_000 + i) for i in range(5))]))
    _, said = project.repro("encode@seed")
    assert "encode seed: 5 encoded, 400 taken from the store" in said


def published(root: Path) -> dict[str, bytes]:
    """Every file of the published vectors."""
    files = (root / "data/vectors").rglob("*")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files if path.is_file()}
