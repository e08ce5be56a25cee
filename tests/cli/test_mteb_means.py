"""Means of categories, as MTEB's leaderboard has them."""

from importlib.util import find_spec

import polars as pl
import pytest

from pipeline.cli import mteb as command
from pipeline.cli import mteb_tasks

if find_spec("mteb") is None:
    pytest.skip("mteb, an extra, is not installed", allow_module_level=True)


def test_averages_of_categories_are_those_of_mtebs_leaderboard():
    from mteb.benchmarks._create_table import _create_summary_table

    names = ("STS12", "STS13", "STS14", "SciFact", "Banking77Classification", "ImdbClassification")
    scores = dict(zip(names, (0.5, 0.75, 0.1, 0.9, 0.3, 0.6), strict=True))
    columns = {"task_name": names, "score": [*scores.values()]}
    constant = {"model_name": "sentence-transformers/all-MiniLM-L6-v2", "split": "test", "subset": "default"}
    frame = pl.DataFrame(columns).with_columns(pl.lit(v).alias(k) for k, v in constant.items())
    wanted = _create_summary_table(frame).df.row(0, named=True)
    categories = {one: mteb_tasks.listed(one, None)[0].metadata.type for one in names}
    found = command._averages(scores, categories)
    assert found["average"] == pytest.approx(wanted["Mean (Task)"])
    assert found["average_of_categories"] == pytest.approx(wanted["Mean (TaskType)"])
    assert found["average_of_categories"] != pytest.approx(found["average"])
    assert found["categories"] == {name: pytest.approx(wanted[name]) for name in set(categories.values())}


def test_a_category_with_a_score_that_is_no_number_has_no_average():
    found = command._averages({"a": 0.5, "b": None, "c": 0.25}, {"a": "STS", "b": "STS", "c": "Reranking"})
    assert found["categories"] == {"STS": None, "Reranking": 0.25}
    assert (found["average"], found["average_of_categories"]) == (None, None)
