"""WordNet's files as NLTK reads them."""

import warnings
from pathlib import Path
from typing import Any

from pipeline.core import fingerprint, seal
from pipeline.core.errors import UserError

Reader = Any
"""nltk's WordNetCorpusReader, which is imported only where it is opened."""

PARTS_OF_SPEECH = ("adj", "adv", "noun", "verb")
WORDNET_FILES = {
    "data.adj": "c89120dfc1f046ddff4a631bf9b7e9fa",
    "data.adv": "444a63bf3955080ab7524f5079cfc07f",
    "data.noun": "fea17d2f9656611334eac790e5d69e47",
    "data.verb": "adcf43e35b581e8036d8b5a52d63d9cd",
    "index.adj": "c9865d7b4d1f805bdef82ccdcea52824",
    "index.adv": "6f5465ed5758fe9c8a2f7ec17b1300f3",
    "index.noun": "a490d99d93d017bf4822fe2f0ffa51fd",
    "index.verb": "e2ac24816c3a8289dcb72aaa9cf8db81",
    "adj.exc": "8824cc24bbedd797b9702316b27f07cd",
    "adv.exc": "e7291461b629abfe63301bbe1998cee0",
    "noun.exc": "2b5d675c380b39ecf595af9fa9d4e7fe",
    "verb.exc": "dbbcf9a601b2d77e934e413b91d90e88",
    "index.sense": "ce997000ec806318ff1dfadf77d314ac",
    "cntlist.rev": "a198580b8f705fa02797bba8b13e5cbe",
    "lexnames": "c871b6797d2109f563f7a162b64e8ebf",
}
"""What NLTK reads, and first letters of its SHA-256 in Debian's WordNet 3.0. Another edition is sealed."""

_LEXICOGRAPHER_FILES = """
adj.all adj.pert adv.all
noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition noun.communication
noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person
noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape noun.state
noun.substance noun.time
verb.body verb.change verb.cognition verb.communication verb.competition verb.consumption verb.contact
verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative verb.weather
adj.ppl
""".split()
_PART_NUMBERS = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}
LEXNAMES = "".join(
    f"{number:02d}\t{name}\t{_PART_NUMBERS[name.split('.')[0]]}\n"
    for number, name in enumerate(_LEXICOGRAPHER_FILES)
)
"""The file `lexnames`, which Debian's packages lack: number, lexicographer file, part of speech."""


def wordnet_folder(nltk_data: Path) -> Path:
    """Where NLTK looks for WordNet in its data folder."""
    return nltk_data / "corpora" / "wordnet"


def is_complete(nltk_data: Path) -> bool:
    """Whether every file that NLTK reads is there, as it was published."""
    return fault(nltk_data) is None


def fault(nltk_data: Path) -> str | None:
    """Which file that NLTK reads is missing, or is not as it was published; None where all are right."""
    folder = wordnet_folder(nltk_data)
    sealed = (folder / seal.NAME).exists()
    for name, digest in WORDNET_FILES.items():
        file = folder / name
        if not file.is_file():
            return f"{file} is missing"
        if sealed:
            if wrong := seal.fault(folder, name):
                return wrong
        elif not fingerprint.of_file(file).startswith(digest):
            return f"{file} is damaged, or of another version: it is not WordNet 3.0's"
    return None


def check(nltk_data: Path) -> None:
    """Fail unless WordNet 3.0 is there as it was published.

    Raises:
        UserError: naming the file.
    """
    if wrong := fault(nltk_data):
        raise UserError(f"{wrong}; run `make setup`, which gets it again")


def open_wordnet(nltk_data: Path) -> Reader:
    """Open nltk's WordNetCorpusReader on a data folder; takes some seconds.

    Raises:
        UserError: WordNet is not there or damaged, or NLTK does not trust the files.
    """
    check(nltk_data)
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    root = str(nltk_data.resolve())
    if root not in nltk.data.path:  # NLTK reads nothing outside its data path.
        nltk.data.path.insert(0, root)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The multilingual functions")
        try:
            return WordNetCorpusReader(str(wordnet_folder(Path(root))), None)
        except PermissionError as error:
            fix = f"`chmod -R go-w {nltk_data}` does that; linked files have to be copied"
            raise UserError(f"{error} {fix}") from None
