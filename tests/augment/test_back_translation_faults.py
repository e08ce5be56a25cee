import json
import shutil

import pytest
from back_translation_runs import SENTENCES, block, pivot, variants
from pydantic import ValidationError
from refusals import refuses
from safetensors.torch import load_file, save_file
from small_translation import write_fsmt

from pipeline.augment.back_translation import models
from pipeline.augment.back_translation.codec import Codec

KEY = "augment.back_translation.pivots.0."


@pytest.fixture
def there(translator):
    return translator("en", "de")


@pytest.fixture
def back(translator, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(translator("de", "en"), tmp_path / "back")


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def fail(params, tmp_path, *named):
    with refuses(*named):
        variants(params, tmp_path / "cache", SENTENCES[:3])


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda f: (f / "source.spm").unlink(), ("back", "source.spm", "marian")),
        (lambda f: (f / "config.json").unlink(), ("back/config.json", "JSON")),
        (lambda f: (f / "model.safetensors").unlink(), ("back", ".safetensors")),
        (lambda f: (f / "model.safetensors").write_bytes(b"cut"), ("back", "loaded")),
        (lambda f: edit(f / "config.json", model_type="bert"), ("back", "'bert'", "marian")),
        (
            lambda f: edit(f / "config.json", max_position_embeddings=8),
            ("back_translation.max_length", " 24,", " 8 tokens", "lower it"),
        ),
        (
            lambda f: edit(f / "tokenizer_config.json", target_lang="fr"),
            ("'fr'", "'en'", "set target_language", "back_translation.language"),
        ),
        (
            lambda f: edit(f / "tokenizer_config.json", source_lang="fr"),
            ("'fr'", "'de'", "set source_language"),
        ),
        (
            lambda f: edit(f / "vocab.json", **{">>eng<<": 5, ">>fra<<": 6}),
            ("target_language", "None;", "eng, fra"),
        ),
    ],
)
def test_a_model_that_does_not_fit(there, back, tmp_path, spoil, named):
    spoil(back)
    fail(block([pivot(there, back)], "transformers"), tmp_path, "augment.back_translation.", *named)


def test_a_model_that_says_its_language_wrongly_is_overruled(there, back, tmp_path):
    edit(back / "tokenizer_config.json", source_lang="roa", target_lang="eng")
    steps = [*pivot(there), *pivot(back, source_language="deu_Latn")]
    assert len(variants(block([steps], "transformers"), tmp_path, SENTENCES[:3])) == 3
    fail(block([pivot(back, back)]), tmp_path, f"{KEY}0 ", "'roa'", "'en'", "set source_language")


def test_a_marian_model_of_several_targets_reads_which_before_a_text(there, back, tmp_path):
    vocabulary = json.loads((back / "vocab.json").read_text())
    edit(back / "vocab.json", **{">>eng<<": vocabulary["</s>"]})
    steps = [*pivot(there), *pivot(back, target_language="eng")]
    ((first, last),) = models.find_pivots(block([steps]))
    assert (first.prefix, last.prefix) == ("", ">>eng<< ")
    assert Codec(last, 24).encode(["hund"])[0][0] == vocabulary["</s>"]


def test_what_ctranslate2_cannot_convert_is_told_with_the_engine_that_can(tmp_path):
    there, again = (write_fsmt(tmp_path / f"{a}-{b}", a, b) for a, b in (("en", "de"), ("de", "en")))
    fail(
        block([pivot(there, again)]),
        tmp_path,
        f"{KEY}0.model",
        "FSMT",
        "(en-de)",
        "set augment.back_translation.engine to transformers",
    )


def test_a_marian_model_that_does_not_begin_from_zeros_is_none_for_ctranslate2(there, back, tmp_path):
    weights = load_file(back / "model.safetensors")
    weights["model.shared.weight"][-1, 3] = 0.5
    save_file(weights, back / "model.safetensors", {"format": "pt"})
    fail(
        block([pivot(there, back)]),
        tmp_path,
        f"{KEY}1.model",
        "padding token",
        "set augment.back_translation.engine to transformers",
    )


def test_a_model_of_many_languages_needs_two_that_it_knows(there, back, tmp_path):
    steps = [*pivot(there), {"model": str(back), "source_language": "de"}]
    edit(back / "config.json", model_type="m2m_100")
    (back / "tokenizer.json").write_text("{}")
    fail(block([steps]), tmp_path, "back ", "set source_language and target_language")


def test_missing_packages_are_named_with_the_extra(there, back, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    needed = "sentencepiece, sacremoses, ctranslate2"
    fail(block([pivot(there, back)]), tmp_path, needed, "pip install -e '.[back_tr")


def test_devices_and_types_that_ctranslate2_has_not(there, back, tmp_path):
    import ctranslate2

    from pipeline.augment.back_translation.ctranslate2 import device_of

    with refuses("runtime.device", "'mps'", "auto or cpu"):
        device_of("mps")
    with refuses("runtime.device", "'cuda:99'", "auto or cpu"):
        device_of("cuda:99")
    if "float16" not in ctranslate2.get_supported_compute_types("cpu"):
        params = block([pivot(there, back)], compute_type="float16")
        fail(params, tmp_path, "back_translation.compute_type", "'float16'", "cpu", "float32")


def test_int8_translates_too(there, back, tmp_path):
    found = variants(block([pivot(there, back)], compute_type="int8"), tmp_path / "cache", SENTENCES[:20])
    exact = variants(block([pivot(there, back)]), tmp_path / "cache", SENTENCES[:20])
    assert sum(ours == theirs for ours, theirs in zip(found, exact, strict=True)) >= 18


@pytest.mark.parametrize(
    ("pivots", "fields", "named"),
    [
        ([], {}, "pivots .*set enabled: false"),
        (
            [["a/b", "b/a"]],
            {"compute_type": "int8", "engine": "nlpaug"},
            "compute_type .*int8.* nlpaug .*float32",
        ),
        ([["a/b", "b/c", "c/a"]], {"engine": "nlpaug"}, "pivots.0 .*3 models, nlpaug .*2; set engine"),
        ([["a/b", "b/a"]] * 2, {}, "pivots.1 .*decoding.kind sampling"),
        ([["a/b"]], {}, "2 items"),
    ],
)
def test_params_that_contradict_each_other(pivots, fields, named):
    chains = [[{"model": name} for name in names] for names in pivots]
    with pytest.raises(ValidationError, match=named):
        block(chains, **fields)
