"""NLTK's part-of-speech tagger over the pieces of a text between spaces."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.augment.wordnet.pieces import CLOSING, OPENING
from pipeline.augment.wordnet.rewrite import Tagger
from pipeline.augment.wordnet.words.contexts import PENN
from pipeline.core.errors import UserError

NAME = "averaged_perceptron_tagger_eng"
_PIECE = re.compile(rf"([{re.escape(OPENING)}]*)(.*?)([{re.escape(CLOSING)}]*)", re.DOTALL)


def tagger_folder(nltk_data: Path) -> Path:
    """Where NLTK looks for the tagger in its data folder."""
    return nltk_data / "taggers" / NAME


def tagger(wanted: str, nltk_data: Path) -> Tagger | None:
    """The tagger that params want; None: WordNet's counts are to do.

    Args:
        wanted: nltk, counts or auto (nltk where it is there).
        nltk_data: NLTK's data folder, the only one that is looked at.

    Raises:
        UserError: nltk is wanted and not there, or damaged.
    """
    folder = tagger_folder(nltk_data)
    if wanted == "counts" or (wanted == "auto" and not folder.is_dir()):
        return None
    if not folder.is_dir():
        raise UserError(
            f"augment.wordnet.tagger: nltk needs {folder}; `python -m nltk.downloader -d {nltk_data} {NAME}` "
            "obtains it; `auto` or `counts` do without"
        )
    import nltk
    from nltk.tag.perceptron import PerceptronTagger

    root = str(nltk_data.resolve())
    if root not in nltk.data.path:  # NLTK reads nothing outside its data path.
        nltk.data.path.insert(0, root)
    try:
        return over_pieces(PerceptronTagger(loc=str(tagger_folder(Path(root)))))
    except (OSError, LookupError, ValueError) as error:
        raise UserError(f"{folder} is damaged ({error}); obtain it again") from None


def over_pieces(perceptron: Any) -> Tagger:  # noqa: ANN401 - nltk has no types
    """What every piece may be, by an NLTK tagger that sees punctuation as tokens of its own."""

    def tag(pieces: Sequence[str]) -> list[int]:
        tokens: list[str] = []
        cores: list[int] = []
        for piece in pieces:
            match = _PIECE.fullmatch(piece)
            before, core, after = match.groups() if match else ("", piece, "")
            tokens += before
            cores.append(len(tokens))
            tokens += [core, *after] if core else after
        tags = perceptron.tag(tokens) if tokens else []
        return [PENN.get(tags[at][1], 0) if at < len(tags) else 0 for at in cores]

    return tag
