"""What `pipeline doctor` finds of the things that the params name."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from pipeline.augment.back_translation import models as translation
from pipeline.augment.back_translation.ctranslate2 import check_convertible
from pipeline.cli import model_folder
from pipeline.cli.finding import Finding
from pipeline.core.errors import UserError
from pipeline.data.models.locate import PACKAGE, find_model
from pipeline.params.augment import BackTranslationAugment, TranslationStep
from pipeline.params.corpus import Documents
from pipeline.params.load import Params
from pipeline.params.students import CompactInit, TransformerInit
from pipeline.params.teacher import (
    BorrowingTeacher,
    ElmoTeacher,
    EnsembleTeacher,
    HashingTeacher,
    OpenAiApiTeacher,
    SingleTeacher,
    Teacher,
    TransformerTeacher,
    parts_of,
    single_teachers,
    starting_teacher,
)
from pipeline.prepare.readers.named import named
from pipeline.prepare.shared.wordnet_files import fault, wordnet_folder
from pipeline.teacher.shared.elmo import options as elmo

NOT_HERE = "not downloaded yet, and no folder here; the first `dvc repro` asks the hub for it"
SPLITTERS = ("sentencex", "semantic_text_splitter")
"""Packages that cut documents."""


def teachers(params: Teacher) -> list[Finding]:
    """Where the teacher is, or each member of an ensemble; nothing is loaded or downloaded."""
    return [
        Finding(
            key.removesuffix(".teacher"),
            *(text.replace("teacher.", f"{key}.") for text in (found.found, found.fix)),
        )
        for key, one in single_teachers(params).items()
        for found in [_teacher(one)]
    ]


def _teacher(params: SingleTeacher) -> Finding:
    """Where the teacher is, its dimension and its longest text; nothing is loaded or downloaded."""
    if isinstance(params, HashingTeacher):
        return Finding("teacher", f"hashing, built in, {params.dim} dimensions")
    if isinstance(params, OpenAiApiTeacher):
        return _api(params)
    if isinstance(params, ElmoTeacher):
        return _elmo(params)
    try:
        folder = teacher_folder(params)
        if folder is None:
            return Finding("teacher", f"{params.model}: {NOT_HERE}")
        length = params.max_length or model_folder.max_length(folder)
        dim = model_folder.dimension(folder) or "unknown"
        tokens = f"{length} tokens" if length else "no longest text"
        found = f"{params.model}: {dim} dimensions, {tokens}, in {folder}"
        return Finding("teacher", found, "" if length else "set teacher.max_length to 512, say")
    except UserError as error:
        return Finding("teacher", str(error), "edit teacher.model in the params file")


def _api(params: OpenAiApiTeacher) -> Finding:
    """The endpoint, whether its key is there (never the key), and the local model; nothing is sent."""
    variable = params.key_variable
    unset = variable is not None and not os.environ.get(variable, "").strip()
    key = f"key in {variable}, which is {'not ' * unset}set" if variable else "no key"
    if variable and params.sends_openly:
        key += " (and which plain http shows to others)"
    found = f"{params.model} at {params.url}, {key}"
    return _with_parts(found, params, f"export {variable}=..." if unset else "")


def _elmo(params: ElmoTeacher) -> Finding:
    """ELMo's files, by its options, and the local model."""
    try:
        width = elmo.read(elmo.find(params.model).options).width
    except UserError as error:
        return Finding("teacher", str(error), "edit teacher.model in the params file, or complete its files")
    return _with_parts(f"{params.model}: ELMo, {width} dimensions, {params.max_length} words", params, "")


def _with_parts(found: str, params: BorrowingTeacher, fix: str) -> Finding:
    """What was found of a teacher, and whether the local model that students start from is there."""
    try:
        teacher_folder(parts_of(params))
    except UserError as error:
        parts = str(error).replace("teacher.model", "teacher.parts")
        return Finding("teacher", f"{found}; {parts}", "edit teacher.parts in the params file")
    return Finding("teacher", f"{found}; parts of {params.parts}", fix)


def students(params: Params) -> list[Finding]:
    """The models and layers that students start from; nothing is loaded or downloaded."""
    named = {
        f"students.{name}.init.model": (block.init.model, block.init.revision)
        for name, block in params.students.items()
        if isinstance(block.init, TransformerInit | CompactInit) and block.init.model
    }
    return [*_layers(params), *_models("students", named)]


def task_teachers(params: Params) -> list[Finding]:
    """The models that are fine-tuned on classifiers' tasks; nothing is loaded or downloaded."""
    named = {
        f"classifiers.{name}.kd.teacher.model": (block.kd.teacher.model, block.kd.teacher.revision)
        for name, block in params.classifiers.items()
        if block.kd and block.kd.teacher
    }
    return _models("classifiers", named)


def _models(what: str, named: dict[str, tuple[str, str | None]]) -> list[Finding]:
    found = []
    for key, (model, revision) in named.items():
        try:
            folder = _folder(model, key, revision)
        except UserError as error:
            found.append(Finding(what, str(error), f"edit {key} in the params file"))
        else:
            found.append(Finding(what, f"{key}: {model}" + ("" if folder else f": {NOT_HERE}")))
    return found


def _layers(params: Params) -> Iterator[Finding]:
    """Layers that students ask for and that the teacher does not have, where its folder is here."""
    _, model = starting_teacher(params.teacher)
    if isinstance(model, HashingTeacher):
        return
    try:
        folder = teacher_folder(parts_of(model) if isinstance(model, BorrowingTeacher) else model)
        count = model_folder.layers(folder) if folder else None
    except UserError:
        return  # `teacher` says it
    for name, block in params.students.items():
        own = getattr(block.init, "model", None)
        layers = getattr(block.init, "layers", None)
        most = max(layers) if isinstance(layers, tuple) else 0
        if count and not own and most >= count:
            key = f"students.{name}.init.layers"
            said = f"{key} names layer {most}, the teacher has {count} (0 to {count - 1})"
            yield Finding("students", said, f"edit {key} in the params file")


def back_translation(params: BackTranslationAugment) -> list[Finding]:
    """The packages and models of back-translation, where it is enabled; nothing is loaded or downloaded."""
    if not params.enabled:
        return []
    found = []
    if missing := translation.missing_packages(params):
        said = f"{', '.join(missing)} not installed, but used by {translation.BLOCK}"
        found.append(Finding("back-translation", said, translation.EXTRA))
    waiting = [step for pivot in params.pivots for step in pivot if not _is_here(step)]
    for step in dict.fromkeys(waiting):
        found.append(Finding("back-translation", f"{step.model}: {NOT_HERE}"))
    here = [tuple(map(_local, pivot)) for pivot in params.pivots if all(map(_is_here, pivot))]
    try:
        ready = translation.find_pivots(params.model_copy(update={"pivots": tuple(here)}))
        if params.engine == "ctranslate2":
            for model in chain.from_iterable(ready):
                check_convertible(model)
    except UserError as error:
        return [
            *found,
            Finding("back-translation", str(error), f"edit {translation.BLOCK} in the params file"),
        ]
    said = f"{len(ready)} of {len(params.pivots)} pivots are ready for {params.engine}"
    return [*found, Finding("back-translation", said)]


def _is_here(step: TranslationStep) -> bool:
    """Whether a model is no hub model that is yet to be downloaded."""
    return not _on_hub(step.model) or _in_hub_cache(step.model, step.revision) is not None


def _local(step: TranslationStep) -> TranslationStep:
    """A step with the folder of its model, where that is the hub's cache."""
    folder = _in_hub_cache(step.model, step.revision) if _on_hub(step.model) else None
    return step.model_copy(update={"model": str(folder), "revision": None}) if folder else step


def is_here(params: Teacher) -> bool:
    """Whether a teacher can be looked at without a download."""
    if isinstance(params, HashingTeacher):
        return True
    if isinstance(params, EnsembleTeacher):
        return all(map(is_here, single_teachers(params).values()))
    if isinstance(params, BorrowingTeacher):
        params = parts_of(params)
    model, revision = params.model, params.revision
    return not _on_hub(model) or _in_hub_cache(model, revision) is not None


def teacher_folder(params: TransformerTeacher) -> Path | None:
    """The teacher's folder; None where it is a hub model that is not in the hub's cache."""
    return _folder(params.model, "teacher.model", params.revision)


def _folder(model: str, key: str, revision: str | None) -> Path | None:
    return _in_hub_cache(model, revision) if _on_hub(model) else find_model(model, key, revision=revision)


def _on_hub(model: str) -> bool:
    """Whether this names a model of the hub, and not a folder."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    if model.count("/") != 1 or model[0] in "./~" or model.startswith(PACKAGE) or Path(model).is_dir():
        return False
    try:
        validate_repo_id(model)
    except HFValidationError:
        return False
    return True


def _in_hub_cache(model: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(model, "config.json", revision=revision)
    return Path(config).parent if isinstance(config, str) else None


def wordnet(params: Params, nltk_data: Path) -> Finding:
    """WordNet, which is needed only where the params use it."""
    wrong = fault(nltk_data)
    if wrong is None:
        return Finding("wordnet", f"in {wordnet_folder(nltk_data)}")
    users = list(_wordnet_users(params))
    if not users:
        return Finding("wordnet", "not there, and not needed")
    return Finding("wordnet", f"{wrong}, but WordNet is used by {', '.join(users)}", "make setup")


def _wordnet_users(params: Params) -> Iterator[str]:
    if any(source.kind == "wordnet" for source in params.corpus.sources):
        yield "corpus.sources"
    if params.augment.wordnet.enabled:
        yield "augment.wordnet"
    if params.augment.transfer:
        yield "augment.transfer"
    for block, entries in (
        ("finetune.data", params.finetune.data),
        ("evaluate.tasks", params.evaluate.tasks),
    ):
        yield from (f"{block}.{name}" for name, entry in entries.items() if entry.kind.startswith("wordnet_"))


def files(params: Params) -> list[Finding]:
    """The user's own files: one line if all are there, else one for each that is not."""
    given = dict(params.user_files())
    missing = {key: path for key, path in given.items() if not named(path)}
    fix = "put it there, or edit the params file"
    if missing:
        return [Finding("files", f"{key}: {path} does not exist", fix) for key, path in missing.items()]
    return [Finding("files", f"all {len(given)} that the params name")] if given else []


def extras(params: Params) -> list[Finding]:
    """Optional packages that the params ask for."""
    users: dict[str, tuple[str, str]] = {}
    if any(isinstance(source, Documents) and source.split != "none" for source in params.corpus.sources):
        users |= {package: ("corpus.sources", "split") for package in SPLITTERS}
    if dataset := next(params.hub_datasets(), None):
        users["datasets"] = dataset, "datasets"
    if any(one.kind == "elmo" for one in single_teachers(params.teacher).values()):
        users |= {package: ("teacher", "elmo") for package in elmo.PACKAGES}
    if params.runtime.engine == "ray":
        users["ray"] = "runtime.engine", "ray"
    return [
        Finding(name, "installed")
        if find_spec(name)
        else Finding(name, f"not installed, but used by {user}", f"pip install -e '.[{extra}]'")
        for name, (user, extra) in users.items()
    ]
