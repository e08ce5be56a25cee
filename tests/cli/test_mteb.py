"""MTEB's own evaluators on local tasks, offline; and our figures beside theirs."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from local_mteb import SCORES, STS, TASKS, TWO_LANGUAGES
from local_mteb_data import encoded, local_data
from ruamel.yaml import YAML
from small_params import small_params
from small_students import TEACHER_DIM, static_block, teacher
from typer.testing import CliRunner

from pipeline.cli import mteb as command
from pipeline.cli import mteb_tasks
from pipeline.cli.__main__ import app
from pipeline.core.fingerprint import of_json
from pipeline.data.common.texts import text_id
from pipeline.data.student import student_folder
from pipeline.export import export
from pipeline.params.evaluate import Probe
from pipeline.tasks import classification, retrieval, sts
from pipeline.tasks.embeddings import Embeddings
from pipeline.train.students.kinds import static

if find_spec("mteb") is None:
    pytest.skip("mteb, an extra, is not installed", allow_module_level=True)


@pytest.fixture
def folder(tmp_path, monkeypatch, parts):
    """A project with the hashing teacher, a student, and a file of tasks; no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    YAML().dump(small_params(teacher={"kind": "hashing", "dim": TEACHER_DIM}), Path("params.yaml"))
    student_folder.write(static.build(static_block(), parts), "tiny", Path("data/finetuned/tiny"))
    Path("mine.py").write_text(TASKS)
    Path("sts.py").write_text(STS)
    Path("data.json").write_text(json.dumps(local_data()))
    return tmp_path


def run(*args):
    return CliRunner().invoke(app, ["mteb", *args], catch_exceptions=False)


def written(name):
    return json.loads(Path(f"reports/mteb/{name}.json").read_text())


def test_local_tasks_give_mtebs_figures_which_are_our_own_too(folder, monkeypatch):
    monkeypatch.setitem(classification.HEADS, "linear", (classification.linear, (1.0,)))
    result = run("--define", "mine.py")
    assert result.exit_code == 0, result.stderr
    header, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert header == ["task", "teacher", "tiny"]
    categories = ["Classification", "Retrieval", "STS"]
    assert [row[0] for row in rows] == [*SCORES, "average", *categories, "average of categories"]
    scores = {name: task["main_score"] for name, task in written("teacher")["tasks"].items()}
    assert scores == pytest.approx(ours(local_data()), abs=1e-5)
    assert float(rows[0][1]) == pytest.approx(scores["LocalSTS"], abs=1e-4)
    assert written("teacher")["tasks"]["LocalSTS"]["scores"]["test"]["default"] == scores["LocalSTS"]
    tiny = [task["main_score"] for task in written("tiny")["tasks"].values()]
    assert written("tiny")["average"] == pytest.approx(np.mean(tiny), rel=1e-4)
    assert tiny != list(scores.values())
    each = {name.removeprefix("Local"): task["main_score"] for name, task in written("tiny")["tasks"].items()}
    assert written("tiny")["categories"] == each  # which have one task each


def ours(data):
    """The same data and the teacher's vectors by our own evaluation."""
    rows = data["corpus"] + data["queries"]
    sides = [data["sts"]["sentence1"], data["sts"]["sentence2"]]
    labelled = [data["train"]["text"], data["test"]["text"]]
    texts = {row["text"] for row in rows} | {text for some in sides + labelled for text in some}
    texts = sorted(texts, key=text_id)
    embeddings = Embeddings(np.array([text_id(text) for text in texts], np.uint64), encoded(texts))
    left, right = (pl.Series([text_id(text) for text in side], dtype=pl.UInt64) for side in sides)
    pairs = pl.DataFrame(
        {"left_id": left, "right_id": right, "score": data["sts"]["score"], "subset": ["x"] * len(left)}
    )
    by_id = {row["id"]: text_id(row["text"]) for row in rows}
    judged = [(by_id[q], by_id[d], 1.0) for q, found in data["qrels"].items() for d in found]
    others = [(None, by_id[row["id"]], None) for row in data["corpus"]]
    schema = {"left_id": pl.UInt64, "right_id": pl.UInt64, "score": pl.Float64}
    found = retrieval.score(pl.DataFrame(judged + others, schema=schema, orient="row"), embeddings)
    return {
        "LocalSTS": sts.score(pairs, embeddings)["spearman"],
        "LocalRetrieval": found["ndcg@10"],
        "LocalClassification": classified_by_us(data, embeddings)["f1"],
    }


def classified_by_us(data, embeddings):
    """With the training rows as dev rows too: there is one setting to choose."""
    parts = [(part, data["train" if part == "dev" else part]) for part in ("train", "dev", "test")]
    rows = [
        (text_id(text), str(label), part)
        for part, found in parts
        for text, label in zip(found["text"], found["label"], strict=True)
    ]
    schema = {"left_id": pl.UInt64, "label": pl.String, "subset": pl.String}
    table = pl.DataFrame(rows, schema=schema, orient="row").with_columns(right_id=pl.lit(None, pl.UInt64))
    return classification.score(table, embeddings, Probe(head="linear", seeds=1))


def test_without_names_the_params_students_are_scored_and_all_of_another_folder(folder):
    shutil.copytree("data/finetuned/tiny", "data/finetuned/old")
    shutil.copytree("data/finetuned", "others")
    result = run("--define", "sts.py")
    assert result.stdout.splitlines()[0].split("\t") == ["task", "teacher", "tiny"]
    assert "only scored when named: old" in result.stderr
    result = run("--define", "sts.py", "--students", "others")
    assert result.stdout.splitlines()[0].split("\t") == ["task", "teacher", "old", "tiny"]
    assert "only scored when named" not in result.stderr


def test_what_is_kept_needs_no_model_until_the_student_changes(folder, monkeypatch):
    assert run("tiny", "--define", "sts.py").exit_code == 0
    before = written("tiny")
    real, opened = command.open_encoders, []
    monkeypatch.setattr(command, "open_encoders", lambda *args: opened.append(args) or real(*args))
    Path("reports/mteb/tiny.json").unlink()
    assert run("tiny", "--define", "sts.py").exit_code == 0
    assert (written("tiny"), opened) == (before, [])
    Path("data/finetuned/tiny/README.md").write_text("another")
    run("tiny", "--define", "sts.py")
    assert len(opened) == 1


def test_an_onnx_folder_scores_as_its_student_does(folder):
    student = Path("data/finetuned/tiny")
    export.write(student_folder.read(student, "x"), student, ["onnx"], Path("exported/onnx"), [])
    result = run("tiny", "exported/onnx", "--define", "sts.py")
    assert result.exit_code == 0, result.stderr
    scores = [[task["main_score"] for task in written(n)["tasks"].values()] for n in ("tiny", "onnx")]
    assert scores[1] == pytest.approx(scores[0], abs=1e-4)


def test_a_task_reads_other_data_when_asked_for_fresh_scores(folder):
    assert run("tiny", "--define", "sts.py").exit_code == 0
    before = written("tiny")
    data = local_data()
    data["sts"]["score"] = data["sts"]["score"][::-1]
    Path("data.json").write_text(json.dumps(data))
    assert run("tiny", "--define", "sts.py").exit_code == 0
    assert written("tiny") == before
    assert run("tiny", "--define", "sts.py", "--fresh").exit_code == 0
    after = written("tiny")
    assert after["tasks"]["LocalSTS"] != before["tasks"]["LocalSTS"]
    assert run("tiny", "--define", "sts.py").exit_code == 0
    assert written("tiny") == after


def test_subsets_that_are_kept_beside_those_asked_for_do_not_count(folder):
    Path("two.py").write_text(TWO_LANGUAGES)
    model, place = command._student("tiny", Path("data/finetuned"), "cpu"), Path("kept")

    def scored(*languages):
        (task,) = mteb_tasks.defined(Path("two.py"))
        return command._run(model, task.filter_languages([*languages]), place, fresh=False)

    english = scored("eng")
    both = scored("eng", "deu")
    assert [*both["scores"]["test"]] == ["en", "de"]
    assert both["main_score"] == pytest.approx(np.mean([*both["scores"]["test"].values()]), abs=1e-6)
    assert both["main_score"] != english["main_score"]
    assert scored("eng") == english


@pytest.mark.parametrize("file", ["LocalSTS.json", "run_settings.jsonl"])
def test_what_a_killed_run_left_half_written_is_scored_again(folder, file):
    assert run("tiny", "--define", "sts.py").exit_code == 0
    before = written("tiny")
    (half,) = Path(".cache/mteb").rglob(file)
    for left in {half, *Path(".cache/mteb").rglob("LocalSTS.json")}:
        left.write_text(left.read_text()[:90])
    result = run("tiny", "--define", "sts.py")
    assert (result.exit_code, written("tiny")) == (0, before)
    assert "holds of LocalSTS is damaged: it is scored again" in result.stderr


def test_two_models_of_one_name_are_refused_before_any_is_scored(folder):
    result = run("tiny", "data/finetuned/tiny", "--define", "sts.py")
    assert result.exit_code == 1
    assert "two models are called tiny" in result.stderr
    assert not Path("reports").exists()


def test_the_cache_lists_results_and_prunes_them_by_name_alone(folder):
    assert run("--define", "sts.py").exit_code == 0
    listed = CliRunner().invoke(app, ["cache", "list"]).stdout.splitlines()
    rows = [line.split("\t") for line in listed if "mteb results" in line]
    assert sorted(row[-1] for row in rows) == ["-", "tiny"]  # no vectors of the teacher are kept
    assert all(int(row[4]) > 1000 for row in rows)
    Path("data/finetuned/tiny/README.md").write_text("another")
    assert not CliRunner().invoke(app, ["cache", "prune"]).stdout
    names = [row[0] for row in rows]
    pruned = CliRunner().invoke(app, ["cache", "prune", *names]).stdout.splitlines()
    assert [line.split("\t")[1:3] for line in pruned] == [[name, "mteb results"] for name in names]
    assert not list(Path(".cache/mteb").rglob("*.json"))


def test_the_cache_names_the_teacher_of_results_whose_vectors_it_keeps(folder):
    assert run("teacher", "--define", "sts.py").exit_code == 0
    recipe = teacher().recipes["text"]
    kept = Path(".cache/vectors") / of_json(recipe)[:16]
    kept.mkdir(parents=True)
    (kept / "recipe.json").write_text(json.dumps(recipe))
    listed = CliRunner().invoke(app, ["cache", "list"]).stdout.splitlines()
    assert [line.split("\t")[-1] for line in listed if "mteb results" in line] == ["teacher"]


ABSTRACT = """
from mteb import AbsTask
class Base(AbsTask):
    pass
"""
BAD_FILES = {
    "a typing mistake": ("x = 1\ny = = 2\n", ("bad.py, line 2: SyntaxError: ",)),
    "a missing package": (
        "\n\nimport no_such_package\n",
        ("bad.py, line 3: ModuleNotFoundError: ", "no_such_package"),
    ),
    "only a base class": (ABSTRACT, ("bad.py ", "Base ", "_calculate_descriptive_stat")),
    "no metadata": (
        TASKS + "\n\nclass Bare(AbsTaskSTS):\n    pass\n",
        ("bad.py: Bare: AttributeError: ",),
    ),
    "an own constructor": (
        TASKS + "\n    def __init__(self):\n        super().__init__()\n        1 / 0\n",
        ("bad.py, line 53: LocalClassification: ZeroDivisionError: ",),
    ),
    "data of other names": (
        TASKS.replace('DATA["sts"]', 'DATA["pairs"]'),
        ("bad.py, line 28: ", "LocalSTS ", "KeyError: 'pairs'"),
    ),
}


@pytest.mark.parametrize("fault", BAD_FILES)
def test_a_mistake_in_a_file_of_tasks_is_told_with_its_line(folder, fault):
    content, named = BAD_FILES[fault]
    Path("bad.py").write_text(content)
    result = run("tiny", "--define", "bad.py")
    assert result.exit_code == 1
    assert [name for name in named if name not in result.stderr] == []
    assert "Traceback" not in result.output


def test_a_base_class_beside_tasks_is_no_task(folder):
    Path("sts.py").write_text(ABSTRACT + STS)
    assert run("tiny", "--define", "sts.py").exit_code == 0
    assert set(written("tiny")["tasks"]) == {"LocalSTS"}


def test_results_that_cannot_be_kept_are_no_fault_of_the_data(folder):
    Path(".cache").mkdir()
    Path(".cache/mteb").write_text("in the way")
    result = run("tiny", "--define", "sts.py")
    assert result.exit_code == 1
    assert ".cache/mteb" in result.stderr
    assert "cannot be written (Not a directory)" in result.stderr


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ([], ("--tasks, --benchmark or --define",)),
        (["--tasks", "Bogus"], ("task or benchmark", "'Bogus'")),
        (["--benchmark", "MTEB(eng, v9)"], ("task or benchmark", "MTEB(eng, v9)")),
        (["--define", "none.py"], ("none.py ", "name a Python file")),
        (["--define", "data"], ("data ", "folder", "name a Python file")),
        (["--define", "empty.py"], ("empty.py ", "task")),
        (["--tasks", "STS12"], ("data of STS12 ",)),
        (["tyny", "--define", "sts.py"], ("'tyny'",)),
        (["--students", "none", "--define", "sts.py"], (" none;", "--students")),
    ],
)
def test_faults(folder, args, named):
    Path("empty.py").write_text("from mteb import AbsTask\n")
    result = run(*args)
    assert result.exit_code == 1
    assert [name for name in named if name not in result.stderr] == []
    assert "Traceback" not in result.output
    assert not Path("reports").exists()


def test_without_the_extra(folder, monkeypatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    assert "`mteb` is not installed; run `pip install -e '.[mteb]'`" in run("--define", "sts.py").stderr
