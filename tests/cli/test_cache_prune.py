import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from killed import killed_write
from stored import IDS, cache, left, lines, size

from pipeline.core.atomic import atomic_file, atomic_folder
from pipeline.core.commits import Mark
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.train.loop.checkpoint import Checkpoint


def test_unfinished_runs_are_listed_and_pruned_of_students_that_are_gone(stores):
    cache("prune")
    folder = Path(".cache/training")
    of_tiny = [f"{stage}-tiny" for stage in ("distill", "finetune", "evaluate")]
    kept = {f"{name}-0123456789abcdef" for name in (*of_tiny, "search_speed", "finetune-teacher")}
    gone = {f"distill-{name}-0123456789abcdef" for name in ("tin", "tiny-er", "hpd")}
    gone |= {"evaluate-hpd-0123456789abcdef"}
    for name in kept | gone:
        (folder / name).mkdir(parents=True)
        (folder / name / "rows.npy").write_bytes(b"123")
        (folder / f"{name}.safetensors").write_bytes(b"12345")
        (folder / f"{name}.before.safetensors").write_bytes(b"12")
    told = ["unfinished run", "-", "-", "10", "-", "-"]
    assert lines(cache("list"))[-9:] == [[name, *told] for name in sorted(kept | gone)]
    assert lines(cache("prune")) == []
    for path in folder.rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert lines(cache("prune")) == [["removed", name, "unfinished run", "10"] for name in sorted(gone)]
    left = {f"{name}{suffix}" for name in kept for suffix in ("", ".safetensors", ".before.safetensors")}
    assert {path.name for path in folder.iterdir()} == left


def test_both_states_and_the_lock_of_a_training_are_listed_as_one(stores):
    checkpoint = Checkpoint(Path(".cache/training/distill-tiny-0123456789abcdef.safetensors"))
    checkpoint.hold()
    for step in (1, 2):
        checkpoint.save({}, {}, {}, {"step": step})
    size = sum(path.stat().st_size for path in checkpoint.path.parent.iterdir())
    told = [row for row in lines(cache("list")) if "unfinished run" in row]
    assert told == [[checkpoint.path.stem, "unfinished run", "-", "-", f"{size:,}", "-", "-"]]
    checkpoint.clear()


def test_what_a_run_keeps_goes_with_the_rest_once_dvc_has_committed_its_result(stores):
    cache("prune")
    kept = Checkpoint(Path(".cache/training/distill-tiny-0123456789abcdef.safetensors"))
    kept.hold()
    kept.save({}, {}, {}, {"step": 9})
    Mark("data/timings/distill_tiny.json", "0a" * 16, {}).write(kept.path.with_suffix(".over"))
    kept.let_go()
    for known, what in (("0b" * 16, "unfinished run"), ("0a" * 16, "finished run")):
        Path("dvc.lock").write_text(f"outs:\n- path: data/timings/distill_tiny.json\n  md5: {known}\n")
        [told] = [row for row in lines(cache("list")) if kept.path.stem in row]
        assert told[1] == what
        assert lines(cache("prune", "--dry-run")) == (
            [["would remove", kept.path.stem, what, told[4]]] if what == "finished run" else []
        )
    assert lines(cache("prune")) == [["removed", kept.path.stem, what, told[4]]]
    assert list(kept.path.parent.iterdir()) == []


def test_task_teachers_are_listed_checked_and_go_by_name_alone(stores):
    cache("prune")
    trained = Path(".cache/task_teachers/0123456789abcdef/trained")
    with atomic_folder(trained) as made:
        (made / "weights.safetensors").write_bytes(b"12345")
    told = next(row for row in lines(cache("list")) if "task teacher" in row)
    size = sum(path.stat().st_size for path in trained.iterdir())
    assert told == [trained.parent.name, "task teacher", "-", "-", str(size), "-", "-"]
    assert cache("verify").exit_code == 0
    (trained / "weights.safetensors").write_bytes(b"12346")
    assert str(trained) in cache("verify").stdout
    assert lines(cache("prune")) == []
    assert lines(cache("prune", "0123")) == [["removed", trained.parent.name, "task teacher", str(size)]]
    assert not trained.parent.exists()


def test_a_task_teacher_and_its_trainings_stay_while_they_are_wanted(stores):
    """Of classifiers those go that the params do not name, and a task teacher's go by name alone."""
    cache("prune")
    folder = Path(".cache/training")
    folder.mkdir(exist_ok=True)
    gone = folder / "classify-other@0.001,0,1-0123456789abcdef.safetensors"
    kept = folder / "task-teacher-0123456789abcdef@0.001,0,1-0123456789abcdef.safetensors"
    for path in (gone, kept):
        path.write_bytes(b"12345")
        os.utime(path, (1e9, 1e9))
    assert lines(cache("prune")) == [["removed", gone.stem, "unfinished run", "5"]]
    assert kept.exists()
    trained = Path(".cache/task_teachers/0123456789abcdef/trained")
    trained.mkdir(parents=True)
    (trained / "weights.safetensors").write_bytes(b"123")
    held = Checkpoint(folder / "task-teacher-fedcba9876543210-0123456789abcdef.safetensors")
    held.hold()
    assert f"{trained.parent.name} stays" in cache("prune", trained.parent.name).stderr
    assert trained.exists()
    held.clear()
    cache("prune", trained.parent.name)
    assert not trained.exists()


def test_indexes_and_trainings_are_pruned_by_the_names_that_list_gives(stores):
    index, name = Path(".cache/indexes/0123456789abcdef"), "distill-tiny-0123456789abcdef"
    state = Path(f".cache/training/{name}.safetensors")
    shard = Path(".cache/hidden/456789abcdef0123/89ab")
    copy = Path(".cache/inputs/89abcdef01234567")
    for folder in (index, shard, copy, state.with_suffix("")):
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(b"123")
    state.write_bytes(b"12345")
    running = Checkpoint(state)
    running.hold()
    for dry_run in (["--dry-run"], []):
        result = cache("prune", name, *dry_run)
        assert (lines(result), f"{name} stays: it is at work" in result.stderr) == ([], True)
    assert state.exists()
    os.close(running._held)  # as the system does when the process ends
    for done, dry_run in (("would remove", ["--dry-run"]), ("removed", [])):
        assert state.exists()
        assert lines(cache("prune", index.name, "4567", copy.name, name, *dry_run)) == [
            [done, index.name, "search index", "3"],
            [done, shard.parent.name, "hidden states", "3"],
            [done, copy.name, "fetched file", "3"],
            [done, name, "unfinished run", str(8 + 16)],  # the lock says which checkout it is of
        ]
    assert not index.exists()
    assert not shard.parent.exists()
    assert not copy.exists()
    assert list(Path(".cache/training").iterdir()) == []


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
    recipe = (paid.folder / "recipe.json").read_text()
    (paid.folder / "recipe.json").unlink()
    assert lines(cache("prune")) == []
    (paid.folder / "recipe.json").write_text(recipe)
    assert lines(cache("prune", paid.folder.name))[0][:3] == ["removed", paid.folder.name, "large"]


def test_half_written_files_without_a_writer_are_counted_and_pruned(stores):
    before = lines(cache("list"))
    killed_write(stores["params"].folder / "cls/0/file.parquet")
    killed_write(Path(".cache/training/file.safetensors"))
    with atomic_file(stores["params"].folder / "cls/file.parquet") as live:
        assert lines(cache("list")) == [*before, ["-", "2 abandoned writes", "-", "-", "8", "-", "-"]]
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


@pytest.mark.parametrize("letters", [6, 16, 64])
def test_prune_removes_the_named_even_if_used(stores, letters):
    named = stores["sets"].fingerprint[:letters]
    result = cache("prune", named, named)
    assert [row[:2] for row in lines(result)] == [["removed", stores["sets"].folder.name]]
    assert left() == {stores["params"].folder.name, stores["nothing"].folder.name}


@pytest.mark.parametrize(("letters", "count"), [("", 0), ("zz", 0), ("0" * 64, 0), ("abc", 2)])
def test_a_name_of_no_recipe_or_of_several_removes_nothing(stores, letters, count):
    for name in ("abc0123456789def", "abc1123456789def"):
        shutil.copytree(stores["nothing"].folder, stores["nothing"].folder.with_name(name))
    result = cache("prune", stores["sets"].fingerprint, letters)
    assert result.exit_code == 1
    assert f"{letters!r} names {count} of these: " in result.stderr
    assert len(left()) == 5


def test_a_manifest_that_cannot_be_read_stops_prune(stores):
    Path("data/vectors/eval/sentence/manifest.json").write_text(json.dumps({}))
    result = cache("prune")
    assert result.exit_code == 1
    assert "manifest.json is no manifest; run `dvc repro -f encode@eval`" in result.stderr
    assert len(left()) == 3


@pytest.mark.parametrize(
    "place",
    [
        "vectors/mine/view/data.parquet",
        "inputs/thesis/draft.txt",
        "hidden/photos/cat.jpg",
        "indexes/0123456789/books.txt",
        "task_teachers/old/model.safetensors",
        "ctranslate2/marian/model.bin",
        "back_translation/mine/recipe.json",
        "training/marathon.xlsx",
        "training/long runs/plan.safetensors",
        "gate/.partial-notes",
    ],
)
def test_what_the_pipeline_did_not_write_is_neither_listed_nor_touched(stores, place):
    cache("prune")
    file = Path(".cache") / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    os.utime(file, (1e9, 1e9))
    listed = lines(cache("list"))
    assert not [row for row in listed if row[0] in file.as_posix() or "abandoned" in " ".join(row)]
    assert cache("verify", "--drop").exit_code == 0
    assert lines(cache("prune")) == []
    found = sorted(path for path in file.parent.rglob("*"))
    assert (file.read_text(), found) == ("mine", [file])
