from dataclasses import dataclass

import polars as pl
import pytest

from pipeline.artifacts import curves


@dataclass
class Point:
    step: int
    sentences: int
    lr: float
    train_loss: float
    dev_value: float


POINTS = [Point(0, 0, 0.0, float("nan"), 2.0), Point(10, 1280, 5e-4, 1 / 3, 1.25)]


def read(path):
    return pl.read_csv(path, separator="\t")


def test_a_curve_has_one_line_an_evaluation(tmp_path):
    curves.write(POINTS, "dev_loss", 1, tmp_path / "hpd.tsv")
    table = read(tmp_path / "hpd.tsv")
    assert table.columns == ["step", "sentences", "lr", "train_loss", "dev_loss"]
    assert table.rows() == [(0, 0, 0.0, None, 2.0), (10, 1280, 5e-4, pytest.approx(1 / 3, abs=1e-6), 1.25)]


def test_a_score_that_was_maximised_is_written_as_it_was_reported(tmp_path):
    points = [Point(0, 0, 0.0, 1.0, -0.75)]
    curves.write(points, "dev_score", -1, tmp_path / "hpd.tsv")
    assert read(tmp_path / "hpd.tsv")["dev_score"].to_list() == [0.75]


def test_no_evaluations_leave_the_header(tmp_path):
    curves.write([], "dev_score", -1, tmp_path / "hpd.tsv")
    assert (tmp_path / "hpd.tsv").read_text() == "step\tsentences\tlr\ttrain_loss\tdev_score\n"
