"""The parts of another, local model, `teacher.parts`, for teachers without tokens or layers of their own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.data.models.locate import weights_hash
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import BorrowingTeacher, TransformerTeacher, parts_of
from pipeline.teacher.shared.local.local_facts import facts_of
from pipeline.teacher.shared.local.local_model import find_teacher, load_model, save_parts
from pipeline.teacher.shared.local.vocabulary import Vocabulary


def borrowed_facts(params: BorrowingTeacher, dims: Mapping[str, int]) -> TeacherFacts:
    """The facts of the local model, with the dimensions of the teacher's own views.

    Raises:
        UserError: the local model is missing, or students cannot start from it.
    """
    with _of_parts():
        model = _model(params)
        facts = facts_of(find_teacher(model), model)
    return facts.model_copy(update={"dims": dict(dims)})


def save_borrowed(params: BorrowingTeacher, folder: Path, runtime: Runtime) -> Vocabulary:
    """Save the local model's parts, as the transformer teacher saves its own; return what encodes tokens.

    Raises:
        UserError: the local model is missing, or cannot be loaded.
    """
    with _of_parts():
        model = _model(params)
        found = find_teacher(model)
        loaded = load_model(found, model, runtime.device)
    return save_parts(loaded, folder, model, weights_hash(found), runtime.tokens_per_batch)


def _model(params: BorrowingTeacher) -> TransformerTeacher:
    """The local model, as the transformer teacher is told of it."""
    model = parts_of(params)
    complete = (find_teacher(model) / "modules.json").exists()
    # A pooling has to be given where the model has none, but no part depends on it.
    return model if complete else model.model_copy(update={"pooling": "mean"})


@contextmanager
def _of_parts() -> Iterator[None]:
    """Let messages name the key that the local model stands at."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("teacher.model", "teacher.parts")) from None
