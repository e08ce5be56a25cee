import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from ruamel.yaml import YAML
from small_params import small_params
from stored import IDS, TEXTS, cache, left, lines, size
from terminal import Terminal

from pipeline.augment.back_translation.translations import Translations
from pipeline.cli.store_files import StoredRecipe
from pipeline.core.atomic import atomic_folder
from pipeline.teacher.encoding.store.store import VectorStore


def test_list_tells_of_every_recipe_what_it_holds_and_who_uses_it(stores):
    result = cache("list")
    assert result.exit_code == 0, result.stderr
    users = {"params": "params.yaml", "sets": "corpus,eval", "nothing": "-"}
    assert sorted(lines(result)) == sorted(
        [store.folder.name, "hashing", "cls,sentence", "2,4", str(size(store)), "0", users[name]]
        for name, store in stores.items()
    )


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
    row = [name, "en-de-en by ctranslate2", "2 chunks", "4", str(size), "0", "-"]
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


def test_a_teacher_with_other_params_is_not_the_params_teacher(stores):
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(teacher={"kind": "hashing", "dim": 17, "seed": 1}), file)
    cache("prune")
    assert left() == {stores["sets"].folder.name}


@pytest.mark.parametrize(
    "named",
    [{"model": "models/mine"}, {"model": "owner/mine"}, {"model": "owner/mine", "revision": "5c38ec7"}],
)
def test_a_transformer_is_known_by_its_name_whatever_its_path_and_weights(stores, named):
    model = {"kind": "transformer", "pooling": "cls", **named}
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(teacher=model), file)
    recipe = {
        **model,
        "model": "mine",
        "revision": None,
        "max_length": 64,
        "weights": "w",
        "precision": "float32",
    }
    kept, other = (VectorStore(Path(".cache"), {**recipe, **change}) for change in ({}, {"pooling": "mean"}))
    for store in (kept, other):
        store.add(IDS, "cls", np.ones((4, 2), np.float16))
    cache("prune")
    assert left() == {stores["sets"].folder.name, kept.folder.name}


def test_files_that_go_while_others_are_verified_are_counted(stores, monkeypatch):
    real, first = StoredRecipe.is_intact, []

    def ending(stored, file):
        """A run ends: what it kept goes before it is looked at."""
        if not first:
            first.append(file)
            for part in [*stores["sets"].folder.rglob("*.parquet")]:
                part.unlink()
        return real(stored, file)

    gone = [*stores["sets"].folder.rglob("*.parquet")]
    monkeypatch.setattr(StoredRecipe, "is_intact", ending)
    result = cache("verify")
    assert (result.exit_code, lines(result)) == (0, [])
    assert f"{len(gone)} files went while the others were compared" in result.stderr


def test_a_folder_that_is_still_being_written_uses_nothing_yet(stores):
    Path("data/vectors/eval").rename("data/vectors/.partial-eval-1-abc")
    Path("data/vectors/.partial-eval-1-abc/sentence/manifest.json").write_text("{")
    assert cache("list").exit_code == 0


def test_without_a_cache_there_is_nothing_to_do(stores):
    Path(".cache").rename("elsewhere")
    for command in ("list", "verify", "prune"):
        result = cache(command)
        assert (result.exit_code, result.stdout) == (0, "")


def test_a_terminal_gets_a_table_that_cuts_no_fingerprint(stores):
    terminal = Terminal()
    command = [sys.executable, "-m", "pipeline.cli", "cache", "list"]
    subprocess.run(
        command, stdout=terminal.writer, check=True, env={**os.environ, "COLUMNS": "60", "NO_COLOR": "1"}
    )
    shown = terminal.shown()
    assert "used by" in shown
    assert all(store.folder.name in shown for store in stores.values())
    assert "\t" not in shown


@pytest.mark.parametrize(
    "kind",
    [
        "indexes/0123456789abcdef",
        "training/distill-a-0123456789abcdef/train",
        "ctranslate2/0123456789abcdef",
        "hidden/0123456789abcdef/23",
    ],
)
def test_a_damaged_folder_that_has_a_seal_is_dropped(stores, kind):
    folder = Path(".cache") / kind
    with atomic_folder(folder) as made:
        (made / "weights.bin").write_bytes(bytes(100))
    assert cache("verify").exit_code == 0
    flip_a_bit(folder / "weights.bin")
    assert lines(cache("verify")) == [["damaged", str(folder)]]
    assert lines(cache("verify", "--drop")) == [["dropped", str(folder)]]
    assert not folder.exists()
