"""The files of words that a static student starts from, instead of the teacher's vocabulary."""

from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.data.models.teacher_facts import TeacherFacts, most_dimensions
from pipeline.params.students import StaticInit
from pipeline.train.students.shared.piece_vectors import Pieces
from pipeline.train.students.shared.vector_files import rows_of
from pipeline.train.students.shared.word_list import read_words
from pipeline.train.students.shared.word_vectors import SPECIAL, read_word_vectors


def file_dimensions(init: StaticInit, wanted: int | None = None) -> tuple[int, int]:
    """The dimension of the vectors of `path`, and the most that a PCA of their table gives.

    Args:
        init: names the file in `path`.
        wanted: the most that is asked for, so that no more words are read than that takes; None: all that the
            vectors have.

    Raises:
        UserError: as `read_word_vectors` and `Pieces`.
    """
    path = Path(str(init.path))
    if init.pieces:
        names = Pieces(Path(init.pieces)).names
        first = next(rows_of(path), None)
        if first is None:
            raise UserError(f"{path} holds no vectors; correct init.path")
        return len(first[1]), most_dimensions(len(first[1]), len(names))
    dim = read_word_vectors(path, 1, lowercase=init.lowercase)[1].shape[1]
    needed = min(init.max_words, wanted or dim)
    words, _ = read_word_vectors(path, needed, lowercase=init.lowercase)
    return dim, most_dimensions(dim, len(words) + len(SPECIAL))


def file_rows(init: StaticInit) -> int:
    """How many rows the table of `path` has, at most."""
    return len(Pieces(Path(init.pieces)).names) if init.pieces else init.max_words + len(SPECIAL)


def list_rows(init: StaticInit, teacher: TeacherFacts) -> tuple[int, int]:
    """How many rows the table of `word_list` has, at most, and how many of them texts can have.

    Raises:
        UserError: as `read_words`.
    """
    words = len(read_words(Path(str(init.word_list)), init.max_words))
    return (teacher.tokens + words, teacher.used + words) if init.subwords else (words + 1, words)
