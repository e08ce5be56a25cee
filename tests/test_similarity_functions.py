"""A teacher's `similarity_fn_name` is obeyed wherever a score is taken, as sentence-transformers would."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encode_runs import encode, write_params, write_texts
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer, SimilarityFunction
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_encoders import small_encoder
from small_retrieval import retrieval_task
from small_students import static_block, transformer_block, write_parts

from pipeline.cli.search import search
from pipeline.core.errors import UserError
from pipeline.data.student import student_folder
from pipeline.params.search import FlatIndex, HnswIndex, IvfIndex
from pipeline.params.students import TransformerStudent
from pipeline.score.evaluation import asymmetric, budget, examples
from pipeline.score.evaluation.searches import indexes
from pipeline.tasks import entity_resolution, ranking, retrieval, sts
from pipeline.tasks.embeddings import Embeddings
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.kinds import transformer
from pipeline.vectors.sets import published
from pipeline.vectors.space import geometry
from pipeline.vectors.space.pca import Pca
from pipeline.vectors.space.targets import reduced_similarity, student_similarity

FUNCTIONS = ["cosine", "dot", "euclidean", "manhattan"]
TEXTS = ["the cat sat", "a dog barks", "rain falls", "a quiet sea", "cats and dogs", "x y z", "the sea"]


def theirs(how):
    """sentence-transformers' similarity of all rows with all rows, and of rows with the same row."""
    every = SimilarityFunction.to_similarity_fn(how)
    each = SimilarityFunction.to_similarity_pairwise_fn(how)
    return lambda *sides: every(*sides).numpy(), lambda *sides: each(*sides).numpy()


def random_vectors(rows, dim=6, seed=0):
    """Of very different lengths, so that all functions rank them differently."""
    random = np.random.default_rng(seed)
    return (random.normal(size=(rows, dim)) * random.uniform(0.2, 4, (rows, 1))).astype(np.float32)


@pytest.mark.parametrize("how", FUNCTIONS)
def test_similarities_are_sentence_transformers(how):
    left, right = random_vectors(7), random_vectors(7, seed=1)
    every, each = theirs(how)
    np.testing.assert_allclose(geometry.similarities(left, right, how), each(left, right), atol=1e-4)
    np.testing.assert_allclose(geometry.all_similarities(left, right, how), every(left, right), atol=1e-4)


def embeddings_of(how, rows=280, dim=6):
    return Embeddings(np.arange(rows, dtype=np.uint64), random_vectors(rows, dim), how)


@pytest.mark.parametrize("how", FUNCTIONS)
def test_sts_ranks_pairs_by_it(how):
    random, embeddings = np.random.default_rng(0), embeddings_of(how)
    pairs = pl.DataFrame(
        {
            "left_id": random.integers(0, 280, 50).astype(np.uint64),
            "right_id": random.integers(0, 280, 50).astype(np.uint64),
            "score": random.random(50).astype(np.float32),
            "subset": [""] * 50,
        }
    )
    left, right = (embeddings.vectors[pairs[side].to_numpy()] for side in ("left_id", "right_id"))
    expected = spearmanr(theirs(how)[1](left, right), pairs["score"]).statistic
    assert sts.score(pairs, embeddings)["spearman"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("how", FUNCTIONS)
def test_retrieval_examples_and_exact_indexes_find_its_nearest(how):
    pairs, _ = retrieval_task()
    embeddings = embeddings_of(how)
    task, found = retrieval.search(pairs, embeddings)
    expected = theirs(how)[0](embeddings.of(task.queries), embeddings.of(task.documents))
    nearest = np.argsort(-expected, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(found.rows[:, :10], nearest)
    documents, queries = (ranking.searchable(embeddings, ids) for ids in (task.documents, task.queries))
    flat = indexes.search(indexes.build(FlatIndex(kind="flat"), documents, how), queries)
    np.testing.assert_array_equal(flat.rows[:, :10], nearest)
    shown = examples.nearest(task.queries, task.documents, embeddings, 10, np.ones(len(queries), bool))
    assert [[one for one, _ in row] for row in shown] == task.documents[nearest].tolist()
    np.testing.assert_allclose(
        [[value for _, value in row] for row in shown], -np.sort(-expected, axis=1)[:, :10], atol=1e-4
    )


@pytest.mark.parametrize("how", FUNCTIONS)
@pytest.mark.parametrize(
    "spec", [IvfIndex(kind="ivf", nlist=4, nprobe=4), HnswIndex(kind="hnsw", m=32, ef_search=200)]
)
def test_other_indexes_find_them_too(how, spec, tmp_path):
    pairs, _ = retrieval_task()
    (row,) = indexes.score_tasks({"find": pairs}, {"teacher": embeddings_of(how)}, [spec], tmp_path)
    assert row["exact@10"] > 0.95


@pytest.mark.parametrize("how", FUNCTIONS)
def test_an_entity_is_the_nearest_by_it_and_a_tie_resolves_nothing(how):
    embeddings = embeddings_of(how, rows=40)
    expected = theirs(how)[0](embeddings.vectors[:10], embeddings.vectors[10:])
    nearest = 10 + expected.argmax(axis=1)
    pairs = pl.DataFrame(
        {
            "subset": [""] * 40,
            "left_id": [*range(10), *[None] * 30],
            "right_id": [*nearest, *range(10, 40)],
        },
        schema={"subset": pl.String, "left_id": pl.UInt64, "right_id": pl.UInt64},
    )
    assert entity_resolution.score(pairs, embeddings)["recall@1"] == 1
    twins = Embeddings(embeddings.ids, np.ones_like(embeddings.vectors) * 3, how)
    assert entity_resolution.score(pairs, twins)["recall@1"] == 0


@pytest.mark.parametrize("how", FUNCTIONS)
def test_student_queries_among_the_teachers_documents_are_compared_as_the_student_is(how):
    pairs, _ = retrieval_task()
    one = embeddings_of(how)
    found = asymmetric.score_tasks({"find": pairs}, one, Embeddings(one.ids, one.vectors))
    expected = retrieval.score(pairs, one)
    assert found["find"]["ndcg@10"] == pytest.approx(expected["ndcg@10"])


@pytest.mark.parametrize("how", FUNCTIONS)
def test_whole_vectors_in_float32_score_in_the_budget_what_they_score(how):
    pairs, _ = retrieval_task()
    asked = budget.Budget(types=("float32", "float16", "int8"), dims=())
    rows = budget.score_tasks(
        {"find": pairs},
        {"find": "retrieval"},
        {"find": "ndcg@10"},
        embeddings_of(how),
        static_block(),
        asked,
    )
    expected = retrieval.score(pairs, embeddings_of(how))["ndcg@10"]
    assert rows[0]["scores"]["find"] == pytest.approx(expected)
    assert rows[1]["scores"]["find"] == pytest.approx(expected, abs=0.05)


# What compares a student's vectors.


def fitted(dim=8, mean=0.0):
    return Pca(np.full(dim, mean), np.eye(dim), np.ones(dim))


@pytest.mark.parametrize(
    ("how", "block", "mean", "expected"),
    [
        *((how, {"loss": {"kind": "mse"}}, 0.0, how) for how in FUNCTIONS),
        *((how, {"loss": {"kind": "cosine"}}, 0.0, "cosine") for how in FUNCTIONS),
        ("dot", {"loss": {"kind": "mse"}, "train": {"centre": True}}, 1.0, "cosine"),
        ("euclidean", {"loss": {"kind": "mse"}, "train": {"centre": True}}, 1.0, "euclidean"),
        ("dot", {"loss": {"kind": "mse"}, "dim": 4}, 0.0, "dot"),
        ("dot", {"loss": {"kind": "mse"}, "dim": 4}, 1.0, "cosine"),
        ("euclidean", {"loss": {"kind": "mse"}, "dim": 4}, 1.0, "euclidean"),
        ("manhattan", {"loss": {"kind": "mse"}, "dim": 4}, 0.0, "cosine"),
        ("euclidean", {"loss": {"kind": "mse"}, "train": {"whiten": True}}, 0.0, "cosine"),
        ("dot", {"loss": {"kind": "sum", "terms": [{"weight": 1.0, "loss": {"kind": "mse"}}]}}, 0.0, "dot"),
    ],
)
def test_a_student_is_compared_as_its_teacher_where_it_learns_what_that_measures(how, block, mean, expected):
    given = transformer_block(dim=block.get("dim", 8)).model_dump()
    train = {**given["train"], **block.get("train", {})}
    student = TransformerStudent.model_validate({**given, "train": train, "loss": block["loss"]})
    assert student_similarity(how, student, fitted(mean=mean)) == expected


@pytest.mark.parametrize("how", FUNCTIONS)
def test_components_keep_what_they_are_said_to_keep(how):
    vectors, random = random_vectors(30, 8) + 1, np.random.default_rng(1)
    rotation = np.linalg.qr(random.normal(size=(8, 8)))[0]
    for mean in (np.zeros(8), vectors.mean(axis=0).astype(np.float64)):
        pca = Pca(mean, rotation, np.ones(8))
        reduced = pca.reduce(vectors, 8)
        kept = np.allclose(
            geometry.all_similarities(vectors, vectors, how),
            geometry.all_similarities(reduced, reduced, how),
            atol=1e-3,
        )
        assert (reduced_similarity(how, pca) == how) == (kept or how == "cosine")


def test_a_static_student_is_saved_at_length_1_and_compared_by_cosines():
    assert student_similarity("dot", static_block(dim=8), fitted()) == "cosine"


@pytest.mark.parametrize("how", FUNCTIONS)
def test_a_saved_student_says_it_to_sentence_transformers_and_in_its_card(tmp_path, how):
    student = transformer.build(transformer_block(), write_parts(tmp_path / "parts"))
    student_folder.write(student, "# card\n", tmp_path / "student", similarity=how)
    assert SentenceTransformer(str(tmp_path / "student"), device="cpu").similarity_fn_name == how
    assert student_folder.similarity(tmp_path / "student") == how
    card = (tmp_path / "student/README.md").read_text()
    assert ("Compare vectors by" in card) == (how != "cosine")


def test_an_unknown_function_is_named_with_its_file(tmp_path):
    (tmp_path / student_folder.SETTINGS).write_text(json.dumps({"similarity_fn_name": "hamming"}))
    with pytest.raises(UserError, match=rf"{student_folder.SETTINGS}: similarity_fn_name is 'hamming'; set"):
        student_folder.similarity(tmp_path)


# From the teacher to the manifest, and from a student to `pipeline search`.


def save_model(folder, how):
    with_plain = folder / "plain"
    small_encoder("bert").save_pretrained(with_plain)
    letter_tokenizer().save_pretrained(with_plain)
    modules = [Transformer(str(with_plain)), Pooling(16, "mean")]
    model = SentenceTransformer(modules=modules, device="cpu", similarity_fn_name=how)
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return folder / "model"


@pytest.mark.parametrize("how", FUNCTIONS)
def test_the_teachers_is_put_down_with_sentence_vectors_unless_the_cosine(tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    model = save_model(tmp_path, how)
    write_texts(TEXTS)
    write_params(teacher={"kind": "transformer", "model": str(model)})
    encode()
    opened = published.open_set(Path("vectors/corpus"), "sentence", "cls")
    assert (opened.similarity("sentence"), opened.similarity("cls")) == (how, "cosine")
    assert ("similarity" in opened.manifests["sentence"]) == (how != "cosine")


@pytest.mark.parametrize("how", FUNCTIONS)
def test_search_ranks_as_sentence_transformers_does(tmp_path, monkeypatch, capsys, how):
    monkeypatch.chdir(tmp_path)
    model = save_model(tmp_path, how)
    Path("texts.txt").write_text("\n".join(TEXTS))
    index = tmp_path / "index"
    search(Path("texts.txt"), ["a cat"], str(model), top=7, index=index, device="cpu", batch_size=8)
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    loaded = SentenceTransformer(str(model), device="cpu")
    scores = loaded.similarity(loaded.encode(["a cat"]), loaded.encode(TEXTS)).numpy()[0]
    order = np.argsort(-scores)
    assert [row[-1] for row in rows] == [TEXTS[row] for row in order]
    np.testing.assert_allclose([float(row[-2]) for row in rows], scores[order], atol=2e-2)
