import pytest
from refusals import refuses
from small_wordnet import lexicon

from pipeline.augment.wordnet.rewrite import Rewriter
from pipeline.augment.wordnet.tagger import tagger, tagger_folder
from pipeline.augment.wordnet.words.forms import BASE, PLURAL, SINGULAR

SENTENCES = [
    "the/DT help/NN came/VBD ./.",
    "children/NNS help/VB dogs/NNS ./.",
    "dogs/NNS help/VB children/NNS ./.",
    "the/DT help/NN of/IN dogs/NNS ./.",
] * 5


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """NLTK's data folder with a tagger that was trained on four sentences."""
    import nltk
    from nltk.tag.perceptron import PerceptronTagger

    folder = tmp_path_factory.mktemp("nltk_data")
    nltk.data.path.insert(0, str(folder))
    trained = PerceptronTagger(load=False)
    trained.train([[tuple(token.rsplit("/", 1)) for token in one.split()] for one in SENTENCES], nr_iter=8)
    tagger_folder(folder).mkdir(parents=True, mode=0o700)
    trained.save_to_json("eng", str(tagger_folder(folder)))
    yield folder
    nltk.data.path.remove(str(folder))


@pytest.mark.parametrize("wanted", ["auto", "nltk"])
def test_the_tagger_is_used_where_it_is(data, wanted):
    tag = tagger(wanted, data)
    assert tag("children help dogs.".split(" ")) == [PLURAL, BASE, PLURAL]
    assert tag(["(the", "help", "of", "dogs),", ""]) == [0, SINGULAR, 0, PLURAL, 0]


def test_words_are_substituted_as_they_are_tagged(nltk_data, data):
    by = Rewriter(lexicon(nltk_data), 1.0, tagger("nltk", data))
    nouns = {by.rewrite("the help came", state) for state in range(0, 2**64, 2**58)}
    verbs = {by.rewrite("children help dogs", state) for state in range(0, 2**64, 2**58)}
    assert any("assistance" in made for made in nouns)
    assert any("assist " in made for made in verbs)
    assert not any("assistance" in made for made in verbs)


def test_without_a_tagger_counts_do_unless_it_is_asked_for(tmp_path):
    assert tagger("auto", tmp_path) is None
    assert tagger("counts", tmp_path) is None
    with refuses(
        "augment.wordnet.tagger", tagger_folder(tmp_path), f"`python -m nltk.downloader -d {tmp_path}"
    ):
        tagger("nltk", tmp_path)


def test_a_damaged_tagger_is_a_users_error(tmp_path):
    tagger_folder(tmp_path).mkdir(parents=True)
    (tagger_folder(tmp_path) / "averaged_perceptron_tagger_eng.weights.json").write_text("{")
    with refuses(tagger_folder(tmp_path), "obtain it again"):
        tagger("auto", tmp_path)
