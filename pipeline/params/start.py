"""How a student that is not distilled starts, in the words of its cards."""

from pipeline.params.base import without_folders
from pipeline.params.students import BilstmStudent, CompactInit, StudentBlock


def place(student: StudentBlock) -> str | None:
    """The model or file that it starts from, without folders of this machine; None: the teacher."""
    init = student.init
    found = getattr(init, "model", None) or getattr(init, "path", None)
    return without_folders(found) if found else None


def said(student: StudentBlock, source: str, teacher: str) -> str:
    """`it starts from ...`: from what, what of it is random, and what is fitted to the teacher's vectors.

    Args:
        student: its block.
        source: `place` of it, or the teacher, as the card names it.
        teacher: the teacher, as the card names it.
    """
    init = student.init
    start = source
    if getattr(init, "path", None):
        start = f"the word vectors of {source}"
    if isinstance(student, BilstmStudent) and student.reads_vocabulary:
        start = f"the vectors of single tokens of {source}"
    if getattr(init, "word_list", None):
        start = f"a list of words, each encoded by {source}"
    if getattr(init, "weights", None) == "random":
        start = f"random weights in the shape of {source}, with its tokenizer"
    made = [
        *(["LSTM"] if getattr(init, "lstm", None) == "random" else []),
        *(["token table"] if isinstance(init, CompactInit) and init.table == "random" else []),
        *(["projection"] if getattr(init, "projection", None) == "random" else []),
    ]
    random = f", with a random {' and a random '.join(made)}" if made else ""
    if getattr(init, "lstm", None) == "identity":
        random = f", with an LSTM that copies them{random}"
    way = "an orthogonal map" if getattr(init, "projection", None) == "orthogonal" else "ridge regression"
    fitted = f", with a start fitted by {way} to the `{student.view}` vectors of {teacher}"
    return f"it starts from {start}{random}{fitted if student.meets_targets else ''}"
