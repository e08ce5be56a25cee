"""`split` of corpus.sources: what may be written, and what a fault says."""

from pathlib import Path

import pytest
from small_params import small_params

from pipeline.core.errors import UserError
from pipeline.params.load import check


def source_of(**fields):
    kind = {"kind": "huggingface", "dataset": "a/b"} if fields.pop("hub", False) else None
    source = {**(kind or {"kind": "files", "path": "x.jsonl"}), **fields}
    return check(small_params(corpus={"sources": [source]}), Path("params.yaml")).corpus.sources[0]


def test_documents_stay_whole_unless_they_are_split():
    assert source_of().split == "none"
    assert source_of(hub=True).dataset_split == "train"
    both = source_of(hub=True, split="passages", dataset_split="test", passage_tokens=64, passage_overlap=32)
    assert (both.split, both.dataset_split, both.passage_overlap) == ("passages", "test", 32)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hub": True, "split": "train"}, r"sources\.0\.split: 'train' .*write dataset_split: train"),
        ({"hub": True, "split": "test[:5%]"}, r"sources\.0\.split: .*write dataset_split: test\[:5%\]"),
        ({"split": "sentence"}, r"sources\.0\.split is 'sentence'; allowed: .*mean 'sentences'"),
        ({"split": None}, r"sources\.0\.split is null; allowed: none, sentences or passages"),
        ({"passage_tokens": 64}, r"sources\.0: passage_tokens .*split: passages"),
        ({"split": "sentences", "passage_overlap": 0}, r"sources\.0: passage_overlap .*split: passages"),
        ({"split": "sentences", "join": 2}, r"sources\.0: join: 2 .*split: sentences .*remove one"),
        (
            {"split": "passages", "passage_tokens": 20, "passage_overlap": 11},
            r"sources\.0: passage_overlap is 11; .*half of passage_tokens \(10\)",
        ),
        ({"split": "passages", "passage_tokens": 8}, r"sources\.0\.passage_tokens is 8; expected .*16"),
        ({"language": "english"}, r"sources\.0\.language is 'english'"),
    ],
)
def test_a_fault_names_the_key_and_the_fix(fields, message):
    with pytest.raises(UserError, match=message):
        source_of(**fields)


def test_bounds_between_which_there_is_no_text():
    corpus = {"sources": [{"kind": "files", "path": "x.jsonl"}], "min_words": 50, "max_words": 10}
    with pytest.raises(UserError, match=r"corpus: min_words is 50, above max_words, 10; lower it"):
        check(small_params(corpus=corpus), Path("params.yaml"))
