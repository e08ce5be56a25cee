"""A WordNet of a few words, so that parts of speech are told without the files."""

from pipeline.augment.transfer_set.speech import Speech
from pipeline.augment.wordnet.words.readings import Readings
from pipeline.augment.wordnet.words.senses import Senses

NOUNS = ["dog", "cat", "bird", "car", "tree", "house", "river"]
ADJECTIVES = ["red", "green", "small", "large", "old", "new"]
VERBS = ["see", "like", "watch", "follow", "paint"]
LEMMAS = {"n": NOUNS, "a": ADJECTIVES, "v": [verb for verb in VERBS if verb != "like"]}


def speech(**counts: int) -> Speech:
    """Tells parts of speech; `n_watch=3` adds a noun "watch", which is as frequent."""
    of = {(pos, lemma): ((f"{pos}{lemma}", 5),) for pos, lemmas in LEMMAS.items() for lemma in lemmas}
    for name, count in counts.items():
        pos, lemma = name.split("_")
        of[pos, lemma] = ((f"{pos}{lemma}", count),)
    return Speech(Readings(Senses(of, {}, frozenset(), {pos: {} for pos in "nvar"})))
