"""A small corpus on the disk: texts, the hashing teacher's vectors of them, and a PCA."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from project import sentence
from published_sets import write_set
from small_students import TEACHER_DIM, static_block, teacher

from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.data.tokens.tokens import Tokens
from pipeline.params.students import StaticStudent
from pipeline.train.loop.data import Corpus, open_corpus
from pipeline.vectors.space import pca
from pipeline.vectors.space.pca import Pca

TRAIN = [sentence(4099 * number) for number in range(20)]
DEV = [sentence(4001 * number) for number in range(1, 6)]
SYNONYMS = [sentence(3989 * number) for number in range(1, 6)]


def write_corpus(folder: Path) -> Path:
    """All of it; the folder."""
    write_texts(folder, TRAIN, DEV)
    write_augmented(folder, SYNONYMS)
    write_vectors(folder / "corpus", TRAIN + DEV, recipe="one")
    write_vectors(folder / "wordnet", SYNONYMS, recipe="one")
    write_pca(folder)
    return folder


def write_texts(folder: Path, train: list[str], dev: list[str]) -> None:
    split = {**dict.fromkeys(train, "train"), **dict.fromkeys(dev, "dev")}
    table = pl.DataFrame({"text": list(split), "split": list(split.values())})
    ids = pl.Series("text_id", [text_id(text) for text in split], dtype=pl.UInt64)
    texts.write(table.with_columns(ids, source=pl.lit("x")), texts.CORPUS_SCHEMA, folder / "corpus.parquet")


def write_augmented(folder: Path, made: list[str]) -> None:
    columns = {
        "text_id": [text_id(text) for text in made],
        "parent_id": [text_id(TRAIN[0])] * len(made),
        "text": made,
        "role": ["text"] * len(made),
        "method": ["wordnet"] * len(made),
    }
    table = pl.DataFrame(columns, schema=texts.AUGMENTED_SCHEMA)
    texts.write(table, texts.AUGMENTED_SCHEMA, folder / "wordnet.parquet")


def write_vectors(folder: Path, of: list[str], recipe: str, cuts: Sequence[int] = (3,)) -> None:
    """A published set of the hashing teacher's vectors, in shards that begin at 0 and at these rows."""
    ordered = sorted(of, key=text_id)
    ids = np.array([text_id(text) for text in ordered], np.uint64)
    found = teacher_vectors(ordered).reshape(-1, TEACHER_DIM)
    write_set(folder, ids, {"sentence": found}, cuts, {"model": recipe})


def write_pca(folder: Path, variances: np.ndarray | None = None) -> None:
    found = np.ones(TEACHER_DIM) if variances is None else variances
    pca.write(Pca(*components(), found), folder / "sentence.safetensors")


def teacher_vectors(of: list[str]) -> np.ndarray:
    return teacher().encode(of, ["sentence"])["sentence"].astype(np.float16)


def components() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    rotation = np.linalg.qr(random.standard_normal((TEACHER_DIM, TEACHER_DIM)))[0]
    return 0.1 * random.standard_normal(TEACHER_DIM), rotation


def opened(
    folder: Path, *, dim: int = 8, init: dict | None = None, loss: dict | None = None, **train: object
) -> Corpus:
    block = static_block(dim=dim, init=init, train={"texts": ("corpus", "wordnet"), **train})
    if loss:
        block = StaticStudent.model_validate({**block.model_dump(), "loss": loss})
    return open_corpus("tiny", block, folder / "corpus.parquet", folder, folder, folder)


def as_bytes(part: list[str]) -> Tokens:
    """A token a byte, so that the texts can be read back."""
    encoded = [text.encode() for text in part]
    ends = np.cumsum([0, *map(len, encoded)])
    return Tokens(np.frombuffer(b"".join(encoded), np.uint8).astype(np.int32), ends)


def read_back(tokens: Tokens) -> list[str]:
    flat = np.asarray(tokens.ids).astype(np.uint8).tobytes()
    return [flat[start:stop].decode() for start, stop in pairwise(tokens.offsets)]


def counted(tokenise: Callable[[list[str]], Tokens]) -> tuple[Callable[[list[str]], Tokens], list[int]]:
    """A tokeniser, and how many texts each of its calls had."""
    calls: list[int] = []

    def counting(part: list[str]) -> Tokens:
        calls.append(len(part))
        return tokenise(part)

    return counting, calls
