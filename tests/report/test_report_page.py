import re
from dataclasses import replace

import pytest
from sample_report import sample_report

from pipeline.report import page, tables
from pipeline.report.examples import Column, DisagreementRow, Example, StudentView, TaskView
from pipeline.report.sections import ScoreRow, Scores
from pipeline.score.statistics import examined


@pytest.fixture(scope="module")
def report():
    return sample_report()


def test_every_score_is_on_the_page_with_its_interval(report):
    rows = (
        ScoreRow("sst2", "accuracy", True, (("0.912", "0.901–0.922"), ("0.845", "0.831–0.859"))),
        ScoreRow("sst2", "f1@20%", False, (("0.913", "0.902–0.923"), ("0.846", "0.832–0.860"))),
    )
    shown = page.render(replace(report, scores=Scores(("teacher", "hpd"), rows)))
    table = shown[shown.index("<summary>Every score of every task") :]
    table = table[: table.index("</table>")]
    assert "<td>0.845<small>0.831–0.859</small></td>" in table
    assert ("<b>accuracy</b>" in table, "<b>f1@20%</b>" in table, "f1@20%" in table) == (True, False, True)
    assert "Every score of every task" not in page.render(replace(report, scores=Scores((), ())))


def test_the_page_names_nothing_to_load(report):
    html = page.render(report)
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"|@import|url\(", html)
    addresses = set(re.findall(r"https?://[^\"'\s<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_the_page_recommends_by_the_stated_rule(report):
    html = page.render(report)
    start = html.index('id="recommendation"')
    cards = html[start : html.index("</header>")]
    assert (
        cards.index("best quality")
        < cards.index("hpd")
        < cards.index("fastest, smallest")
        < cards.index("potion")
    )
    assert "Keeps 95.6% of the teacher" in cards
    assert "15.6 MB, 5.83× smaller" in cards
    assert "0.0810 ms a sentence, 63.2× faster" in cards
    assert "built-in proxies made from WordNet" in cards


def test_texts_are_escaped(report):
    attack = "<script>alert(1)</script>"
    tuned = tuple(replace(row, reason=f"`{attack}` {attack}") for row in report.added)
    html = page.render(replace(report, teacher=attack, warnings=(attack,), caveats=(attack,), added=tuned))
    assert attack not in html
    assert html.count("&lt;script&gt;") == 2 + 1 + 2 * len(tuned)


def test_no_text_of_an_example_can_end_its_element(report):
    attack = "\"><img src=x onerror=alert(1)>' </td></script>"
    near = tuple(examined.Neighbour(text=attack, cosine=0.5, relevant=True) for _ in range(2))
    example = Example(attack, attack, (attack,), 1, (Column(attack, near),))
    row = DisagreementRow(attack, attack, attack, attack, ("0.1", "1 of 2"), ("0.2", "2 of 2"))
    html = page.render(
        replace(
            report, examples=(TaskView(attack, (example,)),), disagreements=(StudentView(attack, (row,)),)
        )
    )
    assert "<img src=x" not in html
    assert attack not in html
    assert html.count("&lt;img src=x") >= 9


def test_what_is_not_measured_is_not_on_the_page(report):
    assert 'id="budget"' in page.render(report)
    bare = replace(
        report, choices=(), budgets=(), indexes=(), asymmetric=(), spread=None, examples=(), disagreements=()
    )
    html = page.render(bare)
    assert not [name for name in ("budget", "examples") if f'"{name}"' in html or f"#{name}" in html]
    assert "uniformity" not in html.replace("uniformity</th>", "").split("Vectors on the evaluation")[0]


def test_every_link_of_the_page_leads_somewhere(report):
    html = page.render(report)
    assert {target for target in re.findall(r'href="#([^"]+)"', html)} <= set(
        re.findall(r'id="([^"]+)"', html)
    )


def test_the_lead_names_what_to_ship_for_what(report):
    html = page.render(report)
    assert "Ship <b>hpd</b> for quality, <b>potion</b> for speed and size.</p>" in html


def test_a_student_that_is_larger_and_slower_is_said_to_be(report):
    size = report.board.teacher.size.model_copy(update={"megabytes": 181.8, "latency_ms_p50": 10.24})
    pick = replace(report.picks[0], row=replace(report.picks[0].row, size=size, kept=None))
    assert page.costs(pick, report.board) == ["182 MB, 2× larger", "10.2 ms a sentence, 2× slower"]
    assert page.keeps(pick, report.board) == "average score 0.443, teacher's 0.463"


def test_a_teacher_without_weights_has_no_size_to_compare_with(report):
    row = report.board.teacher
    light = replace(row, size=row.size.model_copy(update={"megabytes": 0.0}))
    board = replace(report.board, rows=(light, *report.board.rows[1:]))
    assert page.costs(report.picks[0], board)[0] == "69.4 MB"
    unknown = replace(light, size=light.size.model_copy(update={"parameters": 0}))
    board = replace(board, rows=(unknown, *board.rows[1:]))
    assert [cell.text for cell in tables.cells(board, unknown)[-4:-2]] == ["–", "–"]
    assert tables.summary(board)["teacher"]["mb"] is None
    sizes = [row.size.megabytes for row in board.rows if row.size]
    assert "teacher" not in page.alternative(board, sizes, "MB")
