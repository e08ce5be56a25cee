"""`classifiers:`: students that are trained on a task with labels, together with a head."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.machine import Precision
from pipeline.params.base import Auto, Block, Count, Fraction, Name, Positive, Seed, allowed
from pipeline.params.classes import GENRES, MnliTask, Probe
from pipeline.params.evaluate import Task
from pipeline.params.phrases import PARAPHRASES, PearlSets

LearningRates = Annotated[tuple[Positive, ...], Field(strict=False, min_length=1)]


class ClassifierTrain(Block):
    """How a classifier is trained: the student and its head, all parameters."""

    epochs: Positive = 3.0
    """Passes over the rows, those of the transfer set included."""
    batch_size: Count = 64
    """Rows an optimizer step."""
    lr: Annotated[LearningRates | Auto, allowed("auto, a list of numbers above 0")] = "auto"
    """Peak learning rates of Adam to choose from: each trains a classifier, and dev rows choose. `auto`:
    2e-4, 3e-4, 5e-4 and 1e-3, as SRA, for BiLSTMs and tables; 2e-5, 5e-5 and 1e-4 for other encoders."""
    warmup: Fraction = 0.1
    """Share of the steps in which the learning rate rises; it falls to zero by the last one."""
    evaluations: Count = 10
    """How often dev rows are scored; the best weights so far are kept."""
    precision: Precision = "auto"
    """Of the forward and backward passes, as in `students.NAME.train`."""
    seed: Seed = 0
    """Seed of the head's start and of the order of the rows."""


class TaskTeacher(Block):
    """Knowledge distillation from a head on the teacher's cached vectors: no teacher is loaded."""

    alpha: Fraction = 0.0
    """Weight of the cross-entropy; that of the squared distance to the head's logits is 1 - alpha (Tang et
    al. 2019, who take 0)."""


class Classifier(Block):
    """A student and a head, trained together on a task's labels (SRA, section 3.2)."""

    student: Name
    """Whose encoder it has, by its name under `students`."""
    start: Literal["untrained", "distilled", "finetuned"]
    """Where its encoder starts: before distillation, after it, or as the student ships. The first is the
    baseline that shows what distillation brings."""
    task: Name
    """A task with labels, by its name under `evaluate.tasks`."""
    hidden: Count = 256
    """ReLU units of the head, which reads a text's vector u, or [u, v, |u-v|, u*v] of a pair."""
    kd: TaskTeacher | None = None
    """null: the labels alone."""
    transfer: bool = False
    """Whether it is also trained on the texts that `augment.transfer` makes of the task's (TS); the task
    teacher of `kd` labels them."""
    fractions: Annotated[tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...], Field(strict=False)] = (1.0,)
    """Learning curve: it is also trained on these shares of the training rows, and with `kd` the task
    teacher too. Not with `transfer`, whose texts are made of all rows."""
    seeds: Count = 1
    """Classifiers whose scores are averaged, by seeds from `train.seed` on. The first one ships."""
    train: ClassifierTrain = ClassifierTrain()


def with_labels(tasks: Mapping[str, Task]) -> dict[str, str]:
    """Names of the tasks with labels, as tables have them, and that of the entry which each one is of.

    Args:
        tasks: `evaluate.tasks`, by name; of these `mnli` and `pearl` are several.
    """
    found: dict[str, str] = {}
    for name, task in tasks.items():
        match task:
            case MnliTask(genres=None):
                names = [f"{name}_{genres}" for genres in GENRES]
            case PearlSets():
                names = [f"{name}_{one}" for one in task.sets if one in PARAPHRASES]
            case Probe():
                names = [name]
            case _:
                names = []
        found |= dict.fromkeys(names, name)
    return found


def classifier_faults(name: str, block: Classifier) -> Iterator[str]:
    """What a block cannot have together."""
    if block.transfer and block.kd is None:
        yield (
            f"classifiers.{name}.transfer: texts of the transfer set have the task teacher's labels alone; "
            "add kd: {alpha: 0.0}, or set transfer to false"
        )
    if block.transfer and any(share < 1 for share in block.fractions):
        yield (
            f"classifiers.{name}.fractions: the transfer set is made of all training rows, so no share of "
            "them says what few give; set fractions to [1.0], or transfer to false"
        )
