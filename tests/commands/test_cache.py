import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from killed import killed_write
from ruamel.yaml import YAML
from small_params import small_params
from typer.testing import CliRunner, Result

from pipeline.artifacts import vectors
from pipeline.artifacts.store import VectorStore
from pipeline.artifacts.translations import Translations
from pipeline.cli import app
from pipeline.core.atomic import atomic_file
from pipeline.core.params.teacher import HashingTeacher
from pipeline.teachers.hashing import Hashing

IDS = np.array([3, 9, 2**40, 2**63], np.uint64)
TEXTS = ["one", "two", "three", "four"]


def hashing(seed: int) -> Hashing:
    return Hashing(HashingTeacher(kind="hashing", dim=16, seed=seed))


def keep(seed: int) -> VectorStore:
    """A store of two views in two files each."""
    store = VectorStore(Path(".cache"), hashing(seed).recipe)
    found = hashing(seed).encode(TEXTS, ["sentence"])["sentence"].astype(np.float16)
    for rows in (slice(0, 3), slice(3, 4)):
        store.add(IDS[rows], "sentence", found[rows])
    store.add(IDS[:2], "cls", found[:2])
    return store


def publish(name: str, seed: int) -> None:
    folder = Path("data/vectors") / name
    folder.mkdir(parents=True)
    vectors.write_manifest(folder, hashing(seed).recipe, {"sentence": 16}, {})


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, VectorStore]:
    """One recipe of the params' teacher, one of two published sets, one of nothing."""
    monkeypatch.chdir(tmp_path)
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(teacher={"kind": "hashing", "dim": 16, "seed": 1}), file)
    for name in ("seed", "eval"):
        publish(name, seed=2)
    return {"params": keep(1), "sets": keep(2), "nothing": keep(3)}


def cache(*args: str) -> Result:
    return CliRunner().invoke(app, ["cache", *args])


def left() -> set[str]:
    return {path.name for path in Path(".cache/vectors").iterdir()}


def size(store: VectorStore) -> int:
    return sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())


def lines(result: Result) -> list[list[str]]:
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_list_tells_of_every_recipe_what_it_holds_and_who_uses_it(stores):
    result = cache("list")
    assert result.exit_code == 0, result.stderr
    users = {"params": "params.yaml", "sets": "eval,seed", "nothing": "-"}
    assert sorted(lines(result)) == sorted(
        [store.folder.name, "hashing", "cls,sentence", "2,4", str(size(store)), users[name]]
        for name, store in stores.items()
    )


def test_unfinished_trainings_are_listed_and_pruned_of_students_that_are_gone(stores):
    cache("prune")
    folder = Path(".cache/training")
    kept = {f"{stage}-tiny-0123456789abcdef" for stage in ("distill", "finetune")}
    gone = {f"distill-{name}-0123456789abcdef" for name in ("tin", "tiny-er", "hpd")}
    for name in kept | gone:
        (folder / name).mkdir(parents=True)
        (folder / name / "rows.npy").write_bytes(b"123")
        (folder / f"{name}.safetensors").write_bytes(b"12345")
    told = ["unfinished training", "-", "-", "8", "-"]
    assert lines(cache("list"))[-5:] == [[name, *told] for name in sorted(kept | gone)]
    assert lines(cache("prune")) == []
    for path in folder.rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert lines(cache("prune")) == [["removed", name, "unfinished training", "8"] for name in sorted(gone)]
    assert {path.name for path in folder.iterdir()} == {*kept, *(f"{name}.safetensors" for name in kept)}


@pytest.fixture
def translations(stores: dict[str, VectorStore]) -> Translations:
    """Two chunks of a chain from English to German and back."""
    steps = [
        {"weights": "0", "source": a, "target": b, "prefix": ""} for a, b in (("en", "de"), ("de", "en"))
    ]
    kept = Translations(Path(".cache"), {"models": steps, "engine": "ctranslate2", "temperature": 0.5})
    for rows in (slice(0, 3), slice(3, 4)):
        kept.add(pl.Series(IDS[rows]), TEXTS[rows])
    return kept


def test_translations_are_listed_and_go_by_name_alone(translations):
    name, size = translations.folder.name, sum(path.stat().st_size for path in translations.folder.iterdir())
    row = [name, "en-de-en by ctranslate2", "2 chunks", "4", str(size), "-"]
    assert lines(cache("list"))[-1] == row
    cache("prune")
    assert lines(cache("list"))[-1] == row
    assert lines(cache("prune", name[:8])) == [["removed", name, row[1], str(size)]]
    assert not translations.folder.exists()


def test_damaged_translations_are_dropped(translations):
    assert "15 of 15 files" in cache("verify").stderr
    chunk = min(translations.folder.glob("*.parquet"))
    flip_a_bit(chunk)
    assert cache("verify").exit_code == 1
    assert lines(cache("verify", "--drop"))[0][0] == "dropped"
    assert not chunk.exists()
    assert translations.load()["text"].to_list() == TEXTS[3:]


def test_another_cache_is_listed_where_asked_for(stores):
    assert "there is no folder none; --cache" in cache("list", "--cache", "none").stderr
    assert "there is no folder typo; --vectors" in cache("prune", "--vectors", "typo").stderr
    Path(".cache").rename("elsewhere")
    assert len(lines(cache("list", "--cache", "elsewhere"))) == 3


def test_an_intact_store_is_verified(stores):
    result = cache("verify")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "12 of 12 files" in result.stderr


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "a flipped bit": ("sentence/**/*.parquet", flip_a_bit),
    "a cut": ("cls/**/*.parquet", lambda path: path.write_bytes(path.read_bytes()[:-1])),
    "another name": ("cls/**/*.parquet", lambda path: path.rename(path.with_name("copy.parquet"))),
    "another folder": ("cls/**/*.parquet", lambda path: path.rename(path.parents[1] / path.name)),
    "another recipe": ("recipe.json", lambda path: path.write_text(path.read_text().replace("16", "17"))),
    "no recipe": ("recipe.json", lambda path: path.write_text("{")),
}


def test_a_store_from_before_there_were_subfolders_is_whole(stores):
    folder = stores["sets"].folder
    for path in list(folder.glob("*/**/*.parquet")):
        path.rename(folder / path.relative_to(folder).parts[0] / path.name)
    assert cache("verify").exit_code == 0
    assert next(row for row in lines(cache("list")) if row[0] == folder.name)[2:4] == ["cls,sentence", "2,4"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_dropped_on_demand(stores, damage):
    pattern, spoil = DAMAGES[damage]
    folder = stores["sets"].folder
    damaged = next(folder.glob(pattern))
    spoil(damaged)
    result = cache("verify")
    assert result.exit_code == 1
    ((said, path),) = lines(result)
    assert said == "damaged"
    assert damaged.parent.is_relative_to(Path(path).parent)
    assert "`pipeline cache verify --drop`" in result.stderr
    assert cache("verify").stdout == result.stdout
    result = cache("verify", "--drop")
    assert (result.exit_code, lines(result)) == (0, [["dropped", path]])
    assert not Path(path).exists()
    assert cache("verify").exit_code == 0


def test_a_store_with_a_file_that_cannot_be_opened_is_still_listed(stores):
    next(stores["sets"].folder.glob("sentence/**/*.parquet")).write_bytes(b"")
    (stores["sets"].folder / "recipe.json").unlink()
    row = next(row for row in lines(cache("list")) if row[0] == stores["sets"].folder.name)
    assert row[1] == "unknown"
    assert row[3] in ("2,3", "2,1")


def test_prune_removes_what_neither_a_set_nor_the_params_use(stores):
    freed = size(stores["nothing"])
    result = cache("prune", "--dry-run")
    row = [stores["nothing"].folder.name, "hashing", str(freed)]
    assert lines(result) == [["would remove", *row]]
    assert f"{freed:,} bytes would be freed" in result.stderr
    assert len(left()) == 3

    result = cache("prune")
    assert lines(result) == [["removed", *row]]
    assert f"{freed:,} bytes freed" in result.stderr
    assert left() == {stores["params"].folder.name, stores["sets"].folder.name}
    assert lines(cache("prune")) == []
    assert len(stores["sets"].load(IDS, "sentence")[1]) == 4


def test_vectors_of_an_api_are_pruned_by_name_alone(stores):
    paid = VectorStore(Path(".cache"), {"kind": "openai_api", "model": "large"})
    paid.add(IDS, "sentence", np.zeros((len(IDS), 4), np.float16))
    cache("prune")
    assert left() == {stores[name].folder.name for name in ("params", "sets")} | {paid.folder.name}
    assert lines(cache("prune", paid.folder.name))[0][:3] == ["removed", paid.folder.name, "large"]


def test_half_written_files_without_a_writer_are_counted_and_pruned(stores):
    before = lines(cache("list"))
    killed_write(stores["params"].folder / "cls/0/file.parquet")
    killed_write(Path(".cache/training/file.safetensors"))
    with atomic_file(stores["params"].folder / "cls/file.parquet") as live:
        assert lines(cache("list")) == [*before, ["-", "2 abandoned writes", "-", "-", "8", "-"]]
        result = cache("verify")
        assert result.exit_code == 0
        assert "2 abandoned writes; `pipeline cache prune` removes them" in result.stderr
        for done, partial in (("would remove", 3), ("removed", 1)):
            result = cache("prune", *(["--dry-run"] if partial == 3 else []))
            rows = lines(result)
            assert rows[0] == [done, "-", "2 abandoned writes", "8"]
            assert f"{8 + int(rows[1][-1]):,} bytes" in result.stderr
            assert len(list(Path(".cache").rglob(".partial-*"))) == partial
        live.write_bytes(b"whole")
    assert lines(cache("prune")) == []


def test_a_teacher_with_other_params_is_not_the_params_teacher(stores):
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(teacher={"kind": "hashing", "dim": 17, "seed": 1}), file)
    cache("prune")
    assert left() == {stores["sets"].folder.name}


def test_a_transformer_is_known_by_its_name_whatever_its_path_and_weights(stores):
    model = {"kind": "transformer", "model": "models/mine", "prompt": "query: "}
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(teacher=model), file)
    recipe = {**model, "model": "mine", "max_length": 64, "weights": "w", "precision": "float32"}
    kept, other = (VectorStore(Path(".cache"), {**recipe, **change}) for change in ({}, {"prompt": ""}))
    for store in (kept, other):
        store.add(IDS, "cls", np.ones((4, 2), np.float16))
    cache("prune")
    assert left() == {stores["sets"].folder.name, kept.folder.name}


@pytest.mark.parametrize("letters", [6, 16, 64])
def test_prune_removes_the_named_even_if_used(stores, letters):
    named = stores["sets"].fingerprint[:letters]
    result = cache("prune", named, named)
    assert [row[:2] for row in lines(result)] == [["removed", stores["sets"].folder.name]]
    assert left() == {stores["params"].folder.name, stores["nothing"].folder.name}


@pytest.mark.parametrize(("letters", "count"), [("", 0), ("zz", 0), ("0" * 64, 0), ("abc", 2)])
def test_a_name_of_no_recipe_or_of_several_removes_nothing(stores, letters, count):
    for name in ("abc1", "abc2"):
        shutil.copytree(stores["nothing"].folder, stores["nothing"].folder.with_name(name))
    result = cache("prune", stores["sets"].fingerprint, letters)
    assert result.exit_code == 1
    assert f"{letters!r} names {count} of these: " in result.stderr
    assert len(left()) == 5


def test_a_manifest_that_cannot_be_read_stops_prune(stores):
    Path("data/vectors/eval/manifest.json").write_text(json.dumps({}))
    result = cache("prune")
    assert result.exit_code == 1
    assert "manifest.json is no manifest; run `dvc repro encode@eval`" in result.stderr
    assert len(left()) == 3


def test_a_folder_that_is_still_being_written_uses_nothing_yet(stores):
    Path("data/vectors/eval").rename("data/vectors/.partial-eval-1-abc")
    Path("data/vectors/.partial-eval-1-abc/manifest.json").write_text("{")
    assert cache("list").exit_code == 0


def test_without_a_cache_there_is_nothing_to_do(stores):
    Path(".cache").rename("elsewhere")
    for command in ("list", "verify", "prune"):
        result = cache(command)
        assert (result.exit_code, result.stdout) == (0, "")


def test_a_terminal_gets_a_table_that_cuts_no_fingerprint(stores):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pipeline.cli", "cache", "list"]
    subprocess.run(command, stdout=theirs, check=True, env={**os.environ, "COLUMNS": "60", "NO_COLOR": "1"})
    shown = os.read(ours, 10_000).decode()
    assert "used by" in shown
    assert all(store.folder.name in shown for store in stores.values())
    assert "\t" not in shown
