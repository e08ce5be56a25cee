"""Seconds of what trains: `distill`, `finetune`, `finetune_teacher`, `classify`."""

from pipeline.planning.encoding import WRITTEN_MEGABYTES
from pipeline.planning.sizes import TRIPLET, Texts
from pipeline.planning.work import LIGHT, TRAIN_TO_FORWARD, Work

A_TOKENISED_TEXT = 5e-5
"""To tokenise a text, and to read and reduce its vector."""
COLLAPSE_ROWS = 3000
"""Texts that a training encodes beside its steps: before, after, and for its health."""
AGREEMENT_ROWS = 1000
"""Dev texts that the agreement is of."""
A_DEV_SCORE = 0.4
DEV = 0.5
"""Share of the evaluation texts that the dev split has."""
TO_TRAIN = {"static": 0.0}
TO_TRAIN_OTHERS = 8.0
"""Until a training makes its first step, and from its last one on: what it measures, compiles and checks."""
IMPORTED = {"static": 0.4}
IMPORTED_BY_OTHERS = 0.8
"""Share of a training's imports that a stage makes that passes a student on."""
RATES = 3
"""Learning rates that `auto` tries for an encoder that is trained on a task's labels."""
OF_A_TRIPLET = TRIPLET[0] * Texts(1, TRIPLET[1]).tokens
"""Tokens."""


def finetune_teacher(_item: str, work: Work) -> float:
    """Triplets by the teacher itself, which scores the dev tasks between them."""
    block = getattr(work.params.teacher, "finetune", None)
    if block is None:
        return LIGHT
    triplets = sum(work.sizes.triplets.get(name, 0) for name in block.data) * block.epochs
    dev = work.sizes.sets["eval"].tokens * DEV * (block.evaluations + 1)
    forward = sum(work.probe.encode.values())
    return work.probe.start + forward * (TRAIN_TO_FORWARD * triplets * OF_A_TRIPLET + dev)


def examples(name: str, work: Work) -> int:
    """Texts that an epoch of a student reads."""
    block = work.block(name)
    if block.train is None:
        return 0
    sets = {**{key: texts.number for key, texts in work.sizes.sets.items()}, "corpus": work.sizes.train}
    return round(sum(share * sets.get(key, 0) for key, share in block.train.texts.items()))


def replayed(name: str, work: Work) -> int:
    """Texts that a student's fine-tuning replays, each counted once."""
    block = work.block(name)
    replay = block.finetune and block.finetune.replay
    if not replay or block.train is None:
        return 0
    sets = {**{key: texts.number for key, texts in work.sizes.sets.items()}, "corpus": work.sizes.train}
    return sum(sets.get(key, 0) for key in replay.texts or block.train.texts)


def distill(name: str, work: Work) -> float:
    """Steps by the epochs, and what is encoded for the dev values and the closed forms."""
    if name not in work.students:
        return LIGHT
    block, speed = work.block(name), work.speed(name)
    length = Texts(1, work.sizes.sets["corpus"].characters).tokens
    once = examples(name, work)
    ridge = min(once or work.sizes.train, getattr(block.init, "ridge_rows", 0))
    passes = (ridge + COLLAPSE_ROWS) * length * speed.forward
    fixed = work.probe.start + speed.build + passes + 2 * work.megabytes(name) / WRITTEN_MEGABYTES
    if block.train is None:
        return fixed
    dev = min(work.sizes.dev, AGREEMENT_ROWS if block.train.select == "agreement" else work.sizes.dev)
    steps = once * block.train.epochs * length * speed.train
    evaluated = (block.train.evaluations + 1) * dev * length * speed.forward
    around = TO_TRAIN.get(block.kind, TO_TRAIN_OTHERS) + A_TOKENISED_TEXT * once
    return fixed + work.slower * around + steps + evaluated


def finetune(name: str, work: Work) -> float:
    """Triplets and dev scores; a student without is passed on."""
    if name not in work.students:
        return LIGHT
    block, speed = work.block(name), work.speed(name)
    whitening = block.whitening
    length = Texts(1, work.sizes.sets["corpus"].characters).tokens
    found = 0.0
    if whitening:
        found = min(whitening.max_rows, work.sizes.train) * length * speed.forward
    if block.finetune is None:
        imported = IMPORTED.get(block.kind, IMPORTED_BY_OTHERS)
        return found + imported * work.probe.start + work.megabytes(name) / WRITTEN_MEGABYTES
    asked = block.finetune
    triplets = sum(work.sizes.triplets.get(one, 0) for one in asked.data) * asked.epochs
    per_triplet = OF_A_TRIPLET * (speed.train or TRAIN_TO_FORWARD * speed.forward)
    if asked.replay:
        size = min(asked.replay.batch_size or asked.batch_size, replayed(name, work))
        per_triplet += size / asked.batch_size * length * speed.train
        found += work.slower * A_TOKENISED_TEXT * replayed(name, work)
    dev = (asked.evaluations + 1) * (work.sizes.sets["eval"].tokens * DEV * speed.forward + A_DEV_SCORE)
    around = work.slower * TO_TRAIN.get(block.kind, TO_TRAIN_OTHERS) / 2
    return found + work.probe.start + around + triplets * per_triplet + dev


def classify(name: str, work: Work) -> float:
    """The rows of all tasks, as often as params say: of which task each is, only `prepare` knows."""
    block = work.params.classifiers[name]
    if block.student not in work.students:
        return LIGHT
    speed = work.speed(block.student)
    labelled, made = work.sizes.sets["eval"].tokens, work.sizes.sets["transfer"].tokens
    times = block.train.epochs * block.seeds
    student = (labelled + made) * times * (speed.train or TRAIN_TO_FORWARD * speed.forward)
    if block.kd is None or block.kd.teacher is None:
        return work.probe.start + student
    # Each time as if it were not cached: of classifiers that share one, the first alone trains it.
    asked = block.kd.teacher
    rates = RATES if asked.lr == "auto" else len(asked.lr)
    steps = TRAIN_TO_FORWARD * labelled * asked.epochs * rates
    told = labelled + (made if block.transfer else 0.0)
    forward = max(work.probe.encode.values(), default=0.0) * work.share_of(asked)
    return work.probe.start + student + forward * (steps + told)
