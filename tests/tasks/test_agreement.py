import numpy as np
import polars as pl
import pytest
from refusals import refuses
from scipy.stats import spearmanr
from sklearn.neighbors import NearestNeighbors

from pipeline.data.common import texts
from pipeline.params.evaluate import Agreement
from pipeline.tasks import agreement
from pipeline.tasks.embeddings import Embeddings

RNG = np.random.default_rng(0)
IDS = np.sort(RNG.choice(2**60, size=150, replace=False)).astype(np.uint64)
TEACHER = (RNG.normal(size=(150, 24)) + 0.3).astype(np.float32)
STUDENT = (TEACHER[:, :12] + 0.4 * RNG.normal(size=(150, 12))).astype(np.float32)
HOW = {"cosine": "cosine", "euclidean": "euclidean", "manhattan": "manhattan"}


def of_teacher(how="cosine"):
    return agreement.task(Embeddings(IDS, TEACHER, how))


def neighbours(vectors, how):
    """By scikit-learn, in float64."""
    rows = vectors.astype(np.float64)
    if how == "dot":
        near = NearestNeighbors(n_neighbors=10, metric=lambda one, other: -one @ other, algorithm="brute")
    else:
        near = NearestNeighbors(n_neighbors=10, metric=HOW[how], algorithm="brute")
    return near.fit(rows).kneighbors(return_distance=False)


@pytest.mark.parametrize("how", ["cosine", "dot", "euclidean", "manhattan"])
def test_overlap_is_of_scikit_learns_neighbours_by_the_models_similarity(how):
    expected = [
        len({*own} & {*theirs}) / 10
        for own, theirs in zip(neighbours(STUDENT, how), neighbours(TEACHER, how), strict=True)
    ]
    ids, found = agreement.overlaps(of_teacher(how), Embeddings(IDS, STUDENT, how))
    assert ids.tolist() == IDS.tolist()
    np.testing.assert_allclose(found, expected)
    assert 0.2 < found.mean() < 0.9
    score = agreement.score(of_teacher(how), Embeddings(IDS, STUDENT, how))
    assert score["overlap@10"] == pytest.approx(np.mean(expected))
    assert score["texts"] == 150


def test_spearman_is_scipys_of_the_cosines_of_pairs_by_chance():
    left = np.repeat(np.arange(150), 10)
    right = np.concatenate([(row + np.arange(1, 11)) % 150 for row in range(150)])

    def cosines(vectors):
        unit = vectors.astype(np.float64)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        return (unit[left] * unit[right]).sum(axis=1)

    expected = spearmanr(cosines(STUDENT), cosines(TEACHER)).statistic
    assert agreement.spearman(of_teacher(), Embeddings(IDS, STUDENT)) == pytest.approx(expected, abs=1e-6)
    assert agreement.spearman(of_teacher(), Embeddings(IDS, np.ones((150, 3)))) == 0


@pytest.mark.parametrize("how", ["cosine", "dot", "euclidean", "manhattan"])
def test_the_teacher_agrees_with_itself(how):
    found = agreement.score(of_teacher(how), Embeddings(IDS, TEACHER, how))
    assert found == {"overlap@10": 1.0, "spearman": pytest.approx(1, abs=1e-12), "texts": 150}


def test_few_similarities_are_held_at_a_time(monkeypatch):
    whole = np.sort(agreement.nearest(TEACHER, "cosine"))
    monkeypatch.setattr(agreement, "CELLS", 1000)
    np.testing.assert_array_equal(np.sort(agreement.nearest(TEACHER, "cosine")), whole)


def test_of_fewer_texts_all_others_are_nearest_and_the_first_of_equals_is_nearer():
    assert agreement.nearest(TEACHER[:4], "cosine").shape == (4, 3)
    same = agreement.nearest(np.ones((13, 2)), "cosine")
    assert sorted(same[0]) == [*range(1, 11)]
    assert sorted(same[12]) == [*range(10)]


def corpus(path, count, dev):
    found = [f"text {number} of the corpus" for number in range(count)]
    table = pl.DataFrame({"text_id": texts.text_ids(found), "text": found, "source": "mine"})
    table = table.with_columns(
        role=pl.lit("text"),
        split=pl.when(pl.int_range(count) < dev).then(pl.lit("dev")).otherwise(pl.lit("train")),
    )
    texts.write(table, texts.CORPUS_SCHEMA, path)
    return table.filter(split="dev").sort("text_id")


def test_the_first_dev_texts_are_held_out(folder):
    dev = corpus(folder / "corpus.parquet", 300, 200)
    found = agreement.held_out(folder / "corpus.parquet", Agreement(texts=120))
    assert found.left_out is None
    assert found.texts["text_id"].to_list() == dev["text_id"][:120].to_list()
    assert found.texts.columns == list(texts.LABELLED_SCHEMA)
    assert len(agreement.held_out(folder / "corpus.parquet", Agreement()).texts) == 200


@pytest.mark.parametrize("texts_at_a_time", [7, 64])
def test_of_a_corpus_that_is_read_in_parts_the_same_are_held_out(folder, monkeypatch, texts_at_a_time):
    dev, read = corpus(folder / "corpus.parquet", 300, 200), []
    monkeypatch.setattr(texts, "ROWS_AT_A_TIME", texts_at_a_time)
    monkeypatch.setattr(texts, "_stream", noted(texts._stream, read))
    found = agreement.held_out(folder / "corpus.parquet", Agreement(texts=100))
    assert found.texts["text_id"].to_list() == dev["text_id"][:100].to_list()
    assert 100 <= sum(read) < 200


def noted(stream, read):
    def noting(*given):
        for batch in stream(*given):
            read.append(len(batch))
            yield batch

    return noting


def test_too_few_dev_texts_are_counted(folder):
    corpus(folder / "corpus.parquet", 300, 99)
    found = agreement.held_out(folder / "corpus.parquet", Agreement())
    assert found.texts.is_empty()
    assert found.left_out == (
        "The corpus' dev split has 99 texts, and 100 are needed; raise `corpus.dev_fraction`, or add texts "
        "to `corpus.sources`."
    )
    assert "null" in agreement.held_out(folder / "corpus.parquet", None).left_out


def test_a_corpus_that_is_not_there_names_the_stage(folder):
    with refuses("none.parquet does not exist", "dvc repro prepare"):
        agreement.held_out(folder / "none.parquet", Agreement())


@pytest.mark.parametrize("count", [1999, 2000, 2001])
def test_equal_texts_are_equally_near_whatever_their_places(count):
    """A product gives equal columns other last bits at the edges of its blocks."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((100, 384)).astype(np.float32)[random.integers(0, 100, count)]
    found, scaled = (np.sort(agreement.nearest(some, "cosine"), axis=1) for some in (vectors, 3 * vectors))
    assert np.array_equal(found, scaled)
    for row in range(0, count, 97):
        equal = [other for other in range(count) if other != row and (vectors[other] == vectors[row]).all()]
        assert found[row].tolist() == equal[:10]
