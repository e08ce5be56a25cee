from pathlib import Path

import numpy as np
import polars as pl
import pytest
from small_students import TEACHER_DIM, static_block, teacher

from pipeline.artifacts import pca, texts, vectors
from pipeline.artifacts.pca import Pca
from pipeline.artifacts.texts import text_id
from pipeline.core.errors import UserError
from pipeline.training.data import Examples, read_examples

TRAIN = [f"training text number {number}" for number in range(20)]
DEV = [f"dev text number {number}" for number in range(3)]
SYNONYMS = [f"teaching text number {number}" for number in range(5)]


def write_seed(folder: Path, train: list[str], dev: list[str]) -> None:
    split = {**dict.fromkeys(train, "train"), **dict.fromkeys(dev, "dev")}
    table = pl.DataFrame({"text": list(split), "split": list(split.values())})
    ids = pl.Series("text_id", [text_id(text) for text in split], dtype=pl.UInt64)
    texts.write(table.with_columns(ids, source=pl.lit("x")), texts.SEED_SCHEMA, folder / "seed.parquet")


def write_augmented(folder: Path, made: list[str]) -> None:
    columns = {
        "text_id": [text_id(text) for text in made],
        "parent_id": [text_id(TRAIN[0])] * len(made),
        "text": made,
        "method": ["wordnet"] * len(made),
    }
    table = pl.DataFrame(columns, schema=texts.AUGMENTED_SCHEMA)
    texts.write(table, texts.AUGMENTED_SCHEMA, folder / "wordnet.parquet")


def write_vectors(folder: Path, of: list[str], recipe: str) -> None:
    """A published set of the hashing teacher's vectors, in two shards."""
    folder.mkdir(parents=True, exist_ok=True)
    ordered = sorted(of, key=text_id)
    shards = {}
    for number, part in enumerate((ordered[:2], ordered[2:])):
        ids = np.array([text_id(text) for text in part], np.uint64)
        found = teacher_vectors(part).reshape(-1, TEACHER_DIM)
        vectors.write_shard(ids, {"sentence": found}, folder / f"{number}.parquet")
        shards[f"{number}.parquet"] = len(part)
    vectors.write_manifest(folder, {"model": recipe}, {"sentence": TEACHER_DIM}, shards)


def teacher_vectors(of: list[str]) -> np.ndarray:
    return teacher().encode(of, ["sentence"])["sentence"].astype(np.float16)


def components() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    rotation = np.linalg.qr(random.standard_normal((TEACHER_DIM, TEACHER_DIM)))[0]
    return random.standard_normal(TEACHER_DIM), rotation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_seed(tmp_path, TRAIN, DEV)
    write_augmented(tmp_path, SYNONYMS)
    write_vectors(tmp_path / "seed", TRAIN + DEV, recipe="one")
    write_vectors(tmp_path / "wordnet", SYNONYMS, recipe="one")
    mean, rotation = components()
    pca.write(Pca(mean, rotation, np.ones(TEACHER_DIM)), tmp_path / "sentence.safetensors")
    return tmp_path


def read(
    folder: Path, dim: int = 8, sets: tuple[str, ...] = ("seed", "wordnet")
) -> tuple[Examples, Examples]:
    block = static_block(dim=dim, train={"texts": sets})
    return read_examples("tiny", block, folder / "seed.parquet", folder, folder, folder)


def test_training_texts_are_the_chosen_sets_and_dev_texts_are_never_among_them(folder):
    train, dev = read(folder)
    assert sorted(train.texts) == sorted(TRAIN + SYNONYMS)
    assert sorted(dev.texts) == sorted(DEV)
    assert sorted(read(folder, sets=("seed",))[0].texts) == sorted(TRAIN)
    augmented, dev = read(folder, sets=("wordnet",))
    assert sorted(augmented.texts) == sorted(SYNONYMS)
    assert sorted(dev.texts) == sorted(DEV)


def test_below_the_teachers_dimension_targets_are_principal_components(folder):
    mean, rotation = components()
    for examples in read(folder):
        centred = teacher_vectors(examples.texts).astype(np.float64) - mean
        assert examples.targets.dtype == np.float32
        np.testing.assert_allclose(examples.targets, (centred @ rotation.T)[:, :8], atol=1e-5)


def test_at_the_teachers_dimension_targets_are_its_vectors(folder):
    for examples in read(folder, dim=TEACHER_DIM):
        np.testing.assert_array_equal(examples.targets, teacher_vectors(examples.texts).astype(np.float32))


def read_whitened(folder: Path, dim: int, variances: np.ndarray) -> tuple[Examples, Examples]:
    pca.write(Pca(*components(), variances), folder / "sentence.safetensors")
    block = static_block(dim=dim, train={"whiten": True})
    return read_examples("tiny", block, folder / "seed.parquet", folder, folder, folder)


@pytest.mark.parametrize("dim", [8, TEACHER_DIM])
def test_whitened_targets_have_one_scale_at_any_dimension(folder, dim):
    mean, rotation = components()
    variances = np.linspace(4, 0.25, TEACHER_DIM)
    for examples in read_whitened(folder, dim, variances):
        centred = teacher_vectors(examples.texts).astype(np.float64) - mean
        expected = (centred @ rotation.T / np.sqrt(variances))[:, :dim]
        np.testing.assert_allclose(examples.targets, expected, atol=1e-5)


def test_what_has_no_variance_is_not_whitened(folder):
    variances = np.repeat([1.0, 1e-12, 0.0], [8, 12, TEACHER_DIM - 20])
    assert read_whitened(folder, 8, variances)[0].targets.shape[1] == 8
    with pytest.raises(UserError, match=r"^students\.tiny\.dim is 9, but .* vary in 8 directions; choose 8"):
        read_whitened(folder, 9, variances)


def test_above_the_teachers_dimension(folder):
    expected = (
        rf"^students\.tiny\.dim is 33, above the {TEACHER_DIM} dimensions .* choose {TEACHER_DIM} or less$"
    )
    with pytest.raises(UserError, match=expected):
        read(folder, dim=TEACHER_DIM + 1)


def test_sets_of_two_teachers(folder):
    write_vectors(folder / "wordnet", SYNONYMS, recipe="two")
    with pytest.raises(UserError, match=r"come from different teachers; run `dvc repro encode`"):
        read(folder)
    read(folder, sets=("seed",))


@pytest.mark.parametrize("dev", [[], DEV[:1]])
def test_too_few_dev_texts(folder, dev):
    write_seed(folder, TRAIN, dev)
    with pytest.raises(
        UserError, match=rf"has {len(dev)} dev texts, 2 or more .* raise corpus\.dev_fraction"
    ):
        read(folder)


def test_a_text_without_a_vector(folder):
    write_vectors(folder / "seed", TRAIN[1:] + DEV, recipe="one")
    with pytest.raises(UserError, match=r"has no vector for 1 texts .*encode@seed"):
        read(folder)


def test_no_training_texts(folder):
    write_augmented(folder, [])
    write_vectors(folder / "wordnet", [], recipe="one")
    with pytest.raises(UserError, match=r"train\.texts: wordnet holds no training text"):
        read(folder, sets=("wordnet",))


def test_the_fingerprint_is_of_texts_and_targets_in_their_order(folder):
    train, _ = read(folder)
    assert train.fingerprint == read(folder)[0].fingerprint
    others = [
        Examples(train.texts[::-1], train.targets),
        Examples(train.texts, train.targets[::-1]),
        Examples([*train.texts[:-1], "changed"], train.targets),
    ]
    assert len({train.fingerprint, *(other.fingerprint for other in others)}) == 4
