"""reports/ledger.json: what every artifact is made of, and the page's table of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.export.shared.ledger import origins
from pipeline.export.shared.ledger.licences import OF_WORDNET, UNDECLARED, Licence, strictest
from pipeline.export.shared.ledger.origins import Facts, Origin
from pipeline.params.load import Params
from pipeline.params.teacher import SingleTeacher, TransformerTeacher, single_teachers
from pipeline.report.artifacts import Weights
from pipeline.report.numbers import NOTHING

TASKS = "evaluate.tasks."
SCORES_ONLY = Licence((), "not asked: it scores students, and nothing is trained on it", nothing=True)
METHODS = ("wordnet", "back_translation")
CORPUS, TRANSFER, EVAL, FINETUNE = "corpus", "transfer", "eval", "finetune"
TUNED = "data/tuned_teacher"
SHOWN_DIGITS = 12


@dataclass(frozen=True)
class Row:
    """An origin as shown."""

    what: str
    name: str
    rows: str
    licence: str
    unknown: bool
    digest: str


@dataclass(frozen=True)
class Terms:
    """What a student's card names as its licence, and the origins whose licence is unknown."""

    student: str
    licence: str
    unknown: str


@dataclass(frozen=True)
class LedgerView:
    """The ledger as shown."""

    rows: tuple[Row, ...]
    students: tuple[Terms, ...]


def ledger(
    params: Params,
    facts: Facts,
    finetuned: Mapping[str, bool],
    measured: Mapping[str, Mapping[str, Any]],
    weights: Sequence[Weights],
) -> dict[str, Any]:
    """The ledger of a run, as JSON has it.

    Args:
        params: of the run.
        facts: what `look` and `prepare` wrote of the origins.
        finetuned: student -> whether it ships what fine-tuning gave; without those that were not made.
        measured: artifact -> its rows and digests, as far as they are known.
        weights: of each teacher, in the order of the members of an ensemble.
    """
    made = {
        name: origins.of_student(name, params, facts, finetuned=ships) for name, ships in finetuned.items()
    }
    sets, teachers = _text_sets(params, facts), origins.teachers(params, facts)
    artifacts: dict[str, list[Origin]] = {
        "data/corpus/corpus.parquet": sets[CORPUS],
        "data/corpus/tasks.parquet": sets[EVAL],
        "data/corpus/triplets.parquet": sets[FINETUNE],
        **{f"data/gated/{method}.parquet": sets[method] for method in METHODS if method in sets},
        **{f"data/vectors/{name}": _distinct([*teachers, *found]) for name, found in sets.items()},
        **{
            f"data/{kind}/{name}": found for kind in ("finetuned", "exported") for name, found in made.items()
        },
        **{
            f"data/exported_classifiers/{name}": [
                *origins.of_encoder(name, made[one.student], params, facts),
                _task(f"{TASKS}{one.task}", params, facts),
            ]
            for name, one in params.classifiers.items()
            if one.student in made
        },
    }
    distinct = {one.key: one for found in (teachers, *artifacts.values()) for one in found}
    digests = {}
    for (key, block), found in zip(single_teachers(params.teacher).items(), weights, strict=True):
        if is_tuned(block, found):
            artifacts[TUNED] = teachers
            measured = {**measured, TUNED: {"weights_sha256": found.sha256}}
        else:
            digests[key] = found.sha256
    return {
        "origins": {key: _written(one, digests.get(key), facts) for key, one in distinct.items()},
        "artifacts": {
            path: {"made_of": [one.key for one in found], **measured.get(path, {})}
            for path, found in artifacts.items()
        },
        "students": {name: _terms(found) for name, found in made.items()},
    }


def is_tuned(block: SingleTeacher, weights: Weights) -> bool:
    """Whether a teacher's vectors are of weights that its fine-tuning changed."""
    if not isinstance(block, TransformerTeacher) or block.finetune is None:
        return False
    return weights.model != Path(block.model).name


def _distinct(found: list[Origin]) -> list[Origin]:
    """Each origin once: the teacher's triplets may be those of the text set too."""
    return [*{one.key: one for one in found}.values()]


def view(written: Mapping[str, Any]) -> LedgerView:
    """The page's tables of a ledger."""
    found = written["origins"]
    rows = (
        Row(
            what=one["what"],
            name=one["name"] + (f" at {one['revision']}" if "revision" in one else ""),
            rows=f"{one['rows']:,}" if "rows" in one else NOTHING,
            licence=one["licence_said"],
            unknown=one["unknown"],
            digest=_digest(one),
        )
        for one in found.values()
    )
    students = (
        Terms(
            name,
            terms["license_name"] or terms["license"] or NOTHING,
            ", ".join(dict.fromkeys(found[key]["name"] for key in terms["unknown"])) or NOTHING,
        )
        for name, terms in written["students"].items()
    )
    return LedgerView(tuple(rows), tuple(students))


def _text_sets(params: Params, facts: Facts) -> dict[str, list[Origin]]:
    """What each set of texts is made of."""
    corpus = origins.corpus(params, facts)
    made = {
        method: [*corpus, *origins.augmentation(method, params, facts)]
        for method in METHODS
        if getattr(params.augment, method).enabled
    }
    tasks = [key for key in facts.prepared["origins"] if key.startswith(TASKS)]
    if params.augment.transfer:
        chosen, known = params.augment.transfer.tasks, params.evaluate.tasks
        names = {key: key.removeprefix(TASKS) for key in tasks}
        # "mnli" stands for mnli_matched and mnli_mismatched, which params do not name.
        of = {key: name if name in known else name.rpartition("_")[0] for key, name in names.items()}
        made[TRANSFER] = [_task(key, params, facts) for key in tasks if of[key] in chosen]
    return {
        CORPUS: corpus,
        **made,
        EVAL: [_task(key, params, facts) for key in tasks],
        FINETUNE: [origins.triplets(data, params, facts) for data in params.finetune.data],
    }


def _task(key: str, params: Params, facts: Facts) -> Origin:
    """A task; the licence of one that a classifier is trained on is asked for."""
    prepared = facts.of(key)
    places = [*(file["name"] for file in prepared["files"]), *prepared["datasets"]]
    name = ", ".join(places) or origins.WORDNET_NAME
    what = f"evaluation task {key.removeprefix(TASKS)}"
    licence = SCORES_ONLY
    if key.removeprefix(TASKS) in {one.task for one in params.classifiers.values()}:
        licence = UNDECLARED if places else OF_WORDNET
    return Origin(key, what, name, licence, prepared=prepared, wordnet=not places)


def _written(origin: Origin, weights: str | None, facts: Facts) -> dict[str, Any]:
    """An origin, without what is not known of it, but for its licence."""
    told = {
        "revision": origin.revision,
        "languages": list(origin.languages),
        "hub": list(origin.hub_ids),
        "weights_sha256": weights,
        **{key: origin.prepared.get(key) for key in ("rows_in", "rows", "texts_sha256")},
        "files": facts.of("wordnet").get("files") if origin.wordnet else origin.prepared.get("files"),
    }
    return {
        "what": origin.what,
        "name": origin.name,
        "licence": list(origin.licence.names),
        "licence_said": origin.licence.said,
        "unknown": origin.licence.unknown,
        **{key: value for key, value in told.items() if value not in (None, [])},
    }


def _terms(made_of: Sequence[Origin]) -> dict[str, Any]:
    found = strictest(one.licence for one in made_of)
    return {
        "license": found.identifier,
        "license_name": found.name,
        "unknown": [one.key for one in made_of if one.licence.unknown],
    }


def _digest(origin: Mapping[str, Any]) -> str:
    """The start of what tells an origin from others: of its weights, its one file, or its texts."""
    files = origin.get("files", ())
    if "weights_sha256" in origin:
        return f"weights {origin['weights_sha256'][:SHOWN_DIGITS]}"
    if len(files) == 1:
        return f"file {files[0]['sha256'][:SHOWN_DIGITS]}"
    return f"texts {origin['texts_sha256'][:SHOWN_DIGITS]}" if "texts_sha256" in origin else NOTHING
