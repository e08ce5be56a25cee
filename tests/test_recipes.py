"""Every recipe is in order and trains, with small models and data in place of the papers'."""

import fnmatch
import importlib
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from recipe_runs import Document, classified, prepared, trained, write_inputs
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer

from pipeline.params.load import check, load

RECIPES = sorted((Path(__file__).resolve().parent.parent / "recipes").glob("*.yaml"))
SWEEPS = sorted((RECIPES[0].parent.parent / "benchmarks" / "quality").glob("*.yaml"))
PAPERS = ("hpd", "ibkd", "simtde", "sra", "potion")
BATCH = 16
TEACHER_WIDTH, BERT_WIDTH, LAYERS = 32, 16, 2
"""Of the hashing teacher and its parts, of the fixture `bert`, and of both."""
POSITIONS = 128
"""Of the fixture `bert`."""


def read(recipe: Path) -> Document:
    return YAML(typ="safe").load(recipe)


def small(recipe: Path, bert: Path) -> Document:
    """The recipe's document, with small models, dimensions and batches, and none of its choices changed."""
    document = read(recipe)
    document["corpus"]["dev_fraction"] = 0.2
    document["teacher"] = {"kind": "hashing", "dim": TEACHER_WIDTH}
    document["students"] = {name: smaller(block, bert) for name, block in document["students"].items()}
    for block in document["classifiers"].values():
        block["train"] = {"epochs": 1.0, "batch_size": BATCH, "lr": [1e-3], "evaluations": 2}
    if "transfer" in document["augment"]:
        document["augment"]["transfer"]["rounds"] = 2
    return document


def smaller(block: Document, bert: Path) -> Document:
    init, train, tuned = (dict(block[key] or {}) for key in ("init", "train", "finetune"))
    if init.get("model"):
        init |= {"model": str(bert), "revision": None}
    if init.get("layers"):
        init["layers"] = list(range(len(init["layers"])))[:LAYERS]
    for key, most in (("table_dim", 8), ("units", 8), ("intermediate", 16), ("max_length", POSITIONS)):
        if key in init:
            init[key] = most
    if tuned:
        tuned |= {"epochs": 1, "batch_size": BATCH, "lr": 1e-3, "evaluations": 2, "data": tuned["data"][:1]}
        if tuned.get("projection"):
            tuned["projection"] = 4
    if block["train"]:
        train |= {"epochs": 1, "batch_size": BATCH, "lr": 1e-3, "evaluations": 3}
    if block.get("whitening"):
        block["whitening"] = {"dim": 4}
    changed = {"init": init, "train": train or None, "finetune": tuned or None}
    return {**block, "dim": small_dim(block), **changed}


def small_dim(block: Document) -> int:
    """The encoder's or the teacher's width where the recipe has that, else less, by PCA."""
    match block["kind"]:
        case "transformer":
            return BERT_WIDTH if block["init"]["projection"] == "none" else 8
        case "compact" | "bilstm":
            return TEACHER_WIDTH
        case _:
            return int(block["dim"]) // 16


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_is_in_order(recipe):
    assert load(recipe).students


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_is_in_order(repository, sweep, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    for run in importlib.import_module("quality").documents(sweep):
        assert check(run, sweep).students


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_student_without_a_projection_is_as_wide_as_its_model(recipe):
    for block in load(recipe).students.values():
        if block.kind == "transformer" and block.init.projection == "none":
            assert f"H-{block.dim}" in block.init.model or f"H{block.dim}" in block.init.model


def test_the_readme_tells_of_every_recipe_and_no_other(repository):
    rows = re.findall(
        r"^\| \[`(.+?)`\]\((.+?)\) \|(.+)$", (repository / "recipes/README.md").read_text(), re.M
    )
    assert [name for name, _, _ in rows] == [link for _, link, _ in rows]
    assert sorted(name for name, _, _ in rows) == [recipe.name for recipe in RECIPES]


@pytest.mark.parametrize("recipe", [one for one in RECIPES if one.stem in PAPERS], ids=lambda one: one.stem)
def test_a_papers_row_of_the_readme_names_all_its_students(repository, recipe):
    [row] = re.findall(rf"^\| \[`{recipe.name}`\].+$", (repository / "recipes/README.md").read_text(), re.M)
    named = [name.replace("...", "*") for name in re.findall(r"`([^`]+)`", row)]
    students = load(recipe).students
    assert [one for one in students if not any(fnmatch.fnmatch(one, name) for name in named)] == []


@pytest.mark.parametrize("name", ["sst2_bilstm", "sst2_sra"])
def test_both_rows_of_sras_table_3_have_its_shares(name):
    """ "Models 20% 30% 50% 100%"."""
    [recipe] = [one for one in RECIPES if one.stem == "sra"]
    assert load(recipe).classifiers[name].fractions == (0.2, 0.3, 0.5, 1.0)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_the_readme_has_what_was_measured(repository, recipe, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    quality = importlib.import_module("quality")
    readme = (repository / "recipes/README.md").read_text()
    known, _ = quality.earlier(recipe.stem, quality.documents(recipe))
    rows = list(known.values())
    assert bool(re.search(rf"`python benchmarks/quality\.py {recipe.stem}\b", readme)) == bool(rows)
    assert not rows or quality.markdown(rows) in readme


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_trains_its_students(recipe, bert, nltk_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document = small(recipe, bert)
    earlier = [small(other, bert)["students"].values() for other in RECIPES[: RECIPES.index(recipe)]]
    known = [block for blocks in earlier for block in blocks]
    document["students"] = {name: b for name, b in document["students"].items() if b not in known}
    if not document["students"]:
        pytest.skip("each of its students is, but for sizes and numbers, one of another recipe")
    params = check(document, recipe)
    YAML().dump(document, Path("params.yaml"))
    write_inputs(params)
    prepared(nltk_data)
    for name, block in params.students.items():
        metrics = trained(name)
        if block.train:
            assert metrics["distill"]["steps"] >= 3
            curve = pl.read_csv(Path(name) / "curve.tsv", separator="\t")
            assert curve["dev_value"].n_unique() > 1
        assert set(metrics["evaluate"]["main"]) == {
            task for task, spec in params.evaluate.tasks.items() if spec.split == "test"
        }
        dim = block.finetune.projection if block.finetune and block.finetune.projection else block.dim
        dim = block.whitening.dim if block.whitening else dim
        shipped = SentenceTransformer(str(Path(name) / "out"), device="cpu").encode(["a red cat sings"])
        assert shipped.shape == (1, dim)
        assert (metrics["finetune"].get("steps", 0) > 0) == (block.finetune is not None)
    for name, classifier in params.classifiers.items():
        places = {"untrained": "untrained", "distilled": "distilled", "finetuned": "out"}
        found = classified(name, Path(classifier.student) / places[classifier.start])
        assert (found["transfer_rows"] > 0) == classifier.transfer
        assert {f"accuracy@{100 * one:g}%" for one in classifier.fractions if one < 1} <= found[
            "scores"
        ].keys()


def test_make_takes_a_recipe_unless_edits_would_be_lost(repository, tmp_path):
    (tmp_path / "recipes").mkdir()
    for name in ("Makefile", "params.yaml", "recipes/hpd.yaml", "recipes/sra.yaml"):
        shutil.copy(repository / name, tmp_path / name)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    params, before = tmp_path / "params.yaml", (tmp_path / "params.yaml").read_bytes()
    for command in ("init -q", "add .", "-c user.name=t -c user.email=t@t commit -qm start"):
        assert run("git", *command.split()).returncode == 0
    for recipe in ("hpd", "sra"):  # one after the other: the first one is in git too
        assert run("make", "recipe", f"RECIPE={recipe}").returncode == 0
        assert params.read_bytes() == (tmp_path / f"recipes/{recipe}.yaml").read_bytes()
    assert "RECIPE is one of: hpd sra" in run("make", "recipe", "RECIPE=nope").stderr
    params.write_bytes(before + b"# mine\n")
    refused = run("make", "recipe", "RECIPE=hpd")
    assert refused.returncode != 0
    assert "params.yaml has changes that git does not hold" in refused.stderr
    assert params.read_bytes().endswith(b"# mine\n")
