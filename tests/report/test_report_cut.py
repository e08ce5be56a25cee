import html

import pytest
from sample_report import sample_report

from pipeline.core.errors import UserError
from pipeline.report import cut
from pipeline.report.checked import encode_metrics
from pipeline.report.inputs import EncodeMetrics
from pipeline.report.page import render


def of(texts: int, count: int | None, tokens: int = 0, lost: int = 0) -> EncodeMetrics:
    return EncodeMetrics(texts=texts, texts_cut=count, tokens_of_cut=tokens, tokens_lost=lost)


SETS = {"corpus": of(60, 3, 1000, 250), "eval": of(40, 1, 500, 50), "wordnet": of(100, 0)}


def test_the_page_says_how_many_texts_are_cut_and_how_much_of_them():
    page = html.unescape(render(sample_report()))
    assert "cuts 120 of 87,000 texts (0.1%), and 25.0% of their tokens." in page
    assert cut.TITLE in page
    assert cut.summary(SETS).startswith("The teacher's window cuts 4 of 200 texts (2.0%), and 20.0% of their")
    assert cut.measures(SETS).models == ("corpus", "eval")
    assert [values for _, _, values in cut.measures(SETS).rows] == [
        ("60", "40"),
        ("3", "1"),
        ("5.0%", "2.5%"),
        ("25.0%", "10.0%"),
    ]


def test_where_nothing_is_cut_or_known_a_sentence_says_so():
    assert cut.summary({"corpus": of(60, 0), "eval": of(0, 0)}) == cut.NONE_CUT
    assert cut.summary({"corpus": of(60, None), "eval": of(0, 0)}) == cut.UNKNOWN
    assert cut.measures({"corpus": of(60, None), "eval": of(0, 0)}).models == ()


def test_metrics_of_another_form_name_the_stage():
    with pytest.raises(UserError, match=r"encode@eval .*texts.* `dvc repro -f encode@eval`"):
        encode_metrics({"texts_cut": 3}, "encode@eval")
