import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refuses
from ruamel.yaml import YAML
from scipy import stats
from small_params import small_params
from small_students import static_block

from pipeline.data.common.files import metrics
from pipeline.params.evaluate import PairClassificationTask
from pipeline.score.evaluation import items
from pipeline.score.significance import significance
from pipeline.score.statistics import examined
from pipeline.tasks import pairs
from pipeline.tasks import scoring as tasks
from pipeline.tasks.embeddings import Embeddings

RNG = np.random.default_rng(0)
TEACHER = RNG.normal(size=(300, 12))
TEACHER[150:] = TEACHER[:150] + RNG.normal(size=(150, 12))
NOISE = RNG.normal(size=(300, 12))
VECTORS = {
    "teacher": TEACHER,
    "good": TEACHER + 0.1 * NOISE,
    "bad": TEACHER + 3 * NOISE,
    "worse": TEACHER + 9 * NOISE,
}
IDS = np.arange(1, 301, dtype=np.uint64)
LEFT, RIGHT = range(1, 151), range(151, 301)
GOLD = np.einsum("nd,nd->n", TEACHER[:150], TEACHER[150:]) + RNG.normal(size=150)
PROBE = PairClassificationTask.model_validate(
    {"kind": "pair_classification", "train": "a", "test": "b", "head": "linear"}
)
SCORING = {"close": "sts", "find": "retrieval", "alike": PROBE}
MAIN = {"close": "spearman", "find": "mrr@10", "alike": PROBE.metric}
TASKS = {
    "close": pairs.make("close", "test", {"left_id": LEFT, "right_id": RIGHT, "score": GOLD}),
    "find": pairs.make("find", "test", {"left_id": LEFT, "right_id": RIGHT, "score": [1.0] * 150}),
    "alike": pairs.make(
        "alike",
        "test",
        {
            "left_id": LEFT,
            "right_id": RIGHT,
            "label": ["0" if score < np.median(GOLD) else "1" for score in GOLD],
            "subset": ["train"] * 70 + ["dev"] * 20 + ["test"] * 60,
        },
    ),
}


def write(name, model, rows=TASKS):
    """What evaluate writes of a student whose vectors are those of `model`."""
    embeddings = {"teacher": Embeddings(IDS, TEACHER), "finetuned": Embeddings(IDS, VECTORS[model])}
    scoring = {task: SCORING[task] for task in rows}
    scored = {one: items.score_tasks(rows, scoring, found) for one, found in embeddings.items()}
    scores = {one: found for one, (found, _) in scored.items()}
    main = {task: MAIN[task] for task in rows}
    document = {
        "student": name,
        "kind": "static",
        "dim": 12,
        "dims": {},
        "builtin": [],
        "main": main,
        "averaged": tasks.averaged(main),
        "scores": scores,
        "average": {one: tasks.average(found, main) for one, found in scores.items()},
    }
    metrics.write(document, Path(f"metrics/{name}.json"))
    parts = [of_items.with_columns(pl.lit(one).alias("model")) for one, (_, of_items) in scored.items()]
    eye = dict.fromkeys(examined.MODELS, np.eye(2))
    examined.write(pl.concat(parts), {}, eye, Path(f"examined/{name}"))
    return document


@pytest.fixture
def scored(folder):
    """Two students in the working folder, the worse one first."""
    return write_students("bad", "good")


def write_students(*names):
    block = static_block().model_dump(mode="json")
    settings = {"samples": 400, "confidence": 0.9}
    document = small_params(students=dict.fromkeys(names, block), significance=settings)
    YAML().dump(document, Path("params.yaml"))
    return {name: write(name, name) for name in names}


def run():
    significance.main(Path("examined"), Path("metrics"), Path("out.json"))
    return json.loads(Path("out.json").read_text())


def test_every_score_has_an_interval_around_it(scored):
    found = run()
    assert (found["samples"], found["confidence"]) == (400, 0.9)
    assert set(found["intervals"]) == {"teacher", "bad", "good"}
    for name, intervals in found["intervals"].items():
        assert set(intervals) == {*TASKS, "average", "kept"}
        document = scored["bad" if name == "teacher" else name]
        model = "teacher" if name == "teacher" else "finetuned"
        of_teacher = document["scores"]["teacher"]
        expected = {
            task: document["scores"][model][task][metric] for task, metric in document["main"].items()
        }
        expected["kept"] = np.mean(
            [expected[task] / of_teacher[task][metric] for task, metric in document["main"].items()]
        )
        expected["average"] = document["average"][model]
        for task, (low, high) in intervals.items():
            assert low - 1e-6 <= expected[task] <= high + 1e-6
            assert 0 < high - low < 0.4 or (name, task) == ("teacher", "kept") or expected[task] > 0.99
    assert found["intervals"]["teacher"]["kept"] == [1, 1]


def test_every_metric_has_an_interval_around_it(scored):
    found = run()
    for name, tasks_of in found["metrics"].items():
        document = scored["bad" if name == "teacher" else name]
        main, scores = document["main"], document["scores"]["teacher" if name == "teacher" else "finetuned"]
        assert {task: found["intervals"][name][task] for task in main} == {
            task: tasks_of[task][metric] for task, metric in main.items()
        }
        assert set(tasks_of["close"]) == {"spearman", "spearman_mean", "pearson"}
        assert set(tasks_of["alike"]) == {"accuracy", "f1"}
        assert {"ndcg@10", "recall@1", "recall@100"} < set(tasks_of["find"])
        for task, metrics_of in tasks_of.items():
            for metric, (low, high) in metrics_of.items():
                assert low - 1e-6 <= scores[task][metric] <= high + 1e-6
    assert set(found["metrics"]) == {"teacher", "bad", "good"}


def test_an_interval_is_scipys(scored):
    table = examined.read_scores(Path("examined/bad"), "bad").filter(task="close", model="finetuned")

    def spearman(value, gold):
        return stats.spearmanr(value, gold).statistic

    how = {"paired": True, "vectorized": False, "n_resamples": 400, "method": "percentile", "rng": 0}
    data = (table["value"].to_numpy(), table["gold"].to_numpy())
    expected = stats.bootstrap(data, spearman, confidence_level=0.9, **how)
    assert run()["intervals"]["bad"]["close"] == pytest.approx(
        [*expected.confidence_interval], abs=0.3 * expected.standard_error
    )


def test_students_are_compared_with_the_teacher_and_the_runner_up(scored):
    tests = {(one["student"], one["other"], one["task"]): one for one in run()["paired"]}
    compared = [("bad", "teacher"), ("good", "teacher"), ("good", "bad")]
    assert list(tests) == [(*models, task) for models in compared for task in (*sorted(TASKS), "average")]
    for (student, other, task), one in tests.items():
        model = "teacher" if other == "teacher" else "finetuned"
        mine, theirs = scored[student], scored[student if other == "teacher" else other]
        expected = mine["average"]["finetuned"] - theirs["average"][model]
        if task != "average":
            metric = mine["main"][task]
            expected = mine["scores"]["finetuned"][task][metric] - theirs["scores"][model][task][metric]
        assert one["difference"] == pytest.approx(expected, abs=1e-5)
        assert one["low"] <= one["difference"] <= one["high"]
    worse = tests["bad", "teacher", "average"]
    assert (worse["p"], worse["high"] < 0) == (pytest.approx(2 / 401, rel=1e-4), True)
    assert tests["good", "bad", "average"]["low"] > 0
    assert tests["good", "teacher", "close"]["p"] > 0.01


def test_the_best_student_is_compared_with_all_others(folder):
    write_students("bad", "good", "worse")
    compared = {(one["student"], one["other"]) for one in run()["paired"]}
    assert compared == {
        *((name, "teacher") for name in ("bad", "good", "worse")),
        *(("good", other) for other in ("bad", "worse")),
        ("bad", "worse"),
    }


def test_a_student_with_the_teachers_vectors_differs_by_nothing(scored):
    write("good", "teacher")
    rows = [one for one in run()["paired"] if (one["student"], one["other"]) == ("good", "teacher")]
    assert {(one["difference"], one["low"], one["high"], one["p"]) for one in rows} == {(0, 0, 0, 1)}


def test_equal_inputs_give_equal_bytes_and_another_seed_others(scored):
    run()
    first = Path("out.json").read_bytes()
    run()
    assert Path("out.json").read_bytes() == first
    document = YAML().load(Path("params.yaml"))
    document["significance"]["seed"] = 1
    YAML().dump(document, Path("params.yaml"))
    run()
    assert Path("out.json").read_bytes() != first


def test_students_that_were_scored_on_other_items(scored):
    write("good", "good", {**TASKS, "close": TASKS["close"][:-1]})
    with refuses("bad and good", "same test items", "`dvc repro -f evaluate@bad evaluate@good`"):
        run()


def test_items_of_other_tasks_than_the_metrics(scored):
    document = metrics.read(Path("metrics/good.json"), "evaluate")
    write("good", "good", {"close": TASKS["close"]})
    metrics.write(document, Path("metrics/good.json"))
    with refuses("good", "alike, find;", "`dvc repro -f evaluate@good`"):
        run()


def test_metrics_of_another_run_than_the_items(scored):
    document = metrics.read(Path("metrics/good.json"), "evaluate")
    document["scores"]["finetuned"]["find"]["mrr@10"] -= 0.01
    metrics.write(document, Path("metrics/good.json"))
    with refuses("find of good", "`dvc repro -f evaluate@good`"):
        run()


def test_metrics_of_another_form(scored):
    Path("metrics/good.json").write_text('{"main": {"close": 1}, "scores": {}}')
    with refuses("metrics/good.json", "main.close:", "`dvc repro -f evaluate@good`"):
        run()
