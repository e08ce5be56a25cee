import json

import numpy as np
import pytest
from refusals import refuses

from pipeline.data.common.files import metrics


def test_metrics_are_sorted_and_rounded_to_six_digits(tmp_path):
    written = {
        "b": {"y": 123456.789, "x": np.float64(1 / 3)},
        "a": [1e-9 / 3, 1234567],
        "c": (True, None, "s"),
    }
    metrics.write(written, tmp_path / "m.json")
    shown = json.loads((tmp_path / "m.json").read_text())
    assert list(shown) == ["a", "b", "c", "seal"]
    assert list(shown["b"].items()) == [("x", 0.333333), ("y", 123457.0)]
    assert (shown["a"], shown["c"]) == ([3.33333e-10, 1234567], [True, None, "s"])
    assert metrics.read(tmp_path / "m.json", "evaluate")["b"]["x"] == 0.333333


def test_the_order_of_the_keys_does_not_change_the_bytes(tmp_path):
    for name, keys in (("a", "xyz"), ("b", "zxy")):
        metrics.write(dict.fromkeys(keys, 1.5), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_refused_and_the_old_file_stays(tmp_path, value):
    metrics.write({"a": 1}, tmp_path / "m.json")
    with pytest.raises(ValueError, match=str(value)):
        metrics.write({"a": {"b": [value]}}, tmp_path / "m.json")
    assert metrics.read(tmp_path / "m.json", "evaluate") == {"a": 1}


def test_a_missing_file_names_its_stage(tmp_path):
    with refuses(tmp_path / "m.json", "`dvc repro footprint`"):
        metrics.read(tmp_path / "m.json", "footprint")


def test_a_broken_file_names_its_stage(tmp_path):
    (tmp_path / "m.json").write_text('{"a": 1')
    with refuses(tmp_path / "m.json", "JSON", "`dvc repro -f footprint`"):
        metrics.read(tmp_path / "m.json", "footprint")
