"""Seconds of what scores and ships: `evaluate`, `footprint`, `search_speed`, `significance`, `export`."""

from pipeline.planning.sizes import Texts
from pipeline.planning.work import LIGHT, Work

SCORED = 9.0
"""To score a student of 10,000 evaluation texts once it has encoded: tasks, budget, indexes."""
A_THOUSAND_COMPARED = 4.0
"""Of texts that the agreement compares."""
TESTED = 0.7
"""Share of the evaluation texts that the test split has."""
SEARCHED = 0.3
"""Share that the retrieval tasks among them have."""
ALONE, USERS_WAY = 0.006, 1.6
"""Seconds of a text alone, at least; how much slower sentence-transformers' own encode is."""
A_BATCH = 0.3
"""Seconds that a timed batch lasts, at least."""
A_SEARCH = 1.9
A_SIGNIFICANCE = 0.3
"""Of a student, for 1,000 samples."""
MADE = {"static": 7.0, "bilstm": 12.0}
MADE_OF_ENCODER = 20.0
FORMAT_PASSES = 2.0
"""How many times a student's forward pass each format takes on a text of the parity check."""


def evaluate(name: str, work: Work) -> float:
    """Each of its states encodes the test texts."""
    if name not in work.students:
        return LIGHT
    block, asked = work.block(name), work.params.evaluate
    compared = min(work.sizes.dev, asked.agreement.texts) if asked.agreement else 0
    tokens = work.sizes.sets["eval"].tokens * TESTED
    tokens += Texts(compared, work.sizes.sets["corpus"].characters).tokens
    models = 1 + (block.train is not None) + (block.finetune is not None or block.whitening is not None)
    scored = SCORED * min(1.0, 0.3 + work.sizes.sets["eval"].number / 10_000)
    return (
        work.probe.start
        + models * tokens * work.speed(name).forward
        + work.slower * (scored + A_THOUSAND_COMPARED * compared / 1000)
    )


def significance(_item: str, work: Work) -> float:
    """Samples of what each student got right."""
    return LIGHT + work.slower * A_SIGNIFICANCE * len(work.students) * work.params.significance.samples / 1000


def footprint(_item: str, work: Work) -> float:
    """Rounds of all models, of batches and of texts alone."""
    asked = work.params.footprint
    length = Texts(1, work.sizes.sets["eval"].characters).tokens
    teacher = USERS_WAY * max(work.probe.encode.values(), default=0.0)
    tokens = [teacher, *(USERS_WAY * work.speed(name).forward for name in work.students)]
    rounds = asked.rounds + 1
    batches = sum(max(A_BATCH, asked.sentences * length * one) for one in tokens)
    alone = sum(asked.single * (work.slower * ALONE + length * one) for one in tokens)
    begins = work.probe.start + work.probe.load + work.slower * len(work.students)
    return begins + rounds * (batches + alone)


def search_speed(_item: str, work: Work) -> float:
    """Every model's indexes are built and asked, where a task searches."""
    tasks = work.params.evaluate.tasks.values()
    if not work.params.evaluate.indexes or not any(task.scoring == "retrieval" for task in tasks):
        return 2 * LIGHT
    forward = sum(work.speed(name).forward for name in work.students)
    searched = work.sizes.sets["eval"].tokens * SEARCHED
    return work.probe.start + work.slower * A_SEARCH * (1 + len(work.students)) + searched * forward


def export(name: str, work: Work) -> float:
    """Each format is made and compared with the student."""
    if name not in work.students:
        return LIGHT
    asked, block = work.params.export, work.block(name)
    texts = min(asked.parity_texts, work.sizes.sets["eval"].number)
    tokens = Texts(texts, work.sizes.sets["eval"].characters).tokens
    formats = len(asked.formats or (1, 2, 3))
    made = MADE.get(block.kind, MADE_OF_ENCODER)
    return work.probe.start + work.slower * made + formats * FORMAT_PASSES * tokens * work.speed(name).forward


def export_classifier(_name: str, work: Work) -> float:
    """As an encoder's export."""
    return work.probe.start + work.slower * MADE_OF_ENCODER
