"""Prompts of queries and documents, and a model's own similarity, in `pipeline mteb`."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from local_mteb import TASKS
from local_mteb_data import local_data
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer
from small_params import small_params
from small_students import transformer_block
from typer.testing import CliRunner

from pipeline.cli.__main__ import app
from pipeline.data.student import student_folder
from pipeline.tasks import retrieval
from pipeline.tasks.embeddings import Embeddings
from pipeline.train.students.kinds import transformer

if find_spec("mteb") is None:
    pytest.skip("mteb, an extra, is not installed", allow_module_level=True)

PROMPTS = {"query": "zz qq: ", "document": "a cat sat on "}
STUDENT = Path("data/finetuned/tiny")


def scores(*names):
    result = CliRunner().invoke(app, ["mteb", *names, "--define", "mine.py"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    files = (Path(f"reports/mteb/{name}.json") for name in names)
    return [json.loads(file.read_text())["tasks"]["LocalRetrieval"]["main_score"] for file in files]


def by_our_own(data, similarity, encode_query, encode_document):
    """The same search by our own evaluation."""
    ids = {row["id"]: number for number, row in enumerate(data["corpus"] + data["queries"])}
    vectors = [
        encode_document([row["text"] for row in data["corpus"]]),
        encode_query([row["text"] for row in data["queries"]]),
    ]
    embeddings = Embeddings(np.arange(len(ids), dtype=np.uint64), np.concatenate(vectors), similarity)
    judged = [
        (ids[query], ids[document], 1.0) for query, found in data["qrels"].items() for document in found
    ]
    others = [(None, ids[row["id"]], None) for row in data["corpus"]]
    schema = {"left_id": pl.UInt64, "right_id": pl.UInt64, "score": pl.Float64}
    table = pl.DataFrame(judged + others, schema=schema, orient="row")
    return retrieval.score(table, embeddings)["ndcg@10"]


@pytest.mark.parametrize(
    ("prompts", "similarity"), [(PROMPTS, "cosine"), ({}, "dot"), (PROMPTS, "euclidean"), ({}, "manhattan")]
)
def test_a_model_is_searched_with_its_prompts_and_its_similarity(
    tmp_path, monkeypatch, parts, prompts, similarity
):
    monkeypatch.chdir(tmp_path)
    student = transformer.build(transformer_block(), parts)
    student_folder.write(student, "tiny", STUDENT, prompts, similarity, unit=False)
    teacher = {"kind": "transformer", "model": str(STUDENT)}
    YAML().dump(small_params(teacher=teacher), Path("params.yaml"))
    Path("mine.py").write_text(TASKS)
    data = local_data()
    Path("data.json").write_text(json.dumps(data))
    model = SentenceTransformer(str(STUDENT), device="cpu")
    expected = by_our_own(data, similarity, model.encode_query, model.encode_document)
    assert scores("teacher", "tiny") == pytest.approx([expected] * 2, abs=1e-5)
    assert expected != pytest.approx(by_our_own(data, "cosine", model.encode, model.encode), abs=1e-3)
