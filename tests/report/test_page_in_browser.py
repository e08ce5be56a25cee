"""The page as Chromium shows it, without network: layout, colours, sorting, keyboard."""

from dataclasses import replace
from itertools import pairwise

import chromium
import pytest
from sample_report import sample_report

from pipeline.report import page
from pipeline.report.examples import Column, DisagreementRow, Example, StudentView, TaskView
from pipeline.score.statistics.examined import Neighbour

pytestmark = pytest.mark.skipif(chromium.EXECUTABLE is None, reason="no chromium on the path")
OPEN = "for (const one of document.querySelectorAll('details')) one.open = true;"
WIDTH = "[innerWidth, document.documentElement.scrollWidth]"
OVERFLOWING = """
[...document.querySelectorAll("body *:not(svg *)")].filter((box) => {
  const style = getComputedStyle(box);
  return style.overflowX === "visible" && style.display !== "inline" && box.clientWidth > 0
    && box.scrollWidth > box.clientWidth + 1;
}).map((box) => `${box.tagName}.${box.className}: ${box.textContent.trim().slice(0, 60)}`)
"""
CUT_IN_FIGURES = """
[...document.querySelectorAll("figure svg text")].filter((text) => {
  const [inner, outer] = [text, text.ownerSVGElement].map((one) => one.getBoundingClientRect());
  return inner.left < outer.left - 1 || inner.right > outer.right + 1;
}).map((text) => text.textContent)
"""
# WCAG 2.2, 1.4.3: relative luminance and contrast ratio; at least 4.5 for text.
FAINT = """
(() => {
  const parse = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const luminance = (colour) => parse(colour).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (box) => {
    for (let at = box; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parse(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const own = (box) => [...box.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.querySelectorAll("body *")].filter(own).filter((box) => {
    if (["SCRIPT", "STYLE"].includes(box.tagName)) return false;
    const style = getComputedStyle(box);
    const ink = box instanceof SVGElement ? style.fill : style.color;
    const [light, dark] = [luminance(ink), luminance(behind(box))].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05) < 4.5;
  }).map((box) => `${box.tagName} ${box.getAttribute("class")}: ${box.textContent.trim().slice(0, 40)}`);
})()
"""
HEADING = "document.querySelectorAll('.board thead th')[{0}]"
COLUMN = "[...document.querySelectorAll('.board tbody tr')].map((row) => row.children[{0}].dataset.value)"
SEEN = "[...document.querySelectorAll('.board tbody tr')].filter((row) => row.offsetHeight).length"
MODEL, AVERAGE, MEGABYTES = 0, 5, 8
ODD = "<script>hacked = 1</script>\"'><img src=x onerror='hacked = 1'> שלום עולם " + "Donaudampfschiff" * 20


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page.render(sample_report()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def odd_path(tmp_path_factory):
    """A page on which every text that a user can choose is hostile."""
    report = sample_report()
    near = tuple(Neighbour(text=ODD, cosine=0.5, relevant=True) for _ in range(2))
    row = DisagreementRow(ODD, ODD, ODD, ODD, ("0.1", "1 of 2"), ("0.2", "2 of 2"))
    rows = tuple(replace(row, model=ODD) if row.model == "hpd" else row for row in report.board.rows)
    times = replace(report.timings, each=tuple(replace(row, stage=ODD) for row in report.timings.each))
    shown = replace(
        report,
        teacher=ODD,
        timings=times,
        board=replace(report.board, rows=rows),
        picks=tuple(replace(pick, row=replace(pick.row, model=ODD)) for pick in report.picks),
        caveats=(ODD,),
        warnings=(ODD,),
        examples=(TaskView(ODD, (Example(ODD, ODD, (ODD,), 1, (Column(ODD, near),)),)),),
        disagreements=(StudentView(ODD, (row,)),),
    )
    path = tmp_path_factory.mktemp("odd") / "index.html"
    path.write_text(page.render(shown), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_overflows_every_text_stands_out_and_nothing_fails(browser, path, width, scheme):
    shown = chromium.Page(browser, path, width, scheme)
    shown.run(OPEN)
    assert shown.run(WIDTH) == [width, width]
    assert shown.run(OVERFLOWING) == []
    assert shown.run(CUT_IN_FIGURES) == []
    assert shown.run(FAINT) == []
    assert shown.run("[...document.images].every((image) => image.naturalWidth)")
    assert shown.run("document.querySelectorAll('figure svg, figure img').length") == 10
    assert shown.faults() == []


@pytest.mark.parametrize("width", [360, 1440])
def test_texts_are_shown_as_they_are_and_run_nothing(browser, odd_path, width):
    shown = chromium.Page(browser, odd_path, width)
    shown.run(OPEN)
    assert shown.run("typeof hacked") == "undefined"
    assert shown.run(f"document.body.innerText.includes({ODD!r})")
    assert shown.run(WIDTH) == [width, width]
    assert shown.run(OVERFLOWING) == []
    assert shown.faults() == []


def test_the_probes_find_what_they_look_for(browser, tmp_path):
    """An overflowing word, a faint text, a thrown error, a request."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        f"<p style='width: 9em; color: #bbb'>{'x' * 400}</p><img src=https://example.com/a.png>"
        "<script>throw Error('no')</script>"
    )
    shown = chromium.Page(browser, bad, 360)
    assert shown.run(WIDTH)[1] > 360
    assert [line[:2] for line in shown.run(OVERFLOWING) if line.startswith("P")] == ["P."]
    assert len(shown.run(FAINT)) == 1
    faults = " ".join(shown.faults())
    assert "Error: no" in faults
    assert "example.com/a.png" in faults


def in_order(values, up):
    """Whether numbers are sorted, with empty ones last."""
    numbers = [float(value) for value in values if value]
    return values[len(numbers) :] == [""] * (len(values) - len(numbers)) and numbers == sorted(
        numbers, reverse=not up
    )


def test_a_click_sorts_by_number_and_a_second_one_turns_it_round(browser, path):
    shown = chromium.Page(browser, path)
    for up in (False, True):
        shown.run(HEADING.format(MEGABYTES) + ".querySelector('button').click()")
        values = shown.run(COLUMN.format(MEGABYTES))
        assert in_order(values, up)
        assert "" in values
        said = "ascending" if up else "descending"
        assert shown.run(HEADING.format(MEGABYTES) + ".ariaSort") == said
    shown.run(HEADING.format(AVERAGE) + ".querySelector('button').click()")
    assert in_order(shown.run(COLUMN.format(AVERAGE)), up=False)
    assert shown.run("document.querySelectorAll('[aria-sort]').length") == 1


@pytest.mark.parametrize("key", ["Enter", " "])
def test_the_keyboard_sorts(browser, path, key):
    shown = chromium.Page(browser, path)
    shown.run(HEADING.format(MODEL) + ".querySelector('button').focus()")
    for _ in range(AVERAGE - MODEL):
        shown.press("Tab")
    assert shown.run(f"document.activeElement.closest('th') === {HEADING.format(AVERAGE)}")
    shown.press(key)
    assert in_order(shown.run(COLUMN.format(AVERAGE)), up=False)


def test_names_are_sorted_from_a(browser, path):
    shown = chromium.Page(browser, path)
    shown.run(HEADING.format(MODEL) + ".querySelector('button').click()")
    names = shown.run("[...document.querySelectorAll('.board tbody th')].map((cell) => cell.textContent)")
    assert names == sorted(names)


@pytest.mark.parametrize("scripts", [True, False])
def test_what_does_not_ship_is_shown_when_asked_with_and_without_scripts(browser, path, scripts):
    shown = chromium.Page(browser, path, scripts=scripts)
    assert shown.run("document.querySelectorAll('.board thead button').length > 0") == scripts
    assert shown.run(SEEN) == 3
    shown.run("document.getElementById('variants').focus()")
    shown.press(" ")
    assert shown.run(SEEN) == 9


def test_what_a_screen_reader_needs_is_there(browser, path):
    shown = chromium.Page(browser, path)
    assert shown.run("document.documentElement.lang") == "en"
    levels = shown.run("[...document.querySelectorAll('h1,h2,h3,h4,h5')].map((one) => +one.tagName[1])")
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert shown.run(
        "[...document.querySelectorAll('[role=img], img')]"
        ".every((one) => (one.ariaLabel ?? one.alt).length > 10)"
    )
    assert shown.run(
        "[...document.querySelectorAll('[role=region]')].every((one) => one.tabIndex === 0 "
        "&& (one.ariaLabel || document.getElementById(one.getAttribute('aria-labelledby'))))"
    )
    assert shown.run("[...document.querySelectorAll('thead th')].every((one) => one.scope === 'col')")
    assert shown.run("[...document.querySelectorAll('tfoot th')].every((one) => one.scope === 'row')")
    ids = shown.run("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
