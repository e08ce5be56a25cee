"""What each stage's code depends on, by its imports, and what dvc.yaml declares."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dvc.repo import Repo
from ruamel.yaml import YAML

NEUTRAL = "pipeline/core/"
"""Changes no result, so no stage depends on it."""
CODE = "pipeline/"
ALL_OF = {"losses"}
"""Families of which a stage depends on every implementation: a sum may be of any losses."""


def imports(path: Path, root: Path) -> set[str]:
    """Files of the project that a module imports, anywhere in it but for type checkers alone."""
    files = (f"{name.replace('.', '/')}.py" for name in _names(path.read_text(encoding="utf-8")))
    return {file for file in files if (root / file).is_file()}


@cache
def _names(code: str) -> set[str]:
    """All that may be a module of the project in a module's imports."""
    found: set[str] = set()
    for node in _nodes(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import: {ast.unparse(node)}"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name.startswith("pipeline.")}


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    yield node
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child)


def closure(start: str, root: Path) -> set[str]:
    """A module's file, all it imports, directly or not, and the data files beside any of them."""
    seen: set[str] = set()
    waiting = {start}
    while waiting:
        file = waiting.pop()
        seen.add(file)
        waiting |= imports(root / file, root) - seen
        beside = (root / file).parent.iterdir()
        seen |= {path.relative_to(root).as_posix() for path in beside if path.suffix in {".j2", ".css"}}
    return seen


def selected_families(files: set[str], root: Path) -> set[str]:
    """Families whose implementation params choose: first argument of every `implementation(...)`."""
    modules = [file for file in files if file.endswith(".py")]
    return {name for file in modules for name in _chosen((root / file).read_text(encoding="utf-8"))}


@cache
def _chosen(code: str) -> set[str]:
    return {
        str(ast.literal_eval(node.args[0]))
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "implementation"
    }


def kinds(family: str, root: Path) -> list[str]:
    """Files of a family's implementations: modules with `build`, `load` or `augment`."""
    entry = {"build", "load", "augment"}
    return [
        path.relative_to(root).as_posix()
        for path in sorted((root / CODE / family).glob("*.py"))
        if entry
        & {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    ]


def needed(stage: str, chosen: dict[str, str], root: Path) -> set[str]:
    """The code that a stage runs: its imports, the implementations that params choose, and their imports.

    What one implementation of a family imports beside itself is shared by the family.
    """
    start = closure(f"pipeline/stages/{stage}.py", root)
    files = set(start)
    for family in selected_families(start, root):
        others = set(kinds(family, root))
        if family in ALL_OF:
            files |= {file for other in others for file in closure(other, root)}
            continue
        files |= closure(f"pipeline/{family}/{chosen[family]}.py", root)
        files |= {file for other in others for file in closure(other, root) if file not in others}
    return {file for file in files if not file.startswith(NEUTRAL)}


def stages(root: Path) -> Iterator[tuple[str, set[str], set[str]]]:
    """Of every stage in dvc.yaml: its name, the code that it needs, and the code that it declares."""
    params = YAML(typ="safe").load(root / "params.yaml")
    with Repo(str(root)) as repository:
        for stage in repository.index.stages:
            name, _, item = stage.name.partition("@")
            student = params["students"].get(item, {})
            chosen = {
                "teachers": params["teacher"]["kind"],
                "augmenters": item,
                "students": student.get("kind"),
                "losses": student.get("loss", {}).get("kind"),
            }
            paths = {Path(dep.fs_path).relative_to(root).as_posix() for dep in stage.deps}
            yield (
                stage.name,
                needed(name, chosen, root),
                {path for path in paths if path.startswith(CODE)},
            )


def faults(root: Path) -> list[str]:
    """Every difference between what dvc.yaml declares and what the code needs."""
    return [
        f"{stage}: {path} is {'undeclared' if path in needs else 'surplus'}"
        for stage, needs, declared in stages(root)
        for path in sorted(needs ^ declared)
    ]
