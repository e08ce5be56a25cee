"""Read params.yaml: every fault at once, each with its path, value, allowed values and a suggestion."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from pipeline.core import memory
from pipeline.core.errors import UserError
from pipeline.params import yaml_file
from pipeline.params.augment import Augment
from pipeline.params.base import HUB, Block, Name, misplaced_addresses, scheme_of
from pipeline.params.classifiers import Classifier, classifier_faults, pair_faults, with_labels
from pipeline.params.corpus import Corpus, FinetuneData
from pipeline.params.evaluate import Evaluate, selects_weights
from pipeline.params.export import Export
from pipeline.params.faults import describe
from pipeline.params.finetune import Contrast
from pipeline.params.finetune_data import finetune_faults
from pipeline.params.gates import Gate
from pipeline.params.graded import pairs_fault
from pipeline.params.losses import hidden_states_of
from pipeline.params.pca import Pca
from pipeline.params.runtime import Footprint, Runtime
from pipeline.params.significance import Significance
from pipeline.params.student_faults import student_faults
from pipeline.params.students import Student
from pipeline.params.teacher import (
    Encode,
    EnsembleTeacher,
    Teacher,
    TransformerTeacher,
    single_teachers,
    starting_teacher,
    views_not_given,
)


class Params(Block):
    """The whole of params.yaml; blocks that dvc.yaml tracks are required."""

    teacher: Teacher
    corpus: Corpus
    augment: Augment
    encode: Encode
    gate: Gate
    pca: Pca
    finetune: FinetuneData
    students: Annotated[dict[Name, Student], Field(min_length=1)]
    classifiers: dict[Name, Classifier]
    evaluate: Evaluate
    significance: Significance
    footprint: Footprint
    export: Export
    runtime: Runtime = Runtime()

    def student(self, name: str) -> Student:
        """The block of a student.

        Raises:
            UserError: there is no such student.
        """
        if name not in self.students:
            raise UserError(f"students has no {name!r}; it has {', '.join(self.students)}")
        return self.students[name]

    def classifier(self, name: str) -> Classifier:
        """The block of a classifier.

        Raises:
            UserError: there is no such classifier.
        """
        if name not in self.classifiers:
            raise UserError(f"classifiers has no {name!r}; it has {', '.join(self.classifiers) or 'none'}")
        return self.classifiers[name]

    def user_files(self) -> Iterator[tuple[str, str]]:
        """Key and path, file or glob, of all that the user brings here; a dataset of the hub is no file."""
        return (
            (key, path) for key, path in self._paths() if not path.startswith(HUB) and not scheme_of(path)
        )

    def remote_files(self) -> Iterator[tuple[str, str]]:
        """Key and address of all that is fetched."""
        return ((key, path) for key, path in self._paths() if scheme_of(path))

    def hub_datasets(self) -> Iterator[str]:
        """Keys of what the library `datasets` reads."""
        yield from ("corpus.sources" for source in self.corpus.sources if source.kind == "huggingface")
        yield from (key for key, path in self._paths() if path.startswith(HUB))

    def _paths(self) -> Iterator[tuple[str, str]]:
        for index, source in enumerate(self.corpus.sources):
            if source.kind == "files":
                yield f"corpus.sources.{index}.path", source.path
        for block, entries in (
            ("finetune.data", self.finetune.data),
            ("evaluate.tasks", self.evaluate.tasks),
        ):
            for name, entry in entries.items():
                for key in ("path", "train", "dev", "test", "candidates", "tables"):
                    if path := getattr(entry, key, None):
                        yield f"{block}.{name}.{key}", path
        for name, student in self.students.items():
            for key in ("path", "pieces", "word_list"):
                if path := getattr(student.init, key, None):
                    yield f"students.{name}.init.{key}", path

    @model_validator(mode="after")
    def _references(self) -> Self:
        faults = [
            *views_not_given(self.teacher, self.encode.views),
            *self._misfits_of_an_api(),
            *self._misfits_of_a_tuned_teacher(),
            *self._misfits_of_the_transfer_set(),
            *self._misfits_of_hidden_states(),
            *misplaced_addresses(self),
        ]
        faults += [
            f"gate.{method} compares the view 'sentence', which is not encoded; add it to encode.views "
            f"({', '.join(self.encode.views)}), or set gate.{method} to null"
            for method, gate in self.gate
            if gate and getattr(self.augment, method).enabled and "sentence" not in self.encode.views
        ]
        tuned = {f"students.{name}.finetune": one.finetune for name, one in self.students.items()}
        tuned["teacher.finetune"] = getattr(self.teacher, "finetune", None)
        faults += finetune_faults(self.finetune, tuned, self.evaluate.tasks, self.encode.views)
        faults += pairs_fault(self.footprint.pairs, self.evaluate.tasks)
        for name, student in self.students.items():
            faults += [*student_faults(name, student), *self._misses(name, student)]
        for name, classifier in self.classifiers.items():
            faults += [*classifier_faults(name, classifier), *self._misses_of_a_classifier(name, classifier)]
        if faults:
            raise ValueError("\n".join(faults))
        return self

    def _misfits_of_an_api(self) -> Iterator[str]:
        """What `runtime` asks of a teacher behind an API that it does not do."""
        apis = any(one.kind == "openai_api" for one in single_teachers(self.teacher).values())
        if apis and self.runtime.engine != "local":
            yield "runtime.engine is ray; an API is asked by this process alone: set it to local"
        if apis and self.runtime.workers > 1:
            yield (
                f"runtime.workers is {self.runtime.workers}; one process asks an API, several requests "
                "at a time: set runtime.api.concurrency"
            )

    def _misfits_of_a_tuned_teacher(self) -> Iterator[str]:
        """What stands in the way of fine-tuning the teacher."""
        for key, one in single_teachers(self.teacher).items():
            if not isinstance(one, TransformerTeacher) or one.finetune is None:
                continue
            where = f"{key}.finetune"
            if isinstance(self.teacher, EnsembleTeacher):
                yield f"{where}: a member of an ensemble is taken as it is; set it to null"
            if one.trust_remote_code:
                yield f"{where}: a model with code of its own is not trained here; set it to null"
            if not any(map(selects_weights, self.evaluate.tasks.values())):
                yield (
                    f"{where}: there is no dev task to select weights by; give one of evaluate.tasks "
                    "`split: dev`, or set it to null"
                )
            yield from self._unknown_data(where, one.finetune)

    def _unknown_data(self, where: str, tuned: Contrast) -> Iterator[str]:
        """The triplets that a block of fine-tuning names and `finetune.data` does not have."""
        known = ", ".join(self.finetune.data) or "nothing"
        for data in tuned.data:
            if data not in self.finetune.data:
                yield f"{where}.data names {data!r}; finetune.data has {known}"

    def _misfits_of_the_transfer_set(self) -> Iterator[str]:
        """What `augment.transfer` names that is no task with labels."""
        tasks = self.evaluate.tasks
        labelled = [*dict.fromkeys(with_labels(tasks).values())]
        for name in self.augment.transfer.tasks if self.augment.transfer else ():
            if name in labelled:
                continue
            fault = f"a task of kind {tasks[name].kind}, without labels" if name in tasks else "no task"
            yield (
                f"augment.transfer.tasks names {name!r}, which is {fault}; evaluate.tasks with labels are "
                f"{', '.join(labelled) or 'none'}: name one of them, or set augment.transfer to null"
            )

    def _misfits_of_hidden_states(self) -> Iterator[str]:
        """What `encode.hidden` asks of a teacher without layers that may be read."""
        hidden, (key, one) = self.encode.hidden, starting_teacher(self.teacher)
        if hidden is None:
            return
        if not isinstance(one, TransformerTeacher):
            yield f"encode.hidden: {key}.kind {one.kind} gives no hidden states; set it to null"
        elif one.trust_remote_code:
            yield "encode.hidden: the layers of a model with code of its own are not read; set it to null"
        if hidden.layers and list(hidden.layers) != sorted(set(hidden.layers)):
            yield f"encode.hidden.layers is {list(hidden.layers)}; name each layer once, in order"

    def _misses(self, name: str, student: Student) -> Iterator[str]:
        """What a student needs that the other blocks do not have."""
        where = f"students.{name}"
        if name == "teacher" or name.endswith("_finetune") or name.startswith("classify_"):
            yield f"{where}: the report needs this name for itself; choose another"
        if student.view not in self.encode.views:
            yield (
                f"{where}.view is {student.view!r}, which is not encoded; add it to encode.views "
                f"({', '.join(self.encode.views)})"
            )
        if student.train and student.train.centre and not self.pca.centre:
            yield (
                f"{where}.train.centre subtracts the mean that pca.centre: false leaves out; set pca.centre: "
                "true, or train.centre: false"
            )
        if hidden_states_of(student.loss) and self.encode.hidden is None:
            yield (
                f"{where}.loss: hidden_states reads the teacher's hidden states, and encode.hidden is null; "
                "set encode.hidden to {}, or leave hidden_states out"
            )
        yield from self._lacks_texts(where, student)
        if {*(self.export.formats or ())} == {"model2vec"} and student.kind != "static":
            yield (
                f"export.formats is model2vec, which {where} of kind {student.kind} does not have; add "
                "sentence-transformers, onnx or onnx-int8"
            )
        by_tasks = student.finetune is not None and student.finetune.select == "tasks"
        if by_tasks and not any(map(selects_weights, self.evaluate.tasks.values())):
            yield (
                f"{where}.finetune: there is no dev task to select weights by; give one of evaluate.tasks "
                "`split: dev`, add `select: agreement` to it, which needs no labels, or set it to null"
            )
        if student.finetune:
            yield from self._unknown_data(f"{where}.finetune", student.finetune)

    def _lacks_texts(self, where: str, student: Student) -> Iterator[str]:
        """Where a student names text sets of which nothing is made."""
        read = {"train.texts": student.train.texts if student.train else {"corpus": 1.0}}
        if student.finetune and student.finetune.replay and student.finetune.replay.texts:
            read["finetune.replay.texts"] = student.finetune.replay.texts
        for key, texts in read.items():
            if any(text_set == "corpus" or getattr(self.augment, text_set).enabled for text_set in texts):
                continue
            yield (
                f"{where}.{key} names {', '.join(texts)}, of which nothing is made; add corpus, or set "
                f"augment.{next(iter(texts))}.enabled: true"
            )

    def _misses_of_a_classifier(self, name: str, classifier: Classifier) -> Iterator[str]:
        """What a classifier needs that the other blocks do not have."""
        where = f"classifiers.{name}"
        if classifier.student not in self.students:
            known = ", ".join(self.students)
            yield f"{where}.student names {classifier.student!r}; students has {known}"
        labelled = with_labels(self.evaluate.tasks)
        if classifier.task not in labelled:
            known = ", ".join(labelled) or "none"
            yield (
                f"{where}.task names {classifier.task!r}; evaluate.tasks has these with labels: {known}; "
                "name one of them, or add it there"
            )
        elif student := self.students.get(classifier.student):
            kind = self.evaluate.tasks[labelled[classifier.task]].kind
            yield from pair_faults(name, classifier, kind, student.kind)
        made = self.augment.transfer.tasks if self.augment.transfer else ()
        if classifier.transfer and labelled.get(classifier.task) not in made:
            yield (
                f"{where}.transfer: augment.transfer makes no texts of {classifier.task}; name "
                f"{labelled.get(classifier.task, 'it')} in augment.transfer.tasks, or set transfer to false"
            )


def load(path: Path) -> Params:
    """Read and check params.yaml as DVC reads it (YAML 1.2: `1e-4` is a number), and keep to its `memory`.

    Raises:
        UserError: the file is missing, is not YAML, or any block is at fault; all faults are named.
    """
    params = check(yaml_file.read(path), path)
    memory.keep_to(params.runtime.memory)
    return params


def check(document: object, path: Path) -> Params:
    """Validate a parsed params document; `path` is for messages.

    Raises:
        UserError: naming every fault.
    """
    if not isinstance(document, dict):
        raise UserError(f"{path}: no blocks (teacher, corpus, ...) at the top level; name a params file")
    try:
        return Params.model_validate(document)
    except ValidationError as error:
        details = error.errors()
        # A tuple whose items are at fault also counts as too short: the items' faults say it better.
        inner = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
        told = [d for d in details if d["type"] != "too_short" or d["loc"] not in inner]
        faults = [line for detail in told for line in describe(detail, Params)]
        raise UserError("\n".join(f"{path}: {fault}" for fault in faults)) from None
