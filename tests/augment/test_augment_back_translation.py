import json
import shutil
import sys
from itertools import chain
from pathlib import Path

import augment_runs
import polars as pl
import pytest
import small_translation
from augment_runs import OUT, SENTENCES, augment, run_slowly, stored, write_inputs
from killed import asked, kill_many, starter
from refusals import refuses

from pipeline.data.common import texts

KILLS = 4
DRAWN = {"kind": "sampling", "top_k": 5, "temperature": 2.0}
SEARCHED = {"kind": "beam", "size": 2}


@pytest.fixture
def pivot(translator):
    return [{"model": str(translator("en", "de"))}, {"model": str(translator("de", "en"))}]


@pytest.fixture
def start(folder, processes):
    return starter(processes, run_slowly, folder)


def test_new_texts_are_what_comes_back_changed(folder, pivot):
    write_inputs(pivot, SENTENCES[::3])
    augment()
    made = texts.read_augmented(OUT)
    parents = dict(pl.read_parquet("corpus.parquet").select("text_id", "text").iter_rows())
    assert len(made)
    for parent, text in made.select("parent_id", "text").iter_rows():
        assert text == small_translation.back(parents[parent]) != parents[parent]
    assert set(made["method"]) == {"back_translation"}
    metrics = json.loads(Path("augmented/metrics.json").read_text())
    assert metrics["texts_in"] == metrics["made"] == len(SENTENCES[::3])
    assert metrics["rows_out"] == len(made)


def test_disabled_needs_neither_models_nor_packages(folder, monkeypatch):
    for engine in (*augment_runs.ENGINES, "sentencepiece", "sacremoses", "nlpaug"):
        monkeypatch.setitem(sys.modules, engine, None)
    write_inputs([{"model": "none/a"}, {"model": "none/b"}], SENTENCES[:5], enabled=False)
    augment()
    assert texts.read_augmented(OUT).is_empty()


@pytest.mark.parametrize(("engine", "decoding"), [("ctranslate2", DRAWN), ("nlpaug", SEARCHED)])
def test_kills_cost_no_finished_chunk_and_no_byte(folder, pivot, start, engine, decoding):
    sentences = SENTENCES[::2]
    write_inputs(pivot, sentences, engine=engine, decoding=decoding, chunk_texts=10)
    start(folder / "undisturbed", 0).join()
    undisturbed, chunks = OUT.read_bytes(), asked(folder / "undisturbed")
    assert sorted(chain(*chunks)) == sorted(sentences)
    shutil.rmtree(".cache")
    OUT.unlink()

    kept = len(kill_many(start, folder, chunks, kills=KILLS, within=3, slow=0.1, out=OUT, stored=stored))
    assert 0 < kept < len(sentences)

    start(log := folder / "rest", 0).join()
    assert len([*chain(*asked(log))]) == len(sentences) - kept
    said = f"{len(sentences) - kept} translated, {kept} taken from the cache"
    assert said in (folder / "stderr").read_text()
    assert OUT.read_bytes() == undisturbed
    assert not [*Path(".cache").rglob(".partial-*")]


def test_a_damaged_chunk_is_translated_again(folder, pivot, capsys):
    write_inputs(pivot, SENTENCES[:40], chunk_texts=10)
    made = augment()
    damaged = sorted(Path(".cache/back_translation").glob("*/[!.]*.parquet"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert augment() == made
    assert f"{damaged} is damaged: dropped" in capsys.readouterr().err


def test_a_model_that_is_not_there_ends_the_stage_with_its_key(folder, pivot):
    write_inputs([pivot[0], {"model": "./none"}], SENTENCES[:5])
    with refuses("augment.back_translation.pivots.0.1.model", "'./none'", "OWNER/NAME"):
        augment()
