"""Which tasks `evaluate.tasks` stands for.

`sts_sets`, `word_similarity_sets`, `pearl` and `mnli` are several tasks, any other kind is itself.
"""

from collections.abc import Mapping

from pipeline.core.errors import UserError
from pipeline.params.classes import GENRES, MnliTask
from pipeline.params.evaluate import EntityResolutionTask, StsSets, StsTask, Task
from pipeline.params.load import Params
from pipeline.params.phrases import (
    ChoiceTask,
    ClusteringTask,
    FuzzyJoinTask,
    ParaphraseTask,
    PearlSet,
    PearlSets,
    WordSimilaritySets,
    WordSimilarityTask,
)

STS_SETS = {
    **{f"sts{year}": f"STS/STS{year}-en-test" for year in range(12, 17)},
    "stsb": "STS/STSBenchmark/sts-test.csv",
    "sickr": "SICK/SICK_test_annotated.txt",
}
"""The seven sets of the papers in SentEval's folder data/downstream."""
SEVERAL = ("sts_sets", "word_similarity_sets", "pearl or mnli")
"""Kinds that stand for others, for messages."""


def spelled_out(params: Params) -> Params:
    """The params with `evaluate.tasks` one by one.

    Raises:
        UserError: two tasks have one name.
    """
    evaluate = params.evaluate.model_copy(update={"tasks": one_by_one(params.evaluate.tasks)})
    return params.model_copy(update={"evaluate": evaluate})


def one_by_one(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Each task under its own name: NAME_sts12 to NAME_sickr, NAME_matched, NAME_men, NAME_turney, ...

    Args:
        tasks: `evaluate.tasks` of params, by name.

    Raises:
        UserError: two tasks have one name.
    """
    each: dict[str, Task] = {}
    for name, task in tasks.items():
        found = _subtasks(name, task)
        if twice := each.keys() & found.keys():
            raise UserError(
                f"evaluate.tasks.{min(twice)}: two tasks have this name, one of kind {', '.join(SEVERAL)}; "
                "rename one"
            )
        each |= found
    return each


def _subtasks(name: str, task: Task) -> dict[str, Task]:
    match task:
        case StsSets():
            folder = task.path.rstrip("/")
            return {
                f"{name}_{key}": StsTask(kind="sts", path=f"{folder}/{place}")
                for key, place in STS_SETS.items()
            }
        case WordSimilaritySets():
            return {
                f"{name}_{one}": WordSimilarityTask(kind="word_similarity", path=task.path, set=one)
                for one in task.sets
            }
        case PearlSets():
            return {f"{name}_{one}": _pearl(one, task) for one in task.sets}
        case MnliTask(genres=None):
            return {f"{name}_{genres}": task.model_copy(update={"genres": genres}) for genres in GENRES}
        case _:
            return {name: task}


def _pearl(one: PearlSet, task: PearlSets) -> Task:
    """A set in the files in which PEARL publishes it."""
    folder = task.path.rstrip("/")
    match one:
        case "bird":
            path = f"{folder}/bird/bird.tsv"
            return WordSimilarityTask(kind="word_similarity", path=path, metric="pearson")
        case "turney":
            return ChoiceTask(kind="choice", path=f"{folder}/turney/turney.tsv")
        case "ppdb" | "ppdb_filtered":
            return ParaphraseTask(kind="paraphrase", path=f"{folder}/ppdb/{one}.tsv")
        case "autofj":
            return FuzzyJoinTask(kind="fuzzy_join", path=task.tables or f"{folder}/autofj")
        case "yago" | "umls":
            return EntityResolutionTask(
                kind="entity_resolution",
                path=f"{folder}/{one}/{one}_test_samples.tsv",
                entity="label",
                label=None,
                candidates=f"{folder}/kb/{one}_kb.tsv",
            )
        case "conll" | "bc5cdr":
            return ClusteringTask(kind="clustering", path=f"{folder}/{one}/{one}.tsv", text="entity")
