import pytest
from refusals import refuses

from pipeline.params.evaluate import Evaluate, StsTask
from pipeline.prepare.labelled.keys import Keys
from pipeline.prepare.labelled.similarity import similarity
from pipeline.tasks.subtasks import one_by_one

SETS = ["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"]


def semeval(folder, name, scores):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {row} left\t{name} {row} right\n" for row in range(len(scores))]
    (folder / f"STS.input.{name}.txt").write_text("".join(lines))
    (folder / f"STS.gs.{name}.txt").write_text("".join(f"{score}\n" for score in scores))


def read(path, **settings):
    task = StsTask(kind="sts", path=str(path), **settings)
    return similarity(Keys.of("mine", task), task)


def rows(found):
    return found.pairs.select("subset", "score").rows()


def test_a_folder_of_semeval_has_a_subset_a_pair_of_files(tmp_path):
    semeval(tmp_path, "MSRvid", [1, 2.5])
    semeval(tmp_path, "surprise.OnWN", [0, "", 5])
    found = read(tmp_path)
    assert rows(found) == [("MSRvid", 1), ("MSRvid", 2.5), ("surprise.OnWN", 0), ("surprise.OnWN", 5)]
    assert found.dropped == {"mine": {"no_score": 1}}
    assert "surprise.OnWN 1 left" not in set(found.texts["text"])


def test_subsets_of_several_years_stay_apart(tmp_path):
    for year in ("STS13", "STS14"):
        semeval(tmp_path / year, "headlines", [int(year[-1])])
    assert rows(read(tmp_path / "STS*" / "STS.input.*.txt")) == [
        ("STS13/headlines", 3),
        ("STS14/headlines", 4),
    ]


def test_glues_tsv_needs_no_columns_named(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text(
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        '0\tmain-captions\tMSRvid\t2012test\t0000\tnone\tnone\tA "man.\tA man.\t5.000\n'
        "1\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA dog.\tA man.\t1.000\n"
    )
    assert rows(read(path, range=(0, 5))) == [("dev.tsv", 5), ("dev.tsv", 1)]


def test_a_score_out_of_the_tasks_range(tmp_path):
    (tmp_path / "x.csv").write_text("sentence1,sentence2,score\na,b,5\na,b,5.5\n")
    assert len(read(tmp_path / "x.csv").pairs) == 2
    with refuses("x.csv, row 2 ", "score", "'5.5'", "0 and 5"):
        read(tmp_path / "x.csv", range=(0, 5))


def test_a_subset_column_of_an_official_file_is_an_error(tmp_path):
    semeval(tmp_path, "MSRvid", [1])
    with refuses("MSRvid.txt", "'genre'", "remove `subset`"):
        read(tmp_path, subset="genre")


def test_the_range_ascends():
    with pytest.raises(ValueError, match=r"\[5\.0, 0\.0\]"):
        StsTask.model_validate({"kind": "sts", "path": "x", "range": [5, 0]})


def test_the_seven_sets_are_seven_tasks_that_can_be_read(tmp_path):
    block = {"tasks": {"papers": {"kind": "sts_sets", "path": f"{tmp_path}/"}}}
    tasks = one_by_one(Evaluate.model_validate(block).tasks)
    assert list(tasks) == [f"papers_{name}" for name in SETS]
    for year in range(12, 17):
        semeval(tmp_path / "STS" / f"STS{year}-en-test", "images", [year / 4, 0])
    (tmp_path / "STS" / "STSBenchmark").mkdir()
    line = "main-news\tMSRpar\t2012test\t0\t{}\tone\tother\n"
    (tmp_path / "STS" / "STSBenchmark" / "sts-test.csv").write_text(line.format(4.5) + line.format(1))
    (tmp_path / "SICK").mkdir()
    sick = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\n6\tone\tother\t3.3\n7\tone\tother\t1\n"
    (tmp_path / "SICK" / "SICK_test_annotated.txt").write_text(sick)
    scores = [similarity(Keys.of(name, task), task).pairs["score"].to_list() for name, task in tasks.items()]
    first = [[year / 4, 0] for year in range(12, 17)]
    assert scores == [*first, [4.5, 1], pytest.approx([3.3, 1])]


def test_a_set_with_the_name_of_another_task_is_an_error():
    alone = {"kind": "sts", "path": "x.tsv"}
    block = {"papers": {"kind": "sts_sets", "path": "x"}, "papers_stsb": alone}
    with refuses("evaluate.tasks.papers_stsb", "rename one"):
        one_by_one(Evaluate.model_validate({"tasks": block}).tasks)
