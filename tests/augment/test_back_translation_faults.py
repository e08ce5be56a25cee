import json
import shutil

import pytest
from back_translation_runs import SENTENCES, block, pivot, variants
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from small_translation import write_fsmt

from pipeline.augment.back_translation import models
from pipeline.augment.back_translation.codec import Codec
from pipeline.core.errors import UserError

KEY = r"augment\.back_translation\.pivots\.0\.[01]"


@pytest.fixture
def there(translator):
    return translator("en", "de")


@pytest.fixture
def back(translator, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(translator("de", "en"), tmp_path / "back")


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def fail(params, tmp_path, message):
    with pytest.raises(UserError, match=message):
        variants(params, tmp_path / "cache", SENTENCES[:3])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "source.spm").unlink(), "back lacks source.spm, which marian needs"),
        (lambda f: (f / "config.json").unlink(), "config.json is missing or no JSON"),
        (lambda f: (f / "model.safetensors").unlink(), r"back holds no \.safetensors weights"),
        (lambda f: (f / "model.safetensors").write_bytes(b"cut"), "back cannot be loaded"),
        (
            lambda f: edit(f / "config.json", model_type="bert"),
            "is of type 'bert'; back-translation takes marian",
        ),
        (
            lambda f: edit(f / "config.json", max_position_embeddings=8),
            "max_length is 24, but .* takes 8 tokens",
        ),
        (
            lambda f: edit(f / "tokenizer_config.json", target_lang="fr"),
            r"ends in 'fr', the corpus is in 'en'; the last model of a pivot has to lead back",
        ),
        (
            lambda f: edit(f / "tokenizer_config.json", source_lang="fr"),
            r"begins in 'fr', where the model before it ends in 'de'; put the models in order",
        ),
        (
            lambda f: edit(f / "vocab.json", **{">>eng<<": 5, ">>fra<<": 6}),
            r"target_language is None; .* translates into eng, fra",
        ),
    ],
)
def test_a_model_that_does_not_fit(there, back, tmp_path, spoil, message):
    spoil(back)
    fail(block([pivot(there, back)], "transformers"), tmp_path, message)


def test_a_model_that_says_its_language_wrongly_is_overruled(there, back, tmp_path):
    edit(back / "tokenizer_config.json", source_lang="roa", target_lang="eng")
    steps = [*pivot(there), *pivot(back, source_language="deu_Latn")]
    assert len(variants(block([steps], "transformers"), tmp_path, SENTENCES[:3])) == 3
    fail(block([pivot(back, back)]), tmp_path, rf"{KEY} begins in 'roa', where .*language is 'en'")


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
        rf"{KEY}\.model: ctranslate2 cannot convert FSMT models \(en-de\); "
        r"set augment\.back_translation\.engine to transformers",
    )


def test_a_marian_model_that_does_not_begin_from_zeros_is_none_for_ctranslate2(there, back, tmp_path):
    weights = load_file(back / "model.safetensors")
    weights["model.shared.weight"][-1, 3] = 0.5
    save_file(weights, back / "model.safetensors", {"format": "pt"})
    fail(
        block([pivot(there, back)]),
        tmp_path,
        "back has weights for the padding token.*engine to transformers",
    )


def test_a_model_of_many_languages_needs_two_that_it_knows(there, back, tmp_path):
    steps = [*pivot(there), {"model": str(back), "source_language": "de"}]
    edit(back / "config.json", model_type="m2m_100")
    (back / "tokenizer.json").write_text("{}")
    fail(block([steps]), tmp_path, r"back translates between many languages; set source_language and target")


def test_missing_packages_are_named_with_the_extra(there, back, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    needed = r"needs sentencepiece, sacremoses, ctranslate2, not installed here: pip install -e '\.\[back_tr"
    fail(block([pivot(there, back)]), tmp_path, needed)


def test_devices_and_types_that_ctranslate2_has_not(there, back, tmp_path):
    import ctranslate2

    from pipeline.augment.back_translation.ctranslate2 import device_of

    with pytest.raises(UserError, match=r"runtime\.device is 'mps', and ctranslate2 sees"):
        device_of("mps")
    with pytest.raises(UserError, match=r"runtime\.device is 'cuda:99'"):
        device_of("cuda:99")
    if "float16" not in ctranslate2.get_supported_compute_types("cpu"):
        params = block([pivot(there, back)], compute_type="float16")
        fail(params, tmp_path, "compute_type is 'float16', which cpu does not have; choose one of .*float32")


def test_int8_translates_too(there, back, tmp_path):
    found = variants(block([pivot(there, back)], compute_type="int8"), tmp_path / "cache", SENTENCES[:20])
    exact = variants(block([pivot(there, back)]), tmp_path / "cache", SENTENCES[:20])
    assert sum(ours == theirs for ours, theirs in zip(found, exact, strict=True)) >= 18


@pytest.mark.parametrize(
    ("pivots", "fields", "message"),
    [
        ([], {}, "pivots is empty; name the models, or set enabled: false"),
        ([["a/b", "b/a"]], {"compute_type": "int8", "engine": "nlpaug"}, "which engine nlpaug has not"),
        ([["a/b", "b/c", "c/a"]], {"engine": "nlpaug"}, "has 3 models, nlpaug takes 2"),
        ([["a/b", "b/a"]] * 2, {}, "repeats an earlier one; only decoding.kind sampling gives another text"),
        ([["a/b"]], {}, "at least 2 items"),
    ],
)
def test_params_that_contradict_each_other(pivots, fields, message):
    chains = [[{"model": name} for name in names] for names in pivots]
    with pytest.raises(ValidationError, match=message):
        block(chains, **fields)
