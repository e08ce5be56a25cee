import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encode_runs import OUT, encode, write_params
from published_sets import write_set
from refusals import refuses
from ruamel.yaml import YAML
from sklearn.decomposition import PCA

from pipeline.data.common import texts
from pipeline.select import fit_pca
from pipeline.vectors.sets import published
from pipeline.vectors.space import pca

ROWS = 300


def run(max_rows=None):
    params = YAML(typ="safe").load(Path("params.yaml"))
    params["pca"]["max_rows"] = max_rows
    YAML().dump(params, Path("params.yaml"))
    fit_pca.main(Path("corpus.parquet"), OUT, Path("pca"), Path("pca.json"))
    return json.loads(Path("pca.json").read_text())


@pytest.fixture
def corpus(folder):
    """Texts in several shards, every tenth of which is for dev."""
    write_params()
    lines = [f"text {number}" for number in range(ROWS)]
    splits = ["dev" if number % 10 == 0 else "train" for number in range(ROWS)]
    table = pl.DataFrame(
        {
            "text_id": pl.Series([texts.text_id(line) for line in lines], dtype=pl.UInt64),
            "text": lines,
            "role": ["text"] * ROWS,
            "source": ["here"] * ROWS,
            "split": splits,
        }
    )
    texts.write(table.select(*texts.CORPUS_SCHEMA), texts.CORPUS_SCHEMA, Path("corpus.parquet"))
    encode()
    return texts.read_corpus(Path("corpus.parquet"))


@pytest.mark.parametrize("max_rows", [None, 1000, 40])
def test_it_is_of_the_first_training_texts(corpus, max_rows):
    told = run(max_rows)
    first = corpus.filter(pl.col("split") == "train")["text_id"].to_numpy()[:max_rows]
    assert told["rows"] == len(first) == min(270, max_rows or 270)
    for view in ("sentence", "cls"):
        ids, found = published.open_set(OUT).read(view)
        reference = PCA(svd_solver="full").fit(found[np.isin(ids, first)].astype(np.float64))
        fitted = pca.read(Path("pca"), view)
        np.testing.assert_allclose(fitted.explained_variance, reference.explained_variance_, rtol=1e-4)


def test_a_training_text_without_a_vector_is_named(corpus):
    changed = texts.text_id("one more")
    row = (changed, "one more", "text", "here", "train")
    more = pl.DataFrame([row], schema=texts.CORPUS_SCHEMA, orient="row")
    texts.write(pl.concat([corpus, more]), texts.CORPUS_SCHEMA, Path("corpus.parquet"))
    with refuses(OUT, "1 texts", f"text_id {changed})", "`dvc repro -f encode@corpus`"):
        run()


def test_equal_vectors_have_no_shares(corpus):
    """`distill` names such a view where a student reads it."""
    found = published.open_set(OUT)
    same = {view: np.ones((ROWS, 64), np.float16) for view in found.dims}
    folder = Path("same")
    write_set(folder, np.sort(corpus["text_id"].to_numpy()), same, [ROWS // 2])
    fit_pca.main(Path("corpus.parquet"), folder, Path("pca"), Path("pca.json"))
    told = json.loads(Path("pca.json").read_text())
    assert (told["rows"], told["sentence"], told["cls"]) == (270, {}, {})
