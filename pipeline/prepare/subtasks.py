"""Which tasks `evaluate.tasks` stands for: `sts_sets` is seven tasks, `mnli` two, any other kind itself."""

from collections.abc import Mapping
from typing import Literal

from pipeline.core.errors import UserError
from pipeline.params.classes import MnliTask
from pipeline.params.evaluate import StsSets, StsTask, Task
from pipeline.params.load import Params

STS_SETS = {
    **{f"sts{year}": f"STS/STS{year}-en-test" for year in range(12, 17)},
    "stsb": "STS/STSBenchmark/sts-test.csv",
    "sickr": "SICK/SICK_test_annotated.txt",
}
"""The seven sets of the papers in SentEval's folder data/downstream."""
GENRES: tuple[Literal["matched", "mismatched"], ...] = ("matched", "mismatched")


def spelled_out(params: Params) -> Params:
    """The params with `evaluate.tasks` one by one.

    Raises:
        UserError: two tasks have one name.
    """
    evaluate = params.evaluate.model_copy(update={"tasks": one_by_one(params.evaluate.tasks)})
    return params.model_copy(update={"evaluate": evaluate})


def one_by_one(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Each task under its own name: NAME_sts12 to NAME_sickr, NAME_matched and NAME_mismatched.

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
                f"evaluate.tasks.{min(twice)}: two tasks have this name, one of kind sts_sets or mnli; "
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
        case MnliTask(genres=None):
            return {f"{name}_{genres}": task.model_copy(update={"genres": genres}) for genres in GENRES}
        case _:
            return {name: task}
