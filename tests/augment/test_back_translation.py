import shutil
from pathlib import Path

import pytest
import small_translation
from back_translation_runs import SENTENCES, block, pivot, table, variants
from refusals import refuses
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from pipeline.augment.back_translation.augmenter import chunks
from pipeline.augment.back_translation.codec import Codec
from pipeline.augment.back_translation.models import describe
from pipeline.params.augment import TranslationStep

ENGINES = ("ctranslate2", "transformers", "nlpaug")
SOME = SENTENCES[::4]
CHANGED = [small_translation.back(text) for text in SENTENCES]
"""What a faithful translation there and back leaves of them: large is big, quiet is calm."""


@pytest.fixture
def german(translator):
    return pivot(translator("en", "de"), translator("de", "en"))


@pytest.fixture
def french(translator):
    return pivot(translator("en", "de"), translator("de", "fr"), translator("fr", "en"))


@pytest.fixture(scope="module")
def m2m(tmp_path_factory):
    folder = str(small_translation.train_m2m(tmp_path_factory.mktemp("m2m") / "m2m"))
    return [
        {"model": folder, "source_language": source, "target_language": target}
        for source, target in (("en", "de"), ("de", "en"))
    ]


@pytest.fixture(scope="module")
def nllb(tmp_path_factory):
    folder = str(small_translation.train_nllb(tmp_path_factory.mktemp("nllb") / "nllb"))
    en, de = small_translation.NLLB.values()
    return [
        {"model": folder, "source_language": source, "target_language": target}
        for source, target in ((en, de), (de, en))
    ]


@pytest.fixture(scope="module")
def fsmt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fsmt")
    return [small_translation.write_fsmt(folder / f"{a}-{b}", a, b) for a, b in (("en", "de"), ("de", "en"))]


def reference(folder, sentences, **settings):
    """What transformers alone makes of each sentence by itself, both cut after 24 tokens."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)
    model.generation_config.forced_eos_token_id = None
    found = []
    for text in sentences:
        ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=24)["input_ids"]
        made = model.generate(ids, max_new_tokens=24, early_stopping=True, **settings)
        found += tokenizer.batch_decode(made, skip_special_tokens=True)
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_translates_the_grammar_there_and_back(german, tmp_path, engine):
    at = range(0, len(SENTENCES), 1 if engine == "ctranslate2" else 4)
    found = variants(block([german], engine), tmp_path, [SENTENCES[i] for i in at])
    assert found == [[CHANGED[i]] for i in at]


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("max_length", [4, 24])
def test_ctranslate2_gives_what_transformers_gives(german, tmp_path, size, max_length):
    """Also where texts and translations are cut, and so no translation ends by itself."""
    ours, reference = (
        variants(block([german], engine, size, max_length=max_length), tmp_path)
        for engine in ("ctranslate2", "transformers")
    )
    assert ours == reference
    assert (ours == [[text] for text in CHANGED]) == (max_length == 24)


def test_a_beam_search_is_that_of_generate(translator, german, tmp_path):
    there = reference(translator("en", "de"), SOME, num_beams=4)
    assert variants(block([german]), tmp_path, SOME) == [
        [text] for text in reference(translator("de", "en"), there, num_beams=4)
    ]


@pytest.mark.parametrize("engine", ["ctranslate2", "transformers"])
def test_several_pivots_give_several_variants(german, french, tmp_path, engine):
    found = variants(block([french, german], engine), tmp_path, SOME)
    assert found == [[text, text] for text in CHANGED[::4]]


@pytest.mark.parametrize("engine", ["ctranslate2", "transformers"])
def test_the_size_of_batches_changes_nothing(german, tmp_path, engine):
    few = variants(block([german], engine, tokens_per_batch=20), tmp_path / "few", SOME)
    assert few == variants(block([german], engine), tmp_path / "many", SOME)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_of_many_languages_is_told_which(m2m, tmp_path, engine):
    assert variants(block([m2m], engine), tmp_path, SOME) == [[text] for text in CHANGED[::4]]


@pytest.mark.parametrize("engine", ENGINES)
def test_nllb_reads_both_its_languages(nllb, tmp_path, engine):
    assert variants(block([nllb], engine), tmp_path, SOME) == [[text] for text in CHANGED[::4]]


@pytest.mark.parametrize("wrong", ["▁the", "deu", "<s>", "fra_Latn"])
@pytest.mark.parametrize("side", ["source_language", "target_language"])
def test_a_piece_of_the_vocabulary_is_no_language(nllb, side, wrong):
    model = describe(
        TranslationStep(**(nllb[0] | {side: wrong})), "pivots.0.0", Path(nllb[0]["model"]), block([nllb])
    )
    with refuses(f"pivots.0.0.{side}", f"'{wrong}'", "nllb", " 2 ", "deu_Latn"):
        Codec(model, 24)


@pytest.mark.parametrize("engine", ["transformers", "nlpaug"])
def test_each_model_is_loaded_once(german, tmp_path, engine, monkeypatch):
    loaded, load = [], AutoModelForSeq2SeqLM.from_pretrained

    def counted(name, **options):
        loaded.append(str(name))
        return load(name, **options)

    monkeypatch.setattr(AutoModelForSeq2SeqLM, "from_pretrained", counted)
    variants(block([german], engine), tmp_path, SOME[:2])
    assert loaded == [step["model"] for step in german]


@pytest.mark.parametrize("engine", ["transformers", "nlpaug"])
def test_fsmt_models_translate(fsmt, tmp_path, engine):
    there = reference(fsmt[0], SOME[:5], num_beams=2)
    back = reference(fsmt[1], there, num_beams=2)
    assert len(set(back)) > 1
    assert variants(block([pivot(*fsmt)], engine, 2), tmp_path, SOME[:5]) == [[text] for text in back]


@pytest.mark.parametrize("engine", ["ctranslate2", "transformers"])
def test_draws_depend_on_the_seed_and_on_which_draw_it_is(german, tmp_path, engine):
    def drawn(cache, seed, pivots=1):
        decoding = {"kind": "sampling", "top_k": 5, "temperature": 2.0, "seed": seed}
        return variants(block([german] * pivots, engine, decoding=decoding), tmp_path / cache, SOME)

    one = drawn("one", 0)
    assert one == drawn("other", 0)
    assert one != drawn("one", 1)
    twice = drawn("one", 0, pivots=2)
    assert [first for first, _ in twice] == [text for (text,) in one]
    assert sum(first != second for first, second in twice) > len(SOME) / 2


def test_a_grown_corpus_translates_what_is_new(german, tmp_path, capsys):
    variants(block([german]), tmp_path, SENTENCES[::2])
    assert variants(block([german]), tmp_path) == [[text] for text in CHANGED]
    assert "162 translated, 162 taken from the cache" in capsys.readouterr().err


def test_a_changed_model_starts_anew_and_each_is_converted_once(translator, german, tmp_path, capsys):
    variants(block([german]), tmp_path, SOME)
    variants(block([german], size=1), tmp_path, SOME)
    changed = shutil.copytree(translator("de", "en"), tmp_path / "changed")
    weights = load_file(changed / "model.safetensors")
    weights["final_logits_bias"][0, 5] += 30.0
    save_file(weights, changed / "model.safetensors", {"format": "pt"})
    found = variants(block([pivot(translator("en", "de"), changed)]), tmp_path, SOME)
    assert found != [[text] for text in CHANGED[::4]]
    said = capsys.readouterr().err
    assert "81 translated, 0 taken from the cache" in said.splitlines()[-1]
    assert [said.count(f"converting {name} ") for name in ("en-de", "de-en", "changed")] == [1, 1, 1]


def test_chunks_follow_from_the_texts_and_hold_each_once():
    texts = table(SENTENCES)
    parts = list(chunks(texts, 20))
    assert [row for part in parts for row in part["text_id"]] == texts["text_id"].to_list()
    assert max(len(part) for part in parts) <= 20
    lowest = texts.head(50)  # as `limit` takes them: from a corner of the range of ids
    assert max(len(part) for part in chunks(lowest, 20)) <= 20
    assert sum(len(part) for part in chunks(lowest, 20)) == 50
    assert list(chunks(texts.clear(), 20)) == []
    assert [len(part) for part in chunks(texts, 1000)] == [len(texts)]
