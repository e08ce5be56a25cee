"""Fine-tuning triplets from WordNet's training synsets."""

from collections.abc import Iterable, Iterator
from random import Random

from pipeline.prepare.labelled.labelled import Labelled, Rows, label
from pipeline.prepare.wordnet.families import (
    Families,
    Synset,
    examples,
    family,
    gloss,
    lemma_text,
    members,
    split_of_family,
)

NEGATIVES = 3
"""Hard negatives a triplet, at most."""
SISTERS = 12
"""Sister terms that are looked at, as some have no example or share a lemma."""


def triplets(grouped: Families, task: str) -> Labelled:
    """Every training synset's gloss with its lemmas, and with its first example where there is one.

    The hard negatives have the positive's form. They come from antonyms first, then from sister terms, chosen
    by the synset's name.
    """
    anchors, positives, negatives = [], [], []
    for synset in members(grouped, "train"):
        anchor, near = gloss(synset), list(_near(synset, grouped[family(synset)]))
        for form in (lemma_text, _example):
            if anchor and (positive := form(synset)):
                anchors.append(anchor)
                positives.append(positive)
                texts = dict.fromkeys(form(other) for other in near)
                negatives.append([text for text in texts if text not in ("", positive)][:NEGATIVES])
    return label(task, "train", Rows(anchors, positives, negatives))


def _example(synset: Synset) -> str:
    return next(iter(examples(synset)), "")


def _near(synset: Synset, siblings: list[Synset]) -> Iterator[Synset]:
    """Synsets that are near in meaning but not the same: none shares a lemma or the gloss."""
    sisters = Random(synset.name()).sample(siblings, min(len(siblings), SISTERS))
    lemmas = set(synset.lemma_names())
    for near in (*_antonyms(synset), *sisters):
        if lemmas.isdisjoint(near.lemma_names()) and near.definition() != synset.definition():
            yield near


def _antonyms(synset: Synset) -> Iterable[Synset]:
    """Synsets of the lemmas' antonyms that are not held out."""
    opposite = (antonym.synset() for lemma in synset.lemmas() for antonym in lemma.antonyms())
    return [near for near in opposite if split_of_family(family(near)) == "train"]
