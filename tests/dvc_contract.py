"""What each stage's code depends on, by its imports, and what dvc.yaml declares."""

import ast
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dvc.repo import Repo
from dvc.stage import PipelineStage
from ruamel.yaml import YAML

ROOMS = (
    "core",
    "params",
    "data",
    "encoders",
    "vectors",
    "tasks",
    "prepare",
    "augment",
    "teacher",
    "select",
    "train",
    "look",
    "score",
    "export",
    "classifiers",
    "report",
    "planning",
    "cli",
)
"""The folders of pipeline/, each imported by later ones alone."""
NEUTRAL = ("pipeline/core/", "pipeline/params/")
"""They change no result, so no stage depends on them."""
CODE = "pipeline/"
ALL_OF = {"train.losses"}
"""Families of which a stage depends on every implementation: a sum may be of any losses. A stage that is run
once, for all students, depends on every kind of them."""
OF_EVERY_KIND = {"pipeline/look/look.py": {"teacher.kinds"}}
"""Stages that look at several kinds in one run: at each member of an ensemble."""
MEMBERS = "data/members"
"""Changes when the code of a kind does that a member of an ensemble has, for dvc.yaml cannot name several."""
IN_FOLDERS = {"augment"}
"""Families of which each implementation has a folder, whose files no other uses."""


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


def selected_families(files: set[str], root: Path, by: str = "implementation") -> set[str]:
    """Families whose implementation params choose: first argument of every `implementation(...)`.

    By `code_digest(...)`: those whose code is hashed.
    """
    modules = [file for file in files if file.endswith(".py")]
    return {name for file in modules for name in _chosen((root / file).read_text(encoding="utf-8"), by)}


@cache
def _chosen(code: str, by: str) -> set[str]:
    return {
        str(ast.literal_eval(node.args[0]))
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == by
    }


def kinds(family: str, root: Path) -> dict[str, str]:
    """Files of a family's implementations by kind."""
    folder = root / CODE / family.replace(".", "/")
    paths = folder.glob("*/augmenter.py" if family in IN_FOLDERS else "[!_]*.py")
    names = {path: path.relative_to(folder).with_suffix("").as_posix().replace("/", ".") for path in paths}
    return {name: path.relative_to(root).as_posix() for path, name in names.items()}


def needed(entry: str, chosen: dict[str, str], root: Path) -> set[str]:
    """The code that a stage runs: its imports, the implementations that params choose, and their imports.

    What one implementation of a family imports beside itself, or beside its folder, is shared by the family.
    """
    start = closure(entry, root)
    files = set(start)
    hashed = selected_families(start, root, by="code_digest") | OF_EVERY_KIND.get(entry, set())
    for family in selected_families(start, root):
        others = kinds(family, root)
        if family in ALL_OF | hashed or chosen.get(family) is None:
            files |= {found for file in others.values() for found in closure(file, root)}
            continue
        own = others.pop(chosen[family])
        files |= closure(own, root)
        apart = tuple(file.removesuffix("augmenter.py") for file in others.values())
        files |= {
            found for file in others.values() for found in closure(file, root) if not found.startswith(apart)
        }
    return {file for file in files if not file.startswith(NEUTRAL)}


def covered(dep: str, root: Path) -> set[str]:
    """The code that a dependency names: a file, or all files of a folder but for empty ones."""
    path = root / dep
    files = path.rglob("*") if path.is_dir() else [path]
    return {
        file.relative_to(root).as_posix()
        for file in files
        if file.suffix in {".py", ".j2", ".css"} and file.name != "__init__.py"
    }


def stages(root: Path) -> Iterator[tuple[str, set[str], set[str]]]:
    """Of every stage in dvc.yaml: its name, the code that it needs, and the code that it declares."""
    params = YAML(typ="safe").load(root / "params.yaml")
    with Repo(str(root)) as repository:
        for stage in repository.index.stages:
            if not isinstance(stage, PipelineStage):
                continue  # a `.dvc` file
            item = stage.name.partition("@")[2]
            student = params["students"].get(item, {})
            chosen = {
                "teacher.kinds": params["teacher"]["kind"],
                "augment": f"{item}.augmenter",
                "train.students.kinds": student.get("kind"),
            }
            paths = {Path(dep.fs_path).relative_to(root).as_posix() for dep in stage.deps}
            code = {path for path in paths if path.startswith(CODE)}
            needs = needed(entry(stage.cmd), chosen, root)
            if "teacher.kinds" in selected_families(closure(entry(stage.cmd), root), root):
                of_members = {
                    kinds("teacher.kinds", root)[member["teacher"]["kind"]]
                    for member in params["teacher"].get("members", ())
                }
                needs |= of_members
                # The manifest in MEMBERS has a digest of their code.
                code |= of_members if MEMBERS in paths else set()
            yield stage.name, needs, code


def entry(command: str) -> str:
    """The file that a stage's command runs, by way of core/timed.py or not."""
    module = next(
        word for word in command.split() if word.startswith("pipeline.") and word != "pipeline.core.timed"
    )
    return f"{module.replace('.', '/')}.py"


def faults(root: Path) -> list[str]:
    """Every difference between what dvc.yaml declares and what the code needs."""
    found = []
    for stage, needs, declared in stages(root):
        covers = {dep: covered(dep, root) for dep in declared}
        undeclared = needs.difference(*covers.values())
        found += [f"{stage}: {path} is undeclared" for path in sorted(undeclared)]
        found += [
            f"{stage}: {dep} covers {path}, which the stage does not import"
            for dep, files in sorted(covers.items())
            for path in sorted(files - needs)
        ]
        found += [f"{stage}: {dep} covers nothing" for dep, files in sorted(covers.items()) if not files]
        found += [
            f"{stage}: {dep} is covered by {other}"
            for dep in sorted(covers)
            for other in covers
            if dep.startswith(f"{other}/")
        ]
    return found


def climbing(root: Path) -> list[str]:
    """Every import of a later room."""
    return [
        f"{file} imports {imported}"
        for file in sorted(path.relative_to(root).as_posix() for path in (root / CODE).rglob("*.py"))
        for imported in sorted(imports(root / file, root))
        if room(imported) > room(file)
    ]


def room(file: str) -> int:
    """The place of a file's room among the rooms."""
    return ROOMS.index(file.split("/")[1])


def unmatched(stage: PipelineStage) -> set[str]:
    """Paths that either the stage's command or its declaration lacks."""
    named = {word for word in shlex.split(stage.cmd) if word.startswith(("data/", "reports/"))}
    declared = {one.def_path for one in [*stage.deps, *stage.outs]}
    declared = {path for path in declared if path.startswith(("data/", "reports/"))}

    def lacks(path: str, paths: set[str]) -> bool:
        """Whether neither the path, nor a folder of it, nor anything in it is among the paths."""
        return not any(f"{path}/".startswith(f"{one}/") or one.startswith(f"{path}/") for one in paths)

    return {path for path in named if lacks(path, declared)} | {p for p in declared if lacks(p, named)}
