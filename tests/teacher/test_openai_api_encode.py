"""The stage `encode` with a teacher behind an API."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from embeddings_server import vectors as expected
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.data.common import texts
from pipeline.teacher.encoding.encode import main
from pipeline.vectors.sets import published

TEXTS = [f"this is text number {i}" for i in range(60)]


@pytest.fixture
def encode(server, tmp_path, monkeypatch):
    """Run the stage under these limits."""
    rows = [(texts.text_id(text), text, "text") for text in TEXTS]
    table = pl.DataFrame(rows, schema=texts.LABELLED_SCHEMA, orient="row")
    texts.write(table, texts.LABELLED_SCHEMA, tmp_path / "corpus.parquet")
    monkeypatch.chdir(tmp_path)
    teacher = {"kind": "openai_api", "url": server.url, "model": "tiny", "parts": "none"}

    def encode(**limits):
        params = small_params(
            teacher=teacher,
            encode={"views": ["sentence"], "shard_rows": 16},
            runtime={"device": "cpu", "api": {"texts_per_request": 3, "backoff_seconds": 0.01, **limits}},
        )
        YAML().dump(params, Path("params.yaml"))
        main(texts_file=Path("corpus.parquet"), out=Path("vectors/corpus"))

    return encode


def stored():
    ids = pl.concat(pl.read_parquet(path)["text_id"] for path in Path(".cache").rglob("*.parquet"))
    return {text for text in TEXTS if texts.text_id(text) in set(ids)}


def test_a_run_that_hits_a_cap_goes_on_with_the_texts_that_are_missing(encode, server):
    with refuses("runtime.api.max_requests", " 12:", " 12 requests"):
        encode(max_requests=12)
    assert not Path("vectors/corpus").exists()
    assert len(server.bodies) == 12
    first, server.bodies = server.texts, []
    kept = stored()
    assert len(kept) >= 16
    assert {"dimension", *kept} == set(first)

    encode()
    assert server.texts[0] == "dimension"
    assert sorted(server.texts[1:]) == sorted(set(TEXTS) - kept)
    ids, found = published.open_set(Path("vectors/corpus")).read("sentence")
    by_id = {texts.text_id(text): row for text, row in zip(TEXTS, expected(TEXTS), strict=True)}
    np.testing.assert_array_equal(found, np.array([by_id[i] for i in ids.tolist()], np.float16))


def test_nothing_is_asked_for_that_is_stored(encode, server, capsys):
    encode()
    requests = len(server.bodies) - 1
    assert f"60 texts take about {requests} requests and 360 tokens" in capsys.readouterr().err
    server.bodies = []
    encode()
    assert "0 texts take about 0 requests" in capsys.readouterr().err
    assert not server.bodies, "no key and no network is needed"
