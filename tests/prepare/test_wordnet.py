import os
import shutil

from refusals import refuses

from pipeline.prepare.shared.wordnet_files import LEXNAMES, open_wordnet, wordnet_folder
from pipeline.prepare.wordnet import families


def test_definitions_are_split_outside_parentheses(reader):
    assert families.definitions(reader.synset("cover.v.01")) == [
        "provide with a covering or cause to be covered"
    ]
    assert families.definitions(reader.synset("strew.v.02")) == ["cover", "be dispersed over"]


def test_authors_of_quotations_are_no_definitions(reader):
    definitions = families.definitions(reader.synset("gruff.s.02"))
    assert definitions
    assert not any("Thomson" in text for text in definitions)


def test_texts_are_clean_and_about_as_many_as_promised(grouped):
    texts = families.corpus_texts(grouped)
    assert 170_000 < len(texts) < 180_000
    assert all(text == text.strip(' ;:,"') and "`" not in text and "  " not in text for text in texts)


def test_held_out_share_and_families_stay_together(grouped):
    sizes = {split: len(families.members(grouped, split)) for split in ("train", "dev", "test")}
    assert sum(sizes.values()) == 117_659
    for split in ("dev", "test"):
        assert 0.012 < sizes[split] / 117_659 < 0.035
    sisters = next(family for name, family in grouped.items() if name == "bowed_stringed_instrument.n.01")
    assert {families.split_of_family(families.family(synset)) for synset in sisters} == {
        families.split_of_family("bowed_stringed_instrument.n.01")
    }


def test_no_training_text_comes_from_a_held_out_synset(grouped):
    training = {synset.name() for synset in families.members(grouped, "train")}
    held_out = {s.name() for split in ("dev", "test") for s in families.members(grouped, split)}
    assert training.isdisjoint(held_out)


def test_the_family_is_the_first_parent_by_name(grouped):
    """NLTK keeps hypernyms in sets of strings, whose order changes from process to process."""
    several = [s for inner in grouped.values() for s in inner if len(s.hypernyms()) > 1]
    assert len(several) > 1000
    for synset in several:
        assert families.family(synset) == min(hypernym.name() for hypernym in synset.hypernyms())


def test_missing_wordnet_names_make_setup(tmp_path):
    with refuses(tmp_path / "corpora/wordnet", "`make setup`"):
        open_wordnet(tmp_path)


def test_linked_files_are_to_be_copied(nltk_data, tmp_path):
    folder = shutil.copytree(nltk_data, tmp_path / "nltk_data")
    os.link(wordnet_folder(folder) / "lexnames", tmp_path / "another name")
    with refuses(wordnet_folder(folder) / "lexnames", f"`chmod -R go-w {folder}`", "copied"):
        open_wordnet(folder)


def test_lexnames_have_the_published_form():
    lines = LEXNAMES.splitlines()
    assert len(lines) == 45
    assert lines[0] == "00\tadj.all\t3"
    assert lines[28] == "28\tnoun.time\t1"
    assert lines[44] == "44\tadj.ppl\t3"
