"""What benchmarks/quality.py makes of its files and of what runs left behind."""

import gzip
import importlib
import json
import sys

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save_file

from pipeline.prepare.readers.beir import read_beir

SMALL = {"train": {"lr": 1.0}, "finetune": None}
TUNED = {"train": {"lr": 1.0}, "finetune": {"lr": 2.0}}


@pytest.fixture
def quality(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    return importlib.import_module("quality")


def test_a_file_of_several_documents_is_as_many_runs(quality, tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "corpus: {a: 1}\nstudents: {x: {dim: 1}}\n---\ncorpus: {a: 2}\n---\nstudents: {y: {}, z: x}\n"
    )
    assert quality.documents(path) == [
        {"corpus": {"a": 1}, "students": {"x": {"dim": 1}}},
        {"corpus": {"a": 2}, "students": {"x": {"dim": 1}}},
        {"corpus": {"a": 1}, "students": {"y": {}, "z": {"dim": 1}}},
    ]


def test_a_student_that_the_first_run_lacks_is_told(quality, tmp_path):
    (tmp_path / "sweep.yaml").write_text("students: {x: {}}\n---\nstudents: {y: z}\n")
    with pytest.raises(SystemExit, match=r"sweep\.yaml: .* z; .* x$"):
        quality.documents(tmp_path / "sweep.yaml")


def test_without_students_a_file_has_those_of_params(quality, repository, tmp_path):
    (tmp_path / "sweep.yaml").write_text("corpus: {}\n")
    assert list(quality.documents(tmp_path / "sweep.yaml")[0]["students"]) == list(
        quality.YAML(typ="safe").load(repository / "params.yaml")["students"]
    )


def test_seeds_are_of_training_and_fine_tuning_and_become_means_with_spreads(quality):
    students = quality.seeded({"a": SMALL, "b": TUNED}, 3)
    again = quality.with_seed(SMALL, 1)
    assert list(quality.seeded({"a": SMALL, "again": again}, 3)) == ["a", "a_seed1", "a_seed2"]
    assert list(students) == ["a", "a_seed1", "a_seed2", "b", "b_seed1", "b_seed2"]
    assert quality.seeded({"a": SMALL}, 1) == {"a": SMALL}
    assert students["a"] == SMALL, "more seeds train the first one no second time"
    assert quality.with_seed(again, 0) == SMALL
    assert students["b_seed2"] == {"train": {"lr": 1.0, "seed": 2}, "finetune": {"lr": 2.0, "seed": 2}}
    values = np.array([[50.0, 51.0, 54.0], [60.0, 60.0, 63.0]])
    rows = [{"model": "teacher", "sick": 80.0}]
    rows += [
        {"model": name, "sick": value} for name, value in zip(students, values.ravel().tolist(), strict=True)
    ]
    teacher, *found = quality.over_seeds(rows, students)
    assert teacher["model"] == "teacher"
    assert [(row["model"], row["seeds"]) for row in found] == [("a", 3), ("b", 3)]
    np.testing.assert_allclose([row["sick"] for row in found], values.mean(axis=1))
    np.testing.assert_allclose([row["sick sd"] for row in found], values.std(axis=1, ddof=1))
    table = quality.markdown(quality.aligned([teacher, *found])).splitlines()
    assert table[0] == "| model | seeds | sick |"
    assert table[3] == "| a | 3 | 51.7 ± 2.1 |"


def test_a_row_tells_scores_costs_and_what_is_kept(quality, tmp_path):
    for folder in ("reports/metrics", "reports/stages", "data/timings", "data/finetuned/a"):
        (tmp_path / folder).mkdir(parents=True)
    found = {"stsb": {"spearman": 0.8}, "find": {"mrr@10": 0.5, "ndcg@10": 0.4}}
    less = {"stsb": {"spearman": 0.6}, "find": {"mrr@10": 0.3, "ndcg@10": 0.3}}
    told = {
        "main": {"stsb": "spearman", "find": "ndcg@10"},
        "averaged": ["stsb", "find"],
        "scores": {"teacher": found, "distilled": less, "finetuned": found},
    }
    (tmp_path / "reports/metrics/a.json").write_text(json.dumps(told))
    (tmp_path / "reports/stages/distill_a.json").write_text('{"steps": 7}')
    for stage in ("distill", "finetune"):
        (tmp_path / f"data/timings/{stage}_a.json").write_text('{"seconds": 90}')
    save_file({"w": np.zeros((500, 1000), np.float32)}, tmp_path / "data/finetuned/a/model.safetensors")
    tasks = {"stsb": {"kind": "sts"}, "find": {"kind": "retrieval"}}
    teacher, row = quality.rows(tmp_path, {"students": {"a": TUNED}, "evaluate": {"tasks": tasks}})
    scores = {"stsb": 80.0, "find": 40.0, "find_mrr10": 50.0}
    kept = {"kept_sts": 100.0, "kept_retrieval": 100.0}
    nothing = {"million_parameters": None, "minutes": None, "steps": None}
    assert teacher == {"model": "teacher", **nothing, **kept, **scores}
    cost = {"million_parameters": 0.5, "minutes": 3.0, "steps": 7}
    before = {f"{key}_before_finetuning": pytest.approx(75.0) for key in kept}
    assert row == {"model": "a", **cost, **kept, **scores, **before}


def test_the_retrieval_set_of_the_pairs_judges_all_positives_of_an_anchor(quality, tmp_path):
    pairs = pl.DataFrame(
        [(f"anchor {row // 2}", f"positive {row}") for row in range(12_000)],
        schema=["anchor", "positive"],
        orient="row",
    )
    importlib.import_module("slices").pair_retrieval(pairs, tmp_path)
    found = read_beir(tmp_path, "test")
    assert (len(found.queries), len(found.documents)) == (1000, 10_000)
    judged = pl.read_csv(tmp_path / "qrels" / "test.tsv", separator="\t")
    assert judged.group_by("query-id").len()["len"].unique().to_list() == [2]


def test_a_corpus_is_without_the_sources_that_it_names(quality, tmp_path):
    slices = importlib.import_module("slices")
    for name, lines in (("sentences", "one\ntwo\nthree\n"), ("sources", "a\nb\na\n")):
        with gzip.open(tmp_path / f"{name}.txt.gz", "wt") as file:
            file.write(lines)
    slices.sentences_without(tmp_path, ("b",), tmp_path / "kept.txt")
    assert (tmp_path / "kept.txt").read_text() == "one\nthree\n"
    with pytest.raises(SystemExit, match=r"sources\.txt\.gz .* c,"):
        slices.sentences_without(tmp_path, ("a", "c"), tmp_path / "kept.txt")


def test_an_unknown_student_is_told(quality, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["quality.py", "ten_minutes", "--students", "nobody"])
    with pytest.raises(SystemExit):
        quality.main()
    assert "ten_minutes has no student nobody; it has compact, " in capsys.readouterr().err


RUNS = """
teacher: {kind: transformer, model: an/id}
evaluate: {tasks: {stsb: {kind: sts}}}
runtime: {}
classifiers: {}
students: {a: {train: {}, finetune: null}, b: {train: {lr: 2}, finetune: null}}
---
corpus: {limit: 2}
students: {c: {train: {}, finetune: null}}
"""

XEON = {"cpu": "Intel(R) Xeon(R) Processor", "threads": 1}
EPYC = {"cpu": "AMD EPYC", "threads": 2}


@pytest.fixture
def sweep(quality, tmp_path, monkeypatch):
    """Runs a sweep of two documents whose students score what SCORES says."""
    scores = {"a": 50.0, "b": 60.0, "c": 70.0}
    path = tmp_path / "sweep.yaml"
    path.write_text(RUNS)
    monkeypatch.setattr(quality, "FILES", {"sweep": path})
    monkeypatch.setattr(quality, "RESULTS", tmp_path)
    laid_out: list[dict] = []
    monkeypatch.setattr(quality, "lay_out", lambda _, params, __: laid_out.append(params))
    monkeypatch.setattr(quality, "reproduce", lambda *_: None)
    monkeypatch.setattr(quality, "trained_in", lambda *_: "float32")

    def found(_: object, params: dict) -> list[dict]:
        return [{"model": "teacher", "stsb": 80.0}] + [
            {"model": name, "stsb": scores[name[0]] + len(name)} for name in params["students"]
        ]

    def written(name: str, rows: list[dict], command: str) -> None:
        (tmp_path / f"{name}.json").write_text(json.dumps({"command": command, "rows": rows}))

    monkeypatch.setattr(quality, "rows", found)
    monkeypatch.setattr(quality, "report", written)
    monkeypatch.setattr(quality, "machine", lambda: XEON)

    def run(*arguments: str) -> dict:
        monkeypatch.setattr(sys, "argv", ["quality.py", "sweep", *arguments])
        quality.main()
        return json.loads((tmp_path / "quality_sweep.json").read_text())

    run.laid_out = laid_out
    return run


def test_the_teacher_of_this_machine_makes_rows_of_the_file_s_settings(quality, sweep, tmp_path, capsys):
    sweep()
    there = tmp_path / "a teacher"
    told = sweep("--students", "a", "--bfloat16", "--teacher", str(there))
    assert sweep.laid_out[-1]["teacher"] == {
        "kind": "transformer",
        "model": str(there),
        "precision": "bfloat16",
    }
    assert sweep.laid_out[0]["teacher"] == {"kind": "transformer", "model": "an/id"}
    assert "other settings" not in capsys.readouterr().err
    _, a, b, _ = told["rows"]
    assert a["command"] == "python benchmarks/quality.py sweep --students a --bfloat16 --teacher FOLDER"
    assert (a["precision"], b["precision"]) == ("float32, the teacher's vectors too", "float32")


def test_runs_share_one_table(sweep):
    told = sweep()
    assert told["command"] == "python benchmarks/quality.py sweep"
    assert [row["model"] for row in told["rows"]] == ["teacher", "a", "b", "c"]


def test_some_students_join_the_rows_of_the_same_settings(quality, sweep, capsys):
    sweep("--students", "c", "a")
    assert [row["model"] for row in sweep("--students", "b")["rows"]] == ["teacher", "a", "b", "c"]
    quality.FILES["sweep"].write_text(RUNS.replace("limit: 2", "limit: 3"))
    capsys.readouterr()
    told = sweep("--students", "b", "--seeds", "2")
    assert "rows of other settings, which no table has: c\n" in capsys.readouterr().err
    assert [(row["model"], row["seeds"]) for row in told["rows"]] == [
        ("teacher", None),
        ("a", None),
        ("b", 2),
        ("c", None),
    ]
    assert told["rows"][2]["command"] == "python benchmarks/quality.py sweep --students b --seeds 2"
    assert told["rows"][0]["command"] is None  # the teacher comes with any of them
    sweep("--table")
    table = capsys.readouterr().out
    assert "| a | Intel Xeon | 1 |  | 51.0 |" in table
    assert "| c |" not in table


def test_a_row_says_what_it_ran_on_and_the_teacher_has_one_for_each_processor(quality, sweep, monkeypatch):
    sweep()
    monkeypatch.setattr(quality, "machine", lambda: EPYC)
    rows = sweep("--students", "b")["rows"]
    assert [(row["model"], row["cpu"], row["threads"]) for row in rows] == [
        ("teacher", XEON["cpu"], 1),
        ("teacher", "AMD EPYC", 2),
        ("a", XEON["cpu"], 1),
        ("b", "AMD EPYC", 2),
        ("c", XEON["cpu"], 1),
    ]
    monkeypatch.setattr(quality, "machine", lambda: EPYC | {"threads": 1})
    assert len(sweep("--students", "a")["rows"]) == 5, "threads change no row of the teacher"


def test_a_call_that_ends_meanwhile_keeps_its_rows(quality, sweep, monkeypatch):
    def reproduce(_: object, stages: list[str]) -> None:
        if stages == ["evaluate@b"]:
            sweep("--students", "a")

    monkeypatch.setattr(quality, "reproduce", reproduce)
    assert [row["model"] for row in sweep("--students", "b")["rows"]] == ["teacher", "a", "b"]


def test_classifiers_are_rows_of_their_own(quality, tmp_path):
    rows = importlib.import_module("quality_classifiers").classifier_rows
    scores = {"accuracy": 0.8, "f1": 0.75, "spread": 0.01, "train": 90}
    told = {"task": "mrpc", "start": "distilled", "kd": True, "metric": "f1", "scores": scores, "seeds": 3}
    told |= {"transfer_rows": 0, "task_teacher": {"accuracy": 0.9, "f1": 0.85}, "lr": 0.001}
    told |= {"settings": {"epochs": 3.0}}
    told |= {"parameters_without_embeddings": 12}
    for part, content in (("reports/stages", told), ("data/timings", {"seconds": 90})):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "classify_one.json").write_text(json.dumps(content))
    [row] = rows(tmp_path, {"classifiers": {"one": {}}})
    assert (row["accuracy"], row["f1"], row["sd"]) == (80.0, 75.0, 1.0)
    assert (row["teacher"], row["minutes"], row["epochs"]) == (85.0, 1.5, 3)


def test_no_training_is_no_run(sweep, capsys):
    with pytest.raises(SystemExit):
        sweep("--seeds", "0")
    assert "--seeds is 0; a student is trained once at least" in capsys.readouterr().err


def test_what_cannot_be_told_apart_or_was_not_run_is_told(quality, sweep, capsys):
    with pytest.raises(SystemExit):
        sweep("--table")
    assert "sweep has no results of its present settings; run it without --table" in capsys.readouterr().err
    quality.FILES["sweep"].write_text(RUNS.replace("{c:", "{a:"))
    with pytest.raises(SystemExit):
        sweep()
    assert "two runs of sweep have a student a; name each of them once" in capsys.readouterr().err


def test_data_that_is_not_there_and_a_run_that_fails_are_told(quality, sweep, monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        sweep("--data", "none")
    assert "there is no folder none; --data names the one" in capsys.readouterr().err
    monkeypatch.undo()
    with pytest.raises(SystemExit, match=rf"`dvc repro` .*{tmp_path}"):
        quality.reproduce(tmp_path, ["a"])


def test_the_precision_of_a_row_is_that_of_the_curve(quality, tmp_path):
    curves = tmp_path / "reports/curves"
    curves.mkdir(parents=True)
    lines = ["step\tlr\tprecision", *(f"{step}\t0\tbfloat16" for step in range(200)), "200\t1e-3\tfloat32"]
    (curves / "a.tsv").write_text("\n".join(lines))
    assert quality.trained_in(tmp_path, "a") == "float32"
