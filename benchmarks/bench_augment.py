"""WordNet substitution: our engine against nlpaug's SynonymAug, texts a second and memory.

`python benchmarks/bench_augment.py [--sentences N] [--rounds N] [--million N]`. All take the same texts of
the shared sentences in one process, in turn, round after round. "first pass" is the round before those that
count: dictionaries fill in it, ours and NLTK's alike (WordNet is open already). Ours is called as the stage
calls it, with WordNet's counts for a tagger. SynonymAug comes as it is, with the library's own WordNet; as
its tagger's data is a download, NLTK's perceptron tagger is trained on the spot on the same texts, with
Penn's tags by rules: 31 of its 45, so rather faster than the real one. In the row without a tagger, a look-up
stands in for it. `engine: nlpaug` keeps the dictionary's answers, and starts afresh in every round,
as a run of the stage does. The last row is a process of its own, which also reads WordNet; its peak memory
counts everything.
"""

import argparse
import gzip
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from nltk.tag import RegexpTagger
from nltk.tag.perceptron import PerceptronTagger

from pipeline.augment.method.interface import Resources
from pipeline.augment.wordnet.augmenter import augment, rewriter, substitute
from pipeline.augment.wordnet.lexicon import Lexicon
from pipeline.augment.wordnet.nlpaug import Synonyms, substitute_synonyms
from pipeline.augment.wordnet.words.senses import read_senses
from pipeline.params.augment import WordNetAugment
from pipeline.prepare.shared.cleaning import ids
from pipeline.prepare.shared.wordnet_files import open_wordnet

REPOSITORY = Path(__file__).resolve().parent.parent
NLTK_DATA = REPOSITORY / "data" / "raw" / "nltk_data"
SENTENCES = REPOSITORY.parent / "shared" / "data" / "unlabelled" / "sentences.txt.gz"
RESOURCES = Resources(NLTK_DATA, Path("data/vocabulary/wordnet"), Path(), "cpu")
OURS, LIBRARY, UNTAGGED, KEPT = "ours", "SynonymAug", "SynonymAug, no tagger", "engine: nlpaug"
TRAINED_ON = 2_000
"""Texts for the tagger."""
TAGS = {
    ".": r"[.,;:!?]+",
    "CD": r"-?[0-9][0-9.,]*",
    "DT": r"(?i)(the|an?|this|that|these|those|every|each|some|any|no)",
    "PDT": r"(?i)(all|both|half)",
    "IN": r"(?i)(of|in|on|at|by|for|with|from|about|as|into|like|through|after|over|between|against|if|than)",
    "RP": r"(?i)(up|off|out|down|away)",
    "CC": r"(?i)(and|or|but|nor|yet)",
    "TO": r"(?i)to",
    "EX": r"(?i)there",
    "UH": r"(?i)(oh|yes|well|ah)",
    "PRP": r"(?i)(i|you|he|she|it|we|they|me|him|her|us|them|(him|her|it|my)self)",
    "PRP$": r"(?i)(my|your|his|its|our|their)",
    "WDT": r"(?i)(which|whatever)",
    "WP": r"(?i)(who|whom|what)",
    "WRB": r"(?i)(when|where|why|how)",
    "MD": r"(?i)(can|could|may|might|must|shall|should|will|would)",
    "VBZ": r"(?i)(is|has|does|was)",
    "VBP": r"(?i)(are|have|do|am)",
    "VB": r"(?i)(be|go|get|see|take|make)",
    "POS": r".*'s",
    "VBG": r".*ing",
    "VBD": r"(?i)(were|had|did|.*ed)",
    "VBN": r".*en|done|made",
    "RB": r".*ly",
    "JJS": r".*est",
    "JJR": r".*[^aeiou]er",
    "JJ": r".*(ous|ful|ive|able|al|ic)",
    "NNPS": r"[A-Z].*s",
    "NNP": r"[A-Z].*",
    "NNS": r".*s",
    "NN": r".*",
}
"""Penn's tags by how a word is spelled; the first that fits."""
PARAMS = WordNetAugment(tagger="counts", language=None)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--million", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, default=SENTENCES)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.alone:
        return alone(args.file, args.million)

    # imports torch, which `alone` is not to hold
    from measuring import Contenders, interleaved, report, speedup

    texts = read(args.file, args.sentences)
    by, reader = rewriter(Lexicon(read_senses(NLTK_DATA)), PARAMS, RESOURCES), open_wordnet(NLTK_DATA)
    sentences, tags = texts["text"].to_list(), Synonyms(reader)
    contenders: Contenders = {
        OURS: partial(substitute, texts, PARAMS, by),
        LIBRARY: partial(with_library, sentences, trained(sentences[:TRAINED_ON]).tag),
        UNTAGGED: partial(with_library, sentences, tags.pos_tag),
        KEPT: partial(substitute_synonyms, texts, PARAMS, reader),
    }
    first = {name: seconds_of(contender) for name, contender in contenders.items()}
    seconds = interleaved(contenders, args.rounds)
    changed = {OURS: substitute(texts, PARAMS, by), KEPT: substitute_synonyms(texts, PARAMS, reader)}
    rows: list[dict[str, object]] = [
        {
            "engine": name,
            "sentences": f"{len(texts):,}",
            "sentences/s, first pass": len(texts) / first[name],
            "sentences/s": float(np.median(len(texts) / np.array(seconds[name]))),
            "ours is faster by": speedup(seconds, OURS, name),
            "% changed": 100 * (changed[name]["text"] != texts["text"]).to_numpy().mean()
            if name in changed
            else "",
            "peak MB": "",
        }
        for name in contenders
    ]
    command = [sys.executable, __file__, "--alone", "--million", str(args.million), "--file", str(args.file)]
    said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    rows.append({"engine": "ours, from the start", **dict.fromkeys(list(rows[0])[2:], ""), **said})
    options = f"--sentences {args.sentences} --rounds {args.rounds} --million {args.million}"
    report("augment", rows, f"python benchmarks/bench_augment.py {options}", ratios=["ours is faster by"])
    return None


def seconds_of(contender: Callable[[], object]) -> float:
    """What one call takes."""
    started = time.perf_counter()
    contender()
    return time.perf_counter() - started


def trained(texts: list[str]) -> PerceptronTagger:
    """NLTK's tagger, taught tags that follow from the spelling."""
    rules = RegexpTagger([(f"({pattern})$", tag) for tag, pattern in TAGS.items()])
    tagger = PerceptronTagger(load=False)
    tagger.train([rules.tag(text.split()) for text in texts if text.split()], nr_iter=3)
    return tagger


def read(path: Path, count: int) -> pl.DataFrame:
    """The first sentences, as the corpus has them: `text_id` and `text`."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = pl.Series("text", [line.rstrip("\n") for line in itertools.islice(lines, count)])
    return pl.DataFrame({"text_id": ids(texts), "text": texts})


def with_library(texts: list[str], tag: Callable[[list[str]], list[tuple[str, str]]]) -> list[str]:
    """SynonymAug as it comes but for the tagger, which nltk.pos_tag would download."""
    from nlpaug.augmenter.word import SynonymAug
    from nlpaug.model.word_dict import WordNet
    from nltk.corpus import wordnet

    class Tagged(WordNet):
        def read(self) -> object:
            return wordnet

        @classmethod
        def pos_tag(cls, tokens: list[str]) -> list[tuple[str, str]]:
            return tag(tokens)

    class Offline(SynonymAug):
        @classmethod
        def get_model(cls, aug_src: str, lang: str, dict_path: str | None, force_reload: bool) -> WordNet:
            return Tagged(lang=lang)

    random.seed(0)
    augmenter = Offline(aug_p=PARAMS.rate, aug_max=None)
    return [augmenter.substitute(text) for text in texts]


def peak() -> float:
    """This process's peak memory in MB; getrusage would count the parent's before the start."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))


def alone(path: Path, count: int) -> None:
    """Augment in this process, and print what it took."""
    texts = read(path, count)
    started = time.perf_counter()
    made = augment(texts, PARAMS, RESOURCES).rows
    seconds = time.perf_counter() - started
    said = {
        "sentences": f"{len(texts):,}",
        "sentences/s": len(texts) / seconds,
        "% changed": 100 * float((made["text"] != texts["text"]).to_numpy().mean()),
        "peak MB": peak(),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
