import pytest
from refusals import refuses

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
    ("sentences", "scores", "named"),
    [
        ("a\tb\nc\td\n", "1\n5.1\n", ("STS.gs.x.txt, row 2 ", "score", "'5.1'", "0 and 5")),
        ("a\tb\n", "high\n", ("STS.gs.x.txt, row 1 ", "score", "'high'", "number")),
        ("a\tb\nc d\n", "1\n2\n", ("STS.input.x.txt, line 2:", "1 cells", "left, right")),
        ("a\tb\nc\t\n", "1\n2\n", ("STS.input.x.txt, row 2 ", "right", "fill it")),
        ("a\tb\n", "1\n2\n", ("STS.gs.x.txt", " 2 lines", "STS.input.x.txt 1;")),
        ("", "", ("STS.input.x.txt", "params.yaml or fill it")),
        ("a\tb\n", "", ("STS.gs.x.txt", "params.yaml or fill it")),
        ("a\tb\nc\td\n", "\n\n", ("STS.gs.x.txt", "params.yaml or fill it")),
    ],
)
def test_semeval_at_fault(tmp_path, sentences, scores, named):
    with refuses(*named):
        read_official(semeval(tmp_path, sentences, scores))


def test_semeval_without_scores(tmp_path):
    (tmp_path / "STS.input.x.txt").write_text("a\tb\n")
    with refuses(tmp_path / "STS.gs.x.txt", "path in params.yaml"):
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
    with refuses("sts-test.csv, line 2:", "6 cells", "genre, file, ", "sentence2"):
        read_official(path)
    path.write_text(BENCHMARK.format(row=0, score="6", left="a", right="b", rest=""))
    with refuses("sts-test.csv, row 1 ", "score", "'6'", "0 and 5"):
        read_official(path)


def test_sick(tmp_path):
    path = tmp_path / "SICK_test_annotated.txt"
    path.write_text(f"{SICK}6\ta\tb\t3.3\tNEUTRAL\n")
    assert read_official(path).table.rows() == [("a", "b", 3.3)]
    path.write_text(f"{SICK}6\ta\tb\t0.9\tNEUTRAL\n")
    with refuses(f"{path}, row 1 ", "relatedness_score", "'0.9'", "1 and 5"):
        read_official(path)
    path.write_text("pair_ID\tsentence_A\n1\ta\n")
    with refuses(path, "'sentence_B'"):
        read_official(path)
    path.write_text(SICK)
    with refuses(path, "params.yaml or fill it"):
        read_official(path)


@pytest.mark.parametrize("name", ["sts-test.csv", "mine.tsv", "STS.gs.x.txt"])
def test_any_other_file_is_read_by_its_columns(tmp_path, name):
    (tmp_path / name).write_text("sentence1,sentence2,score\na,b,3\n")
    assert read_official(tmp_path / name) is None
