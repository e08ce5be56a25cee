"""Every recipe is in order and trains, with small models and data in place of the papers'."""

import gzip
import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from project import sentence
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer

from pipeline.augment import augment
from pipeline.look import look
from pipeline.params.load import Params, check, load
from pipeline.prepare import prepare
from pipeline.score import evaluate
from pipeline.select import fit_pca, gate, mine
from pipeline.teacher import encode, teacher_parts
from pipeline.train import distill, finetune

RECIPES = sorted((Path(__file__).resolve().parent.parent / "recipes").glob("*.yaml"))
SWEEPS = sorted((RECIPES[0].parent.parent / "benchmarks" / "quality").glob("*.yaml"))
METHODS = ("wordnet", "back_translation")
ROWS = 60
BATCH = 16
TEACHER_WIDTH, BERT_WIDTH, LAYERS = 32, 16, 2
"""Of the hashing teacher and its parts, of the fixture `bert`, and of both."""
Document = dict[str, Any]


def read(recipe: Path) -> Document:
    return YAML(typ="safe").load(recipe)


def small(recipe: Path, bert: Path) -> Document:
    """The recipe's document, with small models, dimensions and batches, and none of its choices changed."""
    document = read(recipe)
    document["corpus"]["dev_fraction"] = 0.2
    document["teacher"] = {"kind": "hashing", "dim": TEACHER_WIDTH}
    document["students"] = {name: smaller(block, bert) for name, block in document["students"].items()}
    return document


def smaller(block: Document, bert: Path) -> Document:
    init, train, tuned = (dict(block[key] or {}) for key in ("init", "train", "finetune"))
    if init.get("model"):
        init |= {"model": str(bert), "revision": None}
    if init.get("layers"):
        init["layers"] = list(range(len(init["layers"])))[:LAYERS]
    for key, most in (("table_dim", 8), ("units", 8), ("intermediate", 16)):
        if key in init:
            init[key] = most
    if tuned:
        tuned |= {"epochs": 1, "batch_size": BATCH, "lr": 1e-3, "evaluations": 2, "data": tuned["data"][:1]}
        if tuned.get("projection"):
            tuned["projection"] = 4
    train |= {"epochs": 1, "batch_size": BATCH, "lr": 1e-3, "evaluations": 3}
    return {**block, "dim": small_dim(block), "init": init, "train": train, "finetune": tuned or None}


def small_dim(block: Document) -> int:
    """The encoder's or the teacher's width where the recipe has that, else less, by PCA."""
    match block["kind"]:
        case "transformer":
            return BERT_WIDTH if block["init"]["projection"] == "none" else 8
        case "compact" | "bilstm":
            return TEACHER_WIDTH
        case _:
            return int(block["dim"]) // 16


def write_inputs(params: Params) -> None:
    """Small files where the recipe says that its files are."""
    texts = [sentence(31 * number) for number in range(ROWS)]
    for source in params.corpus.sources:
        rows = [json.dumps({source.column: text}) for text in texts] if "jsonl" in source.path else texts
        write(source.path, rows)
    for number, task in enumerate(params.evaluate.tasks.values()):
        start = 10_000 + 2_000 * number
        pairs = [
            (sentence(start + 31 * row), sentence(start + 31 * row + row % 3 * 300), 3 - row % 3)
            for row in range(12)
        ]
        if task.kind == "retrieval":
            write_collection(Path(task.path), pairs)
        else:
            write_table(task.path, (task.left, task.right, task.score), pairs)
    for data in params.finetune.data.values():
        columns = (data.anchor, data.positive, *data.negatives)
        triplets = [[sentence(40_000 + 3 * row + side) for side in range(len(columns))] for row in range(20)]
        write_table(data.path, columns, triplets)
    for student in params.students.values():
        if getattr(student.init, "path", None):
            words = sorted({word for text in texts for word in text.split()})
            write(student.init.path, [f"{word} {row % 5} {row % 3} 1" for row, word in enumerate(words)])


def write_collection(folder: Path, pairs: list) -> None:
    """A retrieval task in BEIR's layout: the second of a pair answers the first."""
    for name, side in (("queries", 0), ("corpus", 1)):
        rows = [json.dumps({"_id": f"{row}", "text": pair[side]}) for row, pair in enumerate(pairs)]
        write(str(folder / f"{name}.jsonl"), rows)
    judged = [(row, row, score) for row, (*_, score) in enumerate(pairs)]
    write_table(str(folder / "qrels" / "test.tsv"), ("query-id", "corpus-id", "score"), judged)


def write_table(path: str, columns: tuple[str, ...], rows: list) -> None:
    if path.endswith(".parquet"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows, schema=list(columns), orient="row").write_parquet(path)
    else:
        write(path, ["\t".join(map(str, row)) for row in (columns, *rows)])


def write(path: str, lines: list[str]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    data = "\n".join(lines).encode()
    Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)


def prepared(wordnet: Path) -> None:
    """All stages before the students', in the working folder."""
    outs = {name: Path(f"{name}.parquet") for name in ("corpus", "eval", "tasks", "finetune", "triplets")}
    evaluated, counts = outs.pop("eval"), Path("counts.json")
    places = {"raw": Path("data/raw"), "wordnet": wordnet, "dev": Path("dev"), "tokenizer": Path("tokenizer")}
    look.main(Path("facts.json"), Path("tokenizer"), Path("readers.json"), Path("cards"))
    prepare.main(
        eval_texts=evaluated,
        metrics=counts,
        provenance=Path("provenance.parquet"),
        origins=Path("origins.json"),
        **places,
        **outs,
    )
    teacher_parts.main(Path("teacher"), Path("vocabulary"), Path("readers.json"), Path("facts.json"))
    made = {method: Path(f"augmented/{method}.parquet") for method in METHODS}
    for method, texts in made.items():
        augment.main(method, outs["corpus"], wordnet, Path("vocabulary") / method, texts, counts)
    sets = {"corpus": outs["corpus"], **made, "eval": evaluated, "finetune": outs["finetune"]}
    for name, texts in sets.items():
        encode.main(texts, Path("vectors") / name)
    for method, texts in made.items():
        vectors = Path("vectors") / method, Path("vectors/corpus")
        gated, sample = (Path(folder) / f"{method}.parquet" for folder in ("gated", "gated_sample"))
        gate.main(method, texts, outs["corpus"], evaluated, *vectors, gated, sample, counts)
    fit_pca.main(outs["corpus"], Path("vectors/corpus"), Path("pca"), counts)
    mine.main(outs["triplets"], Path("vectors/finetune"), Path("mined.parquet"), counts)


def trained(name: str) -> Document:
    """The stages of one student; their metrics."""
    made, out = Path(name), Path(name) / "out"
    stages = [made / f"{stage}.json" for stage in ("distill", "finetune", "evaluate")]
    shared = {
        "vectors": Path("vectors"),
        "teacher": Path("teacher"),
        "facts": Path("facts.json"),
        "pca": Path("pca"),
    }
    distill.main(
        name,
        corpus=Path("corpus.parquet"),
        gated=Path("gated"),
        **shared,
        vocabulary=Path("vocabulary") / load(Path("params.yaml")).student(name).kind,
        out=made / "distilled",
        untrained=made / "untrained",
        curve=made / "curve.tsv",
        metrics_file=stages[0],
    )
    tasks, texts = Path("tasks.parquet"), Path("eval.parquet")
    inputs = (
        made / "distilled",
        Path("facts.json"),
        Path("mined.parquet"),
        Path("finetune.parquet"),
        Path("dev"),
    )
    view = load(Path("params.yaml")).encode.views[0]
    corpus = {"corpus": Path("corpus.parquet"), "corpus_vectors": Path("vectors/corpus")}
    finetune.main(name, *inputs, out, made / "finetune.tsv", stages[1], **corpus, teacher_view=view)
    folders = (Path("pca"), made / "untrained", made / "distilled", out)
    outs = (stages[2], made / "examined")
    read = (tasks, texts, Path("vectors/eval"), view)
    evaluate.main(name, *read, *folders, *outs, **corpus, teacher_parts=Path("teacher"))
    return {stage.stem: json.loads(stage.read_text()) for stage in stages}


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


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_the_readme_has_what_was_measured(repository, recipe, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    quality = importlib.import_module("quality")
    readme = (repository / "recipes/README.md").read_text()
    known, _ = quality.earlier(recipe.stem, quality.documents(recipe))
    rows = list(known.values())
    assert (f"`python benchmarks/quality.py {recipe.stem}" in readme) == bool(rows)
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
        assert metrics["distill"]["steps"] >= 3
        curve = pl.read_csv(Path(name) / "curve.tsv", separator="\t")
        assert curve["dev_value"].n_unique() > 1
        assert set(metrics["evaluate"]["main"]) == {
            task for task, spec in params.evaluate.tasks.items() if spec.split == "test"
        }
        dim = block.finetune.projection if block.finetune and block.finetune.projection else block.dim
        shipped = SentenceTransformer(str(Path(name) / "out"), device="cpu").encode(["a red cat sings"])
        assert shipped.shape == (1, dim)
        assert (metrics["finetune"].get("steps", 0) > 0) == (block.finetune is not None)


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
