"""`classifiers:`: students that are trained on a task with labels, together with a head."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.machine import Precision
from pipeline.params.base import Auto, Block, Count, Fraction, Name, Positive, Seed, allowed
from pipeline.params.classes import GENRES, MnliTask, Probe
from pipeline.params.evaluate import Task
from pipeline.params.layers import Layers
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


class TunedTeacher(ClassifierTrain):
    """A pretrained encoder that is fine-tuned on the task's labels, all parameters, with a head of its own.

    It reads both texts of a pair together (Devlin et al. 2019). What it says is cached in `runtime.cache`:
    classifiers with equal blocks, of one task, train it once.
    """

    model: Annotated[str, Field(min_length=1)]
    """A folder, a hub id, or `package:NAME/FOLDER`."""
    revision: str | None = None
    """Commit, branch or tag of a hub model."""
    layers: Layers = None
    """The layers that it keeps, as in `students.NAME.init`. null: all."""
    pooling: Literal["cls", "mean"] = "cls"
    """What its head reads: the first token's last state, or the mean of all."""
    hidden: Count = 256
    """ReLU units of its head."""
    max_length: Annotated[Annotated[int, Field(ge=3)] | Auto, allowed("auto, a number from 3 on")] = "auto"
    """Tokens of a text, or of a pair, special ones included; of a pair, the longer text is cut first. `auto`:
    512, but no more than the model has positions for."""


class Patience(Block):
    """The first token's states of several layers, learned from the task teacher's (PKD, Sun et al. 2019)."""

    weight: Positive = 100.0
    """beta: of the mean squared distance of the states, each brought to length 1 (eq. 7). The paper chooses
    from 10, 100, 500 and 1000."""
    layers: Literal["skip", "last"] = "skip"
    """Which of the teacher's layers the student's learn from, all but its last one: every k-th, or the last
    ones before the last."""


class TaskTeacher(Block):
    """Knowledge distillation from a task teacher."""

    alpha: Fraction = 0.0
    """Weight of the cross-entropy; that of the distance to the task teacher's logits is 1 - alpha (Tang et
    al. 2019, who take 0)."""
    distance: Literal["squared", "kl"] = "squared"
    """`squared`: of the logits (Tang et al. 2019). `kl`: the divergence of the softmax at `temperature`; its
    gradient is that of the softened cross-entropy (Sun et al. 2019, eq. 2)."""
    temperature: Positive = 1.0
    """By which `kl` divides the logits of both. Sun et al. choose from 5, 10 and 20."""
    teacher: TunedTeacher | None = None
    """null: a head on the teacher's cached vectors, and no model is loaded."""
    patience: Patience | None = None
    """null: the logits alone."""


class Classifier(Block):
    """A student and a head, trained together on a task's labels (SRA, section 3.2)."""

    student: Name
    """Whose encoder it has, by its name under `students`."""
    start: Literal["untrained", "distilled", "finetuned"]
    """Where its encoder starts: before distillation, after it, or as the student ships. The first is the
    baseline that shows what distillation brings."""
    task: Name
    """A task with labels, by its name under `evaluate.tasks`."""
    read: Literal["apart", "together"] = "apart"
    """How pairs are read: each text encoded alone, or both as one input, by the tokenizer's own template for
    pairs (Devlin et al. 2019). `together` is for tasks of pairs and students of kind transformer."""
    hidden: Count = 256
    """ReLU units of the head. It reads the vector u of a text, or of a pair that is read together, or [u, v,
    |u-v|, u*v] of a pair whose texts are read apart."""
    kd: TaskTeacher | None = None
    """null: the labels alone."""
    transfer: bool = False
    """Whether it is also trained on the texts that `augment.transfer` makes of the task's (TS); the task
    teacher of `kd` labels them."""
    fractions: Annotated[tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...], Field(strict=False)] = (1.0,)
    """Learning curve: it is also trained on these shares of the training rows, and with `kd` the task
    teacher too. Not with `transfer`, whose texts are made of all rows, nor with `kd.teacher`, which is
    fine-tuned on all rows."""
    seeds: Count = 1
    """Classifiers whose scores are averaged, by seeds from `train.seed` on. The first one ships."""
    train: ClassifierTrain = ClassifierTrain()


SINGLE = ("classification", "sst2", "wordnet_supersense")
"""Kinds of tasks with labels whose rows are single texts; those of all others are pairs."""


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
    if block.kd is None:
        return
    where, kd = f"classifiers.{name}.kd", block.kd
    if kd.teacher and any(share < 1 for share in block.fractions):
        yield (
            f"classifiers.{name}.fractions: the model of kd.teacher is fine-tuned on all training rows, so "
            "no share of them says what few give; set fractions to [1.0], or kd.teacher to null"
        )
    if kd.patience and kd.teacher is None:
        yield (
            f"{where}.patience reads the layers of a model, and kd.teacher is null; name a model there, or "
            "set patience to null"
        )
    if kd.distance == "squared" and kd.temperature != 1:
        yield f"{where}.temperature is of `distance: kl`; set that, or remove temperature"


def pair_faults(name: str, block: Classifier, kind: str, student: str) -> Iterator[str]:
    """What a block asks of pairs, or of layers, that its task or its student does not have.

    Args:
        name: the classifier's.
        block: its block.
        kind: its task's.
        student: its student's kind.
    """
    where = f"classifiers.{name}"
    if block.read == "together" and kind in SINGLE:
        yield f"{where}.read is together, and {block.task} has single texts; remove it"
    if block.read == "together" and student != "transformer":
        yield (
            f"{where}.read is together, and {block.student} is a {student} student, which reads no pairs; "
            "set it to apart, or name a student of kind transformer"
        )
    if block.kd is None or block.kd.patience is None:
        return
    if student != "transformer":
        yield (
            f"{where}.kd.patience compares layers, and {block.student} is a {student} student; set it to "
            "null, or name a student of kind transformer"
        )
    elif block.read == "apart" and kind not in SINGLE:
        yield (
            f"{where}.kd.patience compares what student and teacher make of a pair, and the teacher reads "
            "both texts together; set read to together, or patience to null"
        )
