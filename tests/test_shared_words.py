"""Sets of words and tables to join as they are, beside scipy and PEARL's own way of counting."""

import tarfile

import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr, spearmanr

from pipeline.params.evaluate import Evaluate
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import HashingTeacher
from pipeline.prepare.tasks import evaluation
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.scoring import score_tasks, split_of
from pipeline.tasks.subtasks import one_by_one
from pipeline.teacher.kinds import hashing

ROWS = {"WordSim353": 315, "MEN": 2938, "VERB143": 144, "BiRD_half1": 1455}
TABLES = ("Galaxy", "Reptile", "Artwork")


@pytest.fixture(scope="module")
def encode():
    teacher = hashing.load(HashingTeacher(kind="hashing", dim=64), Runtime())
    return lambda texts: teacher.encode(list(texts), ["sentence"])["sentence"]


def scores(block, encode):
    tasks = one_by_one(Evaluate.model_validate({"tasks": {"mine": block}}).tasks)
    found = evaluation(tasks, None)
    table = found.texts.sort("text_id")
    embeddings = Embeddings(table["text_id"].to_numpy(), encode(table["text"]))
    return score_tasks(split_of(found.pairs, "test"), {"mine": tasks["mine"].scoring}, embeddings)["mine"]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("name", ROWS)
def test_a_set_of_words_scores_as_scipy_says(shared_data, encode, name):
    path = shared_data / f"words/{name}.parquet"
    table = pl.read_parquet(path)
    sides = [unit(encode(table[side]).astype(np.float64)) for side in ("sentence1", "sentence2")]
    cosines = np.einsum("nd,nd->n", *sides)
    found = scores({"kind": "word_similarity", "path": str(path)}, encode)
    assert found["pairs"] == ROWS[name] == len(table)
    # Scores are kept in single precision, in which no two of a set become equal.
    assert found["spearman"] == pytest.approx(spearmanr(cosines, table["score"]).statistic, abs=1e-6)
    assert found["pearson"] == pytest.approx(pearsonr(cosines, table["score"]).statistic, abs=1e-6)


def test_tables_are_joined_as_pearls_program_counts(shared_data, encode, tmp_path):
    with tarfile.open(shared_data / "words/autofj_dev.tar.gz") as archive:
        members = [one for one in archive.getmembers() if one.name.split("/")[0] in TABLES]
        archive.extractall(tmp_path, members, filter="data")
    found = scores({"kind": "fuzzy_join", "path": str(tmp_path)}, encode)
    expected = {name: accuracy(tmp_path / name, encode) for name in TABLES}
    assert {name: found[f"recall@1/{name}"] for name in TABLES} == pytest.approx(expected)
    assert found["recall@1"] == pytest.approx(np.mean([*expected.values()]))
    assert 0.1 < found["recall@1"] < 1


def accuracy(folder, encode):
    """Of each right title that has a match, whether the left title with the largest cosine is that match."""
    left, right, matches = (
        pl.read_csv(folder / f"{name}.csv", infer_schema=False) for name in ("left", "right", "gt")
    )
    wanted = dict(matches.select("title_r", "title_l").iter_rows())
    asked = [title for title in right["title"] if title in wanted]
    nearest = (unit(encode(asked)) @ unit(encode(left["title"])).T).argmax(axis=1)
    return np.mean(
        [left["title"][int(row)] == wanted[title] for title, row in zip(asked, nearest, strict=True)]
    )
