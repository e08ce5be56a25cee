import gzip

import pytest
from refusals import refuses

from pipeline.params.evaluate import RetrievalTask
from pipeline.prepare.readers.msmarco import read_msmarco
from pipeline.prepare.tasks import evaluation

FILES = {
    "collection.tsv": '7\tA "passage.\n8\tAnother, too.\n',
    "queries.dev.small.tsv": "2\twhat is it\n3\tnot judged\n",
    "qrels.dev.small.tsv": "2\t0\t8\t1\n2\t0\t7\t0\n",
}


def folder(tmp_path, **changed):
    for name, content in {**FILES, **changed}.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_the_layout(tmp_path):
    found = read_msmarco(folder(tmp_path), "dev.small")
    assert found.documents == {"7": 'A "passage.', "8": "Another, too."}
    assert found.queries == {"2": "what is it", "3": "not judged"}
    assert found.judgements == [("2", "8", 1.0), ("2", "7", 0.0)]


def test_packed_files_and_queries_of_all_splits(tmp_path):
    for name, content in FILES.items():
        (tmp_path / f"{name.replace('queries.dev.small', 'queries')}.gz").write_bytes(
            gzip.compress(content.encode())
        )
    assert read_msmarco(tmp_path, "dev.small") == read_msmarco(folder(tmp_path), "dev.small")


def test_a_copy_beside_the_queries_of_all_splits_is_not_those_of_one(tmp_path):
    (folder(tmp_path) / "queries.dev.small.tsv").rename(tmp_path / "queries.tsv")
    for copy in ("queries.dev.small.tsv.bak", "queries.dev.small.tsv.zip"):
        (tmp_path / copy).touch()
    assert {*read_msmarco(tmp_path, "dev.small").queries} == {"2", "3"}


def test_the_task_takes_all_documents_and_the_judged_queries(tmp_path):
    task = RetrievalTask(kind="retrieval", path=str(folder(tmp_path)), layout="msmarco", qrels="dev.small")
    found = evaluation({"marco": task}, None)
    texts = dict(found.texts.select("text_id", "text").iter_rows())
    pairs = found.pairs.select("left_id", "right_id", "score").iter_rows()
    assert {(texts.get(left), texts[right], score) for left, right, score in pairs} == {
        ("what is it", "Another, too.", 1.0),
        (None, 'A "passage.', None),
    }


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("qrels.dev.small.tsv", "2\t0\t8\tyes\n", ("row 1 ", "relevance", "'yes'", "number")),
        (
            "qrels.dev.small.tsv",
            "2\t8\t1\n",
            ("line 1:", "3 cells", "query id, iteration"),
        ),
        ("qrels.dev.small.tsv", "", ("params.yaml or fill it",)),
        ("collection.tsv", "7\ta\n8\tb\n7\tc\n", ("line 3:", "id '7'", "remove one")),
        ("collection.tsv", "7\ta\n8\n", ("line 2:", "1 cells", "id, passage")),
        ("collection.tsv", "7\ttitle\ttext\n", ("line 1:", "3 cells", "id, passage")),
        ("collection.tsv", "7\t\n", ("row 1 ", "passage", "fill it")),
        ("collection.tsv", "", ("params.yaml or fill it",)),
        ("queries.dev.small.tsv", "", ("params.yaml or fill it",)),
    ],
)
def test_a_fault_names_file_and_row(tmp_path, name, content, named):
    with refuses(tmp_path / name, *named):
        read_msmarco(folder(tmp_path, **{name: content}), "dev.small")


def test_missing_files(tmp_path):
    with refuses(tmp_path / "nowhere", "collection.tsv"):
        read_msmarco(tmp_path / "nowhere", "test")
    with refuses(tmp_path / "qrels.test.tsv", "`qrels` can be: dev.small"):
        read_msmarco(folder(tmp_path), "test")
    (tmp_path / "queries.dev.small.tsv").unlink()
    with refuses(tmp_path / "queries.tsv", "queries.tsv.gz"):
        read_msmarco(tmp_path, "dev.small")
