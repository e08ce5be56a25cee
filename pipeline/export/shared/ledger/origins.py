"""What a student is made from: models, texts and triplets, each with its licence, as far as it is known."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.core.errors import UserError
from pipeline.data.common.files import metrics
from pipeline.export.shared.ledger.licences import OF_WORDNET, OTHER, UNDECLARED, UNKNOWN, Licence, canonical
from pipeline.params.base import HUB, without_folders
from pipeline.params.classifiers import TunedTeacher
from pipeline.params.corpus import RetrievalTriplets, Source, TaskPairs, TripletFile, WordNetTriplets
from pipeline.params.finetune_data import source_of
from pipeline.params.load import Params
from pipeline.params.students import CompactInit, StudentBlock
from pipeline.params.teacher import BorrowingTeacher, HashingTeacher, TransformerTeacher, single_teachers

SHARED, OF_STUDENTS = "shared.json", "students"
"""What `look` writes of the models' cards: of all students', and of each student's own."""
TEACHER, OF_THE_TEACHER = "the teacher", "triplets that the teacher is fine-tuned on"
WORDNET_NAME = "WordNet 3.0"
FILES_OF_WORDS = {"path": "word vectors", "pieces": "their tokenizer", "word_list": "a list of words"}
"""Keys of `init` that name a file, and what it gives."""


@dataclass(frozen=True)
class Origin:
    """One thing that artifacts are made of."""

    key: str
    """Where params.yaml names it: teacher, corpus.sources.0, ..."""
    what: str
    """What it gives: the teacher, texts, triplets, ..."""
    name: str
    """As others read it, without folders of this machine."""
    licence: Licence
    languages: tuple[str, ...] = ()
    """ISO 639 codes; (): unknown."""
    hub_ids: tuple[str, ...] = ()
    """Of the model, or of the datasets."""
    revision: str | None = None
    prepared: Mapping[str, Any] = field(default_factory=dict)
    """What `prepare` counted: rows_in, rows, texts_sha256, files."""
    wordnet: bool = False

    @property
    def rows(self) -> int | None:
        """Rows that are used; None: it has none, as a model."""
        return self.prepared.get("rows")


@dataclass(frozen=True)
class Facts:
    """What other stages wrote of the origins."""

    cards: Mapping[str, Mapping[str, Any]]
    """By key, what the models' cards say: `look.model_cards.Facts`."""
    prepared: Mapping[str, Any]
    """origins.json of `prepare`: {"origins", "tables"}."""

    def card(self, key: str) -> Mapping[str, Any]:
        """What a model's card says.

        Raises:
            UserError: the file is of other params.
        """
        if key not in self.cards:
            raise UserError(f"data/model_cards has nothing on {key} of params.yaml; run `dvc repro look`")
        return self.cards[key]

    def of(self, key: str) -> Mapping[str, Any]:
        """What `prepare` counted of a source."""
        found: Mapping[str, Any] = self.prepared["origins"].get(key, {})
        return found


def read(cards: Path, origins: Path, *students: str) -> Facts:
    """Read the facts of the run, and of these students' own models.

    Raises:
        UserError: a file is missing or damaged.
    """
    files = [cards / SHARED, *(cards / OF_STUDENTS / f"{name}.json" for name in students)]
    found: dict[str, Any] = {}
    for file in files:
        found |= metrics.read(file, "look")
    return Facts(found, metrics.read(origins, "prepare"))


def of_student(name: str, params: Params, facts: Facts, *, finetuned: bool) -> list[Origin]:
    """All that a student is made from; `finetuned`: it ships what fine-tuning gave.

    Without distillation, the teacher and the corpus are named where its start, its whitening or its
    fine-tuning may read them: one name too many breaks no licence.
    """
    block = params.student(name)
    read_sets, made = block.train.texts if block.train else {}, params.augment
    tuned = finetuned and block.finetune is not None
    of_teachers = teachers(params, facts) if tuned or _reads_teacher(block) else []
    found = [
        *of_teachers,
        *_start(name, params, facts),
        *(corpus(params, facts) if tuned or _reads_corpus(block) else []),
    ]
    if "wordnet" in read_sets and made.wordnet.enabled:
        found += augmentation("wordnet", params, facts)
    if "back_translation" in read_sets and made.back_translation.enabled:
        found += augmentation("back_translation", params, facts)
    if block.finetune and finetuned:
        known = {one.key for one in of_teachers}
        own = [triplets(data, params, facts) for data in block.finetune.data]
        found += [one for one in own if one.key not in known]
    return found


def of_classifier(name: str, params: Params, facts: Facts) -> list[Origin]:
    """All that a classifier is made from; `evaluate.tasks` of the params one by one."""
    block = params.classifier(name)
    student = params.student(block.student)
    finetuned = block.start == "finetuned" and student.finetune is not None
    key, task = f"evaluate.tasks.{block.task}", params.evaluate.tasks[block.task]
    if task.kind == "wordnet_supersense":
        labels = _wordnet(key, "labels", facts)
    else:
        labels = Origin(key, "labels", _place_of_task(task), UNDECLARED)
    made_of = of_student(block.student, params, facts, finetuned=finetuned)
    return [*of_encoder(name, made_of, params, facts), labels]


def of_encoder(name: str, made_of: Sequence[Origin], params: Params, facts: Facts) -> list[Origin]:
    """What a classifier's student is made of, and first what the task teacher is made of."""
    known, kd = {one.key for one in made_of}, params.classifiers[name].kd
    if kd and kd.teacher:
        return [_task_teacher(name, kd.teacher, params, facts), *made_of]
    taught = teachers(params, facts) if kd else []
    return [*(one for one in taught if one.key not in known), *made_of]


def _task_teacher(name: str, block: TunedTeacher, params: Params, facts: Facts) -> Origin:
    """A model that is fine-tuned on a task; its licence is known where the params name it elsewhere too."""
    student = params.classifiers[name].student
    others: dict[str, Any] = {
        key: one
        for key, one in single_teachers(params.teacher).items()
        if isinstance(one, TransformerTeacher)
    }
    others[f"students.{student}.init.model"] = params.student(student).init
    own, what = f"classifiers.{name}.kd.teacher.model", "the teacher of the task"
    for key, one in others.items():
        if (getattr(one, "model", None), getattr(one, "revision", None)) == (block.model, block.revision):
            return replace(_model(key, what, block.model, facts, block.revision), key=own)
    local = block.model.startswith((".", "/", "~", "package:")) or Path(block.model).is_dir()
    hub_ids = () if local else (block.model,)
    licence = Licence((), "unknown; check it")
    return Origin(own, what, without_folders(block.model), licence, (), hub_ids, block.revision)


def ships_finetuned(scored: Mapping[str, Any]) -> bool:
    """Whether fine-tuning changed a student, by the metrics that `evaluate` wrote.

    Where no dev score rose, a student ships as distilled, but for a projection, which is fitted on the
    triplets, and for whitening: what that hides counts as fine-tuned.
    """
    return bool(scored["ships"] == "finetuned")


def teachers(params: Params, facts: Facts) -> list[Origin]:
    """The teacher, or the members of an ensemble, and what it is fine-tuned on.

    That is named where no dev score rose too, as all that chose its weights.
    """
    found = []
    for key, one in single_teachers(params.teacher).items():
        if isinstance(one, HashingTeacher):
            said = Licence((), facts.card(key)["said"], nothing=True)
            found.append(Origin(key, TEACHER, "a hashing teacher", said))
            continue
        revision = getattr(one, "revision", None)
        found.append(_model(key, TEACHER, one.model, facts, revision))
        if isinstance(one, BorrowingTeacher):
            found.append(_model(f"{key}.parts", "the model that students start from", one.parts, facts))
        if isinstance(one, TransformerTeacher) and one.finetune:
            found += [triplets(data, params, facts, OF_THE_TEACHER) for data in one.finetune.data]
    return found


def corpus(params: Params, facts: Facts) -> list[Origin]:
    """The sources of the corpus, in their order."""
    found = []
    for number, source in enumerate(params.corpus.sources):
        key = f"corpus.sources.{number}"
        if source.kind == "wordnet":
            found.append(_wordnet(key, "glosses and examples", facts))
            continue
        # The default serves to split texts, and says nothing of a source that nobody called English.
        languages = (source.language,) if "language" in source.model_fields_set else ()
        found.append(_texts(key, "texts", _place(source), source.licence, facts, languages))
    return found


def augmentation(method: str, params: Params, facts: Facts) -> list[Origin]:
    """What a method of augmentation adds to the corpus."""
    if method == "wordnet":
        return [_wordnet("augment.wordnet", "synonyms put into the texts", facts)]
    return [
        _model(
            f"augment.back_translation.pivots.{number}.{place}",
            "translation of the texts and back",
            step.model,
            facts,
            step.revision,
        )
        for number, pivot in enumerate(params.augment.back_translation.pivots)
        for place, step in enumerate(pivot)
    ]


def triplets(data: str, params: Params, facts: Facts, what: str = "triplets") -> Origin:
    """A block of `finetune.data`; `what` it gives."""
    key, block = f"finetune.data.{data}", params.finetune.data[data]
    if isinstance(block, WordNetTriplets):
        return _wordnet(key, what, facts)
    if isinstance(block, TaskPairs):
        task = source_of(block, params.evaluate.tasks)
        return _texts(key, what, _place_of_task(task), None, facts)
    return _texts(key, what, _place(block), block.licence, facts)


def _reads_teacher(block: StudentBlock) -> bool:
    """Whether a student has weights, tokens, targets or prompts of the teacher's."""
    from_elsewhere = getattr(block.init, "model", None) or getattr(block.init, "path", None)
    return not from_elsewhere or block.meets_targets or block.init.prompts == "teacher"


def _reads_corpus(block: StudentBlock) -> bool:
    """Whether texts of the corpus choose a student's weights or tokens, or its last layer."""
    init = block.init
    chosen = getattr(init, "tokens", None) or getattr(init, "words", None)
    solved = isinstance(init, CompactInit) and init.table == "svd"
    return bool(block.meets_targets or chosen or solved or block.whitening)


def _start(name: str, params: Params, facts: Facts) -> Iterator[Origin]:
    """The model or the files of words that a student starts from, beside its teacher."""
    init = params.student(name).init
    if model := getattr(init, "model", None):
        key, revision = f"students.{name}.init.model", getattr(init, "revision", None)
        yield _model(key, "the model that the student starts from", model, facts, revision)
    undeclared = Licence((), "unknown; check it")
    for key, what in FILES_OF_WORDS.items():
        if path := getattr(init, key, None):
            yield Origin(f"students.{name}.init.{key}", what, without_folders(path), undeclared)


def _model(key: str, what: str, model: str, facts: Facts, revision: str | None = None) -> Origin:
    card = facts.card(key)
    licence = Licence(tuple(map(canonical, card["licences"])), card["said"])
    hub_ids = (card["hub_id"],) if card["hub_id"] else ()
    return Origin(key, what, without_folders(model), licence, tuple(card["languages"]), hub_ids, revision)


def _wordnet(key: str, what: str, facts: Facts) -> Origin:
    prepared = facts.of(key)
    return Origin(key, what, WORDNET_NAME, OF_WORDNET, ("en",), prepared=prepared, wordnet=True)


def _texts(
    key: str, what: str, name: str, licence: str | None, facts: Facts, languages: tuple[str, ...] = ()
) -> Origin:
    prepared = facts.of(key)
    return Origin(
        key,
        what,
        name,
        _declared(licence),
        languages,
        tuple(prepared.get("datasets", ())),
        prepared=prepared,
    )


def _declared(licence: str | None) -> Licence:
    if licence is None or canonical(licence) in (OTHER, UNKNOWN):
        return UNDECLARED
    return Licence((canonical(licence),), f"{licence}, as params.yaml says")


def _place_of_task(task: object) -> str:
    """The training rows' files, or the folder."""
    return without_folders(str(getattr(task, "train", None) or getattr(task, "path", "")))


def _place(block: Source | TripletFile | RetrievalTriplets) -> str:
    """A file's path or a dataset's address, without folders of this machine."""
    if block.kind == "huggingface":
        address = f"{HUB}{block.dataset}" + (f"@{block.revision}" if block.revision else "")
        config = f"config={block.config}&" if block.config else ""
        return without_folders(f"{address}?{config}split={block.dataset_split}")
    return without_folders(getattr(block, "path", block.kind))
