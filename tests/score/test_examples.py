import numpy as np
import pytest
from scipy.stats import rankdata

from pipeline.params.evaluate import ClassificationTask, PairClassificationTask
from pipeline.score.evaluation import examples
from pipeline.tasks import pairs
from pipeline.tasks.embeddings import Embeddings

RNG = np.random.default_rng(0)
IDS = np.arange(1, 61, dtype=np.uint64)
TEACHER = Embeddings(IDS, RNG.normal(size=(60, 8)).astype(np.float32))
STUDENT = Embeddings(IDS, RNG.normal(size=(60, 5)).astype(np.float32))
FILES = {"train": "a.csv", "test": "b.csv"}
SINGLE = ClassificationTask.model_validate({"kind": "classification", **FILES})
TWO = PairClassificationTask.model_validate({"kind": "pair_classification", **FILES})
SUBSETS = {"subset": ["train"] * 10 + ["test"] * 20}
TASKS = {
    "sts": pairs.make(
        "sts", "test", {"left_id": range(1, 31), "right_id": range(31, 61), "score": [2.0] * 30}
    ),
    "find": pairs.make(
        "find",
        "test",
        {
            "left_id": [1, 1, *range(2, 9), *[None] * 20],
            "right_id": [21, 1, *range(22, 29), *range(30, 50)],
            "score": [1.0] * 8 + [0] + [None] * 20,
        },
    ),
    "names": pairs.make(
        "names",
        "test",
        {"left_id": [1, 1, 2, 3, 4, 5, 6], "right_id": range(21, 28), "subset": [*"aabababa"][:7]},
    ),
    "topics": pairs.make(
        "topics",
        "test",
        {"left_id": range(1, 31), "right_id": [None] * 30, "label": ["x"] * 30, **SUBSETS},
    ),
    "alike": pairs.make(
        "alike",
        "test",
        {"left_id": range(1, 31), "right_id": range(31, 61), "label": ["x", "y"] * 15, **SUBSETS},
    ),
}
SCORING = {"sts": "sts", "find": "retrieval", "names": "entity_resolution", "topics": SINGLE, "alike": TWO}


def text(wanted):
    return f"text {wanted}"


def cosine(model, left, right):
    one, other = (model.vectors[wanted - 1].astype(np.float64) for wanted in (left, right))
    return one @ other / np.sqrt(one @ one * (other @ other))


@pytest.fixture(scope="module")
def found():
    return examples.of_tasks(TASKS, SCORING, (TEACHER, STUDENT), text)


@pytest.mark.parametrize("block", [2, 7, 100])
def test_the_nearest_are_those_of_brute_force_whatever_is_looked_at_at_a_time(monkeypatch, block):
    monkeypatch.setattr(examples, "BLOCK", block)
    candidates = np.arange(1, 41, dtype=np.uint64)
    queries, passed_over = (np.array(ids, np.uint64) for ids in ([3, 4, 50], [3, 0, 7]))
    found = examples.nearest(queries, candidates, TEACHER, 4, passed_over)
    for query, left_out, row in zip(queries.tolist(), passed_over.tolist(), found, strict=True):
        ranked = sorted(set(candidates.tolist()) - {left_out}, key=lambda one: -cosine(TEACHER, query, one))
        assert [one for one, _ in row] == ranked[:4]
        assert [near for _, near in row] == pytest.approx([cosine(TEACHER, query, one) for one in ranked[:4]])


def test_of_equal_texts_the_first_is_nearer_and_a_text_is_not_near_to_itself():
    same = Embeddings(IDS, np.ones((60, 2)))
    assert [one for one, _ in examples.nearest(IDS[1:2], IDS, same, 3, IDS[1:2])[0]] == [1, 3, 4]
    assert examples.nearest(IDS[:1], IDS[:1], same, 3, IDS[:1]) == [[]]


@pytest.mark.parametrize(
    ("task", "candidates"),
    [("sts", range(1, 61)), ("topics", range(11, 31)), ("alike", [*range(11, 31), *range(41, 61)])],
)
def test_a_text_is_shown_with_its_tasks_test_texts(found, task, candidates):
    shown = found[task].nearest
    first = min(candidates)
    assert [one.query for one in shown] == [text(first + n) for n in range(5)]
    for side, model in (("teacher", TEACHER), ("student", STUDENT)):
        near = getattr(shown[0], side)
        ranked = sorted(set(candidates) - {first}, key=lambda one: -cosine(model, first, one))
        assert [one.text for one in near] == [text(one) for one in ranked[:3]]
        assert not any(one.relevant for one in near)


def test_a_query_is_shown_with_documents_and_what_is_relevant_is_marked(found):
    shown = {one.query: one for one in found["find"].nearest}
    assert list(shown) == [text(n) for n in range(1, 6)]
    # Document 1 is query 1 itself.
    assert shown[text(1)].relevant == (text(1), text(21))
    assert shown[text(1)].belonging == 2
    documents = {text(n) for n in (1, *range(21, 29), *range(30, 50))}
    for one in shown.values():
        for near in (*one.teacher, *one.student):
            assert near.text in documents
            assert near.relevant == (near.text in one.relevant)


@pytest.mark.parametrize(
    ("task", "rows", "finds_itself"),
    [
        ("retrieval", {"left_id": [1, 1], "score": [1.0, pairs.PASSED_OVER]}, False),
        ("retrieval", {"left_id": [1, 1], "score": [1.0, 1.0]}, True),
        ("entity_resolution", {"left_id": [1, None], "subset": ["a", "a"]}, True),
    ],
)
def test_a_query_finds_its_own_document_unless_that_is_passed_over(task, rows, finds_itself):
    table = pairs.make("task", "test", {"right_id": [2, 1], **rows})
    [one] = examples.of_tasks({"task": table}, {"task": task}, (TEACHER, STUDENT), text)["task"].nearest
    for side in (one.teacher, one.student):
        assert [near.text for near in side] == ([text(1), text(2)] if finds_itself else [text(2)])


def test_an_entity_is_looked_for_in_its_subset(found):
    of_subset = {"a": {21, 22, 24, 26}, "b": {23, 25, 27}}
    for one in found["names"].nearest:
        near = {int(other.text.split()[1]) for other in one.teacher}
        assert near <= of_subset[one.subset]
        assert len(near) == 3
    asked = [(one.query, one.subset) for one in found["names"].nearest]
    assert len(set(asked)) == 5


def test_disagreements_are_the_pairs_whose_ranks_differ_most(found):
    left, right = np.arange(1, 31), np.arange(31, 61)
    sides = [[cosine(model, *pair) for pair in zip(left, right, strict=True)] for model in (TEACHER, STUDENT)]
    ranks = [rankdata([-one for one in side], method="min") for side in sides]
    apart = abs(ranks[0] - ranks[1])
    shown = found["sts"].disagreements
    assert found["sts"].pairs == 30
    assert [abs(one.teacher_rank - one.student_rank) for one in shown] == sorted(apart, reverse=True)[:10]
    for one in shown:
        row = int(one.left.split()[1]) - 1
        assert (one.right, one.gold) == (text(row + 31), 2)
        assert (one.teacher_rank, one.student_rank) == (ranks[0][row], ranks[1][row])
        assert (one.teacher_cosine, one.student_cosine) == pytest.approx((sides[0][row], sides[1][row]))


def test_gold_says_what_the_task_knows_of_a_pair(found):
    assert {one.gold for one in found["alike"].disagreements} == {"x", "y"}
    assert {one.gold for one in found["topics"].disagreements} == {None}
    known = {(1, 21), (1, 1), *((n, n + 20) for n in range(2, 8))}
    for one in found["find"].disagreements:
        pair = tuple(int(side.split()[1]) for side in (one.left, one.right))
        assert one.gold == (1 if pair in known else None)
        assert pair not in {(1, 1)} or one.gold == 1


def test_models_that_agree_have_no_disagreements():
    same = examples.of_tasks(TASKS, SCORING, (TEACHER, Embeddings(IDS, 2 * TEACHER.vectors)), text)
    assert not [name for name, one in same.items() if one.disagreements]


def test_many_pairs_are_sampled_alike_every_time(monkeypatch, found):
    assert examples.of_tasks(TASKS, SCORING, (TEACHER, STUDENT), text) == found
    monkeypatch.setattr(examples, "PAIRS", 12)
    few = examples.of_tasks(TASKS, SCORING, (TEACHER, STUDENT), text)
    assert {name: one.pairs for name, one in few.items()}["sts"] == 12
    assert max(one.pairs for one in few.values()) <= 12
    assert examples.of_tasks(TASKS, SCORING, (TEACHER, STUDENT), text) == few
