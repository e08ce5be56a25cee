import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pipeline.artifacts import texts, vectors
from pipeline.core.errors import UserError
from pipeline.stages.encode import main

PARAMS = """
teacher: {kind: hashing, dim: 8}
corpus: {sources: [{kind: files, path: none.txt}]}
augment: {wordnet: {enabled: false}}
encode: {views: [sentence], shard_rows: 8}
pca: {}
footprint: {}
finetune: {data: {}}
students:
  tiny:
    kind: static
    view: sentence
    dim: 8
    init: {}
    loss: {kind: cosine}
    train: {epochs: 1, batch_size: 8, lr: 0.1}
    finetune: null
evaluate: {tasks: {related: {kind: wordnet_relatedness}}}
"""
KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.stages.encode import main
from pipeline.teachers.hashing import Hashing
encode, calls = Hashing.encode, []
def killed(self, texts, views):
    calls.append(texts)
    if len(calls) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return encode(self, texts, views)
Hashing.encode = killed
main(texts_file=Path("seed.parquet"), out=Path("vectors/seed"))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with a hundred texts."""
    rows = [(texts.text_id(text), text) for text in map("text {}".format, range(100))]
    table = pl.DataFrame(rows, schema=texts.LABELLED_SCHEMA, orient="row")
    texts.write(table, texts.LABELLED_SCHEMA, tmp_path / "seed.parquet")
    (tmp_path / "params.yaml").write_text(PARAMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def encode(capsys):
    """Run the stage to its end; what it says, and what it publishes."""
    main(texts_file=Path("seed.parquet"), out=Path("vectors/seed"))
    published = {path.name: path.read_bytes() for path in Path("vectors/seed").iterdir()}
    return capsys.readouterr().err, published


def test_a_killed_encode_leaves_no_set_and_goes_on_where_it_stopped(folder, capsys):
    assert subprocess.run([sys.executable, "-c", KILLED, "5"], capture_output=True).returncode == -9
    with pytest.raises(UserError, match="run `dvc repro encode@seed`"):
        vectors.open_set(folder / "vectors" / "seed")
    kept = sum(len(pl.read_parquet(path)) for path in (folder / ".cache").rglob("*.parquet"))
    assert 0 < kept < 100

    said, published = encode(capsys)
    assert f"encode seed: {100 - kept} encoded, {kept} taken from the store" in said
    vector_set = vectors.open_set(folder / "vectors" / "seed")
    assert len(published) == 1 + 16
    assert len(vector_set.read("sentence")[0]) == vector_set.rows == 100

    (folder / ".cache").rename(folder / "old")
    said, again = encode(capsys)
    assert "100 encoded, 0 taken" in said
    assert again == published
