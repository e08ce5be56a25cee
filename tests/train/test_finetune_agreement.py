"""Fine-tuning whose weights are chosen by agreement with the teacher, without a dev task."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from finetune_runs import finetune, finetune_params, write_inputs
from project import sentence
from refusals import refuses
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer
from sklearn.neighbors import NearestNeighbors
from small_corpus import teacher_vectors, write_vectors

from pipeline.core import seal
from pipeline.data.common import texts
from pipeline.train.loop.checkpoint import Checkpoint

FOUND = [sentence(31 * number) for number in range(160)]
of = Checkpoint.of
INPUTS = {"corpus": Path("corpus.parquet"), "corpus_vectors": Path("vectors/corpus")}


@pytest.fixture
def prepared(folder, parts):
    """Inputs without a dev task, and a corpus of 120 dev texts."""
    write_inputs("transformer", finetune_params(select="agreement"), parts)
    document = YAML().load(Path("params.yaml"))
    document["evaluate"]["tasks"] = {}
    YAML().dump(document, Path("params.yaml"))
    write_corpus(120)
    write_vectors(Path("vectors/corpus"), FOUND, "a recipe", cuts=(50,))


def write_corpus(dev):
    columns = {"text_id": texts.text_ids(FOUND), "text": FOUND, "source": "mine"}
    split = pl.when(pl.int_range(pl.len()) < dev).then(pl.lit("dev")).otherwise(pl.lit("train"))
    table = pl.DataFrame(columns).with_columns(split=split)
    texts.write(table, texts.CORPUS_SCHEMA, Path("corpus.parquet"))


def overlap(folder):
    """By scikit-learn, of a saved student."""
    dev = sorted(FOUND[:120])
    own = SentenceTransformer(folder, device="cpu").encode(dev)
    sides = []
    for vectors in (own, teacher_vectors(dev)):
        near = NearestNeighbors(n_neighbors=10, metric="cosine", algorithm="brute")
        sides.append(near.fit(vectors.astype(np.float64)).kneighbors(return_distance=False))
    return np.mean([len({*one} & {*other}) / 10 for one, other in zip(*sides, strict=True)])


def test_the_dev_score_is_the_overlap_with_the_teacher(prepared):
    finetune(**INPUTS)
    metrics = seal.read_json(Path("metrics.json"), "finetune")
    assert metrics["dev_before"] == pytest.approx(overlap("distilled"), abs=2e-3)
    assert metrics["dev_after"] == pytest.approx(overlap("out"), abs=2e-3)
    assert metrics["dev_after"] >= metrics["dev_before"] > 0
    assert len(pl.read_csv("curve.tsv", separator="\t")) >= 3


def test_too_few_dev_texts_end_with_the_fix(prepared):
    write_corpus(30)
    with refuses("students.tiny.finetune.select", "30 texts", "corpus.dev_fraction"):
        finetune(**INPUTS)


@pytest.mark.parametrize("changed", [Path("vectors/corpus"), Path("vectors/finetune")])
def test_an_interrupted_run_goes_on_with_the_vectors_that_it_began_with(folder, parts, monkeypatch, changed):
    """Each set of vectors has a manifest.json."""
    write_inputs(
        "transformer", finetune_params(select="agreement", loss="cosines"), parts, mine={"negatives": 0}
    )
    write_corpus(120)
    labelled = texts.read_labelled(Path("finetune.parquet"))["text"].to_list()
    write_vectors(Path("vectors/corpus"), FOUND, "a recipe", cuts=(50,))
    write_vectors(Path("vectors/finetune"), labelled, "a recipe", cuts=())
    begun = []
    monkeypatch.setattr(
        Checkpoint,
        "of",
        lambda cache, name, **identity: begun.append(identity) or of(cache, name, **identity),
    )
    for recipe in ("a recipe", "another"):
        write_vectors(changed, FOUND if changed.name == "corpus" else labelled, recipe, cuts=())
        finetune(**INPUTS, finetune_vectors=Path("vectors/finetune"))
    assert begun[0] != begun[1]
