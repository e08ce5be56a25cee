"""What the report says of classifiers."""

from pipeline.report.classifiers import classifiers
from pipeline.report.inputs import ClassifierMetrics


def one(accuracy=0.9, **changes):
    block = {"task": "sst2", "metric": "accuracy", "student": "sra", "start": "finetuned", "kd": False}
    scores = {"accuracy": accuracy, "f1": accuracy - 0.1, "spread": 0.01}
    given = {**block, "scores": scores, "parameters_without_embeddings": 1234, **changes}
    return ClassifierMetrics.model_validate(given)


def column(found, name, task=0):
    measures = found.tables[task][1]
    at = measures.models.index(name)
    return {row: values[at] for row, _, values in measures.rows}


def test_gained_is_over_the_same_student_from_its_untrained_start():
    kd = {"kd": True, "alpha": 0.0}
    found = classifiers(
        {
            "plain": one(0.8, start="untrained"),
            "distilled": one(0.85),
            "plain_kd": one(0.86, start="untrained", **kd, task_teacher={"accuracy": 0.9, "f1": 0.9}),
            "distilled_kd": one(0.87, **kd),
            "other": one(0.99, student="hpd"),
        }
    )
    assert [column(found, name)["gained"] for name in found.tables[0][1].models] == [
        "–",
        "+0.0500",
        "–",
        "+0.0100",
        "–",
    ]
    assert column(found, "plain_kd")["learned from"] == "KD"
    assert column(found, "plain")["learned from"] == "labels"
    assert column(found, "plain")["parameters"] == "1,234"


def test_what_it_learned_from_and_how_it_reads_pairs_are_told():
    model = {"teacher": {"model": "bert-base"}}
    ways = {
        "tuned": {"kd": model, "read": "together"},
        "patient": {"kd": {**model, "patience": {"weight": 1.0}}, "read": "together"},
        "softened": {"kd": {"distance": "kl"}},
    }
    taught = {"kd": True, "alpha": 0.5, "task_teacher": {"accuracy": 0.9, "f1": 0.9}}
    found = classifiers({name: one(settings=way, **taught) for name, way in ways.items()})
    told = {name: column(found, name) for name in ways}
    assert told["tuned"]["learned from"] == "labels, KD (bert-base, fine-tuned)"
    assert told["patient"]["learned from"] == "labels, PKD (bert-base, fine-tuned)"
    assert told["softened"]["learned from"] == "labels, KD"
    assert [told[name]["reads pairs"] for name in ways] == ["together", "together", "–"]
    assert told["tuned"]["task teacher"] == "0.900"


def test_nothing_is_gained_over_another_training():
    longer = {"epochs": 10.0, "hidden": 256}
    found = classifiers(
        {
            "short": one(0.8, start="untrained", settings={**longer, "epochs": 3.0}),
            "distilled": one(0.85, settings=longer),
            "more_texts": one(0.85, settings=longer, transfer_rows=10),
            "long": one(0.82, start="untrained", settings=longer),
        }
    )
    assert column(found, "distilled")["gained"] == "+0.0300"
    assert column(found, "more_texts")["gained"] == "–"


def test_tasks_are_told_apart_and_rows_without_values_left_out():
    found = classifiers(
        {"a": one(), "b": one(task="mrpc", metric="f1", seeds=3)}, {"c": "no layers; name others"}
    )
    assert [task for task, _ in found.tables] == ["sst2", "mrpc"]
    assert "untuned" not in column(found, "a")
    assert "±" in column(found, "b", 1)["f1"]
    assert "±" not in column(found, "b", 1)["accuracy"]
    assert found.refused == ("no layers; name others",)


def test_pairs_untuned_beside_the_teachers_own():
    untuned = {"accuracy": 0.61, "f1": 0.6, "threshold": 0.5}
    taught = {"accuracy": 0.651, "f1": 0.644, "threshold": 0.7}
    found = classifiers({"a": one(untuned=untuned, untuned_teacher=taught), "b": one(untuned=untuned)})
    assert (column(found, "a")["untuned"], column(found, "a")["untuned teacher"]) == (
        "0.610, 0.600",
        "0.651, 0.644",
    )
    assert column(found, "b")["untuned teacher"] == "–"


def test_the_learning_curve_over_shares_of_the_rows():
    scores = {
        "accuracy@20%": 0.7,
        "f1@20%": 0.5,
        "accuracy@50%": 0.8,
        "f1@50%": 0.6,
        "accuracy": 0.9,
        "f1": 0.7,
    }
    found = classifiers({"a": one(scores={**scores, "spread": 0.0})})
    assert column(found, "a")["by share"] == "20%: 0.700, 50%: 0.800"


def test_the_sources_of_learning():
    found = classifiers({"a": one(kd=True, alpha=0.5, transfer_rows=1000)})
    assert column(found, "a")["learned from"] == "labels, KD, TS (1,000 rows)"
