"""`pipeline cache`: which vectors are kept, whether they are intact, and which nobody uses."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli import cache_options as options
from pipeline.cli import cache_users, dvc_cache, store_files, tabular
from pipeline.cli.cache_options import PARAMS, STUDENTS, VECTORS, Cache, ParamsFile, Students, Vectors
from pipeline.cli.cache_share import share
from pipeline.cli.store_files import StoredRecipe
from pipeline.core import seal
from pipeline.core.atomic import is_untouched, remove_abandoned, remove_folder
from pipeline.core.errors import UserError
from pipeline.core.printable import printable
from pipeline.core.progress import progress, say
from pipeline.core.resumable import Resumable
from pipeline.params.load import load
from pipeline.teacher.encoding.store.store import FINGERPRINT_LETTERS

COLUMNS = ("recipe", "model", "views", "texts", "bytes", "shared", "used by")
NUMBERS = ("texts", "bytes", "shared")
NONE = "-"
INDEX, HIDDEN = "search index", "hidden states"
FETCHED, TASK_TEACHER = "fetched file", "task teacher"


def list_recipes(
    params_file: ParamsFile = PARAMS,
    cache: Cache = None,
    vectors: Vectors = VECTORS,
    students: Students = STUDENTS,
) -> None:
    """List the recipes with what uses them, what runs keep, and what killed ones left half-written.

    `shared` are the bytes of a recipe that lie in files which other folders have too, as hard links.

    Translations, hidden states, task teachers of classifiers, files of the corpus that were fetched from an
    address, the indexes of `pipeline search` and the results of `pipeline mteb` are listed too. What finished
    runs keep goes with the next stage that trains or scores, or the report.
    """
    folder = options.cache_folder(cache, params_file)
    used = cache_users.of_recipes(folder, params_file, vectors)
    rows = []
    for stored in (*store_files.recipes(folder), *store_files.translated(folder)):
        texts = stored.texts()
        counts = ",".join(map(str, texts.values()))
        cells = (",".join(texts), counts, str(stored.bytes), str(stored.shared))
        rows.append(
            (stored.fingerprint, _model(stored), *cells, ",".join(used.get(stored.fingerprint, [])) or NONE)
        )
    for what, runs in store_files.runs(folder).items():
        for name, paths in runs.items():
            rows.append((name, what, NONE, NONE, str(sum(map(store_files.size, paths))), NONE, NONE))
    for what, paths in {**_remade(folder), TASK_TEACHER: store_files.task_teachers(folder)}.items():
        for path in paths:
            rows.append((path.name, what, NONE, NONE, str(store_files.size(path)), NONE, NONE))
    for path, user in cache_users.of_mteb(folder, used, students).items():
        name, size = store_files.mteb_model(path), str(store_files.size(path))
        rows.append((name, "mteb results", NONE, NONE, size, NONE, user or NONE))
    if left := store_files.abandoned(folder):
        rows.append((NONE, _count(left), NONE, NONE, str(sum(map(store_files.size, left))), NONE, NONE))
    _show(rows)


def verify(
    params_file: ParamsFile = PARAMS,
    cache: Cache = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Remove damaged files; what is lost is made anew.")
    ] = False,
) -> None:
    """Compare every file with its digest, in DVC's cache too; exit code 1 if damaged ones are left.

    Beside a file of DVC's cache stands the command that makes it again once it is dropped.
    """
    folder = options.cache_folder(cache, params_file)
    recipes = [*store_files.recipes(folder), *store_files.translated(folder)]
    checks: dict[Path, Callable[[Path], bool]] = {
        file: stored.is_intact for stored in recipes for file in stored.files
    }
    checks |= dict.fromkeys(store_files.sealed(folder), lambda path: seal.fault(path) is None)
    commands = dvc_cache.files()
    checks |= dict.fromkeys(commands, dvc_cache.is_intact)
    damaged, gone = [], 0
    with progress("verify", len(checks), "files") as advance:
        for file, is_intact in checks.items():
            intact = _still(file, is_intact)
            gone += intact is None
            if intact is False:
                damaged.append(file)
            advance(1)
    if gone:
        say(f"{gone} files went while the others were compared: of a run that has ended, for one")
    for file in damaged:
        if drop:
            remove_folder(file) if file.is_dir() else file.unlink(missing_ok=True)
        told = ["dropped" if drop else "damaged", str(file), commands.get(file, "")]
        tabular.lines([[*filter(None, told)]])
    if left := store_files.abandoned(folder):
        say(f"{_count(left)}; `pipeline cache prune` removes them")
    again = [f"`{command}`" for file in damaged if (command := commands.get(file))]
    then = f"then run {', '.join(dict.fromkeys(again))}" if again else ""
    if damaged and not drop:
        fix = ", ".join(filter(None, ["`pipeline cache verify --drop` removes them", then]))
        raise UserError(f"{len(damaged)} files are damaged; {fix}")
    if then:
        say(f"{then}: that makes again what is dropped")


def prune(
    fingerprints: Annotated[
        list[str] | None,
        typer.Argument(help="Names that `list` gives, to remove used or not; none: what nothing uses."),
    ] = None,
    params_file: ParamsFile = PARAMS,
    cache: Cache = None,
    vectors: Vectors = VECTORS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove the recipes that neither a published set nor the params' teacher uses, or those named.

    Without names the indexes of `pipeline search` go too, which the next search makes anew, the hidden states
    of teachers, of which data/hidden has a copy, the files of addresses, which `prepare` fetches again, what
    finished runs keep, and unfinished runs of students that the params do not name, untouched for a day. An
    API's vectors, which were paid for, those whose recipe is lost, and translations, task teachers and the
    results of `pipeline mteb`, which take long, go by name alone. What killed runs left half-written goes in
    any case. Where several checkouts share a cache, only what this one uses is known: name what is to go.
    """
    folder = options.cache_folder(cache, params_file)
    recipes = store_files.recipes(folder)
    others: list[tuple[str, str, list[Path]]] = []
    if fingerprints:
        stored_as = {one.fingerprint: one for one in (*recipes, *store_files.translated(folder))}
        results: dict[str, list[Path]] = {}
        for path in store_files.mteb_results(folder):
            results.setdefault(store_files.mteb_model(path), []).append(path)
        known = {"mteb results": results}
        known |= {what: {path.name: [path] for path in paths} for what, paths in _remade(folder).items()}
        known[TASK_TEACHER] = {path.name: [path] for path in store_files.task_teachers(folder)}
        known |= store_files.runs(folder)
        listed = [*stored_as, *(name for of in known.values() for name in of)]
        names = dict.fromkeys(_find(letters, listed) for letters in fingerprints)
        chosen = [stored_as[name] for name in names if name in stored_as]
        others += [(name, what, of[name]) for what, of in known.items() for name in names if name in of]
    else:
        used = cache_users.of_recipes(folder, params_file, vectors)
        unused = [stored for stored in recipes if not used[stored.fingerprint]]
        # Where a recipe is lost, it may have been an API's.
        chosen = [stored for stored in unused if stored.recipe.get("kind", "openai_api") != "openai_api"]
        others += [(path.name, what, [path]) for what, paths in _remade(folder).items() for path in paths]
        params, runs = load(params_file), store_files.runs(folder)
        others += [(name, store_files.FINISHED, paths) for name, paths in runs[store_files.FINISHED].items()]
        others += [
            (name, store_files.UNFINISHED, paths)
            for name, paths in runs[store_files.UNFINISHED].items()
            if not store_files.is_named(name, params) and all(map(is_untouched, paths))
        ]
    freed = 0
    done = "would remove" if dry_run else "removed"
    if left := store_files.abandoned(folder):
        freed = sum(map(store_files.size, left))
        tabular.lines([[done, NONE, _count(left), str(freed)]])
        if not dry_run:
            remove_abandoned(left)
    for name, what, paths in others:
        size = sum(map(store_files.size, paths))
        if not _remove(what, paths, dry_run=dry_run):
            say(f"{name} stays: it is at work, or is another user's")
            continue
        tabular.lines([[done, name, what, str(size)]])
        freed += size
    for stored in chosen:
        size = stored.bytes - stored.shared  # DVC's cache, or data/, keeps those
        tabular.lines([[done, stored.fingerprint, _model(stored), str(size)]])
        freed += size
        if not dry_run:
            stored.remove()
    say(f"{freed:,} bytes {'would be freed' if dry_run else 'freed'}")


COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_recipes,
    "verify": verify,
    "prune": prune,
    "share": share,
}


def _still(file: Path, is_intact: Callable[[Path], bool]) -> bool | None:
    """Whether a file is intact; None where it is not there any more."""
    try:
        found = is_intact(file)
    except (UserError, FileNotFoundError):
        if file.exists():
            raise
        return None
    return found if found or file.exists() else None


def _remade(folder: Path) -> dict[str, list[Path]]:
    """Folders that a run makes anew where they are missing."""
    return {
        INDEX: store_files.indexes(folder),
        HIDDEN: store_files.hidden_states(folder),
        FETCHED: store_files.fetched(folder),
    }


def _remove(what: str, paths: Sequence[Path], *, dry_run: bool) -> bool:
    """Whether files and folders are gone now, or would be: those of a run that is at work stay."""
    if what == TASK_TEACHER:
        if any(Resumable(state).is_held() for state in store_files.asking(paths[0])):
            return False
    if what in (store_files.UNFINISHED, store_files.FINISHED):
        run = Resumable(store_files.state_of(paths[0]))
        if dry_run:
            return not run.is_held()
        run.remove()
        return not any(path.exists() for path in paths)
    for path in () if dry_run else paths:
        remove_folder(path) if path.is_dir() else path.unlink()
    return True


def _count(abandoned: Sequence[Path]) -> str:
    return f"{len(abandoned)} abandoned write{'s' if len(abandoned) > 1 else ''}"


def _model(stored: StoredRecipe) -> str:
    recipe = stored.recipe
    if steps := recipe.get("models"):
        languages = [str(step["source"] or "?") for step in steps] + [str(steps[-1]["target"] or "?")]
        return f"{'-'.join(languages)} by {recipe['engine']}"
    return str(recipe.get("model") or recipe.get("kind") or "unknown")


def _find(letters: str, names: Sequence[str]) -> str:
    """The name that begins with these letters, or that a whole fingerprint begins with.

    Raises:
        UserError: there is none, or more than one.
    """
    known = list(dict.fromkeys(names))
    found = [name for name in known if letters and name.startswith(letters[: len(name)])]
    if len(found) != 1:
        raise UserError(f"{letters!r} names {len(found)} of these: {', '.join(known) or 'none'}")
    return found[0]


def _show(rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, tab-separated lines otherwise."""
    if not tabular.on_terminal():
        tabular.lines(rows)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(
            name,
            no_wrap=name != "model",  # which gives way to the others
            min_width={"recipe": FINGERPRINT_LETTERS, "model": 8}.get(name),
            justify="right" if name in NUMBERS else "left",
        )
    for row in rows:
        table.add_row(*(Text(printable(cell.replace(",", "\n"))) for cell in row))
    Console().print(table)
