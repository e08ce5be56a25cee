"""WordNet's synsets: their texts, and which of them are held out for evaluation."""

import gc
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pipeline.prepare.shared.wordnet_files import Reader

Split = Literal["train", "dev", "test"]
Synset = Any
"""nltk's Synset."""
Families = Mapping[str, list[Synset]]
"""Every synset, by family: see `family`."""

HELD_OUT: tuple[tuple[int, Split], ...] = ((2, "dev"), (4, "test"))
"""Upper bounds, of 100, of the hashes of held-out families."""
_SEPARATOR = re.compile(r";(?![^()]*\))")
_EDGES = ' \t;:,"'
_NO_TEXT = re.compile(r"\W*(or|and)?\W*|-.*", re.DOTALL)
"""What a gloss holds beside definitions: lone conjunctions, and the author of a quotation, after a dash."""


def families(reader: Reader) -> dict[str, list[Synset]]:
    """Every synset of WordNet, grouped by family; takes some seconds."""
    grouped: dict[str, list[Synset]] = {}
    gc.disable()  # Millions of small objects that all live on: looking for garbage takes a third of the time.
    try:
        for synset in reader.all_synsets():
            grouped.setdefault(family(synset), []).append(synset)
        gc.freeze()
    finally:
        gc.enable()
    return grouped


def members(grouped: Families, split: Split) -> list[Synset]:
    """The synsets of one split, sorted by name."""
    chosen = (synset for name, inner in grouped.items() if split_of_family(name) == split for synset in inner)
    return sorted(chosen, key=lambda synset: synset.name())


def parent(synset: Synset) -> Synset | None:
    """The hypernym first by name; of an instance (a person, a place) the class it is an instance of."""
    # NLTK keeps them in a set of tuples with strings: their order differs from process to process.
    above = synset.hypernyms() or synset.instance_hypernyms()
    return min(above, key=lambda hypernym: hypernym.name(), default=None)


def family(synset: Synset) -> str:
    """What sister terms have in common: the name of the parent, or their own where they have none."""
    return (parent(synset) or synset).name()


def split_of_family(name: str) -> Split:
    """The split of a family: 2 of 100 are dev and 2 test, by hash, so sister terms are held out together."""
    bucket = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") % 100
    return next((split for bound, split in HELD_OUT if bucket < bound), "train")


def lemma_text(synset: Synset) -> str:
    """The synset's lemmas as a document: `dog, domestic dog, Canis familiaris`."""
    return ", ".join(lemma.replace("_", " ") for lemma in synset.lemma_names())


def gloss(synset: Synset) -> str:
    """The whole definition, cleaned."""
    return "; ".join(definitions(synset))


def definitions(synset: Synset) -> list[str]:
    """The definitions of a gloss: its parts between semicolons outside parentheses, cleaned."""
    return _clean(_SEPARATOR.split(synset.definition()))


def examples(synset: Synset) -> list[str]:
    """The example sentences, cleaned."""
    return _clean(synset.examples())


def corpus_texts(grouped: Families) -> list[str]:
    """Definitions and example sentences of the training synsets, about 175,000, sorted by synset."""
    return [
        text for synset in members(grouped, "train") for text in (*definitions(synset), *examples(synset))
    ]


def _clean(texts: Iterable[str]) -> list[str]:
    # WordNet writes quotation marks as `...'.
    stripped = (" ".join(text.replace("`", "'").split()).strip(_EDGES) for text in texts)
    return [text for text in stripped if not _NO_TEXT.fullmatch(text)]
