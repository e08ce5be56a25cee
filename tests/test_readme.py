"""The pages' lengths, links, params, paths and targets.

test_repro.py runs their commands and snippets, test_contributing.py their examples, benchmarks/compat.py the
programs that need other packages.
"""

import re
from pathlib import Path

import pytest
from pages import blocks, example_files, pages
from ruamel.yaml import YAML

from pipeline.params.load import check

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = pages(REPOSITORY)
LINKING = [*PAGES, "recipes/README.md", "benchmarks/results/README.md"]
LONGEST = {"README.md": 1000, "CONTRIBUTING.md": 100}
"""README's words, CONTRIBUTING's lines."""
SECTION = r"^### (.+?)\n(.*?)(?=^##|\Z)"
MADE_BY_CI = {"check", "repro", "test", "test-avx2"}
"""Targets that .ci/run calls itself: they take minutes."""
MADE_FIRST = {"setup"}
"""Targets that these make first."""


def prose(name: str) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", (REPOSITORY / name).read_text(), flags=re.DOTALL | re.MULTILINE)


def code_of(name: str) -> list[str]:
    """What stands in backticks in a page's text."""
    return re.findall(r"`([^`\n]+)`", prose(name))


def test_readme_and_contributing_stay_short():
    assert len(PAGES["README.md"].read_text().split()) <= LONGEST["README.md"]
    assert len(PAGES["CONTRIBUTING.md"].read_text().splitlines()) <= LONGEST["CONTRIBUTING.md"]


def test_readme_leads_to_every_page_about_use_and_contributing_to_every_other():
    found = re.findall(r"\]\((docs/[\w-]+\.md)", prose("README.md") + prose("CONTRIBUTING.md"))
    assert set(found) == {name for name in PAGES if name.startswith("docs/")}


def test_the_make_targets_of_shell_blocks_are_run_by_ci():
    said = {
        target
        for page in PAGES.values()
        for block in blocks(page, "sh")
        for target in re.findall(r"^make (\S+)", block, flags=re.MULTILINE)
    }
    assert said == MADE_BY_CI | MADE_FIRST
    assert set(re.findall(r"\bmake (\S+) ", (REPOSITORY / ".ci/run").read_text())) >= MADE_BY_CI
    makefile = (REPOSITORY / "Makefile").read_text()
    assert all(re.search(rf"^repro:.*\b{target}\b", makefile, flags=re.MULTILINE) for target in MADE_FIRST)


def test_compat_runs_the_programs_that_tests_cannot():
    """A fence with a word after the language: ```python qdrant."""
    apart = {
        heading
        for page in PAGES.values()
        for heading, part in re.findall(
            r"^### (.+?)\n(.*?)(?=^##|\Z)", page.read_text(), re.DOTALL | re.MULTILINE
        )
        if re.search(r"^```\w+ \S", part, re.MULTILINE)
    }
    compat = (REPOSITORY / "benchmarks/compat.py").read_text()
    run = re.findall(r'of_page\(\s*"([^"]+)"', compat)
    assert apart == set(run) - {"FAISS"}
    assert len(apart) == 6


@pytest.mark.parametrize("name", PAGES)
def test_targets_commands_and_paths_in_the_text_are_there(name):
    said = code_of(name)
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = {target for code in said for target in re.findall(r"\bmake ([a-z][\w-]*)", code)}
    assert [one for one in targets if not re.search(rf"^{one}:", makefile, flags=re.MULTILINE)] == []
    commands = {found[1] for code in said if (found := re.match(r"pipeline ([a-z]+)", code))}
    assert [one for one in commands if not (REPOSITORY / f"pipeline/cli/{one}.py").exists()] == []
    known = {path for path, _ in example_files(PAGES[name])}
    paths = {
        path
        for code in said
        for path in re.findall(r"(?:^|\s)((?:pipeline|tests|benchmarks|recipes|docs)/[\w./-]*)", code)
        if not re.search("[A-Z]{2}", path) and not path.endswith("_")
    }
    assert [path for path in paths - known if not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_yaml_snippets_are_valid_params(name):
    yaml = YAML(typ="safe")
    for snippet in map(yaml.load, blocks(PAGES[name], "yaml")):
        params = yaml.load(REPOSITORY / "params.yaml") | snippet
        if params["encode"]["views"] == ["sentence"]:  # as the snippet says
            params["students"] = {
                student: block | {"view": "sentence"} for student, block in params["students"].items()
            }
        check(params, Path(name))


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("README.md", ["BAAI/bge-small-en-v1.5"]),
        ("docs/teachers.md", ["BAAI/bge-small-en-v1.5", "intfloat/e5-base-v2"]),
    ],
)
def test_the_first_snippets_swap_the_teacher(name, models):
    snippets = [YAML(typ="safe").load(block) for block in blocks(PAGES[name], "yaml")]
    assert [snippet["teacher"]["model"] for snippet in snippets[: len(models)]] == models


@pytest.mark.parametrize("name", LINKING)
def test_linked_files_and_headings_are_there(name):
    links = re.findall(r"\]\(([^):]+)\)", prose(name))
    page = REPOSITORY / name
    broken = []
    for link in links:
        path, _, heading = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (heading and heading not in headings(target)):
            broken.append(link)
    assert broken == []


def headings(page: Path) -> set[str]:
    """The addresses that GitHub gives to a page's headings."""
    said = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in said}


def test_that_proof_can_fail(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# How dvc.yaml follows\n\n## 1. `The` file\n")
    assert headings(page) == {"how-dvcyaml-follows", "1-the-file"}


def test_readmes_short_table_is_of_the_recipes():
    """The README's shares are those of recipes/README.md, ten minutes, as students ship."""
    recipes = (REPOSITORY / "recipes/README.md").read_text()
    start = recipes.index("### Ten minutes")
    lines = recipes[start : recipes.index("### ", start + 4)].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    kept = {(row[1], row[3].split(" ")[0], row[5].split(" ")[0]) for row in rows if len(row) > 6}
    said = re.findall(r"^\| .+ \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \|$", prose("README.md"), re.MULTILINE)
    assert len(said) == 3
    assert [row for row in said if row not in kept] == []
