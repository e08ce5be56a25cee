"""Sets of word pairs are read as they are published."""

import polars as pl
import pytest
from refusals import refuses

from pipeline.params.evaluate import Evaluate
from pipeline.params.phrases import POTION_SETS
from pipeline.prepare.readers.word_pairs import OFFICIAL
from pipeline.prepare.tasks import evaluation
from pipeline.tasks.scoring import main_metrics
from pipeline.tasks.subtasks import one_by_one

PUBLISHED = {
    "men": ("MEN/MEN_dataset_natural_form_full", "sun sunlight 50.000000\nriver water 49.000000\n"),
    "simlex": (
        "SimLex-999/SimLex-999.txt",
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\tconc(w2)\tconcQ\tAssoc(USF)\tSimAssoc333\tSD(SimLex)\n"
        "old\tnew\tA\t1.58\t2.72\t2.81\t2\t7.25\t1\t0.41\nsmart\tbright\tA\t9.2\t1.75\t2.46\t1\t7.11\t1\t0.67\n",
    ),
    "simverb": (
        "data/SimVerb-3500.txt",
        "take\tremove\tV\t6.81\tSYNONYMS\nwalk\ttrail\tV\t4.81\tCOHYPONYMS\n",
    ),
    "rareword": (
        "rw/rw.txt",
        "squishing\tsquirt\t5.88\t7\t7\t6\t1\t4\t6\t5\t7\t9\t7\nundated\tundatable\t5.83\t10\t9\t10\t8\t6\t0\t1\n",
    ),
    "rel353": (
        "wordsim353_sim_rel/wordsim_relatedness_goldstandard.txt",
        "computer\tkeyboard\t7.62\r\nJerusalem\tIsrael\t8.46\r\n",
    ),
    "mturk771": ("MTURK-771.csv", "access,gateway,3.7916666666666665\naccount,explanation,2.0\n"),
    "card660": ("card-660/dataset.tsv", "Akkadian\tLatin\t2.0\nBBC\tbroadcaster\t3.1\n"),
    "wordsim353": ("combined.csv", "Word 1,Word 2,Human (mean)\nlove,sex,6.77\ntiger,tiger,10.00\n"),
    "mturk287": ("Mtruk.csv", "episcopal,russia,2.75\nwater,shortage,2.714285714\n"),
    "yp130": ("EN-YP-130.txt", "brag\tboast\t4.00\nconcoct\tdevise\t3.50\n"),
    "verb143": ("EN-VERB-143.txt", "happen\tsay\t0.19\nmakes\tproduced\t0.72\n"),
    "sim353": ("wordsim_similarity_goldstandard.txt", "tiger\tcat\t7.35\ntiger\ttiger\t10.00\n"),
    "bird": (
        "bird/bird.tsv",
        "id\tterm1\tterm2\trelatedness score\tby\n1\taccess road\troad\t0.64\tw\n2\tad hoc\tbad\t0.1\tw\n",
    ),
}
FIRST = {
    "men": ("sun", "sunlight", 50.0),
    "simlex": ("old", "new", 1.58),
    "simverb": ("take", "remove", 6.81),
    "rareword": ("squishing", "squirt", 5.88),
    "rel353": ("computer", "keyboard", 7.62),
    "mturk771": ("access", "gateway", 3.7916666666666665),
    "card660": ("Akkadian", "Latin", 2.0),
    "wordsim353": ("love", "sex", 6.77),
    "mturk287": ("episcopal", "russia", 2.75),
    "yp130": ("brag", "boast", 4.0),
    "verb143": ("happen", "say", 0.19),
    "sim353": ("tiger", "cat", 7.35),
    "bird": ("access road", "road", 0.64),
}


def put(folder, *names):
    for name in names or PUBLISHED:
        place, content = PUBLISHED[name]
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(content, newline="")


def read(block):
    """The pairs of the tasks of a block, by task: left, right, score."""
    found = evaluation(Evaluate.model_validate({"tasks": {"words": block}}).tasks, None)
    texts = dict(found.texts.select("text_id", "text").iter_rows())
    rows = {}
    for task, left, right, score in found.pairs.select("task", "left_id", "right_id", "score").iter_rows():
        rows.setdefault(task, []).append((texts[left], texts[right], pytest.approx(score)))
    return rows


def word_similarity(path, **settings):
    return {"kind": "word_similarity", "path": str(path), **settings}


def test_all_sets_are_here():
    assert {*PUBLISHED} == {*FIRST} == {*OFFICIAL}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_set_is_read_as_it_is_published_from_its_file_or_its_folder(tmp_path, name):
    put(tmp_path)
    by_set = read(word_similarity(tmp_path, set=name))["words"]
    assert len(by_set) == 2
    assert FIRST[name] in by_set
    assert read(word_similarity(tmp_path / PUBLISHED[name][0]))["words"] == by_set


def test_potions_sets_are_a_task_each(tmp_path):
    put(tmp_path, *POTION_SETS)
    found = read({"kind": "word_similarity_sets", "path": str(tmp_path)})
    assert {*found} == {f"words_{name}" for name in POTION_SETS}
    assert FIRST["men"] in found["words_men"]
    assert {*read({"kind": "word_similarity_sets", "path": str(tmp_path), "sets": ["men"]})} == {"words_men"}


def test_mens_lemmas_lose_their_part_of_speech(tmp_path):
    path = tmp_path / "MEN_dataset_lemma_form_full"
    path.write_text("sun-n sunlight-n 50\nrun-v quick-j 10\n")
    assert sorted(read(word_similarity(path))["words"]) == [("run", "quick", 10), ("sun", "sunlight", 50)]
    path.write_text("sun-n sunlight-n 50\nrun quick-j 10\n")
    assert ("sun-n", "sunlight-n", 50) in read(word_similarity(path))["words"]


def test_ones_own_columns_in_every_format(tmp_path):
    table = pl.DataFrame({"sentence1": ["a b", "c"], "sentence2": ["d", "e"], "score": [1.0, 2.0]})
    table.write_parquet(tmp_path / "x.parquet")
    table.write_csv(tmp_path / "x.csv")
    table.write_csv(tmp_path / "x.tsv", separator="\t")
    table.write_ndjson(tmp_path / "x.jsonl")
    for name in ("x.parquet", "x.csv", "x.tsv", "x.jsonl"):
        assert sorted(read(word_similarity(tmp_path / name))["words"]) == [("a b", "d", 1), ("c", "e", 2)]
    renamed = table.rename({"sentence1": "word1", "sentence2": "word2", "score": "mine"})
    renamed.with_columns(score=pl.lit(0.0)).write_csv(tmp_path / "y.csv")
    named = word_similarity(tmp_path / "y.csv", left="word1", right="word2", score="mine")
    assert sorted(read(named)["words"]) == [("a b", "d", 1), ("c", "e", 2)]


def test_bird_may_be_headed_by_pearson(tmp_path):
    block = word_similarity("bird.tsv", metric="pearson")
    tasks = one_by_one(Evaluate.model_validate({"tasks": {"bird": block}}).tasks)
    assert main_metrics(tasks) == {"bird": "pearson"}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("a b 1\nc d\n", ("x.txt, line 2:", "2 cells", "correct the line")),
        ("a b 1\nc d e\n", ("x.txt, row 2 ", "'e'", "number")),
        ("a\tb\t1\n\td\t2\n", ("x.txt, row 2 ", "left", "fill it")),
        ("a,b,1\n", ("x.txt", "one score")),
        ("Word 1,Word 2,Human (mean)\na,b,x\n", ("x.txt, row 1 ", "Human (mean)", "'x'")),
        ("one two three\n", ("x.txt", "no columns")),
        ("tiger,cat,7,35\nbook,paper,7,46\n", ("x.txt, line 1:", "4 cells for 3 columns", "decimals")),
        (",,\n,,\n", ("x.txt has only blank lines", "fill it")),
        ("Word 1,Word 2,Human (mean)\na,b,7,35\n", ("x.txt, line 2:", "4 cells for 3 columns", "decimals")),
        ("word1\tword2\tscore\na\tb\t1\nc\td\t2\textra\n", ("x.txt, line 3:", "4 cells for 3 columns")),
        ("word1\tword2\tscore\tScore\na\tb\t1\t2\n", ("x.txt", "2 columns 'score'", "rename")),
        ("", ("x.txt", "fill it")),
        ("\n\n", ("x.txt has only blank lines", "fill it")),
        (" \n\t\r\n", ("x.txt has only blank lines", "fill it")),
    ],
)
def test_faults_name_the_file_and_the_line(tmp_path, content, named):
    (tmp_path / "x.txt").write_text(content)
    with refuses(*named):
        read(word_similarity(tmp_path / "x.txt"))


def test_a_set_that_is_not_in_the_folder(tmp_path):
    put(tmp_path, "men")
    with refuses("evaluate.tasks.words.path", "SimLex-999.txt", "leave the set out"):
        read({"kind": "word_similarity_sets", "path": str(tmp_path), "sets": ["men", "simlex"]})
    with refuses("evaluate.tasks.words.path", "no folder", "men"):
        read(word_similarity(tmp_path / PUBLISHED["men"][0], set="men"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "MEN_dataset_natural_form_full").write_text("a b 1\n")
    with refuses("evaluate.tasks.words.path", "MEN_dataset_natural_form_full", "without `set`"):
        read(word_similarity(tmp_path, set="men"))


@pytest.mark.parametrize("header", ["", '"word1"{0}"word2"{0}"score"\n'])
@pytest.mark.parametrize("between", ["\t", " ", ","])
def test_words_in_quotation_marks_as_r_writes_them(tmp_path, header, between):
    rows = '"tiger"{0}"cat"{0}7.35\n"book"{0}"paper"{0}7.46\n'
    (tmp_path / "x.txt").write_text((header + rows).format(between))
    found = sorted(read(word_similarity(tmp_path / "x.txt"))["words"])
    assert found == [("book", "paper", 7.46), ("tiger", "cat", 7.35)]


@pytest.mark.parametrize(
    "content",
    [
        "tiger,cat,7.35,8,7\nbook,paper,7.46,7,8\n",
        "tiger,cat,7.35,\nbook,paper,7.46,\n",
        "word1\tword2\tscore\tnote\ntiger\tcat\t7.35\nbook\tpaper\t7.46\tof 1999\n",
    ],
)
def test_what_follows_the_score_is_passed_over(tmp_path, content):
    (tmp_path / "x.txt").write_text(content)
    found = sorted(read(word_similarity(tmp_path / "x.txt"))["words"])
    assert found == [("book", "paper", 7.46), ("tiger", "cat", 7.35)]
