import pytest

from pipeline.core.errors import UserError
from pipeline.prepare.readers.official_sts import input_files, read_official

BENCHMARK = "main-news\tMSRpar\t2012test\t{row}\t{score}\t{left}\t{right}{rest}\n"
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def semeval(folder, sentences, scores):
    (folder / "STS.gs.x.txt").write_text(scores)
    (folder / "STS.input.x.txt").write_text(sentences)
    return folder / "STS.input.x.txt"


def test_semeval_goes_line_by_line(tmp_path):
    # 2016's files name their sources after the sentences; a few quotation marks stand alone.
    path = semeval(tmp_path, 'a "b\tc\tsource\nnot\tscored\r\nd\te\u2028f\n', "0\n\n4.25\n")
    found = read_official(path)
    assert found.table.rows() == [('a "b', "c", 0.0), ("d", "e\u2028f", 4.25)]
    assert (found.name, found.unscored) == ("x", 1)
    assert input_files(tmp_path) == [path]
    assert input_files(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("sentences", "scores", "message"),
    [
        (
            "a\tb\nc\td\n",
            "1\n5.1\n",
            r"STS\.gs\.x\.txt, row 2 of the data: score is '5\.1', not between 0 and 5",
        ),
        ("a\tb\n", "high\n", r"STS\.gs\.x\.txt, row 1 of the data: score is 'high', not a number"),
        ("a\tb\nc d\n", "1\n2\n", r"STS\.input\.x\.txt, line 2: 1 cells, not left, right"),
        ("a\tb\nc\t\n", "1\n2\n", r"STS\.input\.x\.txt, row 2 of the data: right is empty"),
        ("a\tb\n", "1\n2\n", r"STS\.gs\.x\.txt has 2 lines and STS\.input\.x\.txt 1"),
        ("", "", r"STS\.input\.x\.txt is empty"),
        ("a\tb\n", "", r"STS\.gs\.x\.txt is empty"),
        ("a\tb\nc\td\n", "\n\n", r"STS\.gs\.x\.txt is empty"),
    ],
)
def test_semeval_at_fault(tmp_path, sentences, scores, message):
    with pytest.raises(UserError, match=message):
        read_official(semeval(tmp_path, sentences, scores))


def test_semeval_without_scores(tmp_path):
    (tmp_path / "STS.input.x.txt").write_text("a\tb\n")
    with pytest.raises(UserError, match=r"STS\.gs\.x\.txt does not exist"):
        read_official(tmp_path / "STS.input.x.txt")


def test_the_sts_benchmark(tmp_path):
    path = tmp_path / "sts-test.csv"
    lines = [
        BENCHMARK.format(row=0, score="2.500", left='A "girl', right="b, c", rest=""),
        BENCHMARK.format(row=1, score="0", left="d", right="e", rest="\tsource\tsource"),
    ]
    path.write_text("".join(lines))
    assert read_official(path).table.rows() == [('A "girl', "b, c", 2.5), ("d", "e", 0.0)]
    path.write_text(lines[0] + "main-news\tMSRpar\t2012test\t1\t3\tonly\n")
    with pytest.raises(UserError, match=r"sts-test\.csv, line 2: 6 cells, not genre, file, .*sentence2"):
        read_official(path)
    path.write_text(BENCHMARK.format(row=0, score="6", left="a", right="b", rest=""))
    with pytest.raises(
        UserError, match=r"sts-test\.csv, row 1 of the data: score is '6', not between 0 and 5"
    ):
        read_official(path)


def test_sick(tmp_path):
    path = tmp_path / "SICK_test_annotated.txt"
    path.write_text(f"{SICK}6\ta\tb\t3.3\tNEUTRAL\n")
    assert read_official(path).table.rows() == [("a", "b", 3.3)]
    path.write_text(f"{SICK}6\ta\tb\t0.9\tNEUTRAL\n")
    with pytest.raises(
        UserError, match=r"row 1 of the data: relatedness_score is '0\.9', not between 1 and 5"
    ):
        read_official(path)
    path.write_text("pair_ID\tsentence_A\n1\ta\n")
    with pytest.raises(UserError, match=r"SICK_test_annotated\.txt has no column 'sentence_B'"):
        read_official(path)
    path.write_text(SICK)
    with pytest.raises(UserError, match=r"SICK_test_annotated\.txt is empty"):
        read_official(path)


@pytest.mark.parametrize("name", ["sts-test.csv", "mine.tsv", "STS.gs.x.txt"])
def test_any_other_file_is_read_by_its_columns(tmp_path, name):
    (tmp_path / name).write_text("sentence1,sentence2,score\na,b,3\n")
    assert read_official(tmp_path / name) is None
