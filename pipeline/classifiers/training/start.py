"""Where the encoder of a classifier, or of a task teacher, starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.core import fingerprint
from pipeline.core.registry import implementation
from pipeline.data.student import layout, student_folder
from pipeline.params.students import Student as StudentParams
from pipeline.params.teacher import Similarity
from pipeline.train.students.shared.base.interface import Student


@dataclass(frozen=True)
class Start:
    """An encoder before it is trained with a head."""

    params: StudentParams
    load: Callable[[], Student]
    """A new copy of it, at every call."""
    identity: str
    """Of its weights."""
    prompts: Mapping[str, str]
    """What it has before texts, by their role."""
    unit: bool
    """Whether its vectors have length 1."""
    similarity: Similarity = "cosine"

    @classmethod
    def of_folder(cls, params: StudentParams, folder: Path) -> "Start":
        """A student's folder."""
        kind = implementation("train.students.kinds", params.kind)
        return cls(
            params,
            lambda: kind.load(params, folder),
            fingerprint.of_folder(folder),
            student_folder.prompts(folder),
            layout.is_unit(folder),
            student_folder.similarity(folder),
        )
