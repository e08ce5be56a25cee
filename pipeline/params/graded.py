"""Which test tasks have graded pairs, that `footprint.pairs` may name."""

from collections.abc import Iterator, Mapping

from pipeline.params.evaluate import STS_SETS, StsSets, Task
from pipeline.params.phrases import PearlSets, WordSimilaritySets


def graded_tasks(tasks: Mapping[str, Task]) -> list[str]:
    """Their names. A task that stands for several gives those of its sets: NAME_stsb, NAME_men, NAME_bird.

    Args:
        tasks: `evaluate.tasks`, by name.
    """
    return [one for name, task in tasks.items() for one in _names(name, task)]


def _names(name: str, task: Task) -> list[str]:
    match task:
        case StsSets():
            return [f"{name}_{one}" for one in STS_SETS]
        case WordSimilaritySets():
            return [f"{name}_{one}" for one in task.sets]
        case PearlSets():
            return [f"{name}_bird"] if "bird" in task.sets else []
        case _:
            tested = getattr(task, "split", "test") == "test"
            return [name] if task.scoring == "sts" and tested else []


def pairs_fault(wanted: str | None, tasks: Mapping[str, Task]) -> Iterator[str]:
    """What is wrong with `footprint.pairs`."""
    known = graded_tasks(tasks)
    if wanted is not None and wanted not in known:
        yield (
            f"footprint.pairs is {wanted!r}, no test task of graded pairs; "
            + (f"name one ({', '.join(known)}), or set it to null" if known else "set it to null")
        )
