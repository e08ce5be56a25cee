"""reports/ledger.json: what every artifact is made of."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.export.ledger import origins
from pipeline.export.ledger.licences import Licence, strictest
from pipeline.export.ledger.origins import Facts, Origin
from pipeline.params.load import Params

TASKS = "evaluate.tasks."
SCORES_ONLY = Licence((), "not asked: it scores students, and no student is trained on it")
METHODS = ("wordnet", "back_translation")
CORPUS, EVAL, FINETUNE = "corpus", "eval", "finetune"


def ledger(
    params: Params,
    facts: Facts,
    finetuned: Mapping[str, bool],
    measured: Mapping[str, Mapping[str, Any]],
    weights: Sequence[str | None],
) -> dict[str, Any]:
    """The ledger of a run, as JSON has it.

    Args:
        params: of the run.
        facts: what `look` and `prepare` wrote of the origins.
        finetuned: student -> whether it ships what fine-tuning gave; without those that were not made.
        measured: artifact -> its rows and its digest, as far as they are known.
        weights: digest of each teacher's weights, in the order of the members of an ensemble.
    """
    made = {name: origins.of_student(name, params, facts, finetuned=ships) for name, ships in finetuned.items()}
    sets = _text_sets(params, facts)
    teachers = origins.teachers(params, facts)
    artifacts: dict[str, list[Origin]] = {
        "data/corpus/corpus.parquet": sets[CORPUS],
        "data/corpus/tasks.parquet": sets[EVAL],
        "data/corpus/triplets.parquet": sets[FINETUNE],
        **{f"data/gated/{method}.parquet": sets[method] for method in METHODS if method in sets},
        **{f"data/vectors/{name}": [*teachers, *found] for name, found in sets.items()},
        **{f"data/{kind}/{name}": found for kind in ("finetuned", "exported") for name, found in made.items()},
    }
    own = [one for found in artifacts.values() for one in found]
    digests = dict(zip([one.key for one in teachers if one.what == origins.TEACHER], weights, strict=False))
    return {
        "origins": {one.key: _written(one, digests.get(one.key), facts) for one in own},
        "artifacts": {
            path: {"made_of": [one.key for one in found], **measured.get(path, {})}
            for path, found in artifacts.items()
        },
        "students": {name: _licence(found) for name, found in made.items()},
    }


def _text_sets(params: Params, facts: Facts) -> dict[str, list[Origin]]:
    """What each set of texts is made of."""
    corpus = origins.corpus(params, facts)
    sets = {
        CORPUS: corpus,
        EVAL: [_task(key, facts) for key in facts.prepared["origins"] if key.startswith(TASKS)],
        FINETUNE: [origins.triplets(data, params, facts) for data in params.finetune.data],
    }
    for method in METHODS:
        if getattr(params.augment, method).enabled:
            sets[method] = [*corpus, *origins.augmentation(method, params, facts)]
    return sets


def _task(key: str, facts: Facts) -> Origin:
    prepared = facts.of(key)
    places = [*(file["name"] for file in prepared["files"]), *prepared["datasets"]]
    name = ", ".join(places) or origins.WORDNET_NAME
    return Origin(key, "evaluation", name, SCORES_ONLY, prepared=prepared, wordnet=not places)


def _written(origin: Origin, weights: str | None, facts: Facts) -> dict[str, Any]:
    """An origin, without what is not known of it."""
    files = facts.of("wordnet").get("files") if origin.wordnet else origin.prepared.get("files")
    told = {
        "what": origin.what,
        "name": origin.name,
        "licence": list(origin.licence.names),
        "licence_said": origin.licence.said,
        "revision": origin.revision,
        "languages": list(origin.languages),
        "hub": list(origin.hub_ids),
        "weights_sha256": weights,
        **{key: origin.prepared.get(key) for key in ("rows_in", "rows", "texts_sha256")},
        "files": files,
    }
    return {key: value for key, value in told.items() if value or key == "licence"}


def _licence(made_of: Sequence[Origin]) -> dict[str, Any]:
    """What a student's card names, and what is unknown."""
    found = strictest(one.licence for one in made_of)
    return {
        "license": found.identifier,
        "license_name": found.name,
        "unknown": [one.key for one in made_of if one.licence.unknown],
    }
