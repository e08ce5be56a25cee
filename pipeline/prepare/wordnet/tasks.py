"""Evaluation tasks from WordNet's held-out synsets: proxies, quick to build, from one source only."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.data.common.texts import fold, text_id
from pipeline.prepare.labelled.classification import Examples, divide, examples
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.labelled.labelled import SEARCH, Labelled, Rows, join, label
from pipeline.prepare.wordnet.families import (
    Families,
    Split,
    Synset,
    family,
    gloss,
    lemma_text,
    members,
    parent,
)

MAX_OF_FAMILY = 10
"""Synsets of a family in the relatedness task, so that a few large families do not make up the near pairs."""
PARTS = {"n": "noun", "v": "verb"}
"""The parts of speech that have a taxonomy; each is a subset, as verbs have a shallow one."""
SENSE_ROWS = 10
"""Synsets that a supersense needs to be one of the labels."""
FAR = 16
"""Distances from here on are one stratum: far apart is far apart."""


def relatedness(grouped: Families, task: str, count: int, split: Split) -> Labelled:
    """Pairs of glosses, scored with the path similarity of their synsets; spread evenly over the distances.

    Args:
        grouped: every synset by family.
        task: the task's name.
        count: pairs, at most.
        split: dev or test.
    """
    synsets = _relatable(grouped, split)
    generator = np.random.default_rng(text_id(f"relatedness {split}"))
    pairs, strata = [], []
    for number, part in enumerate(PARTS):
        indices = np.array([i for i, synset in enumerate(synsets) if synset.pos() == part], dtype=np.intp)
        found, distances = _distances(_paths([synsets[i] for i in indices]))
        pairs.append(indices[found])
        strata.append(np.minimum(distances, FAR) + (FAR + 1) * number)
    chosen = np.concatenate(pairs)[_spread(np.concatenate(strata), count, generator)]
    left, right = ([synsets[i] for i in column] for column in chosen.T)
    scores = [a.path_similarity(b) for a, b in zip(left, right, strict=True)]
    subsets = [PARTS[synset.pos()] for synset in left]
    rows = Rows(
        [gloss(synset) for synset in left], [gloss(synset) for synset in right], None, scores, subsets
    )
    return label(task, split, rows)


def _relatable(grouped: Families, split: Split) -> list[Synset]:
    """Held-out nouns and verbs with glosses of their own; at most MAX_OF_FAMILY of a family, by hash."""
    by_gloss: dict[str, Synset] = {}
    of_family: dict[str, int] = defaultdict(int)
    for synset in sorted(members(grouped, split), key=lambda synset: text_id(synset.name())):
        words = gloss(synset)
        if synset.pos() in PARTS and words not in by_gloss and of_family[family(synset)] < MAX_OF_FAMILY:
            by_gloss[words] = synset
            of_family[family(synset)] += 1
    return list(by_gloss.values())


def _paths(synsets: list[Synset]) -> NDArray[np.int64]:
    """Paths from the root along first hypernyms, as numbers of synsets: (synsets, depth), padded with -1."""
    numbers: dict[str, int] = {}
    paths = []
    for synset in synsets:
        path, above = [], synset
        while above is not None:
            path.append(numbers.setdefault(above.name(), len(numbers)))
            above = parent(above)
        paths.append(path[::-1])
    table = np.full((len(paths), max(map(len, paths), default=0)), -1, dtype=np.int64)
    for row, path in zip(table, paths, strict=True):
        row[: len(path)] = path
    return table


def _distances(paths: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Pairs (pairs, 2) and the steps between their ends over the deepest node that both paths have.

    Pairs without such a node are left out: WordNet's verbs have hundreds of roots, and nothing grades them.
    """
    left, right = np.triu_indices(len(paths), k=1)
    depths = (paths >= 0).sum(axis=1)
    together = np.ones(len(left), dtype=bool)
    common = np.zeros(len(left), dtype=np.int64)
    for level in paths.T:
        together &= (level[left] == level[right]) & (level[left] >= 0)
        common += together
    related = common > 0
    found = np.stack([left, right], axis=1)[related]
    return found, (depths[left] + depths[right] - 2 * common)[related]


def _spread(strata: NDArray[np.int64], count: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Indices of `count` rows, equally many of each stratum; what a small one lacks, the larger ones give."""
    by_stratum = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    chosen: list[NDArray[np.intp]] = []
    left = count
    for position, rows in enumerate(sorted(by_stratum, key=len)):
        quota = min(len(rows), left // (len(by_stratum) - position))
        chosen.append(generator.choice(rows, quota, replace=False))
        left -= quota
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.intp)


def reverse_dictionary(grouped: Families, task: str, count: int, split: Split) -> Labelled:
    """Queries: glosses; documents: the lemmas of every held-out synset of the split.

    A gloss that holds one of the lemmas is no query. Synsets with one gloss are all relevant to it, and
    synsets with the same lemmas are one document.

    Args:
        grouped: every synset by family.
        task: the task's name.
        count: queries, at most, chosen by hash.
        split: dev or test.
    """
    synsets = members(grouped, split)
    documents: dict[str, list[str]] = defaultdict(list)
    given_away: set[str] = set()
    for synset, tells in zip(synsets, _tell_lemmas(synsets), strict=True):
        documents[gloss(synset)].append(lemma_text(synset))
        if tells:
            given_away.add(gloss(synset))
    queries = sorted((query for query in documents if query not in given_away), key=text_id)[:count]
    found = [(query, document) for query in queries for document in dict.fromkeys(documents[query])]
    relevant = {document for _, document in found}
    others = list(
        dict.fromkeys(lemma_text(synset) for synset in synsets if lemma_text(synset) not in relevant)
    )
    asked = Rows(
        [query for query, _ in found],
        [document for _, document in found],
        score=[1.0] * len(found),
        roles=SEARCH,
    )
    unasked = Rows([None] * len(others), others, roles=SEARCH)
    return join([label(task, split, asked), label(task, split, unasked)])


def _tell_lemmas(synsets: list[Synset]) -> list[bool]:
    """Whether each synset's gloss holds one of its lemmas, as whole words."""
    glosses = fold(pl.Series([gloss(synset) for synset in synsets], dtype=pl.String))
    lemmas = fold(pl.Series([lemma.replace("_", " ") for s in synsets for lemma in s.lemma_names()]))
    folded = iter(lemmas)
    return [
        any([f" {lemma} " in f" {words} " for lemma in (next(folded) for _ in synset.lemma_names())])
        for synset, words in zip(synsets, glosses, strict=True)
    ]


def supersense(grouped: Families, keys: Keys, max_train: int, max_test: int) -> Labelled:
    """Glosses of nouns and verbs with their lexicographer file, the supersense of Ciaramita and Johnson 2003.

    Training rows are the synsets held out as dev, test rows those held out as test. So no gloss of the task
    is in the corpus, which loses nothing by the task, and no test row has a sister term among the training
    rows: a classifier cannot answer by the family. Left out and counted are glosses of two supersenses,
    supersenses of fewer than SENSE_ROWS training rows, and test rows whose supersense no row is trained on.

    Args:
        grouped: every synset by family.
        keys: the task's place in params.
        max_train: training rows, at most, with the tenth of them that is dev.
        max_test: test rows, at most.
    """
    (train, several), (test, several_in_test) = (
        _glosses_by_supersense(grouped, split) for split in ("dev", "test")
    )
    counts = Counter(train.values())
    known = {words: name for words, name in train.items() if counts[name] >= SENSE_ROWS}
    chosen = dict(islice(known.items(), max_train))
    labels = set(chosen.values())
    tested = {words: name for words, name in test.items() if name in labels}
    scored = dict(islice(tested.items(), max_test))
    dropped = {
        "two_supersenses": several + several_in_test,
        "rare_supersense": len(train) - len(known),
        "supersense_is_not_trained_on": len(test) - len(tested),
        "over_limit": len(known) - len(chosen) + len(tested) - len(scored),
    }
    divided = divide(
        keys, "test", train=_rows(chosen, keys.task), test=_rows(scored, keys.task), dev=None, limit=None
    )
    counted = Counter(divided.dropped.get(keys.task, {})) + Counter(dropped)
    return replace(divided, dropped={keys.task: dict(counted)} if counted else {})


def _rows(supersenses: dict[str, str], task: str) -> Examples:
    nothing, where = [None] * len(supersenses), [task] * len(supersenses)
    return examples([*supersenses], nothing, [*supersenses.values()], where)


def _glosses_by_supersense(grouped: Families, split: Split) -> tuple[dict[str, str], int]:
    """The supersense of every noun's or verb's gloss, by the glosses' hashes; how many have several."""
    names: dict[str, set[str]] = defaultdict(set)
    for synset in members(grouped, split):
        if synset.pos() in PARTS:
            names[gloss(synset)].add(synset.lexname())
    one = {words: min(names[words]) for words in sorted(names, key=text_id) if len(names[words]) == 1}
    return one, len(names) - len(one)
