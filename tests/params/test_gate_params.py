from pathlib import Path

import pytest
from small_params import small_params

from pipeline.core.errors import UserError
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
    ("texts", "message"),
    [
        (["corpora"], "tiny.train.texts.corpora is 'corpora'; allowed: .*did you mean 'corpus'"),
        ({"wordnett": 1}, "tiny.train.texts.wordnett is 'wordnett'; allowed: .*did you mean 'wordnet'"),
        ({"corpus": 0}, "tiny.train.texts.corpus is 0; expected greater than 0"),
        ({"corpus": -0.5}, "tiny.train.texts.corpus is -0.5; expected greater than 0"),
        ({"corpus": 1e6}, "tiny.train.texts.corpus is 1000000.0; expected less than or equal to 100"),
        ({"corpus": "all"}, "tiny.train.texts.corpus is 'all'; expected number"),
        (["corpus", "corpus"], r"names corpus twice; .* write a map: \{corpus: 2\}"),
        ([], "tiny.train.texts is empty$"),
        ("corpus", "tiny.train.texts is 'corpus'; expected"),
        ([["corpus"]], r"tiny.train.texts is \[\['corpus'\]\]; expected"),
    ],
)
def test_bad_text_sets(texts, message):
    with pytest.raises(UserError, match=message):
        read_texts(texts)


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({}, "gate.wordnet is missing"),
        ({"wordnet": None}, "gate.back_translation is missing"),
        ({"wordnett": None}, "gate.wordnett is unknown; did you mean 'wordnet'"),
        ({"wordnet": {"min_similarity": 1.5}}, "gate.wordnet.min_similarity is 1.5; expected less"),
        (
            {"wordnet": {"max_similarity": 0.4}},
            "gate.wordnet: max_similarity is 0.4, below min_similarity, 0.5",
        ),
    ],
)
def test_bad_gates(gate, message):
    with pytest.raises(UserError, match=message):
        read(gate=gate)


def test_a_gate_needs_the_view_that_it_compares():
    student = {**small_params()["students"]["tiny"], "view": "token_mean"}
    blocks = {"encode": {"views": ["token_mean"]}, "students": {"tiny": student}}
    with pytest.raises(UserError, match=r"gate\.wordnet compares the view 'sentence'.* or set gate\.wordnet"):
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
    with pytest.raises(
        UserError, match=r"tiny\.train\.texts names wordnet, .* set augment\.wordnet\.enabled"
    ):
        check(params, Path("params.yaml"))
