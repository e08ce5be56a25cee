"""The task teacher of `kd.teacher`: an encoder that is fine-tuned on a task's labels, and what it says.

It is trained once for all classifiers that ask for the same: CACHE/task_teachers/KEY/trained holds its
weights, CACHE/task_teachers/KEY/ROWS what it says of some rows.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from pipeline.classifiers.training.inputs import Rows
from pipeline.classifiers.training.joint import Joint
from pipeline.classifiers.training.losses import matched
from pipeline.classifiers.training.start import Start
from pipeline.classifiers.training.task import ClassifierTask, Told
from pipeline.classifiers.training.trainings import Trainings
from pipeline.core import fingerprint, json_text, kept_rows, seal
from pipeline.core.atomic import atomic_folder, remove_folder
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.models.locate import find_model, weights_hash
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.data.tokens.tokens import parts_of
from pipeline.params.classifiers import Classifier, ClassifierTrain, TunedTeacher
from pipeline.params.runtime import Runtime
from pipeline.params.students import Student, TransformerInit, TransformerStudent
from pipeline.tasks import classification
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.students.kinds import transformer
from pipeline.train.students.shared.resolve import layers_and_width, resolved

FOLDER, TRAINED = "task_teachers", "trained"
VERSION = 1
"""To be raised where the same block gives another teacher."""
LETTERS = 16
WEIGHTS, CHOSEN = "weights.safetensors", "chosen.json"
ROWS_AT_A_TIME = 4096
LOGITS, STATES, SCORES = "logits.npy", "states.npy", "scores.json"
KEYS = re.compile(r"(?<![\w./])(?:init\.(model|revision|layers|pooling|max_length)|train\.(lr))\b")
"""Of a student's encoder and of its training, in messages."""
NOT_CONTENT = {"model", "revision"}
"""Where a model is found; its digest says what it is."""


@dataclass(frozen=True)
class TaskTeacher:
    """A task teacher, which is trained when it is first asked."""

    name: str
    """Of the classifier that asks for it, for messages."""
    block: TunedTeacher
    student: TransformerStudent
    """Its encoder, as a student's."""
    layers: int
    width: int
    weights: str
    """Digest of the model."""
    runtime: Runtime

    @classmethod
    def of(cls, name: str, block: TunedTeacher, facts: TeacherFacts, runtime: Runtime) -> "TaskTeacher":
        """That of a block; no weights are loaded.

        Args:
            name: the classifier's.
            block: its `kd.teacher`.
            facts: the pipeline's teacher, which has no part in it.
            runtime: where it is trained, and its cache.

        Raises:
            UserError: its model is not there, or has not what the block asks for.
        """
        with said_of(name):
            folder = find_model(block.model, "init.model", revision=block.revision)
            asked = ("model", "revision", "layers", "pooling", "max_length")
            init = TransformerInit(projection="none", **{key: getattr(block, key) for key in asked})
            given = TransformerStudent(
                kind="transformer", view="cls", dim="auto", loss=None, train=None, finetune=None, init=init
            )
            student = resolved(given, facts.model_copy(update={"window": None}))
            assert isinstance(student, TransformerStudent)
            transformer.weigh(student, facts)
            layers, width = layers_and_width(student, facts)
        return cls(name, block, student, layers, width, weights_hash(folder), runtime)

    def patient_layers(self, student: Student, facts: TeacherFacts, how: str) -> tuple[int, ...]:
        """The layers that those of a student, whose layers are resolved, learn from (`kd.patience.layers`).

        Raises:
            UserError: they cannot be compared.
        """
        layers, width = layers_and_width(student, facts)
        if width != self.width:
            raise UserError(
                f"kd.patience: the student's layers have {width} dimensions, the task teacher's "
                f"{self.width}; take a student of its width, or set patience to null"
            )
        return matched(how, layers, self.layers)

    def tell(self, task: ClassifierTask, table: pl.DataFrame, rows: Rows, layers: tuple[int, ...]) -> Told:
        """What it says of rows, from the cache, or else it is asked, and trained before if it is not yet.

        Args:
            task: what it is trained on.
            table: texts sorted by text_id, those of the task among them.
            rows: of that table.
            layers: whose states are wanted.

        Raises:
            UserError: its training fails, or the cache cannot be written.
        """
        key, cache = self._key(task), Path(self.runtime.cache)
        asked = {
            "texts": fingerprint.of_json(table.to_dict(as_series=False)),
            "rows": fingerprint.of_bytes(np.ascontiguousarray(rows).tobytes()),
            "test": fingerprint.of_bytes(task.test.texts.tobytes() + task.test.classes.tobytes()),
            "layers": layers,
        }
        trained = cache / FOLDER / key / TRAINED
        told = trained.with_name(fingerprint.of_json(asked)[:LETTERS])
        if _is_whole(told):
            return _read(told)
        # An unfinished training of another task, or by another block, stays.
        beginning = f"task-teacher-{fingerprint.of_json({'is': self._settings, 'of': task.name})[:LETTERS]}"
        # By its key alone: another classifier's process may have imported other code.
        lock = Checkpoint(cache / "training" / f"{beginning}-{key}.safetensors")
        with lock.folder(until_commit=False) as kept:
            if not _is_whole(told):  # another process may have made it meanwhile
                with said_of(self.name):
                    trainings = self._trainings(task, f"{beginning}@")
                    if not _is_whole(trained):
                        _train(trainings, trained)
                    keep = kept / f"{told.name}.bin"
                    self._ask(trainings, trained, task, table, rows, layers, told, keep)
                    trainings.clear(until_commit=False)
        return _read(told)

    @property
    def _settings(self) -> str:
        """Digest of all that decides it but the task."""
        block = self.block.model_dump(mode="json", exclude=NOT_CONTENT)
        student = self.student.model_dump(mode="json", exclude={"init": NOT_CONTENT})
        return fingerprint.of_json(
            {"version": VERSION, "model": self.weights, "block": block, "student": student}
        )

    def _key(self, task: ClassifierTask) -> str:
        return fingerprint.of_json({"teacher": self._settings, "task": task.identity})[:LETTERS]

    def _trainings(self, task: ClassifierTask, states: str) -> Trainings:
        block = Classifier(
            student="task_teacher",
            start="untrained",
            task=task.name,
            read="together" if task.pairs else "apart",
            hidden=self.block.hidden,
            train=ClassifierTrain(**{key: getattr(self.block, key) for key in ClassifierTrain.model_fields}),
        )
        start = Start(
            self.student, lambda: transformer.build(self.student, Path()), self.weights, {}, unit=False
        )
        name, key = f"{self.name}'s task teacher", f"classifiers.{self.name}.kd.teacher.precision"
        return Trainings(name, block, start, task, self.runtime, key=key, states=states)

    def _ask(
        self,
        trainings: Trainings,
        trained: Path,
        task: ClassifierTask,
        table: pl.DataFrame,
        rows: Rows,
        layers: tuple[int, ...],
        folder: Path,
        keep: Path,
    ) -> None:
        from safetensors.torch import load_model

        places = np.searchsorted(table["text_id"].to_numpy(), task.texts["text_id"].to_numpy())
        test = places[task.test.texts]
        _, joint = trainings.untrained(self.block.seed, table, (rows, test))
        load_model(joint, str(trained / WEIGHTS), device=str(next(joint.parameters()).device))
        scores = classification.scores_of(joint.predict(test), task.test.classes, len(task.labels))
        chosen = json_text.parse((trained / CHOSEN).read_text(encoding="utf-8"))
        with atomic_folder(folder) as made:
            weights, seconds = fingerprint.of_file(trained / WEIGHTS), self.runtime.checkpoint_seconds
            name = f"{self.name}'s task teacher"
            write_told(joint, rows, layers, made, name=name, keep=keep, weights=weights, seconds=seconds)
            _write({"scores": scores, **chosen}, made / SCORES)


def _train(trainings: Trainings, folder: Path) -> None:
    from safetensors.torch import save_model

    found = trainings.run()
    with atomic_folder(folder) as made:
        save_model(found.shipped.joint.cpu(), str(made / WEIGHTS))
        _write({"lr": found.lr, "dev": found.rates[found.lr]}, made / CHOSEN)


@torch.no_grad()
def write_told(
    joint: Joint,
    rows: Rows,
    layers: tuple[int, ...],
    folder: Path,
    *,
    name: str,
    keep: Path,
    weights: str,
    seconds: float,
) -> None:
    """Write the logits of rows, and their first tokens' states in some layers, each brought to length 1.

    Args:
        joint: what is asked.
        rows: of its texts.
        layers: whose states are wanted.
        folder: of the files.
        name: whose they are, for the progress.
        keep: a file for what has been told, from which a killed run goes on.
        weights: their digest: what others have told is told again.
        seconds: how often it is fit for that.
    """
    # By length, so that an encoder which fills texts up has little to fill.
    lengths = joint.lengths(rows)
    order = np.argsort(lengths, kind="stable")

    def tell(places: NDArray[np.int64]) -> NDArray[np.uint8]:
        found, first = joint.logits_and_states(rows[order[places]], layers)
        parts = [found.float().cpu().numpy().view(np.uint8)]
        if first is not None:
            states = normalize(first, dim=2).cpu().numpy().astype(np.float16)
            parts.append(states.reshape(len(places), -1).view(np.uint8))
        return np.concatenate(parts, axis=1)

    blocks = [*parts_of(lengths[order])]
    cut = {"order": fingerprint.of_bytes(order.tobytes()), "blocks": [len(block) for block in blocks]}
    device = str(next(joint.parameters()).device)
    how = fingerprint.of_json({"weights": weights, "cut": cut, "device": device})
    told = kept_rows.made(f"{name} tells", "rows", keep, len(rows), blocks, tell, how, seconds)
    width = joint.head.output.out_features * np.dtype(np.float32).itemsize
    back = np.argsort(order, kind="stable")
    np.save(folder / LOGITS, np.ascontiguousarray(told[:, :width]).view(np.float32)[back])
    if layers:
        flat = told[:, width:].view(np.float16)
        states = np.lib.format.open_memmap(
            folder / STATES, "w+", np.float16, (len(rows), len(layers), flat.shape[1] // len(layers))
        )
        for part in np.array_split(np.arange(len(rows)), max(1, len(rows) // ROWS_AT_A_TIME)):
            states[part] = flat[back[part]].reshape(len(part), *states.shape[1:])


@contextmanager
def said_of(name: str) -> Iterator[None]:
    """Tell a fault of the encoder, or of its training, by the keys that a task teacher has."""
    where = f"classifiers.{name}.kd.teacher"
    try:
        yield
    except UserError as error:
        told = KEYS.sub(lambda key: f"{where}.{key[1] or key[2]}", str(error))
        raise UserError(told if where in told else f"{where}: {told}") from None


def _is_whole(folder: Path) -> bool:
    """Whether a folder of the cache is there, as it was written; a damaged one is dropped, and said."""
    if not folder.exists():
        return False
    if (wrong := seal.fault_of_own(folder)) is None:
        return True
    say(f"{wrong}: it is made again")
    remove_folder(folder)
    return False


def _read(folder: Path) -> Told:
    said = json_text.parse((folder / SCORES).read_text(encoding="utf-8"))
    states = np.load(folder / STATES, mmap_mode="r") if (folder / STATES).exists() else None
    key = f"{folder.parent.name}/{folder.name}"
    return Told(np.load(folder / LOGITS), said["scores"], states=states, key=key)


def _write(content: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
