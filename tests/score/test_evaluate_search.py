"""Indexes, student queries among teacher documents, and fewer bytes: evaluate and search_speed on files."""

import json
import shutil
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from evaluate_runs import prepare_and_encode
from project import sentence
from refusals import refuses
from ruamel.yaml import YAML
from small_disk import disk_of
from small_params import small_params
from small_students import TEACHER_DIM, static_block, teacher

from pipeline.core import kept_rows, seal
from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.score.evaluation import evaluate, items
from pipeline.score.search import search_speed, search_times
from pipeline.tasks import pairs, retrieval
from pipeline.tasks.embeddings import Embeddings
from pipeline.train.students.kinds import static

INDEXES = [{"kind": "flat"}, {"kind": "ivf", "nlist": 2, "nprobe": 2}, {"kind": "hnsw", "m": 8}]
DIM = 8


@pytest.fixture
def prepared(folder, parts):
    """Everything before evaluate, in the working folder; the student is as it starts."""
    Path("texts.csv").write_text("\n".join(["text", *(sentence(29 * number) for number in range(60))]))
    found = [(sentence(20_000 + 3 * n), sentence(20_000 + 3 * n + n % 5 * 300), 5 - n % 5) for n in range(40)]
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in found)]
    Path("alike.tsv").write_text("\n".join(lines))
    documents = [{"_id": f"d{n}", "text": sentence(30_000 + 7 * n)} for n in range(90)]
    queries = [{"_id": f"q{n}", "text": sentence(30_000 + 7 * n + 4913)} for n in range(12)]
    Path("find/qrels").mkdir(parents=True)
    for name, rows in (("corpus", documents), ("queries", queries)):
        Path(f"find/{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    qrels = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(12))]
    Path("find/qrels/test.tsv").write_text("\n".join(qrels))
    write_params()
    prepare_and_encode()
    student_folder.write(static.build(static_block(dim=DIM), parts), "tiny", Path("students/tiny"))


def write_params(train=None, *, find=True, **evaluate_block):
    tasks = {"alike": {"kind": "sts", "path": "alike.tsv"}}
    if find:
        tasks["find"] = {"kind": "retrieval", "path": "find", "metric": "ndcg@10"}
    block = static_block(dim=DIM, train={"regularise": None, **(train or {})}).model_dump(mode="json")
    document = small_params(
        teacher={"kind": "hashing", "dim": TEACHER_DIM},
        evaluate={"tasks": tasks, "indexes": INDEXES, **evaluate_block},
        students={"tiny": block},
        footprint={"rounds": 2, "threads": 1},
    )
    YAML().dump(document, Path("params.yaml"))


def run(states=(Path("students/tiny"),) * 3):
    inputs = [Path(name) for name in ("tasks.parquet", "eval.parquet", "vectors")]
    outs = (Path("out.json"), Path("examined"))
    told = (*inputs, "sentence", Path("pca"), *states, *outs)
    evaluate.main("tiny", *told, corpus=Path("corpus.parquet"))
    return json.loads(Path("out.json").read_text())


def time():
    inputs = [Path(name) for name in ("tasks.parquet", "eval.parquet", "vectors")]
    search_speed.main(*inputs, "sentence", Path("students"), Path("search.json"))
    return json.loads(Path("search.json").read_text())


def test_the_metrics_say_what_indexes_bytes_and_the_teachers_documents_cost(prepared, parts):
    metrics = run()
    table = texts.read_labelled(Path("eval.parquet"))
    ids, sentences = table["text_id"].to_numpy(), table["text"].to_list()
    full = teacher().encode(sentences, ["sentence"])["sentence"].astype(np.float16).astype(np.float32)
    own = student_folder.read(Path("students/tiny"), "").encode(sentences)
    rows = pairs.read(Path("tasks.parquet")).filter(task="find")
    expected = {
        "teacher": retrieval.score(rows, Embeddings(ids, full)),
        "finetuned": retrieval.score(rows, Embeddings(ids, own)),
    }
    names = ("mrr@10", "recall@10", "ndcg@10")
    found = {(row["model"], row["index"]): row for row in metrics["indexes"]}
    assert set(found) == {(model, spec["kind"]) for model in expected for spec in INDEXES}
    for (model, index), row in found.items():
        assert (row["task"], row["documents"], row["exact@10"]) == ("find", 90, 1), index
        assert row["dim"] == (TEACHER_DIM if model == "teacher" else DIM)
        # Flat, looking into all lists, and a graph of so few: all are exact.
        assert [row[name] for name in names] == pytest.approx([expected[model][n] for n in names], rel=1e-5)

    queries = np.isin(ids, rows["left_id"].drop_nulls().to_numpy())
    mixed = Embeddings(ids, np.where(queries[:, None], own, full[:, :DIM]))
    across = retrieval.score(rows, mixed)
    assert metrics["asymmetric"] == {"find": pytest.approx({name: across[name] for name in names}, rel=1e-5)}
    assert metrics["asymmetric_left_out"] is None

    whole = next(cell for cell in metrics["budget"] if cell["type"] == "float32")
    assert metrics["main"] == {"alike": "spearman", "find": "ndcg@10"}
    headlines = {task: metrics["scores"]["finetuned"][task][main] for task, main in metrics["main"].items()}
    # Unit vectors of float32: two cosines that are equal but for rounding may change places.
    assert whole["scores"] == pytest.approx(headlines, abs=1e-3)
    assert [cell["type"] for cell in metrics["budget"]] == ["float32", "float16", "int8", "binary"]
    assert metrics["budget_left_out"] == []


def test_a_student_in_a_space_of_its_own_is_left_out_and_that_is_said(prepared, capsys):
    write_params({"regularise": {"pca": True, "sif": None}})
    metrics = run()
    assert metrics["asymmetric"] == {}
    assert "rotates" in metrics["asymmetric_left_out"]
    assert "no student queries among the teacher's documents: train.regularise" in capsys.readouterr().err


def test_what_is_switched_off_is_not_there(prepared, capsys):
    write_params(indexes=[], budget=None)
    metrics = run()
    assert (metrics["indexes"], metrics["budget"]) == ([], [])
    assert metrics["budget_left_out"] == ["alike", "find"]
    assert time().items() >= {"rounds": 2, "threads": 1, "searches": []}.items()
    assert "evaluate.indexes is empty; nothing is measured" in capsys.readouterr().err


def test_speeds_are_of_the_teacher_and_all_students(prepared):
    timed = time()
    assert (timed["rounds"], timed["threads"]) == (2, 1)
    found = [(row["index"], row["model"], row["dim"]) for row in timed["searches"]]
    models = (("teacher", TEACHER_DIM), ("tiny", DIM))
    assert found == [(spec["kind"], *model) for spec in INDEXES for model in models]
    scored = {(row["index"], row["model"]): row for row in run()["indexes"]}
    for row in timed["searches"]:
        assert row["ms_per_1000_queries"] > 0
        same = scored[row["index"], "finetuned" if row["model"] == "tiny" else "teacher"]
        settings = {"task", "documents", "dim", "nlist", "nprobe", "m", "ef_construction", "ef_search"}
        assert {key: row[key] for key in row if key in settings} == {
            key: same[key] for key in same if key in settings
        }


def test_without_a_retrieval_task_nothing_is_measured_and_that_is_said(prepared, capsys):
    rows = pairs.read(Path("tasks.parquet")).filter(task="alike")
    pairs.write(rows, Path("tasks.parquet"))
    write_params(find=False)
    assert time()["searches"] == []
    assert "no test task is a retrieval task; nothing is measured" in capsys.readouterr().err
    metrics = run()
    assert (metrics["indexes"], metrics["asymmetric"]) == ([], {})
    assert set(metrics["budget"][0]["scores"]) == {"alike"}


def test_a_student_that_is_missing_ends_with_one_message(prepared):
    (Path("students/tiny") / "modules.json").unlink()
    with refuses("students/tiny", "modules.json", "`dvc repro finetune@tiny`"):
        time()
    assert not Path("search.json").exists()


@pytest.mark.parametrize("stage", [run, time])
def test_vectors_lie_in_the_cache_until_the_stage_ends_and_on_a_full_disk_nothing_half_written(
    prepared, stage
):
    stage()
    assert [*Path(".cache/training").iterdir()] == []
    with refuses(".cache/training/.partial-", ".bin cannot be written (File too large)"), disk_of(9000):
        stage()
    assert not [*Path(".cache/training").rglob(".partial-*")]
    assert {path.suffix for path in Path(".cache/training").iterdir()} == {"", ".lock"}  # for the next run
    stage()
    assert [*Path(".cache/training").iterdir()] == []


@pytest.mark.parametrize("how", ["dot", "euclidean"])
def test_a_teachers_own_similarity_scores_it_and_is_in_the_metrics(prepared, how):
    before = run()
    assert "similarity" not in before
    manifest = Path("vectors/sentence/manifest.json")
    manifest.write_text(seal.to_json({**seal.read_json(manifest, "encode"), "similarity": how}))
    metrics = run()
    assert metrics["similarity"] == {"teacher": how, "finetuned": "cosine"}
    assert metrics["scores"]["finetuned"] == before["scores"]["finetuned"]
    # The hashing teacher's vectors have length 1: all functions rank them alike.
    assert metrics["scores"]["teacher"]["find"] == pytest.approx(before["scores"]["teacher"]["find"])
    alike = [one["scores"]["teacher"]["alike"]["spearman"] for one in (before, metrics)]
    assert alike[1] == pytest.approx(alike[0], abs=1e-2)  # float16 breaks ties
    assert {row["model"] for row in time()["searches"]} == {"teacher", "tiny"}


class Killed(BaseException):
    """A kill, after which files alone are left."""


def whole(*outs):
    """The content of files and folders."""
    files = [file for out in map(Path, outs) for file in (out, *out.rglob("*")) if file.is_file()]
    return {str(file): file.read_bytes() for file in sorted(files)}


@pytest.fixture
def counted(monkeypatch):
    """How many texts students encode, by whose vectors they are."""
    texts_of, made = Counter(), kept_rows.made

    def counting(label, unit, file, all_rows, blocks, make, *told):
        def counted_block(block):
            texts_of[label.split()[0]] += len(block)
            return make(block)

        return made(label, unit, file, all_rows, blocks, counted_block, *told)

    monkeypatch.setattr(kept_rows, "made", counting)
    return texts_of


def killed(run, call, at, monkeypatch):
    """Run, and be killed by the `at`-th call of a module's function."""
    module, name = call
    calls, function = count(1), getattr(module, name)

    def killing(*args, **named):
        if next(calls) == at:
            raise Killed
        return function(*args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(module, name, killing)
        with pytest.raises(Killed):
            run()


def write_student(folder, parts, scale):
    learner = static.build(static_block(dim=DIM), parts)
    with torch.no_grad():
        for weights in learner.module.parameters():
            weights.mul_(scale)
    student_folder.write(learner, "tiny", folder)


@pytest.mark.parametrize(("at", "left"), [(3, {"distilled", "untrained"}), (5, set())])
def test_evaluate_encodes_no_student_again_that_a_killed_run_has_encoded(
    prepared, parts, monkeypatch, counted, at, left
):
    states = [Path("untrained/tiny"), Path("distilled/tiny"), Path("students/tiny")]
    for scale, folder in enumerate(states, 2):
        write_student(folder, parts, scale)
    run(states)
    expected, all_texts = whole("out.json", "examined"), dict(counted)
    assert set(all_texts) == {"untrained", "distilled", "students"}
    # Scored are the teacher, its principal components, then the students.
    killed(lambda: run(states), (items, "score_tasks"), at, monkeypatch)
    shutil.rmtree("examined")
    counted.clear()
    run(states)
    assert dict(counted) == {state: all_texts[state] for state in left}
    assert whole("out.json", "examined") == expected
    assert list(Path(".cache/training").iterdir()) == []


def test_search_speed_encodes_no_student_again_that_a_killed_run_has_encoded(prepared, monkeypatch, counted):
    killed(time, (search_times, "_time"), 1, monkeypatch)
    assert counted.pop("students") > 0
    found = time()
    assert not counted
    assert {row["model"] for row in found["searches"]} == {"teacher", "tiny"}
    assert list(Path(".cache/training").iterdir()) == []


@pytest.mark.parametrize("stage", [run, time])
def test_vectors_of_another_student_are_not_taken(prepared, parts, monkeypatch, counted, stage):
    call = (items, "score_tasks") if stage is run else (search_times, "_time")
    killed(stage, call, 1, monkeypatch)
    before = dict(counted)
    write_student(Path("students/tiny"), parts, 2)
    counted.clear()
    stage()
    assert dict(counted) == before
    assert list(Path(".cache/training").iterdir()) == []
