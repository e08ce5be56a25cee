"""How many texts there are: counted where they are up to date, else estimated."""

from pathlib import Path

import polars as pl
import pytest
from refusals import refuses
from small_params import small_params

from pipeline.data.common import texts as texts_file
from pipeline.params.load import Params
from pipeline.planning.sizes import Texts, sizes, tokens_of
from pipeline.prepare.folded import FoldedTexts
from pipeline.prepare.rows import Told, texts_of
from pipeline.prepare.sources import read_sources

WORDS = "one two three four five six"


@pytest.fixture
def sources(folder: Path) -> Path:
    Path("texts.csv").write_text("text\n" + f"{WORDS}\n" * 90 + "short\n" * 10)
    Path("pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + "a\tb\t1\n" * 20)
    return folder


def params(**source: object) -> Params:
    document = small_params()
    document["corpus"]["sources"][0] |= source
    return Params.model_validate(document)


def test_tasks_and_triplets_of_the_hub_are_not_looked_for_in_files(sources):
    document = small_params()
    document["evaluate"]["tasks"] = {"far": {"kind": "sts", "path": "hub:mteb/stsbenchmark-sts"}}
    document["finetune"]["data"] = {"far": {"kind": "triplets", "path": "hub:someone/triplets", "limit": 9}}
    found = sizes(Params.model_validate(document), sources, frozenset())
    assert found.triplets == {"far": 9}


def test_texts_that_the_corpus_drops_are_left_out_of_the_estimate(sources):
    found = sizes(params(), sources, frozenset())
    assert found.sets["corpus"] == Texts(90, len(WORDS))
    assert (found.train, found.dev) == (72, 18)
    assert set(found.sample) == {WORDS}
    assert found.sets["eval"].number == 21  # a line is a text
    assert not found.counted


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("今天第1个城市的天气非常好，我们一起去公园散步吧。", 40),
        ("今日は とても いい天気ですね", 40),
        ("好。", 0),
        ("字" * 101, 0),
        ("one\u00a0two\u2003three", 40),
        ("one  \u200b two", 0),
    ],
)
def test_words_are_counted_as_prepare_counts_them(sources, line, kept):
    Path("texts.csv").write_text("text\n" + f"{WORDS}\n" * 10 + f"{line}\n" * 40)
    block = params()
    assert sizes(block, sources, frozenset()).sets["corpus"].number == 10 + kept
    read = read_sources(block.corpus.sources, None, None, sources / ".cache")
    nothing = FoldedTexts(pl.Series([], dtype=pl.String))
    rows = [part for source in read for part in texts_of(source, block.corpus, nothing, Told())]
    assert sum(map(len, rows)) == 10 + kept


def test_a_root_is_no_part_of_a_glob(sources):
    root = sources / "we [ird]"
    root.mkdir()
    for name in ("text1.txt", "text2.txt", "pair.tsv"):
        (root / name).write_text(f"{WORDS}\n" * 50)
    document = small_params(evaluate={"tasks": {"pairs": {"kind": "sts", "path": "*.tsv"}}})
    document["corpus"]["sources"][0]["path"] = "text*.txt"
    found = sizes(Params.model_validate(document), root, frozenset())
    assert (found.sets["corpus"].number, found.sets["eval"].number) == (100, 50)


@pytest.mark.parametrize(
    ("tasks", "data", "key"),
    [
        ({"mine": {"kind": "sts", "path": "none*.tsv"}}, {}, "evaluate.tasks.mine.path"),
        (
            {"mine": {"kind": "classification", "train": "pairs.tsv", "test": "none.tsv"}},
            {},
            "evaluate.tasks.mine.test",
        ),
        ({"words": {"kind": "pearl", "path": "none"}}, {}, "evaluate.tasks.words.path"),
        (
            {"pairs": {"kind": "sts", "path": "pairs.tsv"}},
            {"far": {"kind": "triplets", "path": "none.csv"}},
            "finetune.data.far.path",
        ),
    ],
)
def test_files_that_are_not_there_are_named_with_their_key(sources, tasks, data, key):
    document = small_params(evaluate={"tasks": tasks}, finetune={"data": data, "mine": None})
    with refuses(f"{key}: none"):
        sizes(Params.model_validate(document), sources, frozenset())


def test_a_text_file_with_a_column_is_counted_as_a_table(sources):
    Path("snli.txt").write_text("label\tsentence1\n" + f"neutral\t{WORDS}\n" * 30)
    found = sizes(params(path="snli.txt", column="sentence1"), sources, frozenset())
    assert found.sets["corpus"] == Texts(30, len(WORDS))
    Path("plain.txt").write_text(f"{WORDS}\n" * 30)
    assert sizes(params(path="plain.txt"), sources, frozenset()).sets["corpus"].number == 30
    with refuses("corpus.sources.0.column", "plain.txt", "remove `column`"):
        sizes(params(path="plain.txt", column="text"), sources, frozenset())


def test_a_limit_and_what_is_joined_bound_the_texts(sources):
    assert sizes(params(limit=30), sources, frozenset()).sets["corpus"].number == 30
    joined = sizes(params(join=3), sources, frozenset()).sets["corpus"]
    assert joined.number == pytest.approx(33, abs=1)
    assert joined.characters > 2 * len(WORDS)


def test_a_set_that_is_up_to_date_is_counted(sources):
    path = sources / "data/corpus/corpus.parquet"
    path.parent.mkdir(parents=True)
    rows = sorted((f"a text {i}" for i in range(8)), key=texts_file.text_id)
    table = pl.DataFrame(
        {
            "text_id": texts_file.text_ids(rows),
            "text": rows,
            "role": ["text"] * 8,
            "source": ["x"] * 8,
            "split": ["dev"] * 3 + ["train"] * 5,
        }
    )
    texts_file.write(table, texts_file.CORPUS_SCHEMA, path)
    found = sizes(params(), sources, frozenset({"prepare"}))
    assert (found.sets["corpus"].number, found.train, found.dev) == (8, 5, 3)
    assert found.counted == {"corpus"}
    assert sizes(params(), sources, frozenset()).sets["corpus"].number == 90


def test_a_source_of_unknown_size_is_named_with_the_fix(sources):
    for source, place in (
        ({"kind": "huggingface", "dataset": "owner/name"}, "owner/name"),
        ({"kind": "files", "path": "s3://texts/*.txt"}, "s3://texts/*.txt"),
    ):
        document = small_params(corpus={"sources": [source]})
        with refuses("corpus.sources.0", place, "`limit`", "dvc repro prepare"):
            sizes(Params.model_validate(document), sources, frozenset())
        document["corpus"]["sources"][0]["limit"] = 7
        assert sizes(Params.model_validate(document), sources, frozenset()).sets["corpus"].number == 7
    with refuses("none.csv", "does not exist"):
        sizes(params(path="none.csv"), sources, frozenset())
    Path("texts.csv").write_text("text\nshort\n")
    with refuses("no text that it keeps", "corpus"):
        sizes(params(), sources, frozenset())


def test_tokens_of_texts_and_of_their_mean_are_one_estimate():
    rows = ["a" * 9, "b" * 18]
    assert tokens_of(rows) == pytest.approx(Texts(2, 13.5).tokens) == pytest.approx(10)
    assert (Texts(1, 10) + Texts(3, 2)) == Texts(4, 4.0)


def test_without_a_task_dev_texts_stand_for_those_of_tasks(sources):
    found = sizes(Params.model_validate(small_params(evaluate={"tasks": {}})), sources, frozenset())
    assert found.sets["eval"] == Texts(18, len(WORDS))


def test_pairs_of_a_task_are_counted_by_its_files(sources):
    document = small_params()
    Path("twins.tsv").write_text("sentence1\tsentence2\tlabel\n" + "one\ttwo\t1\n" * 30)
    task = {"kind": "pair_classification", "train": "twins.tsv", "test": "pairs.tsv"}
    document["evaluate"]["tasks"] = {"twins": task}
    for limit, most in ((None, 60), (7, 7)):
        document["finetune"]["data"] = {"theirs": {"kind": "task", "task": "twins", "limit": limit}}
        found = sizes(Params.model_validate(document), sources, frozenset()).triplets["theirs"]
        assert min(most, 30) <= found <= most
