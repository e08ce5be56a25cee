import html
from dataclasses import replace

import pytest
from sample_report import sample_report

from pipeline.core.errors import UserError
from pipeline.report.checked import transfer_metrics
from pipeline.report.page import render
from pipeline.report.transfer import measures

MADE = {
    "rows_in": 100,
    "made": 2000,
    "rows_out": 1500,
    "dropped": {"duplicate": 300, "sorcery": 50, "no_word": 150},
    "words": 20_000,
    "masked": 2000,
    "replaced": 1900,
    "texts": 2000,
    "ngrams": 500,
}


def test_what_became_of_the_rows_adds_up():
    nothing = {"rows_in": 7, "made": 0, "rows_out": 0}
    found = measures(transfer_metrics({"tasks": {"sst2": MADE, "mrpc": nothing}}))
    assert found.models == ("sst2", "mrpc")
    assert [(name, *values) for name, _, values in found.rows] == [
        ("training rows", "100", "7"),
        ("rows made", "2,000", "0"),
        ("dropped: no word", "150", "0"),
        ("dropped: duplicate", "300", "0"),
        ("dropped: sorcery", "50", "0"),
        ("rows kept", "1,500", "0"),
        ("masked", "10.0%", "–"),
        ("replaced", "9.5%", "–"),
        ("cut", "25.0%", "–"),
    ]


def test_the_page_has_the_section_where_there_is_a_transfer_set():
    report = sample_report()
    assert 'id="transfer"' not in render(report)
    made = measures(transfer_metrics({"tasks": {"sst2": MADE}}))
    page = html.unescape(render(replace(report, transfer=made)))
    assert page.count('href="#transfer"') == page.count('id="transfer"') == 1
    assert "dropped: no word" in page


@pytest.mark.parametrize("document", [{}, {"tasks": None}, {"tasks": {"sst2": {"made": 1}}}])
def test_metrics_of_another_form_name_the_stage(document):
    with pytest.raises(UserError, match="`dvc repro -f transfer`"):
        transfer_metrics(document)
