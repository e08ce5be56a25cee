"""docs/papers.md: every row of the five papers' tables, and what runs it here.

`python benchmarks/papers.py` writes the page from `papers.yaml`; with `--check` it only says whether the page
is that. `tests/test_papers.py` checks the page, and every row's edits against the recipes and the schema.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

Node = Mapping[str, Any]
"""A paper, a table or a row of papers.yaml."""
HERE = Path(__file__).resolve().parent
ROWS, PAGE, RECIPES = HERE / "papers.yaml", HERE.parent / "docs/papers.md", HERE.parent / "recipes"
COMMANDS = {"student": "evaluate", "classifier": "classify"}
"""What of a recipe a row may name, with the stage that makes its figure."""
OURS, DATA = "has a figure of ours", "runs, and needs data or models"
PLAIN = r"[\w./@-]*[A-Za-z/][\w./@-]*"
"""Texts that libyaml reads as such without quotes, within brackets too, if they are no word for a truth
value or for nothing."""


@cache
def document(path: Path) -> dict[str, Any]:
    """A YAML file."""
    found: dict[str, Any] = YAML(typ="safe").load(path)
    return found


def read() -> tuple[dict[str, Sequence[str]], dict[str, Node]]:
    """What rows need, and the papers, by their keys."""
    found = document(ROWS)
    return found["data"], found["papers"]


def rows(paper: Node) -> Iterator[tuple[Node, Node]]:
    """Tables and their rows."""
    return ((table, row) for table in paper["tables"] for row in table["rows"])


def status(row: Node) -> str:
    """Whether it has a figure of ours."""
    return OURS if "ours" in row else DATA


def part(row: Node) -> tuple[str, str]:
    """What a row names of its recipe, and its name."""
    return next((kind, row[kind]) for kind in COMMANDS if kind in row)


def edits(paper: Node, table: Node, row: Node) -> list[Node]:
    """All edits of a row, in order."""
    named = [*table.get("edit", ()), *row.get("edit", ())]
    return [*(paper["edits"][name] for name in named), row.get("change", {})]


def edited(paper: Node, table: Node, row: Node) -> dict[str, Any]:
    """The recipe's document with a row's edits."""
    # A copy in which blocks that anchors share are apart, as they are where a person edits one of them.
    found: dict[str, Any] = json.loads(json.dumps(document(RECIPES / f"{paper['recipe']}.yaml")))
    for path, value in (item for edit in edits(paper, table, row) for item in edit.items()):
        *blocks, key = path.split(".")
        block: Any = found
        for name in blocks:
            block = block[int(name)] if isinstance(block, list) else block.setdefault(name, {})
        block[int(key) if isinstance(block, list) else key] = json.loads(json.dumps(value))
    return found


def flow(value: object) -> str:
    """A value in YAML, on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {flow(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, str) and re.fullmatch(PLAIN, value) and value not in ("null", "true", "false"):
        return value
    return re.sub(r"^(\d+)(e-\d+)$", r"\1.0\2", json.dumps(value))


def shown(change: Node) -> str:
    """An edit as the page has it."""
    return ", ".join(f"`{path}: {flow(value)}`" for path, value in change.items())


def targets(row: Node) -> list[str]:
    """The stages that make a row's figure: of all classifiers that it names, those of its edits too."""
    kind, name = part(row)
    names = [name, *row.get("also", ())]
    if kind == "classifier":
        places = (path.split(".") for path in row.get("change", {}))
        names += [place[1] for place in places if place[0] == "classifiers"]
    return [f"{COMMANDS[kind]}@{one}" for one in dict.fromkeys(names)]


def line(data: Mapping[str, Sequence[str]], paper: Node, table: Node, row: Node) -> list[str]:
    """A row's cells."""
    first = [str(table["name"]), str(row["row"]), str(row["figure"])]
    kind, name = part(row)
    who = f"teacher, beside `{name}`" if row.get("teacher") else f"{kind} `{name}`"
    stage = f", {row['stage']}" if "stage" in row else ""
    named = [f"*{one}*" for one in (*table.get("edit", ()), *row.get("edit", ()))]
    change = ", ".join([*named, *([shown(row["change"])] if row.get("change") else [])])
    command = table.get("command", f"dvc repro {' '.join(targets(row))}")
    command = command.replace("{name}", "teacher" if row.get("teacher") else name)
    needs = ", ".join(data[one][0] for one in dict.fromkeys((*table.get("needs", ()), *row.get("needs", ()))))
    if "ours" in row:
        source = row["from"]
        here = f"{row['ours']} ([{Path(source).parent.name}](../{source})). Needs {needs}"
    else:
        here = f"runs; needs {needs}"
    note = f" ({row['note']})" if "note" in row else ""
    return [*first, who + stage, change, f"`{command}`", here + note]


def section(data: Mapping[str, Sequence[str]], paper: Node) -> str:
    """A paper's part of the page."""
    head = ["table", "row", "paper", "student or classifier", "edits", "command", "here"]
    lines = [head, ["---"] * len(head), *(line(data, paper, table, row) for table, row in rows(paper))]
    measures = [f"- {table['name']}: {table['figures']}" for table in paper["tables"]]
    named = [f"- *{name}*: {shown(edit)}" for name, edit in paper["edits"].items()]
    return "\n".join(
        [
            f"## {paper['title']}\n",
            f"Recipe: [`{paper['recipe']}.yaml`](../recipes/{paper['recipe']}.yaml). {paper['note']}\n",
            "What the figures are, by table:\n",
            *measures,
            "",
            *(f"| {' | '.join(cells)} |" for cells in lines),
            "",
            "Edits:\n",
            *named,
            "",
        ]
    )


def counted(papers: Mapping[str, Node]) -> str:
    """How many rows there are of each sort."""
    found = {paper["title"]: Counter(status(row) for _, row in rows(paper)) for paper in papers.values()}
    found["all"] = sum(found.values(), Counter())
    head = ["paper", "rows", OURS, DATA]
    lines = [head, ["---", *["--:"] * 3]]
    lines += [
        [title, *map(str, (one.total(), *(one[sort] for sort in (OURS, DATA))))]
        for title, one in found.items()
    ]
    return "## How many\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def page() -> str:
    """The whole page."""
    data, papers = read()
    needs = "\n".join(
        f"- {label}: {what}" for label, what in sorted((one[0], one[1]) for one in data.values())
    )
    parts = [document(ROWS)["intro"], *(section(data, paper) for paper in papers.values())]
    return "\n".join([*parts, f"## What is needed\n\n{needs}\n", counted(papers), ""])


def main(arguments: list[str] | None = None) -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is stale")
    wanted = page()
    if not parser.parse_args(arguments).check:
        PAGE.write_text(wanted, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{PAGE} is not what {ROWS.name} says; run `python benchmarks/papers.py`")


if __name__ == "__main__":
    main()
