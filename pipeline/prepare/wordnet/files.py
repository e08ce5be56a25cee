"""WordNet's files as NLTK reads them."""

import warnings
from pathlib import Path
from typing import Any

from pipeline.core.errors import UserError

Reader = Any
"""nltk's WordNetCorpusReader, which is imported only where it is opened."""

PARTS_OF_SPEECH = ("adj", "adv", "noun", "verb")
WORDNET_FILES = (
    *(f"{kind}.{part}" for kind in ("data", "index") for part in PARTS_OF_SPEECH),
    *(f"{part}.exc" for part in PARTS_OF_SPEECH),
    "index.sense",
    "cntlist.rev",
    "lexnames",
)
"""What NLTK reads."""

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
    """Whether every file that NLTK reads is there and has content."""
    files = [wordnet_folder(nltk_data) / name for name in WORDNET_FILES]
    return all(file.is_file() and file.stat().st_size for file in files)


def open_wordnet(nltk_data: Path) -> Reader:
    """Open nltk's WordNetCorpusReader on a data folder; takes some seconds.

    Raises:
        UserError: WordNet is not there, or NLTK does not trust the files.
    """
    if not is_complete(nltk_data):
        raise UserError(f"{wordnet_folder(nltk_data)} has no complete WordNet; run `make setup`")
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
