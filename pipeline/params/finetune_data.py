"""What data of `finetune:` are read from, and what does not go together with the blocks that name them."""

from collections.abc import Collection, Iterator, Mapping

from pipeline.params.classes import ClassificationTask, Sst2Task
from pipeline.params.classifiers import with_labels
from pipeline.params.corpus import FinetuneBlock, FinetuneData, TaskPairs
from pipeline.params.evaluate import Task, WordNetSupersense
from pipeline.params.finetune import Contrast, Finetune

OF_SINGLE_TEXTS = (ClassificationTask, Sst2Task, WordNetSupersense)


def source_of(block: FinetuneBlock, tasks: Mapping[str, Task]) -> FinetuneBlock | Task:
    """The block that names the files of data: their own, or the task's whose pairs they are."""
    return tasks[with_labels(tasks)[block.task]] if isinstance(block, TaskPairs) else block


def finetune_faults(
    params: FinetuneData,
    tuned: Mapping[str, Contrast | None],
    tasks: Mapping[str, Task],
    views: Collection[str],
) -> Iterator[str]:
    """A line for each fault.

    Args:
        params: `finetune:`.
        tuned: the blocks of fine-tuning, by their key.
        tasks: `evaluate.tasks`.
        views: `encode.views`.
    """
    if params.mine and params.mine.negatives and "sentence" not in views:
        yield (
            "finetune.mine compares the view 'sentence', which is not encoded; add it to encode.views "
            f"({', '.join(views)}), or set finetune.mine to null"
        )
    known = with_labels(tasks)
    of_pairs = [name for name, entry in known.items() if not isinstance(tasks[entry], OF_SINGLE_TEXTS)]
    for name, block in params.data.items():
        if isinstance(block, TaskPairs) and block.task not in of_pairs:
            yield (
                f"finetune.data.{name}.task names {block.task!r}; evaluate.tasks of pairs with labels: "
                f"{', '.join(of_pairs) or 'none'}; name one of them"
            )
    for key, one in tuned.items():
        if one is not None:
            yield from _misfits(key, one, params)


def _misfits(key: str, tuned: Contrast, params: FinetuneData) -> Iterator[str]:
    """What a block of fine-tuning asks of `finetune:` that is not there."""
    if isinstance(tuned, Finetune) and tuned.loss == "cosines":
        if params.mine is None:
            yield (
                f"{key}.loss: cosines reads the teacher's vectors of the texts of finetune.data, which "
                "`finetune.mine: null` leaves out; set finetune.mine to {negatives: 0}"
            )
        return
    for name in tuned.data:
        if isinstance(params.data.get(name), TaskPairs):
            yield (
                f"{key}.data names {name!r}, whose pairs (kind: task) nobody calls positives; name other data"
                + (f", or set {key}.loss to cosines" if isinstance(tuned, Finetune) else "")
            )
