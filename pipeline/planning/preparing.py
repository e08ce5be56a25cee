"""Seconds of what needs no model: `prepare`, `augment`, and what cached vectors choose."""

from pipeline.planning.work import LIGHT, Work

READ_WORDNET, OF_ITS_TRIPLETS = 8.0, 8.0
"""To open it and to make its families and tasks; to make triplets of it."""
A_CORPUS_TEXT = 6e-5
OF_SUBSTITUTION, A_SUBSTITUTION = 4.8, 5e-5
A_TRANSFER_ROW = 3e-5
A_FITTED_VECTOR, A_GATED_TEXT = 1e-5, 2e-5
A_FLOWED_VECTOR = 2.5e-5
"""To fit a step of a flow to a vector of 768 dimensions, 64 at a time."""
A_PRODUCT = 2.5e-10
"""Of mining: a dimension of two texts that are compared."""


def look(_item: str, work: Work) -> float:
    """It imports, above all."""
    return 0.8 * work.probe.start


def prepare(_item: str, work: Work) -> float:
    """WordNet, and each text."""
    texts = work.sizes.sets["corpus"].number + work.sizes.sets["eval"].number
    opens, triplets = work.reads_wordnet
    once = 1.0 + READ_WORDNET * opens + OF_ITS_TRIPLETS * triplets
    return work.slower * (once + A_CORPUS_TEXT * texts)


def augment(method: str, work: Work) -> float | None:
    """None for translation, whose models are not measured."""
    block = work.params.augment.methods[method]
    if not block.enabled:
        return LIGHT
    if method == "back_translation":
        return None
    return work.slower * (OF_SUBSTITUTION + A_SUBSTITUTION * work.sizes.sets[method].number)


def transfer(_item: str, work: Work) -> float:
    """Each row that is made."""
    return LIGHT + work.slower * A_TRANSFER_ROW * work.sizes.sets["transfer"].number


def members(_item: str, work: Work) -> float:
    """A PCA and a flow for each member of an ensemble."""
    if work.params.teacher.kind != "ensemble":
        return LIGHT
    flows = [member.flow for member in work.params.teacher.members if member.flow]
    views = len(work.params.encode.views)
    steps = sum(one.epochs * one.levels * one.steps * min(one.max_rows, work.sizes.train) for one in flows)
    return 2 * work.probe.start + work.slower * A_FLOWED_VECTOR * views * steps


def fit_pca(_item: str, work: Work) -> float:
    """Each vector of each view."""
    return LIGHT + work.slower * A_FITTED_VECTOR * work.sizes.sets["corpus"].number * len(work.dims)


def gate(method: str, work: Work) -> float:
    """Each new text."""
    return LIGHT + work.slower * A_GATED_TEXT * work.sizes.sets[method].number


def mine(_item: str, work: Work) -> float:
    """All texts are compared with all anchors."""
    if work.params.finetune.mine is None or not work.params.finetune.mine.negatives:
        return LIGHT
    compared = work.sizes.sets["finetune"].number ** 2 * max(work.dims.values())
    return LIGHT + work.slower * A_PRODUCT * compared


def report(_item: str, work: Work) -> float:
    """The page and its figures."""
    return 8.0 * work.slower
