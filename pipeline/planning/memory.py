"""The most memory that a process of each stage holds, in megabytes."""

from collections.abc import Callable

from pipeline.planning.work import ON_FLOAT32_BYTES, Work
from pipeline.score.evaluation.searches import mapped

LIGHT, STARTED = 170, 700
WORDNET, TRIPLETS = 600, 180
A_TEXT, A_CORPUS_TEXT, A_NEW_TEXT = 0.0005, 0.0001, 0.00004
"""Of one that is held; of one whose dev split, tasks and triplets are; of one whose ids are."""
A_COPY = 5
"""Weights, gradients, moments and the best weights so far; buffers of a teacher that encodes."""
STEP = {"static": 200, "bilstm": 250}
STEP_OF_ENCODER = 550
A_NUMBER = 4e-6
BYTES = 1e6
"""Of a megabyte."""
BLOCK, BLOCKS = 65_536, 4
"""Vectors that are compared at a time, and how many copies of them there are. Others lie in files, but for
those of an index."""

OF_A_TUNED_TEACHER_THAT_IS_NOT, OF_A_STUDENT_PASSED_ON = 250, 370
SUBSTITUTION, SUBSTITUTED_AT_A_TIME, A_SUBSTITUTED_TEXT = 400, 65_536, 0.0025


def megabytes(address: str, work: Work) -> int:
    """What a stage holds at most."""
    stage, _, item = address.partition("@")
    return round(STAGES[stage](item, work) if stage in STAGES else LIGHT)


def _prepared(_item: str, work: Work) -> float:
    opens, triplets = work.reads_wordnet
    held = A_CORPUS_TEXT * work.sizes.sets["corpus"].number
    return LIGHT + held + WORDNET * opens + TRIPLETS * triplets


def _augmented(method: str, work: Work) -> float:
    texts = work.sizes.sets["corpus"].number
    if method == "wordnet":
        return LIGHT + SUBSTITUTION + A_SUBSTITUTED_TEXT * min(texts, SUBSTITUTED_AT_A_TIME)
    return LIGHT + A_TEXT * (texts if work.params.augment.methods[method].enabled else 0)


def _gated(method: str, work: Work) -> float:
    return LIGHT + A_NEW_TEXT * work.sizes.sets[method].number


def _encoded(text_set: str, work: Work) -> float:
    held = work.missing.get(text_set)
    return STARTED + 4 * work.teacher_megabytes if held and held.number else LIGHT


def _of_teacher(_item: str, work: Work) -> float:
    return STARTED + 3 * work.teacher_megabytes


def _tuned(_item: str, work: Work) -> float:
    if getattr(work.params.teacher, "finetune", None):
        return STARTED + A_COPY * work.teacher_megabytes + STEP_OF_ENCODER
    return OF_A_TUNED_TEACHER_THAT_IS_NOT


def _trained(name: str, work: Work) -> float:
    if name not in work.students:
        return LIGHT
    return STARTED + A_COPY * work.megabytes(name) + STEP.get(work.block(name).kind, STEP_OF_ENCODER)


def _finetuned(name: str, work: Work) -> float:
    if name not in work.students or work.block(name).finetune is None:
        return OF_A_STUDENT_PASSED_ON
    return _trained(name, work) + A_TEXT * work.sizes.sets["finetune"].number


def _classified(name: str, work: Work) -> float:
    block = work.params.classifiers[name]
    student = _trained(block.student, work)
    if block.student not in work.students or block.kd is None or block.kd.teacher is None:
        return student
    numbers = work.numbers_of(block.kd.teacher) + work.facts.tokens * work.facts.token_dim
    return max(student, STARTED + A_COPY * numbers * ON_FLOAT32_BYTES / 1e6 + STEP_OF_ENCODER)


def _scored(name: str, work: Work) -> float:
    weights = max((work.megabytes(one) for one in work.students if name in ("", one)), default=0.0)
    dim, texts = max(work.dims.values(), default=0), work.sizes.sets["eval"].number
    index = max((mapped.held(one, texts, dim) for one in work.params.evaluate.indexes), default=0)
    return STARTED + 4 * weights + BLOCKS * min(texts, BLOCK) * dim * A_NUMBER + index / BYTES


def _exported(name: str, work: Work) -> float:
    return STARTED + 8 * work.megabytes(name) if name in work.students else LIGHT


STAGES: dict[str, Callable[[str, Work], float]] = {
    "prepare": _prepared,
    "augment": _augmented,
    "gate": _gated,
    "finetune_teacher": _tuned,
    "encode": _encoded,
    "teacher_parts": _of_teacher,
    "distill": _trained,
    "finetune": _finetuned,
    "classify": _classified,
    "evaluate": _scored,
    "footprint": _of_teacher,
    "search_speed": _scored,
    "export": _exported,
    "export_classifier": _classified,
}
"""What the stages hold that hold more than what every stage does."""
