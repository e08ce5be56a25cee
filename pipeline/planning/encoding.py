"""Seconds of what the teacher does: `encode`, `teacher_parts`, `hidden`."""

from pipeline.planning.sizes import Texts
from pipeline.planning.work import LIGHT, Work

WRITTEN_MEGABYTES = 250.0
"""A second, sealed and synced."""
A_PUBLISHED_VECTOR = 2e-5
RAY_START = 20.0


def of_teacher(texts: Texts, work: Work) -> float:
    """Seconds of all teachers for these texts."""
    return texts.tokens * sum(work.probe.encode.values())


def teacher_parts(_item: str, work: Work) -> float:
    """The weights are written, and tokens encoded alone where somebody reads their vectors."""
    rows = work.facts.tokens if work.reads_vocabulary else 0
    written = work.teacher_megabytes / WRITTEN_MEGABYTES
    return work.probe.start + work.probe.load + written + rows * work.probe.vocabulary


def hidden(_item: str, work: Work) -> float:
    """The teacher reads some texts again."""
    asked = work.params.encode.hidden
    if asked is None:
        return LIGHT
    texts = Texts(min(asked.texts, work.sizes.train), work.sizes.sets["corpus"].characters)
    return work.probe.start + of_teacher(texts, work)


def encode(text_set: str, work: Work) -> float | None:
    """The texts that the store lacks; None for an API, which is not asked."""
    texts = work.missing.get(text_set, Texts())
    if not work.sizes.sets[text_set].number or not work.is_read(text_set):
        return LIGHT
    if not work.probe.encode:
        return None
    published = A_PUBLISHED_VECTOR * work.sizes.sets[text_set].number * len(work.dims)
    begins = work.probe.start + work.probe.load + (RAY_START if work.engine == "ray" else 0.0)
    return begins + published + of_teacher(texts, work) / at_once(work)


def at_once(work: Work) -> float:
    """How many times as fast all workers are as the one that was measured.

    Workers of a cluster each have a machine like this one. Those of this machine share its cores, all of
    which one worker already takes, unless it was given fewer threads.
    """
    import torch

    if work.engine == "ray":
        return float(work.workers)
    if work.probe.device != "cpu":
        return float(min(work.workers, max(1, torch.accelerator.device_count())))
    return max(1.0, min(work.workers, work.cores / torch.get_num_threads()))
