"""The ELMo teacher, against its equations in float64."""

import numpy as np
import pytest
import small_elmo
import torch

from pipeline.params.runtime import Runtime
from pipeline.params.teacher import ElmoTeacher
from pipeline.teacher.kinds import elmo
from pipeline.teacher.shared.elmo.network import Network
from pipeline.teacher.shared.elmo.options import Options
from pipeline.teacher.shared.elmo.words import characters, ends, split

SENTENCES = [
    ["the", "cat", "sat", "on", "the", "mat", "."],
    ["a"],
    ["naïve", "über-extraordinary", "中", "文", "!"],
    ["The", "extraordinarily", "long", "words", "of", "extraordinarily", "long", "sentences"],
    [],
    ["cat"],
]
TEXTS = [" ".join(words) for words in SENTENCES]
BOTH = ("sentence", "token_mean")
# Values reach 10, where float32 counts by 1e-6, and each kind of processor adds in an order of its own.
CLOSE = {"rtol": 2e-6, "atol": 5e-6}


def load(folder, tokens_per_batch=4096, **params):
    teacher = ElmoTeacher(kind="elmo", model=str(folder), parts="none", **params)
    return elmo.load(teacher, Runtime(device="cpu", tokens_per_batch=tokens_per_batch))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return small_elmo.write(tmp_path_factory.mktemp("models") / "elmo")


def means(states):
    """Of each sentence's words, or of its ends where it has none; states (words + 2, d)."""
    return [(one[1:-1] if len(one) > 2 else one).mean(axis=0) for one in states]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"char_cnn": {"activation": "tanh", "n_highway": 1}},
        {"char_cnn": {"n_highway": 0, "max_characters_per_token": 50, "n_characters": 261}},
        {"lstm": {"use_skip_connections": False, "n_layers": 3}},
        {"lstm": {"cell_clip": None, "proj_clip": None, "n_layers": 1}},
    ],
)
def test_vectors_are_those_of_the_equations(tmp_path, changed):
    said = small_elmo.options(**changed)
    found = small_elmo.arrays(said, seed=1)
    small_elmo.write(tmp_path, said, found)
    assert [split(text) for text in TEXTS] == SENTENCES
    layers = [small_elmo.reference(words, said, found) for words in SENTENCES]
    given = load(tmp_path).encode(TEXTS, BOTH)
    np.testing.assert_allclose(given["sentence"], means([one.mean(axis=0) for one in layers]), **CLOSE)
    np.testing.assert_allclose(given["token_mean"], means([one[-1] for one in layers]), **CLOSE)
    top = load(tmp_path, layers="top").encode(TEXTS, ["sentence"])["sentence"]
    np.testing.assert_array_equal(top, given["token_mean"])


def test_clipping_and_gates_show_in_these_weights():
    """The comparison above can fail: without either clip, and with f and j exchanged, vectors are others."""
    said = small_elmo.options()
    found = small_elmo.arrays(said)
    whole = small_elmo.reference(SENTENCES[0], said, found)
    for key in ("cell_clip", "proj_clip"):
        without = small_elmo.reference(SENTENCES[0], small_elmo.options(lstm={key: None}), found)
        assert np.abs(whole - without).max() > 0.01
    cell = small_elmo.CELL.format(0, 0)
    i, j, f, o = np.split(found[f"{cell}W_0"], 4, axis=1)
    other = {**found, f"{cell}W_0": np.concatenate([i, f, j, o], axis=1)}
    assert np.abs(whole - small_elmo.reference(SENTENCES[0], said, other)).max() > 0.01


def test_a_texts_vectors_do_not_depend_on_the_others(tiny):
    teacher = load(tiny)
    whole = teacher.encode(TEXTS, BOTH)
    for row, text in enumerate(TEXTS):
        alone = teacher.encode([text], BOTH)
        for view in BOTH:
            np.testing.assert_allclose(alone[view][0], whole[view][row], **CLOSE)
    small = load(tiny, tokens_per_batch=1).encode(TEXTS[::-1], BOTH)
    np.testing.assert_allclose(small["sentence"][::-1], whole["sentence"], **CLOSE)
    again = teacher.encode(TEXTS, BOTH)  # an LSTM that went on from its last states would give others
    np.testing.assert_array_equal(again["sentence"], whole["sentence"])


def test_more_distinct_words_than_go_through_the_filters_at_once(tiny, monkeypatch):
    whole = load(tiny).encode(TEXTS, ["sentence"])["sentence"]
    monkeypatch.setattr(elmo, "WORDS_AT_A_TIME", 2)
    np.testing.assert_allclose(load(tiny).encode(TEXTS, ["sentence"])["sentence"], whole, **CLOSE)


def test_characters_by_hand():
    found = characters([b"ab", "é".encode(), b"abcd"], 6)
    assert found.tolist() == [
        [258, 97, 98, 259, 260, 260],
        [258, 0xC3, 0xA9, 259, 260, 260],
        [258, 97, 98, 99, 100, 259],
    ]
    assert ends(5).tolist() == [[258, 256, 259, 260, 260], [258, 257, 259, 260, 260]]


def test_words_are_those_of_moses():
    text = "Dr. Smith doesn't say \"<S>\" & more... It's 3,000.5 well-known things. Yes!"
    assert split(text) == [
        *("Dr.", "Smith", "doesn", "'t", "say", '"', "<", "S", ">", '"', "&", "more", "...", "It", "'s"),
        *("3,000.5", "well-known", "things", ".", "Yes", "!"),
    ]
    assert split(" \n\t ") == []


def test_texts_are_cut_after_words_and_it_is_counted(tiny):
    teacher = load(tiny, max_length=3)
    cut = load(tiny).encode(["the cat sat", "a"], BOTH)
    whole = teacher.encode(["the cat sat on the mat .", "a"], BOTH)
    np.testing.assert_allclose(whole["sentence"], cut["sentence"], **CLOSE)
    assert teacher.cut(TEXTS) == (3, 7 + 5 + 8, 7 + 5 + 8 - 9)
    assert load(tiny).cut(TEXTS) == (0, 0, 0)


def test_the_recipe_is_of_the_files_and_of_no_path(tiny, tmp_path):
    recipe = load(tiny).recipes["text"]
    moved = small_elmo.write(tmp_path / "elsewhere" / "elmo")
    assert load(moved).recipes["query"] == recipe
    assert str(tiny.parent) not in str(recipe)
    others = [load(tiny, layers="top"), load(tiny, max_length=9)]
    changed = small_elmo.arrays(small_elmo.options(), seed=5)
    others.append(load(small_elmo.write(tmp_path / "elmo", found=changed)))
    assert all(other.recipes["text"] != recipe for other in others)


def test_the_published_model_has_the_papers_parameters():
    """SRA, table 2: 93 million. The published shape, without its weights."""
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    cnn = {"filters": filters, "embedding": {"dim": 16}, "max_characters_per_token": 50}
    lstm = {"projection_dim": 512, "dim": 4096, "cell_clip": 3, "proj_clip": 3}
    with torch.device("meta"):
        network = Network(Options.model_validate(small_elmo.options(char_cnn=cnn, lstm=lstm)))
    total = sum(parameter.numel() for parameter in network.parameters())
    assert (total - network.embedding.weight.numel()) // 1_000_000 == 93
