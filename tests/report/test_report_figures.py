import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.axes import log_domain, log_ticks
from pipeline.report.figures import LONGEST_LABEL, PALETTE, Line, Panel, Point, curves, quality, spread
from pipeline.report.labels import CANDIDATES, Box, covered_by, place

PLOT = Box(0, 0, 300, 200)
POINTS = [
    Point("teacher", 90.9, 0.46, "", teacher=True),
    Point("hpd", 69.4, 0.44, "96%"),
    Point("a<b&c", 15.6, 0.35, "", chosen=False),
]


def texts(svg):
    return [
        "".join(node.itertext()) for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("}text")
    ]


def test_quality_names_every_model_and_is_the_same_twice():
    svg = quality(POINTS, "MB (log scale)")
    assert {"teacher", "hpd 96%", "a<b&c", "MB (log scale)", "average score"} <= set(texts(svg))
    assert quality(POINTS, "MB (log scale)") == svg


def test_every_colour_is_one_that_the_page_can_replace():
    panel = Panel("t", (Line("dev", "accent", (1.0, 2.0), (0.5, 0.4)), Line("train", "warm", (2.0,), (0.3,))))
    for svg in (quality(POINTS, "MB"), spread(POINTS), curves([panel])):
        used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-fA-F]+|[a-z]+)"', svg)) - {"none", "transparent"}
        assert used <= set(PALETTE.values())
        assert 'id="' not in svg


def test_a_student_that_is_beaten_is_hollow():
    accent = f'fill="{PALETTE["accent"]}"'
    assert quality(POINTS[:2], "MB").count(accent) == 1
    assert quality(POINTS[::2], "MB").count(accent) == 0


@pytest.mark.parametrize(
    ("costs", "ticks"),
    [
        ((3.1, 3.3), [3, 4]),
        ((0.31, 0.33), [0.3, 0.4]),
        ((15.2, 15.3), [15, 20]),
        ((310, 330), [300, 400]),
        ((1, 10), [1, 2, 5, 10]),
        ((0.01, 1000), [0.01, 0.1, 1, 10, 100, 1000]),
    ],
)
def test_costs_however_near_have_two_ticks(costs, ticks):
    found = log_ticks(log_domain(costs))
    assert set(ticks) <= set(found)
    points = [Point(str(cost), cost, 0.4) for cost in costs]
    assert {f"{tick:,g}" for tick in found} <= set(texts(quality(points, "ms")))


@given(st.floats(1e-6, 1e6), st.floats(1, 1e6))
def test_two_to_seven_ticks_or_powers_of_ten(low, ratio):
    domain = log_domain([low, low * ratio])
    found = log_ticks(domain)
    assert found == sorted(set(found))
    assert domain[0] <= found[0] < found[-1] <= domain[1]
    assert len(found) <= 7 or {f"{tick:e}"[:8] for tick in found} == {"1.000000"}


@pytest.mark.parametrize("domain", [(3.01, 3.99), (1.2, 1.23)])
def test_a_narrow_domain_has_two_ticks(domain):
    assert 2 <= len(log_ticks(domain)) <= 7


@pytest.mark.parametrize("points", [POINTS[:1], [Point(f"s{i}", 0.001, 0.0, "") for i in range(3)]])
def test_one_point_and_equal_points_can_be_drawn(points):
    assert texts(quality(points, "MB")).count(points[-1].name) == 1


def test_curves_have_a_title_a_panel_and_a_name_a_line():
    one = Panel("hpd: loss", (Line("train", "warm", (1.0,), (0.5,)), Line("dev", "accent", (1.0,), (0.4,))))
    two = Panel("potion: loss", (Line("dev", "accent", (1.0, 2.0, 3.0), (0.5, 0.4, 0.3)),))
    shown = texts(curves([one, two]))
    assert [shown.count(text) for text in ("hpd: loss", "potion: loss", "train", "dev")] == [1, 1, 1, 2]


def test_a_lonely_label_is_right_of_its_point():
    assert place([(100, 100)], ["name"], PLOT) == [CANDIDATES[0]]


def test_a_label_stays_in_the_plot():
    assert place([(295, 100)], ["name"], PLOT)[0].align == "right"


def test_a_label_stays_beside_its_point_though_one_far_off_would_cover_less():
    crowd = [(269.0, 41.4), (228.4, 77.4), (225.7, 100.2), (235.9, 78.4)]
    names = ["teacher", "hpd 96%", "ibkd 94%", "simtde 96%"]
    labels = place(crowd, names, Box(0, 0, 310, 240), [Box(0, 39.4, 310, 43.4)])
    assert all(abs(label.dy) < 20 for label in labels)


def test_labels_of_close_points_do_not_share_a_place():
    first, second = place([(100, 100), (103, 100)], ["one", "two"], PLOT)
    assert (first.align, first.dy) != (second.align, second.dy)


def test_a_label_avoids_an_obstacle():
    assert place([(100, 100)], ["name"], PLOT, [Box(0, 98, 300, 102)])[0].dy != 0


def test_a_label_avoids_a_line():
    line = [(20.0, 140.0), (100.0, 100.0), (110.0, 100.0), (290.0, 100.0)]
    covered = covered_by(line)
    assert covered[0].left <= 20
    assert covered[-1].right >= 290
    assert all(one.right >= other.left for one, other in pairwise(covered))
    assert max(box.bottom - box.top for box in covered) < 6
    [label] = place([(100, 100)], ["name"], PLOT, covered)
    assert (label.dy, label.align) == (-15, "center")


def test_the_name_of_a_line_covers_no_other_line():
    flat = Line("flat", "ink", (0.0, 50.0), (0.3, 0.3))
    steep = Line("steep", "ink", (0.0, 52.0, 62.0, 100.0), (0.1, 0.1, 0.5, 0.5))
    anchors = {
        "".join(node.itertext()): node.get("text-anchor")
        for node in ElementTree.fromstring(curves([Panel("hpd", (flat, steep))])).iter()
        if node.tag.endswith("}text")
    }
    assert (anchors["flat"], anchors["steep"]) == ("middle", "start")


@pytest.mark.parametrize(
    ("steps", "values", "log", "ticks"),
    [
        ((0.0,), (0.44,), False, {"0", "0.44"}),
        ((5.0, 10.0), (0.0003, 0.0003), False, {"5", "10", "0.0003"}),
        ((384.0,), (-2.0,), True, {"384", "-2"}),
        ((1.0, 2.0), (0.0, 0.0), False, {"0", "-1", "1"}),
    ],
)
def test_equal_steps_and_values_can_be_drawn(steps, values, log, ticks):
    shown = texts(curves([Panel("loss", (Line("dev", "accent", steps, values),), log=log)]))
    assert ticks <= {text.replace("\u2212", "-") for text in shown}
    if len(steps) == 1:
        assert len([text for text in shown if text in ("4", "6", "-1", "0.5")]) == 0


def test_numbers_at_the_axes_are_plain():
    shown = texts(curves([Panel("loss", (Line("dev", "accent", (0.0, 150_000.0), (11.5, 5.0)),))]))
    assert {"6", "8", "10", "12", "50,000", "100,000", "150,000"} <= set(shown)


def test_a_map_of_linear_scales_takes_negative_values_and_names_every_model():
    points = [Point("teacher", -3.1, 0.8, teacher=True), Point("hpd", -2.9, 0.7)]
    assert {"teacher", "hpd", "uniformity", "alignment"} <= set(texts(spread(points)))


def test_a_very_long_name_is_cut_in_its_middle_and_keeps_its_note():
    names = [f"{'x' * 200}_{number}" for number in (1, 2)]
    shown = texts(quality([Point(name, 1.0, 0.5, note="95%") for name in names], "MB"))
    cut = [text for text in shown if text.startswith("x")]
    assert [(text[-5:], len(text)) for text in cut] == [("1 95%", LONGEST_LABEL), ("2 95%", LONGEST_LABEL)]
    whole = "y" * (LONGEST_LABEL - 4)
    assert f"{whole} 95%" in texts(quality([Point(whole, 1.0, 0.5, note="95%")], "MB"))


def test_lines_over_bytes_are_on_a_log_scale():
    line = Line("int8", "accent", (1.0, 10.0, 100.0), (0.1, 0.2, 0.3))
    svg = curves([Panel("hpd", (line,), "MB", log=True)])
    path = next(d for d in re.findall(r' d="([^"]+)"', svg) if d.count("L") == 2)
    first, second, third = (float(x) for x in re.findall(r"[ML](-?[0-9.]+)", path))
    assert second - first == pytest.approx(third - second, abs=0.01)
