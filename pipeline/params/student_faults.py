"""What does not go together in a student's block."""

from collections.abc import Collection, Iterable, Iterator

from pipeline.params.finetune import Finetune, Replay, Whitening
from pipeline.params.losses import (
    HsicLoss,
    InfonceLoss,
    Loss,
    RelationalLoss,
    Term,
    hidden_states_of,
    terms_of,
)
from pipeline.params.students import (
    BilstmInit,
    BilstmStudent,
    CompactInit,
    CompactStudent,
    StaticInit,
    StaticStudent,
    Student,
    TransformerInit,
    TransformerStudent,
)
from pipeline.params.train import StaticTrain, Train

BETWEEN_SENTENCES = {"infonce", "relational", "hsic"}
"""Losses, by kind, that are zero for a sentence alone."""
NOT_REPLAYED = {
    "crd": "its memory of the training texts is not kept after distillation",
    "hidden_states": "fine-tuning does not read the teacher's hidden states",
    "token_embedding": "fine-tuning does not read the teacher's layers",
}
"""Losses by kind, and why `finetune.replay` refuses them."""


def student_faults(name: str, student: Student) -> list[str]:
    """What does not go together in a student's block, a line each."""
    faults = [*_init_faults(student)]
    if (student.train is None) != (student.loss is None):
        faults.append("train and loss are of one training: give both, or set both to null")
    if student.train:
        faults += _train_faults(student, student.train)
    if student.loss:
        faults += [*_loss_faults(student, student.loss), *_term_faults(student, terms_of(student.loss))]
    if student.finetune:
        faults += _finetune_faults(student, student.finetune)
    if student.whitening:
        faults += _whitening_faults(student, student.whitening)
    return [f"students.{name}.{fault}" for fault in faults]


def _init_faults(student: Student) -> Iterator[str]:
    layers = getattr(student.init, "layers", None)
    if isinstance(layers, tuple) and len(set(layers)) != len(layers):
        yield f"init.layers is {list(layers)}; name each layer once"
    if isinstance(student, BilstmStudent) and (student.init.embeddings == "file") != bool(student.init.path):
        yield "init.path goes with `embeddings: file`, and the other way round"
    if isinstance(student, BilstmStudent) and student.init.embeddings == "file" and student.init.tokens:
        yield "init.tokens is of the teacher's vocabulary; set init.max_words for a file's, and remove it"
    if isinstance(student, BilstmStudent) and student.init.embeddings != "file":
        for name in ("lowercase", "max_words"):
            if getattr(student.init, name) != BilstmInit.model_fields[name].default:
                yield f"init.{name} is of a file of word vectors; set `embeddings: file`, or remove it"
    init = student.init
    if isinstance(init, StaticInit):
        yield from _word_file_faults(init)
    if isinstance(init, TransformerInit | CompactInit) and init.revision and not init.model:
        yield "init.revision is that of init.model, which is not given; give it, or remove revision"
    if isinstance(init, TransformerInit) and init.projection == "none" and init.activation != "none":
        yield "init.activation comes after a projection, and there is none; set init.projection, or remove it"


def _word_file_faults(init: StaticInit) -> Iterator[str]:
    if init.path and init.word_list:
        yield "init.path and init.word_list are two starts; remove one"
        return
    given = "path" if init.path else "word_list" if init.word_list else None
    wrong = (
        (given, "words tokens min_count", f"is of the teacher's vocabulary; remove it, or init.{given}"),
        (not init.path, "pieces lowercase", "is of a file of word vectors; name init.path, or remove it"),
        (not given, "max_words", "is of a file of words; name init.path or init.word_list, or remove it"),
        (init.pieces, "max_words", "is of words, and all of init.pieces are kept; remove it"),
        (not init.word_list, "subwords", "is of a list of words; name init.word_list, or remove it"),
    )
    for applies, names, said in wrong:
        for name in names.split() if applies else ():
            if getattr(init, name) != StaticInit.model_fields[name].default:
                yield f"init.{name} {said}"


def _train_faults(student: Student, train: Train) -> Iterator[str]:
    if train.average and train.interpolation < 1:
        yield "train.interpolation is an average of weights, and so is train.average; leave one of them out"
    if len(set(train.matryoshka)) != len(train.matryoshka):
        yield f"train.matryoshka is {list(train.matryoshka)}; name each prefix once"
    for prefix in train.matryoshka:
        if student.dim != "auto" and prefix >= student.dim:
            yield f"train.matryoshka has {prefix}; prefixes are shorter than dim, {student.dim}"
    if train.target == "full" and (train.whiten or train.matryoshka):
        yield "train.target is full; whiten and matryoshka need `target: pca`"
    if train.shrinkage and not train.whiten:
        yield "train.shrinkage is of whitened targets; set whiten: true, or remove it"
    if train.sparse and isinstance(student, TransformerStudent | CompactStudent):
        yield "train.sparse is for static and bilstm students; remove it"
    if train.sparse and isinstance(student, StaticStudent) and train.weight_decay:
        yield "train.weight_decay is of AdamW, and a table that is sparse has SparseAdam; remove one of them"
    rotated = isinstance(train, StaticTrain) and train.regularise and train.regularise.pca
    if rotated and train.matryoshka:
        yield "train.matryoshka: regularise.pca would rotate the prefixes; set regularise.pca: false"


def _loss_faults(student: Student, loss: Loss) -> Iterator[str]:
    found = {term.kind for term in terms_of(loss)}
    if isinstance(student, StaticStudent) and (surplus := sorted(found & {"hsic", "token_embedding"})):
        yield f"loss: a static student is an embedding layer and no more; leave out {surplus[0]}"
    foreign = getattr(student.init, "model", None) or getattr(student.init, "path", None)
    if foreign and "token_embedding" in found:
        yield f"loss: token_embedding needs the teacher's tokens, and {foreign} has its own"
    if isinstance(student, BilstmStudent) and student.reads_vocabulary and "token_embedding" in found:
        yield "loss: token_embedding needs the teacher's token table: set init.embeddings to teacher"
    if (hidden := getattr(student.init, "hidden", None)) and "token_embedding" in found:
        yield f"loss: token_embedding needs the teacher's width; leave it out, or init.hidden, {hidden}"
    if hidden_states_of(loss):
        yield from _hidden_states_faults(student, found)
    if "crd" in found and student.train and student.train.select == "loss":
        yield "loss: crd contrasts training texts and has no dev loss; set train.select: agreement"


def _term_faults(student: Student, terms: Iterable[Term]) -> Iterator[str]:
    alone = student.train is not None and student.train.batch_size == 1
    for term in terms:
        if alone and term.kind in BETWEEN_SENTENCES:
            yield f"train.batch_size is 1, and {term.kind} compares a batch's sentences; set it to 2 or more"
        if isinstance(term, HsicLoss) and term.kernel == "linear" and term.gamma is not None:
            yield "loss: gamma is of the kernels rbf and imq of hsic; set kernel to one of them, or remove it"
        if isinstance(term, RelationalLoss) and term.form != "kl" and "temperature" in term.model_fields_set:
            yield "loss: temperature is of the form kl of relational; set form: kl, or remove it"


def _hidden_states_faults(student: Student, kinds: Collection[str]) -> Iterator[str]:
    """Why a student has no hidden states that could be compared with the teacher's token by token."""
    init = student.init
    if not isinstance(init, TransformerInit | CompactInit):
        yield (
            f"loss: hidden_states compares layers, and a {student.kind} student has none; leave it out, or "
            "set kind to transformer or compact"
        )
        return
    why = "loss: hidden_states needs the teacher's tokens, and"
    if init.model:
        yield f"{why} {init.model} has its own; leave it out, or init.model"
    if init.tokens:
        yield f"{why} init.tokens leaves some out; leave it out, or init.tokens"
    if init.prompts == "teacher":
        yield f"{why} prompts put others before them; leave it out, or set init.prompts to none"
    if student.train and "corpus" not in student.train.texts:
        yield "loss: hidden_states is of corpus texts alone; add corpus to train.texts, or leave it out"
    if len(kinds) == 1 and student.train and student.train.select == "loss":
        yield (
            "loss: hidden_states has no dev loss; give it in a `sum` with another loss, or set train.select: "
            "agreement"
        )


def _finetune_faults(student: Student, tuned: Finetune) -> Iterator[str]:
    static, dim = isinstance(student, StaticStudent), tuned.projection
    if static and dim:
        yield f"finetune.projection is {dim}, but a static student has no layers; set its dim instead"
    elif dim and student.dim != "auto" and dim > student.dim:
        yield (
            f"finetune.projection is {dim}, but the student has {student.dim} dimensions; "
            f"choose {student.dim} or less"
        )
    if tuned.loss == "cosines" and tuned.hsic:
        yield "finetune.hsic is beside the contrast; remove it, or set finetune.loss: contrast"
    if tuned.loss == "cosines" and tuned.temperature != Finetune.model_fields["temperature"].default:
        yield "finetune.temperature is of the contrast; remove it, or set finetune.loss: contrast"
    if static and tuned.hsic:
        yield "finetune: a static student is an embedding layer and no more; leave out hsic"
    if tuned.replay:
        yield from _replay_faults(student, tuned.replay, dim)


def _replay_faults(student: Student, replay: Replay, projection: int | None) -> Iterator[str]:
    """Why a distillation cannot go on beside fine-tuning."""
    key = "finetune.replay"
    if student.train is None or student.loss is None:
        yield f"{key} goes on with a distillation, and there is none; set it to null, or give train and loss"
        return
    if projection:
        yield f"{key}: the targets have no finetune.projection, {projection}; set one of the two to null"
    for text_set in replay.texts or ():
        if text_set not in student.train.texts:
            yield (
                f"{key}.texts names {text_set}, which the student is not distilled on; name some of "
                f"train.texts ({', '.join(student.train.texts)}), or add it there"
            )
    terms = terms_of(student.loss)
    refused = {term.kind: NOT_REPLAYED[term.kind] for term in terms if term.kind in NOT_REPLAYED}
    if any(isinstance(term, InfonceLoss) and term.projection == "learned" for term in terms):
        refused["infonce"] = "its learned projection is dropped after distillation"
    for kind, why in refused.items():
        yield f"{key}: {kind} cannot be replayed, since {why}; set replay to null, or change loss"
    if isinstance(student, StaticStudent) and student.rotates and any(term.compares for term in terms):
        yield (
            f"{key}: train.regularise turns the table away from its targets; set regularise to null or to "
            "{pca: false, sif: null}, or replay to null"
        )
    elif isinstance(student, StaticStudent) and student.train.regularise and student.train.regularise.sif:
        # Weights of words shorten vectors manyfold, and a replay to the targets' lengths would undo them.
        if lengths := [term.kind for term in terms if term.compares in ("vectors", "distributions")]:
            yield (
                f"{key}: {lengths[0]} teaches the targets' lengths, which train.regularise.sif takes from "
                "the table; set sif to null, or replay to null"
            )


def _whitening_faults(student: Student, whitening: Whitening) -> Iterator[str]:
    tuned = student.finetune.projection if student.finetune else None
    width, named = (tuned, "finetune.projection") if tuned else (student.dim, "dim")
    if width != "auto" and whitening.dim > width:
        yield f"whitening.dim is {whitening.dim}, {named} is {width}; choose {width} or less"
