"""The figure of learning curves: which trainings its lines are of."""

import importlib
from xml.etree import ElementTree

import pytest


@pytest.fixture
def learning_curves(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    return importlib.import_module("learning_curves")


def row(model, sts, retrieval):
    return {"model": model, "kept_sts": sts, "kept_retrieval": retrieval}


ROWS = [
    row("teacher", 100.0, 100.0),
    row("potion_541k_1", 90.0, 70.0),
    row("potion_541k_4", 92.0, 73.0),
    row("potion_270k_8", 91.5, 72.0),
    row("potion_68k_32", 91.0, 69.0),
    row("compact_541k_0_2", 98.0, 90.0),
    row("compact_68k_1_6", 97.0, 85.0),
    row("compact_541k_0_05", 96.0, 80.0),
]


def test_lines_by_texts_have_trainings_of_one_length_and_lines_by_steps_those_on_all_texts(learning_curves):
    found = learning_curves.trainings(reversed(ROWS))
    by_texts = {
        line.name: (line.steps, line.values) for line in learning_curves.by_texts(found, "kept_retrieval")
    }
    assert by_texts == {
        "compact": ((68.0, 541.0), (85.0, 90.0)),
        "potion": ((68.0, 270.0, 541.0), (69.0, 72.0, 73.0)),
    }
    lines = learning_curves.by_steps(found, "kept_sts")
    assert {line.name: line.values for line in lines} == {"compact": (96.0, 98.0), "potion": (90.0, 92.0)}
    steps = [line.steps for line in lines]  # millions of texts
    assert steps == [pytest.approx((0.02705, 0.1082)), pytest.approx((0.541, 2.164))]


def test_the_figure_names_every_student_in_each_panel(learning_curves, monkeypatch, tmp_path):
    monkeypatch.setattr(learning_curves, "earlier", lambda *_: ({row["model"]: row for row in ROWS}, []))
    monkeypatch.setattr(learning_curves, "FIGURE", tmp_path / "curves.svg")
    learning_curves.main()
    texts = [*ElementTree.fromstring(learning_curves.FIGURE.read_text()).itertext()]
    assert [texts.count(name) for name in ("compact", "potion", "compact_2m")] == [4, 4, 0]
    assert {"similarity kept, by texts", "retrieval kept, by steps"} <= set(texts)


def test_without_results_the_command_that_makes_them_is_named(learning_curves, monkeypatch):
    monkeypatch.setattr(learning_curves, "earlier", lambda *_: ({}, []))
    with pytest.raises(SystemExit, match=r"quality\.py curves"):
        learning_curves.main()
