from dataclasses import dataclass, field

import polars as pl
import pytest

from pipeline.train.loop import curves

NAN = float("nan")


@dataclass
class Point:
    step: int
    examples: int
    lr: float
    train_loss: float
    dev_value: float
    measures: dict[str, float] = field(default_factory=dict)
    precision: str = "float32"
    examples_per_second: float = NAN


POINTS = [Point(0, 0, 0.0, NAN, 2.0), Point(10, 1280, 5e-4, 1 / 3, 1.25, {}, "bfloat16", 123.456789)]


def read(path):
    return pl.read_csv(path, separator="\t")


def test_a_curve_has_one_line_an_evaluation(tmp_path):
    curves.write(POINTS, "dev_value", 1, tmp_path / "hpd.tsv")
    table = read(tmp_path / "hpd.tsv")
    last = ["precision", "examples_per_second"]
    assert table.columns == ["step", "examples", "lr", "train_loss", "dev_value", *last]
    assert table.rows() == [
        (0, 0, 0.0, None, 2.0, "float32", None),
        (10, 1280, 5e-4, pytest.approx(1 / 3, abs=1e-6), 1.25, "bfloat16", 123.457),
    ]


def test_a_score_that_was_maximised_is_written_as_it_was_reported(tmp_path):
    points = [Point(0, 0, 0.0, 1.0, -0.75, {"kernel_inputs": -0.5}, "float32", 7.0)]
    curves.write(points, "dev_score", -1, tmp_path / "hpd.tsv")
    table = read(tmp_path / "hpd.tsv")
    assert table["dev_score"].to_list() == [0.75]
    assert table["kernel_inputs"].to_list() == [-0.5]


def test_measures_have_columns_in_the_order_of_their_names(tmp_path):
    points = [
        Point(0, 0, 0.0, NAN, 2.0),
        Point(1, 8, 0.1, 1.0, 1.5, {"loss_mse": 0.25, "kernel_inputs": 0.5}),
        Point(2, 16, 0.1, 1.0, 1.0, {"loss_mse": 0.125}, "float32", 9.0),
    ]
    curves.write(points, "dev_value", 1, tmp_path / "hpd.tsv")
    table = read(tmp_path / "hpd.tsv")
    assert table.columns[4:] == ["dev_value", "kernel_inputs", "loss_mse", "precision", "examples_per_second"]
    assert table["kernel_inputs"].to_list() == [None, 0.5, None]
    assert table["loss_mse"].to_list() == [None, 0.25, 0.125]
    assert table["examples_per_second"].to_list() == [None, None, 9.0]


def test_no_evaluations_leave_the_header(tmp_path):
    curves.write([], "dev_score", -1, tmp_path / "hpd.tsv")
    expected = "step\texamples\tlr\ttrain_loss\tdev_score\tprecision\texamples_per_second\n"
    assert (tmp_path / "hpd.tsv").read_text() == expected
