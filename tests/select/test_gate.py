import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_corpus import DEV, SYNONYMS, TRAIN, teacher_vectors, write_augmented, write_corpus, write_vectors
from small_disk import disk_of
from small_params import small_params

from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.select.gating.gate import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_evaluated(tmp_path, ["A text of a task."])
    return write_corpus(tmp_path)


def write_evaluated(folder, sentences):
    ids = pl.Series(list(map(text_id, sentences)), dtype=pl.UInt64)
    table = pl.DataFrame({"text_id": ids, "text": sentences})
    texts.write(table, texts.LABELLED_SCHEMA, folder / "eval.parquet")


def gate(folder, method="wordnet", **gates):
    """The kept texts, the sample and the metrics."""
    block = gates or None
    runtime = {"cache": str(folder / "cache")}
    params = small_params(gate={"wordnet": block, "back_translation": None}, runtime=runtime)
    YAML().dump(params, folder / "params.yaml")
    out = run(folder, method)
    found = (pl.read_parquet(out / name) for name in ("gated.parquet", "sample.parquet"))
    return *found, json.loads((out / "gate.json").read_text())


def run(folder, method="wordnet"):
    """The stage alone, with the params that are there; the folder of what it writes."""
    out = folder / "out"
    main(
        method,
        augmented=folder / "wordnet.parquet",
        corpus=folder / "corpus.parquet",
        eval_texts=folder / "eval.parquet",
        method_vectors=folder / "wordnet",
        corpus_vectors=folder / "corpus",
        out=out / "gated.parquet",
        sample=out / "sample.parquet",
        metrics_file=out / "gate.json",
        params_file=folder / "params.yaml",
    )
    return out


def cosines():
    """Of every synonym to its parent, by text_id."""
    [parent], made = teacher_vectors(TRAIN[:1]).astype(float), teacher_vectors(SYNONYMS).astype(float)
    found = made @ parent / ((made**2).sum(axis=1) * (parent**2).sum()) ** 0.5
    return dict(sorted(zip(map(text_id, SYNONYMS), found, strict=True)))


def test_texts_far_from_their_parents_are_dropped_and_counted(folder):
    known = sorted(cosines().values())
    low, high = (known[0] + known[1]) / 2, (known[3] + known[4]) / 2
    kept, sample, metrics = gate(folder, min_similarity=float(low), max_similarity=float(high))
    assert dict(kept.schema) == texts.GATED_SCHEMA
    expected = {key: value for key, value in cosines().items() if low < value < high}
    assert len(expected) == 3
    assert kept["text_id"].to_list() == list(expected)
    assert kept["similarity"].to_list() == pytest.approx(list(expected.values()), abs=1e-3)
    assert set(kept["method"]) == {"wordnet"}
    assert (metrics["rows_in"], metrics["rows_out"]) == (5, 3)
    assert metrics["dropped"] == {"too_different": 1, "too_similar": 1}
    assert metrics["similarity"]["mean"] == pytest.approx(sum(known) / 5, abs=1e-3)
    assert metrics["similarity"]["mean_kept"] == pytest.approx(sum(known[1:4]) / 3, abs=1e-3)
    names = [metrics["similarity"][name] for name in ("min", "p25", "p50", "p75", "max")]
    assert names == pytest.approx(known, abs=1e-3)
    assert sample["dropped"].to_list() == ["too_different", None, None, None, "too_similar"]
    assert set(sample["parent"]) == {TRAIN[0]}
    assert not list((folder / "cache").rglob("*.bin"))


def test_a_full_disk_is_told_and_leaves_nothing(folder):
    gate(folder, min_similarity=0.5)
    with disk_of(0), refuses(folder / "cache/gate", "parents.bin", "File too large"):
        run(folder)
    assert list((folder / "cache/gate").iterdir()) == []


def test_null_keeps_all_and_looks_at_no_vector(folder):
    for text_set in ("corpus", "wordnet"):
        shutil.rmtree(folder / text_set)
    kept, sample, metrics = gate(folder)
    assert sorted(kept["text"]) == sorted(SYNONYMS)
    assert kept["similarity"].null_count() == len(sample) == 5
    assert metrics == {"rows_in": 5, "rows_out": 5, "dropped": {}, "seal": metrics["seal"]}


def test_an_empty_set_needs_no_view_of_sentences(folder):
    # Params allow that where the method is not enabled.
    write_augmented(folder, [])
    for text_set in ("corpus", "wordnet"):
        (folder / text_set / "sentence").rename(folder / text_set / "cls")
    kept, sample, metrics = gate(folder, min_similarity=0.5)
    assert len(kept) == len(sample) == metrics["rows_out"] == 0


def test_an_empty_set(folder):
    write_augmented(folder, [])
    write_vectors(folder / "wordnet", [], recipe="one", cuts=())
    for shard in folder.glob("corpus/sentence/*.parquet"):
        shard.unlink()  # of no text, no parent is looked at
    kept, sample, metrics = gate(folder, min_similarity=0.5)
    assert dict(kept.schema) == texts.GATED_SCHEMA
    assert len(kept) == len(sample) == metrics["rows_out"] == 0


def test_two_runs_make_the_same_bytes(folder):
    def made():
        gate(folder, min_similarity=0.2)
        return {path.name: path.read_bytes() for path in (folder / "out").iterdir()}

    assert made() == made() != {}


def test_vectors_without_the_view(folder):
    (folder / "corpus/sentence").rename(folder / "corpus/cls")
    with refuses(folder / "corpus", "'sentence'", "(cls)", "encode.views"):
        gate(folder, min_similarity=0.5)


def test_vectors_of_another_teacher(folder):
    write_vectors(folder / "corpus", TRAIN + DEV, recipe="two")
    with refuses(folder / "corpus/sentence", folder / "wordnet/sentence", "`dvc repro encode`"):
        gate(folder, min_similarity=0.5)


def test_an_unknown_method_names_those_there_are(folder):
    with refuses("'wordnett'", "`gate:`", folder / "params.yaml", " wordnet,"):
        gate(folder, method="wordnett")


def test_a_text_of_a_task_is_dropped_whatever_its_similarity(folder):
    """But for case, accents and punctuation; also where no similarity is asked for."""
    write_evaluated(folder, [SYNONYMS[0].upper() + "!", "another"])
    for gates in ({}, {"min_similarity": -1.0}):
        kept, _, metrics = gate(folder, **gates)
        assert SYNONYMS[0] not in kept["text"]
        assert metrics["dropped"] == {"evaluation_text": 1}
        assert metrics["rows_out"] == len(kept) == len(SYNONYMS) - 1
