"""A real `dvc repro` on the hashing teacher, in a copy of the repository; the pages' commands run in it."""

import json
from pathlib import Path

import pytest
from pages import blocks, pages
from project import Project

PAGES = pages(Path(__file__).resolve().parent.parent)
COMMANDS = {
    name: commands
    for name, page in PAGES.items()
    if (commands := [block for block in blocks(page, "sh") if not block.startswith("make ")])
}
SNIPPETS = [(name, block) for name, page in PAGES.items() for block in blocks(page, "python")]
PRINTED = {"README.md": '"vector"', "docs/deploy.md": '"vector"', "docs/reruns-and-caches.md": "flowchart"}
"""What a page's commands print, among other things."""
ALL_STAGES = {
    "prepare",
    "augment@wordnet",
    "augment@back_translation",
    "transfer",
    "finetune_teacher",
    "members",
    "encode@corpus",
    "encode@wordnet",
    "encode@back_translation",
    "encode@transfer",
    "encode@eval",
    "encode@finetune",
    "gate@wordnet",
    "gate@back_translation",
    "mine",
    "look",
    "teacher_parts",
    "hidden",
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


def test_the_first_run_runs_every_stage_and_ends_with_a_report_of_every_model(first_run, project):
    assert first_run[1] == ALL_STAGES
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
    assert all(f'<th scope="row">{stage}<' in page for stage in ALL_STAGES - untimed)


def test_stages_write_the_same_where_they_start_as_a_users_do(project):
    files = [
        project.root / "reports/significance.json",
        *(project.root / "data/distilled/potion").rglob("*.safetensors"),
    ]
    before = [file.read_bytes() for file in files]
    stages = ["distill@potion", "significance"]
    ran, _ = Project(project.root, warm=False).repro("--force", "--single-item", *stages)
    assert ran == set(stages)
    assert len(files) > 1
    assert [file.read_bytes() for file in files] == before


def test_the_metrics_of_dvc_are_a_line_a_model(project):
    shown = json.loads(project.shell("dvc metrics show --json"))[""]["data"]
    assert list(shown) == ["reports/summary.json"]
    summary = shown["reports/summary.json"]["data"]
    assert set(summary) == {"teacher", "hpd", "potion"}
    assert all(set(values) <= {"avg", "kept", "mb", "ms"} for values in summary.values())


def test_dvcs_plots_are_the_reports_figures_and_need_no_network(project):
    said = project.shell("dvc plots show --out shown")
    assert "WARNING" not in said
    shown = (project.root / "shown/index.html").read_text()
    figures = [path.name for path in (project.root / "reports/plots").iterdir()]
    assert shown.count("<img ") == len(figures) > 0
    assert [name for name in figures if name not in shown] == []
    assert "<script" not in shown


@pytest.mark.parametrize("page", COMMANDS)
def test_the_pages_shell_commands(project, page):
    assert PRINTED.get(page, "") in project.shell("\n".join(COMMANDS[page]))


def test_there_are_commands_to_run():
    assert set(COMMANDS) >= set(PRINTED)
    assert [name for name, _ in SNIPPETS] == ["README.md", *["docs/deploy.md"] * 3]


@pytest.mark.parametrize("snippet", dict.fromkeys(block for _, block in SNIPPETS))
def test_the_pages_python_snippets(project, snippet):
    (project.root / "snippet.py").write_text(f"{snippet}\nprint(vectors.shape)\n")
    assert project.shell("python snippet.py").endswith("(2, 16)\n")


def test_no_flipped_bit_of_any_artifact_passes_in_silence(project, repository):
    said = project.shell(f"python {repository / 'benchmarks/bit_flips.py'} --project . --flips 66")
    assert said.splitlines()[-1].startswith("all\t66\t")
