"""What each step added to the score of a student: augmentation, distillation, fine-tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.params import mixture
from pipeline.report.inputs import DISTILLED, FINETUNED, UNTRAINED, FinetuneMetrics, StudentMetrics
from pipeline.report.numbers import NOTHING, percent, score

CORPUS = "corpus"
SHIPS = {
    "finetuned": "fine-tuned weights",
    "distilled": "distilled weights",
    "untrained": "untrained weights",
    "projected": "weights before fine-tuning, projected",
}
WHITENED = ", whitened"
UNKNOWN_AUGMENTATION = (
    "To see what augmentation adds to the score, add a second student that differs only in `train.texts: "
    "[corpus]`. This section then shows the difference."
)


@dataclass(frozen=True)
class Added:
    """One student step by step; scores and gains as shown."""

    student: str
    augmented: str
    untrained: str
    distilled: str
    distilling: str
    shipped: str
    finetuning: str
    dev: tuple[str, str]
    ships: str
    reason: str


def added(metrics: StudentMetrics, stage: FinetuneMetrics, distill: Mapping[str, Any]) -> Added:
    """The average score of a student before and after each step, and why it ships what it ships.

    Args:
        metrics: its scores.
        stage: what fine-tuning reported.
        distill: what distillation reported.
    """
    untrained, distilled = metrics.average.get(UNTRAINED), metrics.average.get(DISTILLED)
    shipped, before = metrics.average[FINETUNED], distilled
    if distill.get("steps") == 0:  # it is not distilled
        distilled, before = None, untrained
    return Added(
        student=metrics.student,
        augmented=_augmented(distill.get("epoch_texts", {})),
        untrained=score(untrained),
        distilled=score(distilled),
        distilling=gain(untrained, distilled),
        shipped=score(shipped),
        finetuning=gain(before, shipped),
        dev=(score(stage.dev_before), score(stage.dev_after)),
        ships=SHIPS.get(stage.kept, stage.kept) + (WHITENED if stage.whitened_dim else ""),
        reason=stage.reason,
    )


def by_augmentation(students: Sequence[StudentMetrics], blocks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each pair of students that differ only in their training texts.

    Args:
        students: their scores.
        blocks: their params by name, defaults included.
    """
    average = {
        metrics.student: metrics.average.get(DISTILLED)
        for metrics in students
        if blocks[metrics.student]["train"] is not None
    }
    found = []
    for more in average:
        for less in average:
            ours, theirs = (blocks[name]["train"]["texts"] for name in (more, less))
            if theirs.items() < ours.items() and _but_texts(blocks[more]) == _but_texts(blocks[less]):
                texts = ", ".join(mixture.said(name, ours[name]) for name in ours if name not in theirs)
                scores = f"{score(average[less])} ({less}) to {score(average[more])} ({more})"
                change = gain(average[less], average[more])
                found.append(
                    f"Adding the texts of {texts} changed the average score from {scores}: {change}."
                )
    return found


def gain(before: float | None, after: float | None) -> str:
    """A difference of scores with its sign."""
    return NOTHING if before is None or after is None else f"{after - before:+.3f}"


def _augmented(epoch: Mapping[str, int]) -> str:
    """How many of the texts in an epoch augmentation made."""
    texts = sum(epoch.values())
    made = texts - epoch.get(CORPUS, 0)
    return f"{made:,} ({percent(made / texts)})" if texts else NOTHING


def _but_texts(block: Mapping[str, Any]) -> dict[str, Any]:
    train = {key: value for key, value in block["train"].items() if key != "texts"}
    return {**block, "train": train}
