"""The table of docs/reruns-and-caches.md: a test of each row, by edits of a copy of the project.

Where it matters whether an output changes, the pipeline runs; elsewhere DVC tells what it would run.
"""

import copy
import re
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import pytest
from dvc.repo import Repo
from project import Project, sentence

COMPARED = {"significance", "footprint", "search_speed", "report"}
"""The stages that look at all students together."""
STUDENTS = ("hpd", "potion")
FOR_A_TASK = {"prepare", "encode@eval", "gate@wordnet", "gate@back_translation"}
"""What any other task reruns before the students' stages."""

TRANSFER = ("transfer", "encode@transfer")
ROWS: dict[str, Callable[[Project], None]] = {}
"""Each row of the table, by its first cell, with its test."""


def row(what: str) -> Callable[[Callable[[Project], None]], Callable[[Project], None]]:
    """Make a function the test of a row."""

    def named(test: Callable[[Project], None]) -> Callable[[Project], None]:
        ROWS[what] = test
        return test

    return named


def of_students(*stages: str, names: tuple[str, ...] = STUDENTS) -> set[str]:
    return {f"{stage}@{name}" for stage in stages for name in names}


def trained(*names: str) -> set[str]:
    """What a student of its own reruns, beside the look at the teacher."""
    return of_students("distill", "finetune", "evaluate", "export", names=names) | COMPARED


def would_run(project: Project) -> set[str]:
    """The stages that have changed, and all that depend on what they write.

    `look` runs for that: most edits of students change nothing in what it writes.
    """
    project.write_params()
    ran, _ = project.repro("look")
    with Repo(str(project.root)) as repository, repository.lock:
        changed = {stage for stage in repository.index.stages if stage.changed()}
        after = {dependent.name for one in changed for dependent in nx.ancestors(repository.index.graph, one)}
    return ran | {one.name for one in changed} | after


def edit_code(project: Project, file: str) -> None:
    path = project.root / "pipeline" / file
    path.write_text(path.read_text() + ("\n# edited\n" if file.endswith(".py") else "\n"))


@pytest.fixture
def edited(project: Project):
    """The project, put back as it was afterwards."""
    before, params = contents(project), copy.deepcopy(project.params)
    lock = before[project.root / "dvc.lock"]
    yield project
    project.params = params
    project.write_params()
    after = contents(project)
    for path in after.keys() - before.keys():
        path.unlink()
    for path, content in before.items():
        if after.get(path) != content:
            path.write_bytes(content)
    if after[project.root / "dvc.lock"] != lock:
        project.shell("dvc checkout --force --quiet")


def contents(project: Project) -> dict[Path, bytes]:
    """What rows edit or write beside params, but for what DVC restores."""
    folders = (project.root / name for name in ("pipeline", "data/raw", "reports"))
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in found if "__pycache__" not in path.parts]
    return {path: path.read_bytes() for path in (*kept, project.root / "dvc.lock")}


@row("a student's `lr`")
def a_students_lr(project: Project) -> None:
    project.params["students"]["potion"]["train"]["lr"] = 2e-3
    assert would_run(project) == {"look"} | trained("potion")


@row("a student added")
def a_student_added(project: Project) -> None:
    project.params["students"]["other"] = copy.deepcopy(project.params["students"]["potion"])
    assert would_run(project) == {"look"} | trained("other")


@row("a student renamed")
def a_student_renamed(project: Project) -> None:
    project.params["students"]["other"] = project.params["students"].pop("potion")
    assert would_run(project) == {"look"} | trained("other")


@row("a student removed")
def a_student_removed(project: Project) -> None:
    del project.params["students"]["potion"]
    ran, _ = project.repro(*COMPARED)
    assert ran == {*COMPARED, "look", "teacher_parts"}


def add_task(project: Project, start: int, **keys: str) -> None:
    """A task `more` of thirty pairs."""
    pairs = [f"{sentence(start + i)}\t{sentence(start + i + i % 5)}\t{i % 5}" for i in range(30)]
    path = project.root / "data/raw/more.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *pairs]))
    project.params["evaluate"]["tasks"]["more"] = {"kind": "sts", "path": "data/raw/more.tsv", **keys}


@row("a test task added or removed")
def a_test_task(project: Project) -> None:
    add_task(project, 60_000)
    asked = ["finetune@hpd", "evaluate@potion"]
    ran, _ = project.repro(*asked)
    assert ran == {*FOR_A_TASK, "evaluate@potion"}
    assert would_run(project) == COMPARED | {*TRANSFER, "evaluate@hpd", *of_students("export")}
    del project.params["evaluate"]["tasks"]["more"]
    (project.root / "data/raw/more.tsv").unlink()
    ran, said = project.repro(*asked)
    assert ran | set(re.findall(r"Stage '(\S+)' is cached", said)) == {*FOR_A_TASK, "evaluate@potion"}


@row("a dev task added or removed")
def a_dev_task(project: Project) -> None:
    add_task(project, 70_000, split="dev")
    ran, _ = project.repro("finetune@hpd", "evaluate@potion")
    assert ran == {*FOR_A_TASK, "finetune@hpd", "finetune@potion", "evaluate@potion", "finetune_teacher"}


@row("a classifier added or changed")
def a_classifier(project: Project) -> None:
    files = {"train": "data/raw/more.tsv", "test": "data/raw/most.tsv"}
    for number, file in enumerate(files.values()):
        lines = [f"{sentence(1000 * (70 + number) + i)}\t{i % 2}" for i in range(40)]
        (project.root / file).write_text("\n".join(["text\tlabel", *lines]))
    project.params["evaluate"]["tasks"]["more"] = {"kind": "classification", **files}
    project.repro("look", "evaluate@hpd", "evaluate@potion", "finetune@hpd", *TRANSFER)
    block = {
        "student": "potion",
        "start": "distilled",
        "task": "more",
        "train": {"lr": [1e-3], "epochs": 1.0},
    }
    before = would_run(project)
    project.params["classifiers"]["one"] = block
    assert would_run(project) - before == {"classify@one", "export_classifier@one"}
    ran, _ = project.repro("classify@one")
    assert ran == {"classify@one"}
    block["hidden"] = 16
    assert would_run(project) - before == {"classify@one", "export_classifier@one"}
    project.repro("classify@one")
    assert "classify@one" not in would_run(project)
    project.params["students"]["potion"]["train"]["lr"] = 2e-3  # it starts from this student
    assert {"classify@one", "export_classifier@one"} <= would_run(project)
    project.params["students"]["potion"]["train"]["lr"] = 1e-3
    project.params["evaluate"]["tasks"]["others"] = project.params["evaluate"]["tasks"]["more"]
    assert {"classify@one", "export_classifier@one"} <= would_run(project)
    del project.params["evaluate"]["tasks"]["others"]
    assert "classify@one" not in would_run(project)
    edit_code(project, "train/students/kinds/transformer.py")
    assert {"classify@one", "export_classifier@one"} <= would_run(project)


@row("`evaluate.agreement`")
def the_agreement(project: Project) -> None:
    project.params["evaluate"]["agreement"] = None
    assert would_run(project) == of_students("evaluate", "export") | COMPARED - {"footprint"}


@row("lines appended to a corpus file")
def lines_appended(project: Project) -> None:
    texts = project.root / "data/raw/texts.txt"
    texts.write_text("\n".join([texts.read_text(), *(sentence(50_000 + i) for i in range(5))]))
    ran, said = project.repro("encode@corpus", "encode@eval", "encode@finetune", "mine")
    assert ran == {"prepare", "members", "encode@corpus"}
    assert "encode corpus: 5 encoded, 400 taken from the store" in said


@row("the `licence` of a source")
def the_licence_of_a_source(project: Project) -> None:
    project.params["corpus"]["sources"][0]["licence"] = "cc-by-4.0"
    project.params["finetune"]["data"]["mine"]["licence"] = "mit"
    ran, _ = project.repro("evaluate@hpd", "evaluate@potion", "mine")
    assert ran == {"look", "prepare"}
    assert would_run(project) == {"report", *of_students("export")}


@row("a gate")
def a_gate(project: Project) -> None:
    project.params["gate"]["wordnet"] = {"min_similarity": 0.1}
    ran, _ = project.repro()
    assert ran == {"gate@wordnet", "report"}  # it keeps what it kept


@row("`pca`")
def the_pca(project: Project) -> None:
    project.params["pca"]["max_rows"] = 300
    assert would_run(project) == {"fit_pca"} | trained(*STUDENTS)


@row("the teacher, and back")
def the_teacher_and_back(project: Project) -> None:
    sets = ("encode@corpus", "encode@eval")
    before = published(project)
    project.params["teacher"]["seed"] = 1
    ran, said = project.repro(*sets)
    assert ran == {"look", "finetune_teacher", "members", *sets}
    assert "encode corpus: 400 encoded, 0 taken from the store" in said
    assert published(project) != before
    del project.params["teacher"]["seed"]
    # DVC's run-cache would not even start the stage: without it, the store alone has to answer.
    ran, said = project.repro("--no-run-cache", *sets)
    assert ran == {"look", "finetune_teacher", "members", *sets}
    assert "encode corpus: 0 encoded, 400 taken from the store" in said
    assert published(project) == before


def published(project: Project) -> dict[str, bytes]:
    """Every file of the published vectors."""
    files = (project.root / "data/vectors").rglob("*")
    return {path.relative_to(project.root).as_posix(): path.read_bytes() for path in files if path.is_file()}


@row("a view added")
def a_view_added(project: Project) -> None:
    project.params["encode"]["views"].append("cls")
    ran, _ = project.repro()
    sets = ("corpus", "wordnet", "back_translation", "transfer", "eval", "finetune")
    assert ran == {*(f"encode@{name}" for name in sets), "members", "fit_pca", "hidden", "report"}
    project.params["students"]["potion"]["view"] = "cls"
    assert project.repro("distill@hpd", "distill@potion", "gate@wordnet", "mine")[0] == {
        "look",
        "distill@potion",
    }


@row("the code of a loss")
def code_of_a_loss(project: Project) -> None:
    edit_code(project, "train/losses/relational.py")
    assert would_run(project) == trained(*STUDENTS)


@row("the code of a student's kind")
def code_of_a_students_kind(project: Project) -> None:
    edit_code(project, "train/students/kinds/static.py")
    assert would_run(project) == {"look"} | trained("potion")


@row("the code of a teacher's kind")
def code_of_a_teachers_kind(project: Project) -> None:
    edit_code(project, "teacher/kinds/openai_api.py")
    assert project.repro()[0] == {"look", "members", "report"}  # what they write is equal
    edit_code(project, "teacher/kinds/hashing.py")
    ran, said = project.repro("encode@corpus", "teacher_parts")
    assert ran == {"look", "members", "encode@corpus", "teacher_parts"}
    assert "encode corpus: 0 encoded, 400 taken from the store" in said


@row("the code of a reader")
def code_of_a_reader(project: Project) -> None:
    edit_code(project, "prepare/readers/beir.py")
    assert project.repro()[0] == {"prepare", "report"}  # its outputs are equal, only its time is new


@row("the report's template")
def the_reports_template(project: Project) -> None:
    edit_code(project, "report/page.html.j2")
    assert would_run(project) == {"report"}


@row("a default written out")
def a_default_written_out(project: Project) -> None:
    project.params["encode"]["storage"] = "float16"
    ran, said = project.repro()
    assert {stage.partition("@")[0] for stage in ran} == {"members", "encode", "hidden", "report"}
    assert "encode corpus: 0 encoded, 400 taken from the store" in said


@pytest.mark.parametrize("what", ROWS)
def test_what_reruns(edited: Project, what: str):
    ROWS[what](edited)


def test_the_docs_have_the_same_rows(repository):
    page = (repository / "docs/reruns-and-caches.md").read_text()
    table = page[page.index("## What reruns") :].split("\n## ")[0]
    assert [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][1:] == [*ROWS]
