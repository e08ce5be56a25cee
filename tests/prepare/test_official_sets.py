"""docs/texts-and-tasks.md: its lines read each official data set, as the set's site serves it."""

import pytest
from official_layouts import read_all

from pipeline.tasks.scoring import main_metrics


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("official"))
        return read_all()


EXPECTED = {
    "stsb": {"rows": 5, "metric": "spearman"},
    "sickr": {"rows": 9, "metric": "spearman"},
    "sts12": {"rows": 6, "metric": "spearman", "subsets": {"MSRpar", "MSRvid"}},
    "sts16": {"rows": 6, "metric": "spearman", "subsets": {"headlines", "plagiarism"}},
    "glue_stsb": {"rows": 6, "metric": "spearman"},
    "sst2": {"test": 6, "train": 36, "dev": 4, "metric": "accuracy"},
    "mrpc": {"test": 7, "train": 36, "dev": 4, "metric": "f1"},
    "qqp": {"test": 6, "train": 36, "dev": 4, "metric": "f1"},
    "mnli_matched": {"test": 9, "train": 81, "dev": 9, "metric": "accuracy"},
    "mnli_mismatched": {"test": 8, "train": 81, "dev": 9, "metric": "accuracy"},
    "qnli": {"test": 6, "train": 36, "dev": 4, "metric": "accuracy"},
    "snli": {"test": 7, "train": 45, "dev": 9, "metric": "accuracy"},
    "sick_e": {"test": 9, "train": 60, "dev": 12, "metric": "accuracy"},
    "arguana": {"documents": 5, "queries": 2, "metric": "ndcg@10"},
    "scifact": {"documents": 5, "queries": 2, "metric": "ndcg@10"},
    "quora": {"documents": 5, "queries": 2, "metric": "ndcg@10"},
    "beir_marco": {"documents": 5, "queries": 2, "metric": "ndcg@10"},
    "marco": {"documents": 4, "queries": 2, "metric": "mrr@10"},
    **{f"papers_sts{year}": {"rows": 6, "metric": "spearman"} for year in range(12, 17)},
    "papers_stsb": {"rows": 5, "metric": "spearman"},
    "papers_sickr": {"rows": 9, "metric": "spearman"},
    "senteval_mrpc": {"test": 7, "train": 36, "dev": 4, "metric": "f1"},
    "senteval_sst2": {"test": 5, "train": 20, "dev": 6, "metric": "accuracy"},
    "trec": {"test": 5, "train": 36, "dev": 4, "metric": "accuracy"},
    "mr": {"test": 6, "train": 50, "dev": 4, "metric": "accuracy"},
}


def test_every_task_of_the_page_is_checked(read):
    assert {*read[0]} == {*EXPECTED, "stsb_dev"}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_official_set_is_read_as_its_site_serves_it(read, name):
    tasks, found = read
    wanted, pairs = dict(EXPECTED[name]), found.pairs.filter(task=name)
    assert main_metrics(tasks)[name] == wanted.pop("metric")
    if subsets := wanted.pop("subsets", None):
        assert {subset.rpartition("/")[2] for subset in pairs["subset"]} == subsets
    if "rows" in wanted:
        assert {"rows": len(pairs)} == wanted
    elif "documents" in wanted:
        size = {
            "documents": pairs["right_id"].n_unique(),
            "queries": pairs["left_id"].drop_nulls().n_unique(),
        }
        assert size == wanted
    else:
        assert dict(pairs["subset"].value_counts().iter_rows()) == wanted


def test_texts_are_those_of_the_right_columns(read):
    text = dict(read[1].texts.select("text_id", "text").iter_rows())

    def texts(name, side):
        return {text[one] for one in read[1].pairs.filter(task=name)[side].drop_nulls()}

    for name in ("stsb", "sickr", "glue_stsb", "mrpc", "qqp", "mnli_matched", "qnli", "snli", "sick_e"):
        assert all(one.startswith('Left "') for one in texts(name, "left_id")), name
        assert all(one.startswith("Right ") for one in texts(name, "right_id")), name
    assert "How is née 0 of TREC_10 ?" in texts("trec", "left_id")
    assert "café 0 of rt-polarity.pos" in texts("mr", "left_id")
    assert read[1].dropped["snli"] == {
        "training_row_without_label": 15,
        "dev_row_without_label": 3,
        "test_row_without_label": 2,
    }
