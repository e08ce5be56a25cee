"""Bytes that each stage leaves on the disk: in `data/`, in DVC's cache, in the store."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeline.data.teacher_parts import read_config
from pipeline.params.search import IvfIndex
from pipeline.params.students import Student
from pipeline.planning.sizes import Texts
from pipeline.planning.training import replayed
from pipeline.planning.work import Work
from pipeline.teacher.encoding.store.store import kept_as

HALF, FLOAT, DOUBLE = 2, 4, 8
ID = 8
A_SHARD = {"float16": 900, "int8": 7000}
"""Bytes of a file of vectors beside its columns, and its share of the manifest."""
EMPTY_SET = 2100
OF_INT8 = 12
"""What stands beside a vector in int8: its scale, and what it lost."""
STATE_SCALE = 4
A_TOKEN_OF_TOKENIZER = 24
"""Bytes that a token takes in a tokenizer's files."""
COMPRESSED = 0.35
"""Of English texts as Parquet."""
OF_CORPUS_ROW = 23
"""Its ids and where it comes from."""
INT8 = {"static": 0.24, "bilstm": 0.32}
EXPORTED_INT8 = 0.26
OF_A_STUDENT_SCORED = 7
"""Files of vectors: the teacher's, its targets, the student's three, documents of an index and those for a
student's queries among the teacher's, before which an index' lists lie there."""
REPORT, REPORT_OF_A_STUDENT = 150_000, 350_000
SMALL = 5_000
"""Of metrics, timing and curve."""


@dataclass(frozen=True)
class Bytes:
    """What a stage leaves."""

    results: int = 0
    """In data/ and reports/."""
    new: int = 0
    """The part of them that is in no result of another stage: what DVC's cache takes."""
    store: int = 0
    """In runtime.cache."""
    scratch: int = 0
    """There while the stage runs, and gone after it."""


def stage_bytes(address: str, work: Work) -> Bytes:
    """What a stage leaves, by its dimensions and texts."""
    stage, _, item = address.partition("@")
    return STAGES[stage](item, work) if stage in STAGES else _plain(SMALL)


def _prepared(_item: str, work: Work) -> Bytes:
    corpus = work.sizes.sets["corpus"]
    labelled = work.sizes.sets["eval"] + work.sizes.sets["finetune"]
    rows = OF_CORPUS_ROW * corpus.number + 2 * ID * labelled.number
    return _plain(COMPRESSED * (corpus.bytes + 2 * labelled.bytes) + rows)


def _made(method: str, work: Work) -> Bytes:
    """New texts, and those of them that pass the gate, are as many at most."""
    texts = work.sizes.sets[method]
    return _plain(COMPRESSED * texts.bytes + 3 * ID * texts.number)


def _fitted(_item: str, work: Work) -> Bytes:
    return _plain(sum(DOUBLE * dim * (dim + 2) for dim in work.dims.values()))


def _tuned(_item: str, work: Work) -> Bytes:
    weights = work.probe.parameters * FLOAT
    if not getattr(work.params.teacher, "finetune", None):
        return _plain(SMALL)
    return replace(_plain(weights), scratch=4 * weights)  # with the best ones and both moments


def _finetuned(name: str, work: Work) -> Bytes:
    if name not in work.students:
        return Bytes()
    block, size = work.block(name), student_bytes(name, work)
    changed = block.finetune is not None or block.whitening is not None
    state = 4 * size * (block.finetune is not None)
    if block.whitening:
        state += FLOAT * block.width * min(block.whitening.max_rows, work.sizes.train)
    return Bytes(size, size * changed, 0, state + _inputs(replayed(name, work), block, work))


def _classified(name: str, work: Work) -> Bytes:
    block = work.params.classifiers[name]
    if block.student not in work.students:
        return _plain(SMALL)
    size = student_bytes(block.student, work)
    if block.kd is None or block.kd.teacher is None:
        return _plain(size)
    numbers = work.numbers_of(block.kd.teacher) + work.facts.tokens * work.facts.token_dim
    return Bytes(round(size), round(size), FLOAT * numbers, 4 * FLOAT * numbers)


def _reported(_item: str, work: Work) -> Bytes:
    return _plain(REPORT + REPORT_OF_A_STUDENT * len(work.students))


def _plain(size: float) -> Bytes:
    return Bytes(round(size), round(size))


def vectors_bytes(rows: int, dims: dict[str, int], storage: str, shard_rows: int) -> int:
    """A published set of vectors: every view a column of numbers beside the ids."""
    shards = -(-rows // shard_rows)
    width = HALF if storage == "float16" else 1
    beside = ID if storage == "float16" else ID + OF_INT8
    return sum(rows * (width * dim + beside) + A_SHARD[storage] * shards + EMPTY_SET for dim in dims.values())


def _encoded(text_set: str, work: Work) -> Bytes:
    texts = work.sizes.sets[text_set] if work.is_read(text_set) else Texts()
    lacking = work.missing.get(text_set, Texts()).number if texts.number else 0
    encode = work.params.encode
    size = vectors_bytes(texts.number, work.dims, encode.storage, encode.shard_rows)
    kept = kept_as(work.params.teacher, encode)
    return Bytes(size, size, vectors_bytes(lacking, work.dims, kept, encode.shard_rows) if lacking else 0)


def _parts(_item: str, work: Work) -> Bytes:
    tokens = work.facts.tokens
    parts = work.probe.weights + tokens * A_TOKEN_OF_TOKENIZER
    kinds = {one.block.kind for one in work.students.values() if one.block.reads_vocabulary}
    readers = len(kinds) + work.params.augment.wordnet.reads_vocabulary
    table = tokens * (HALF * work.facts.token_dim + ID)
    size = parts + readers * (table + tokens * A_TOKEN_OF_TOKENIZER)
    return Bytes(size, parts + (table if readers else 0), table if readers else 0)


def _hidden(_item: str, work: Work) -> Bytes:
    asked = work.params.encode.hidden
    if asked is None:
        return _plain(SMALL)
    config = read_config(work.facts.config)
    layers = len(asked.numbered(config.num_hidden_layers))
    tokens = min(asked.max_tokens, Texts(1, work.sizes.sets["corpus"].characters).tokens)
    rows = min(asked.texts, work.sizes.train)
    size = round(rows * tokens * layers * (int(config.hidden_size) + STATE_SCALE))
    return Bytes(size, size, size)


def student_bytes(name: str, work: Work) -> int:
    """A student's folder."""
    return round(work.megabytes(name) * 1e6) + work.facts.tokens * A_TOKEN_OF_TOKENIZER


def _distilled(name: str, work: Work) -> Bytes:
    if name not in work.students:
        return Bytes()
    size, block = student_bytes(name, work), work.block(name)
    if block.train is None:
        return Bytes(2 * size, size)
    rows = work.sizes.train + sum(work.sizes.sets[key].number for key in ("wordnet", "back_translation"))
    return Bytes(2 * size, 2 * size, 0, _inputs(rows, block, work) + 8 * size)


def _inputs(rows: int, block: Student, work: Work) -> int:
    """The tokens and targets of so many training texts."""
    tokens = Texts(1, work.sizes.sets["corpus"].characters).tokens
    return round(rows * (FLOAT * block.width + FLOAT * tokens + ID))


def _scored(name: str, work: Work) -> Bytes:
    """`evaluate` of one student, or the times of all students' searches: vectors of all texts in files."""
    texts, dim = work.sizes.sets["eval"], max(work.dims.values(), default=0)
    lists = any(isinstance(one, IvfIndex) for one in work.params.evaluate.indexes)
    files = OF_A_STUDENT_SCORED if name else 2 + 2 * len(work.students) + lists
    scratch = files * texts.number * dim * FLOAT + COMPRESSED * texts.bytes
    return Bytes(SMALL, SMALL, 0, round(scratch))


def _exported(name: str, work: Work) -> Bytes:
    if name not in work.students:
        return Bytes()
    size, weights = student_bytes(name, work), work.megabytes(name) * 1e6
    small = INT8.get(work.block(name).kind, EXPORTED_INT8)
    shares = {"onnx": 1.0, "onnx-int8": small, "onnx-fp16": 0.5, "openvino": 1.0}
    formats = work.params.export.formats or ("onnx", "onnx-int8")
    added = sum(shares.get(one, 0.0) for one in formats) * weights
    if "router" in formats:
        added += weights + work.probe.parameters * FLOAT
    return Bytes(round(size + added), round(added))


STAGES: dict[str, Callable[[str, Work], Bytes]] = {
    "prepare": _prepared,
    "augment": _made,
    "finetune_teacher": _tuned,
    "encode": _encoded,
    "teacher_parts": _parts,
    "hidden": _hidden,
    "fit_pca": _fitted,
    "gate": _made,
    "distill": _distilled,
    "finetune": _finetuned,
    "classify": _classified,
    "evaluate": _scored,
    "search_speed": _scored,
    "report": _reported,
    "export": _exported,
    "export_classifier": _classified,
}
"""What the stages leave that leave more than metrics."""
