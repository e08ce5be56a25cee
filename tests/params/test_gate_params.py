from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.load import check


def read(**blocks):
    return check(small_params(**blocks), Path("params.yaml"))


def read_texts(texts):
    params = small_params()
    params["students"]["tiny"]["train"]["texts"] = texts
    return check(params, Path("params.yaml")).students["tiny"].train.texts


def test_text_sets_are_a_list_or_a_map_to_proportions():
    assert read_texts(["corpus", "wordnet"]) == {"corpus": 1, "wordnet": 1}
    assert list(read_texts(["wordnet", "corpus"])) == ["wordnet", "corpus"]
    assert read_texts({"wordnet": 0.5, "corpus": 2}) == {"wordnet": 0.5, "corpus": 2}
    params = small_params()
    del params["students"]["tiny"]["train"]["texts"]
    assert check(params, Path("params.yaml")).students["tiny"].train.texts == dict.fromkeys(
        ["corpus", "wordnet", "back_translation"], 1
    )


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        (["corpora"], ("texts.corpora", "back_translation", "'corpus'?")),
        ({"wordnett": 1}, ("texts.wordnett", "back_translation", "'wordnet'?")),
        ({"corpus": 0}, ("texts.corpus", " 0;")),
        ({"corpus": -0.5}, ("texts.corpus", " -0.5;")),
        ({"corpus": 1e6}, ("texts.corpus", " 1000000.0;", " 100")),
        ({"corpus": "all"}, ("texts.corpus", "'all'", "number")),
        (["corpus", "corpus"], ("{corpus: 2}",)),
        ([], ("empty",)),
        ("corpus", ("'corpus';",)),
        ([["corpus"]], ("[['corpus']];",)),
    ],
)
def test_bad_text_sets(texts, named):
    with refuses("params.yaml", "students.tiny.train.texts", *named):
        read_texts(texts)


@pytest.mark.parametrize(
    ("gate", "named"),
    [
        ({}, ("gate.wordnet ", "gate.back_translation ")),
        ({"wordnet": None}, ("gate.back_translation ",)),
        ({"wordnett": None}, ("gate.wordnett ", "'wordnet'?")),
        ({"wordnet": {"min_similarity": 1.5}}, ("gate.wordnet.min_similarity ", " 1.5;", " 1\n")),
        ({"wordnet": {"max_similarity": 0.4}}, ("gate.wordnet: max_similarity ", " 0.4,", " 0.5;")),
    ],
)
def test_bad_gates(gate, named):
    with refuses("params.yaml", *named):
        read(gate=gate)


def test_a_gate_needs_the_view_that_it_compares():
    student = {**small_params()["students"]["tiny"], "view": "token_mean"}
    blocks = {"encode": {"views": ["token_mean"]}, "students": {"tiny": student}}
    with refuses("params.yaml", "'sentence'", "encode.views (token_mean)", "set gate.wordnet to null"):
        read(augment={"wordnet": {}, "back_translation": {}}, **blocks)
    read(augment={"wordnet": {"enabled": False}, "back_translation": {}}, **blocks)
    read(
        augment={"wordnet": {}, "back_translation": {}},
        gate={"wordnet": None, "back_translation": None},
        **blocks,
    )


def test_texts_that_augmentation_does_not_make_are_no_training_texts():
    made = {"wordnet": {"enabled": True}, "back_translation": {}}
    params = small_params(augment=made, gate={"wordnet": None, "back_translation": None})
    params["students"]["tiny"]["train"]["texts"] = ["wordnet"]
    check(params, Path("params.yaml"))
    params["augment"]["wordnet"]["enabled"] = False
    with refuses(
        "params.yaml", "students.tiny.train.texts", "add corpus", "set augment.wordnet.enabled: true"
    ):
        check(params, Path("params.yaml"))
