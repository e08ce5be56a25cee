"""docs/papers.md: all rows of the papers' tables, and nothing that the recipes and the schema do not have."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.params.load import check
from pipeline.params.teacher import single_teachers

REPOSITORY = Path(__file__).resolve().parent.parent
_SPEC = importlib.util.spec_from_file_location("papers", REPOSITORY / "benchmarks/papers.py")
papers = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(papers)
DATA, PAPERS = papers.read()
ALL = [(name, table, row) for name, paper in PAPERS.items() for table, row in papers.rows(paper)]
IDS = [f"{name}-{table['name']}-{row['row']}" for name, table, row in ALL]
COUNTS = {
    "hpd": {"1": 14, "2": 12, "3": 8, "4": 16},
    "ibkd": {"2": 18, "3": 17, "4": 4, "6": 5, "7": 5, "figures": 3},
    "simtde": {"1": 7, "2": 9, "3": 3, "4": 5, "sec. 4.3": 4},
    "sra": {"1": 20, "2": 8, "3": 4, "4": 4, "5": 5, "figure": 1},
    "potion": {"the table": 9},
}
"""Rows of each table, counted in the papers."""
TEXTS = {"ibkd": "000_*", "simtde": "001_*", "sra": "002_*", "hpd": "003_*", "potion": "004_*"}
KEYS = {
    *("row", "figure", "student", "classifier", "teacher", "stage", "edit", "change", "needs"),
    *("ours", "from", "note", "also"),
}


def test_the_page_is_what_the_rows_say(tmp_path, monkeypatch):
    papers.main(["--check"])
    stale = tmp_path / "papers.md"
    stale.write_text(papers.page().replace("80.99", "81.99", 1), encoding="utf-8")
    monkeypatch.setattr(papers, "PAGE", stale)
    with pytest.raises(SystemExit, match=r"papers\.md is not what papers\.yaml says; run `python benchm"):
        papers.main(["--check"])
    papers.main([])
    papers.main(["--check"])


def test_no_row_of_a_table_is_missing():
    found = {name: Counter() for name in PAPERS}
    for name, table, _ in ALL:
        found[name][table["name"]] += 1
    assert found == COUNTS
    names = Counter((name, table["name"], row["row"]) for name, table, row in ALL)
    assert [one for one, count in names.items() if count > 1] == []


def test_the_counts_are_those_of_the_rows():
    last = papers.page().splitlines()[-1]
    ours = sum("ours" in row for *_, row in ALL)
    assert last == f"| all | {len(ALL)} | {ours} | {len(ALL) - ours} |"


@pytest.mark.parametrize(("name", "table", "row"), ALL, ids=lambda part: "")
def test_a_row_says_what_it_has_to(name, table, row):
    assert row.keys() <= KEYS
    assert row["figure"]
    assert len(row.keys() & set(papers.COMMANDS)) == 1
    needs = [*table.get("needs", ()), *row.get("needs", ())]
    assert needs
    assert set(needs) <= DATA.keys()
    assert ("ours" in row) == ("from" in row)


@pytest.mark.parametrize(("name", "table", "row"), ALL, ids=IDS)
def test_a_row_runs_with_its_edits(name, table, row):
    paper = PAPERS[name]
    document = papers.edited(paper, table, row)
    params = check(document, Path(f"{paper['recipe']}.yaml"))
    kind, who = papers.part(row)
    holders = {"student": params.students, "classifier": params.classifiers}
    assert who in holders[kind]
    assert {target.partition("@")[2] for target in papers.targets(row)} <= holders[kind].keys()
    recipe = papers.document(papers.RECIPES / f"{paper['recipe']}.yaml")
    places = {"student": recipe["students"], "classifier": recipe["classifiers"]}
    own = any(path.startswith(f"{kind}s.{who}") for path in row.get("change", {}))
    assert who in places[kind] or own
    if "stage" in row:
        assert row["stage"] == "distilled"
        assert params.students[who].train
        assert params.students[who].finetune
    if row.get("teacher") and kind == "student":
        assert {one.kind for one in single_teachers(params.teacher).values()} <= {"transformer", "elmo"}


@pytest.mark.parametrize("name", PAPERS)
def test_edits_are_read_back_as_they_are_written(name):
    yaml = YAML(typ="safe")
    given = [*PAPERS[name]["edits"].values(), *(row.get("change", {}) for n, _, row in ALL if n == name)]
    for edit in given:
        for path, value in edit.items():
            assert yaml.load(f"{path}: {papers.flow(value)}") == {path: value}
    mine = [part for n, *parts in ALL if n == name for part in parts]
    used = {one for part in mine for one in part.get("edit", ())}
    assert used == PAPERS[name]["edits"].keys()


def test_everything_needed_is_needed_by_a_row():
    used = {one for _, table, row in ALL for one in (*table.get("needs", ()), *row.get("needs", ()))}
    assert used == DATA.keys()


def test_our_figures_stand_on_the_page_that_is_named():
    ours = [row for *_, row in ALL if "ours" in row]
    for row in ours:
        known = {*numbers((REPOSITORY / row["from"]).read_text())}
        figures = [one for one in numbers(row["ours"]) if "." in one]
        assert figures
        assert [one for one in figures if one not in known] == [], row["row"]


def test_commands_are_stages_of_dvc():
    stages = YAML(typ="safe").load(REPOSITORY / "dvc.yaml")["stages"]
    commands = {papers.line(DATA, PAPERS[name], table, row)[5].strip("`") for name, table, row in ALL}
    repro = [one.split()[2:] for one in commands if one.startswith("dvc repro ")]
    named = {target.partition("@")[0] for targets in repro for target in targets}
    assert named == {"evaluate", "classify", "footprint", "search_speed"}
    assert named <= stages.keys()
    assert all(one.startswith(("dvc repro ", "pipeline mteb ")) for one in commands)


@pytest.mark.parametrize("name", PAPERS)
def test_figures_stand_in_the_paper(name):
    folder = REPOSITORY.parent / "shared" / "papers"
    if not folder.is_dir():
        pytest.skip(f"the papers' texts are not at {folder}")
    (path,) = folder.glob(TEXTS[name])
    known = {*numbers(path.read_text())}
    figures = [(row["row"], one) for n, _, row in ALL if n == name for one in numbers(row["figure"])]
    assert len(figures) > 10
    assert [one for one in figures if one[1] not in known] == []


def numbers(text: str) -> list[str]:
    """Whole numbers, as they are written: of 88.5 and 808 neither 8 nor 88 is one."""
    return re.findall(r"\d+(?:\.\d+)?", text)


def test_a_part_of_a_number_is_none():
    assert numbers("88.5, 808 and 8.") == ["88.5", "808", "8"]
