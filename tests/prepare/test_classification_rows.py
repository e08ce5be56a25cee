import numpy as np
import pytest
from refusals import refuses

from pipeline.params.evaluate import ClassificationTask, PairClassificationTask
from pipeline.prepare.tasks import evaluation, sizes
from pipeline.tasks.scoring import split_of, text_ids

PAIRS = "sentence1\tsentence2\tlabel"


def no_wordnet():
    raise AssertionError("WordNet is not needed")


@pytest.fixture
def task(tmp_path):
    """Writes rows to files, and makes a task of them."""

    def make(training, scored, choosing=None, header="text\tlabel", **fields):
        files = {"train": training, "test": scored} | ({"dev": choosing} if choosing else {})
        for name, rows in files.items():
            lines = ["\t".join(map(str, row)) for row in rows]
            (tmp_path / f"{name}.tsv").write_text("\n".join([header, *lines]) + "\n")
        block = PairClassificationTask if header == PAIRS else ClassificationTask
        kind = {"kind": "pair_classification" if header == PAIRS else "classification"}
        paths = {name: str(tmp_path / f"{name}.tsv") for name in files}
        return evaluation({"mine": block.model_validate(kind | paths | fields)}, no_wordnet)

    return make


def many(count, start=0):
    """Rows of two labels, by turns."""
    return [(f"text number {number}", number % 2) for number in range(start, start + count)]


def rows_of(found, subset):
    """Texts and labels, as they were given."""
    text = dict(found.texts.select("text_id", "text").iter_rows())
    rows = found.pairs.filter(subset=subset).select("left_id", "right_id", "label").rows()
    return sorted(
        (*(text[side] for side in (left, right) if side is not None), label) for left, right, label in rows
    )


def test_single_texts_keep_their_labels_and_have_no_right_side(task):
    found = task([("a dog", "pet"), ("an oak", "tree")], [("A cat", "pet")], [("an elm", " tree ")])
    assert rows_of(found, "train") == [("a dog", "pet"), ("an oak", "tree")]
    assert rows_of(found, "dev") == [("an elm", "tree")]
    assert rows_of(found, "test") == [("A cat", "pet")]
    assert found.pairs["right_id"].null_count() == 4


def test_pairs_keep_the_order_of_their_sides(task):
    found = task([("b", "a", 1), ("c", "d", 0)], [("f", "e", 1)], [("g", "h", 0)], header=PAIRS)
    assert rows_of(found, "train") == [("b", "a", "1"), ("c", "d", "0")]
    assert rows_of(found, "test") == [("f", "e", "1")]


@pytest.mark.parametrize(("split", "other"), [("test", "dev"), ("dev", "test")])
def test_all_rows_go_where_the_score_counts_so_that_dev_rows_select_no_weights(task, split, other):
    found = task(many(40), many(5, start=100), split=split)
    assert split_of(found.pairs, other) == {}
    assert split_of(found.pairs, "train") == {}
    assert len(text_ids(split_of(found.pairs, split))) == 45


def test_without_a_dev_file_a_tenth_of_each_label_is_dev_whatever_the_order(task):
    train = [(f"text {number}", "rare" if number < 20 else "common") for number in range(220)]
    found = task(train, [("new", "rare")])
    labels = [label for _, label in rows_of(found, "dev")]
    assert (labels.count("rare"), labels.count("common")) == (2, 20)
    assert sorted(rows_of(found, "dev") + rows_of(found, "train")) == sorted(train)
    assert rows_of(task(train[::-1], [("new", "rare")]), "dev") == rows_of(found, "dev")


def test_training_rows_that_are_test_or_dev_rows_are_left_out_and_counted(task):
    same = [("Seen, in TEST!", 0), ("seen in dév", 1), ("seen in dev", 0)]
    found = task(
        [*many(4), *same], [("seen in test", 1)], [("Seen in dev", 1), ("seen  in test.", 1), ("x", 0)]
    )
    assert rows_of(found, "train") == [(text, str(label)) for text, label in many(4)]
    assert rows_of(found, "dev") == [("Seen in dev", "1"), ("x", "0")]
    assert rows_of(found, "test") == [("seen in test", "1")]
    dropped = {"training_row_is_test_row": 1, "dev_row_is_test_row": 1, "training_row_is_dev_row": 2}
    assert found.dropped == {"mine": dropped}
    counted = sizes(found.pairs, found.dropped)["mine"]
    assert counted["dropped"] == dropped
    assert {subset: count["rows"] for subset, count in counted["test"].items()} == {
        "train": 4,
        "dev": 2,
        "test": 1,
    }
    assert counted["test"]["train"] == {"rows": 4, "left_texts": 4, "right_texts": 0}


def test_a_pair_is_the_same_in_either_order_but_not_by_one_side(task):
    train = [("a", "b", 1), ("b", "a", 0), ("a", "c", 1), ("d", "e", 0)]
    found = task(train, [("A", "B", 1)], [("x", "y", 0)], header=PAIRS)
    assert rows_of(found, "train") == [("a", "c", "1"), ("d", "e", "0")]
    assert found.dropped == {"mine": {"training_row_is_test_row": 2}}


def test_a_limit_keeps_the_same_rows_whatever_the_order(task):
    found = task(many(300), many(5, start=900), max_train=100)
    kept = rows_of(found, "train") + rows_of(found, "dev")
    assert len(kept) == 100
    assert found.dropped == {"mine": {"over_limit": 200}}
    again = task(many(300)[::-1], many(5, start=900), max_train=100)
    assert sorted(rows_of(again, "train") + rows_of(again, "dev")) == sorted(kept)


def test_a_label_that_the_limit_leaves_out_asks_for_a_higher_limit(task):
    with refuses("test.tsv, row 1 ", "'7'", "over_limit", "evaluate.tasks.mine.max_train"):
        task([*many(300), ("rare", 7)], [("c", 7)], max_train=20)


def test_several_files_are_one_set(task, tmp_path):
    for number in range(2):
        (tmp_path / f"part{number}.csv").write_text(f'text,label\n"one, {number}",{number}\n')
    found = task(many(4), many(2, start=10), many(2, start=20), train=str(tmp_path / "part*.csv"))
    assert rows_of(found, "train") == [("one, 0", "0"), ("one, 1", "1")]


@pytest.mark.parametrize(
    ("train", "test", "dev", "named"),
    [
        (
            [("a", 0), ("b", "")],
            [("c", 0)],
            None,
            ("evaluate.tasks.mine.train", "'training_row_without_label': 1", "`label`"),
        ),
        (many(20), [("c", "-")], None, ("test.tsv, row 1 ", "'-'", "0, 1;")),
        ([("a", 0), ("b", 1)], [(" ", 0)], None, ("test.tsv, row 1 ", "text", "fill it")),
        (
            many(20),
            [("c", 0), ("d", 2)],
            None,
            ("test.tsv, row 2 ", "'2'", "0, 1;", "evaluate.tasks.mine.train"),
        ),
        (many(4), [("c", 0)], [("d", "O")], ("dev.tsv, row 1 ", "'O'", "evaluate.tasks.mine.train")),
        (
            [("a", 1), ("b", 1)],
            [("c", 1)],
            None,
            ("evaluate.tasks.mine.train", " 2 rows", " 1,", "`label`"),
        ),
        (
            many(20),
            many(20),
            None,
            ("evaluate.tasks.mine.train", " 0 rows", "'training_row_is_test_row': 20", "`label`"),
        ),
        (
            many(8),
            [("c", 1)],
            None,
            ("evaluate.tasks.mine.train", " 8 rows", "dropped: none", "evaluate.tasks.mine.dev"),
        ),
        (many(8), [("c", 1)], [("c", 1)], ("'dev_row_is_test_row': 1", "evaluate.tasks.mine.dev")),
    ],
)
def test_rows_that_make_no_task_end_with_one_message(task, train, test, dev, named):
    with refuses(*named) as error:
        task(train, test, dev)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, ("evaluate.tasks.mine.test", "correct the path")),
        ("text,labels\na,1\n", ("'label'", "text, labels", "'labels'?")),
        ("text,label\n", ("params.yaml or fill it",)),
        ("text,label\na,1,2\n", ("none.csv, line 2", "3 cells", "2 columns")),
    ],
)
def test_a_file_that_cannot_be_read_ends_with_one_message(task, tmp_path, content, named):
    if content:
        (tmp_path / "none.csv").write_text(content)
    with refuses(tmp_path / "none.csv", *named):
        task(many(20), many(2, start=50), test=str(tmp_path / "none.csv"))


def test_real_files_in_parquet(shared_data):
    pair = {"kind": "pair_classification", "label": "score"}
    files = {
        part: str(shared_data / f"pairs/MRPC_{name}.parquet")
        for part, name in (("train", "train"), ("test", "val"))
    }
    found = evaluation({"mrpc": PairClassificationTask.model_validate(pair | files)}, no_wordnet)
    counts = dict(found.pairs["subset"].value_counts().iter_rows())
    left_out = sum(found.dropped["mrpc"].values())
    assert counts["test"] == 500
    assert counts["train"] + counts["dev"] == 3576 - left_out
    assert 0 < left_out < 20
    shares = [(found.pairs.filter(subset=part)["label"] == "1.0").mean() for part in ("train", "dev")]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.01)
