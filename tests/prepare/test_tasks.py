import json

import numpy as np
import polars as pl
import pytest
from refusals import refuses

from pipeline.data import utf8
from pipeline.data.common.texts import fold, in_role, text_id
from pipeline.params.corpus import FileSource, HubSource, TripletFile
from pipeline.params.evaluate import Evaluate, RetrievalTask, StsTask
from pipeline.prepare.sources import read_sources
from pipeline.prepare.tasks import evaluation, sizes
from pipeline.prepare.triplets import finetuning
from pipeline.tasks import retrieval as scoring
from pipeline.tasks.embeddings import Embeddings

NOTHING = pl.Series([], dtype=pl.String)


def no_wordnet():
    raise AssertionError("WordNet is not needed")


def test_sts_has_a_subset_a_file(tmp_path):
    for name, score in (("b.tsv", 1), ("a.tsv", 4.5)):
        (tmp_path / name).write_text(f'sentence1\tsentence2\tscore\nA "dog\tA  cat\t{score}\n')
    task = StsTask(kind="sts", path=str(tmp_path / "*.tsv"))
    found = evaluation({"mine": task}, no_wordnet)
    assert found.pairs.select("task", "split", "subset", "score").rows() == [
        ("mine", "test", "a.tsv", 4.5),
        ("mine", "test", "b.tsv", 1.0),
    ]
    assert sorted(found.texts["text"]) == ['A "dog', "A cat"]
    assert sizes(found.pairs) == {"mine": {"test": {"rows": 2, "left_texts": 1, "right_texts": 1}}}


def test_sts_with_a_column_for_the_subset_on_real_data(shared_data):
    path = shared_data / "sts" / "STSB_dev.parquet"
    task = StsTask(kind="sts", path=str(path), subset="subset", split="dev")
    found = evaluation({"stsb": task}, no_wordnet)
    assert len(found.pairs) == 1500
    assert set(found.pairs["subset"]) == set(pl.read_parquet(path)["subset"])


def test_retrieval_keeps_positive_judgements_and_all_documents(shared_data):
    task = RetrievalTask(kind="retrieval", path=str(shared_data / "retrieval" / "dbpedia_5k"))
    pairs = evaluation({"dbpedia": task}, no_wordnet).pairs
    asked = pairs.drop_nulls("left_id")
    assert asked["left_id"].n_unique() == 40
    assert asked["score"].min() > 0
    assert 4900 < pairs["right_id"].n_unique() <= 5000


def retrieval(folder, documents, queries, judgements):
    """A task of these texts by id, and of (query, document, score)."""
    (folder / "qrels").mkdir()
    for name, texts in (("corpus", documents), ("queries", queries)):
        lines = [json.dumps({"_id": number, "title": "", "text": text}) for number, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    rows = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judgements)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows))
    return RetrievalTask(kind="retrieval", path=str(folder))


def test_retrieval_without_a_positive_judgement_is_an_error(tmp_path):
    task = retrieval(tmp_path, {"d": "x"}, {"q": "y"}, [("q", "d", 0)])
    with refuses(tmp_path, "qrels test", "score"):
        evaluation({"r": task}, no_wordnet)


def test_queries_without_a_relevant_document_are_left_out_and_counted(tmp_path):
    judged = [("q", "d", 1), ("q2", "d", 0), ("q2", "e", 0)]
    task = retrieval(tmp_path, {"d": "x", "e": "z"}, {"q": "y", "q2": "w"}, judged)
    found = evaluation({"r": task}, no_wordnet)
    asked = in_role(np.array([text_id("y")], np.uint64), "query")
    assert found.pairs.drop_nulls("left_id")["left_id"].to_list() == asked.tolist()
    assert found.dropped == {"r": {"query_without_relevant_document": 1}}


@pytest.mark.parametrize("title", ["", "a title"])
@pytest.mark.parametrize(("own", "found_first"), [("e", True), ("q", False)])
def test_a_querys_own_document_by_id_is_passed_over_whatever_its_text(tmp_path, own, found_first, title):
    task = retrieval(tmp_path, {"d": "x", own: f"{title} y"}, {"q": "y"}, [("q", "d", 1)])
    assert ranked_first(task, wrong=f"{title} y".strip())["mrr@10"] == (0.5 if found_first else 1.0)


def test_a_querys_own_document_is_a_find_where_it_is_judged_relevant(tmp_path):
    task = retrieval(tmp_path, {"q": "x", "e": "z"}, {"q": "y"}, [("q", "q", 1)])
    assert ranked_first(task, wrong="z")["mrr@10"] == 0.5


def ranked_first(task, wrong):
    """What a model scores to which each query looks like this document."""
    found = evaluation({"r": task}, no_wordnet)
    texts = found.texts.sort("text_id")
    like = (texts["role"] == "query") | (texts["text"] == wrong)
    vectors = np.eye(2, dtype=np.float32)[like.cast(pl.Int8).to_numpy()] + np.float32(0.1)
    return scoring.score(found.pairs, Embeddings(texts["text_id"].to_numpy(), vectors))


def triplet_file(tmp_path, rows):
    path = tmp_path / "triplets.jsonl"
    path.write_text(
        "\n".join(json.dumps(dict(zip(("a", "p", "n1", "n2"), row, strict=True))) for row in rows)
    )
    return TripletFile(kind="triplets", path=str(path), anchor="a", positive="p", negatives=("n1", "n2"))


def test_triplets_are_decontaminated_and_counted(tmp_path):
    rows = [
        ("a dog", "a hound", "a cat", ""),
        ("a dog", "a hound", "a cat", None),
        ("Held, out!", "fine", "x", "y"),
        ("fine", "held out", "x", "y"),
        ("same", "same ", "x", "y"),
        ("kept", "too", "HELD OUT", "good"),
    ]
    found, reports = finetuning(
        {"mine": triplet_file(tmp_path, rows)}, no_wordnet, fold(pl.Series(["held out"]))
    )
    kept = {row["left_id"]: row["negative_ids"] for row in found.pairs.iter_rows(named=True)}
    assert kept == {text_id("a dog"): [text_id("a cat")], text_id("kept"): [text_id("good")]}
    assert reports["mine"].dropped == {
        "duplicate": 1,
        "evaluation_text": 2,
        "same_text": 1,
        "negative_is_evaluation_text": 1,
    }
    named = {"a dog", "a hound", "a cat", "kept", "too", "good"}
    assert set(found.texts["text"]) == named


def test_a_row_a_negative_is_a_triplet_of_all_of_them(tmp_path):
    rows = [("a", "p", "x", ""), ("b", "p", "z", ""), ("a", "p ", "y", "x"), ("a", "p", "w", "")]
    found, reports = finetuning({"mine": triplet_file(tmp_path, rows)}, no_wordnet, NOTHING)
    kept = {row["left_id"]: row["negative_ids"] for row in found.pairs.iter_rows(named=True)}
    assert kept == {text_id("a"): [text_id(text) for text in "xyw"], text_id("b"): [text_id("z")]}
    assert reports["mine"].dropped == {"duplicate": 2}
    assert set(found.texts["text"]) == set("abpxyzw")


def test_nothing_left_of_the_triplets_is_an_error(tmp_path):
    block = triplet_file(tmp_path, [("same", "same", "x", "y")])
    with refuses("finetune.data.mine", "'same_text': 1"):
        finetuning({"mine": block}, no_wordnet, NOTHING)


def test_an_empty_anchor_is_an_error_with_its_row(tmp_path):
    block = triplet_file(tmp_path, [("a", "b", "", ""), (" ", "b", "", "")])
    with refuses("triplets.jsonl, row 2 ", " a ", "fill it"):
        finetuning({"mine": block}, no_wordnet, NOTHING)


def test_sources_are_named_by_their_path_and_numbered(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("one\ntwo\n")
    (tmp_path / "y.txt").write_text("three\n")
    sources = [FileSource(kind="files", path=str(path), join=count) for count in (1, 4)]
    sources.append(FileSource(kind="files", path=str(tmp_path / "*.txt")))
    read = list(read_sources(sources, no_wordnet, None, None))
    assert [source.joined for source in read] == [1, 4, 1]
    assert [source.name for source in read] == [str(path), f"{path} #2", str(tmp_path / "*.txt")]
    rows = [[(one.file, one.begins, *one.texts) for one in source.rows] for source in read]
    first, second = ("x.txt", True, "one", "two"), ("y.txt", True, "three")
    assert rows == [[first], [first], [first, second]]


def test_a_hub_dataset_without_the_extra_names_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    source = HubSource(kind="huggingface", dataset="someone/something")
    with refuses("corpus.sources", "someone/something", "`pip install -e '.[datasets]'`"):
        list(read_sources([source], no_wordnet, None, None))


@pytest.mark.parametrize(
    ("block", "columns"),
    [
        ({"kind": "sts", "path": "x.csv", "right": "sentence1"}, "left and right"),
        ({"kind": "entity_resolution", "path": "x.csv", "label": "query"}, "query and label"),
        ({"kind": "classification", "train": "x", "test": "y", "text": "label"}, "text and label"),
        ({"kind": "pair_classification", "train": "x", "test": "y", "label": "sentence2"}, "right and label"),
    ],
)
def test_a_column_is_one_thing(block, columns):
    with pytest.raises(ValueError, match=columns):
        Evaluate.model_validate({"tasks": {"mine": block}})


def test_a_positive_is_no_negative():
    block = {"kind": "triplets", "path": "x.csv", "negatives": ["hard", "positive"]}
    with pytest.raises(ValueError, match=r"positive and negatives .*'positive'"):
        TripletFile.model_validate(block)


def test_a_file_without_the_right_to_read_it(tmp_path, monkeypatch):
    def denied(*_args: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.txt").touch()
    monkeypatch.setattr("builtins.open", denied)
    with refuses(tmp_path / "x.txt", "Permission denied", "mend its rights"):
        next(utf8.lines_of(tmp_path / "x.txt"))
