"""What the vectors find, as the page shows it."""

import dataclasses
from pathlib import Path

import pytest
from sample_report import sample_report

from pipeline.report import examples
from pipeline.report.page import render
from pipeline.score.statistics import examined

SAMPLE = Path(__file__).parent / "sample"
NAMES = ["hpd", "potion"]


def found(student, asked):
    """Examples of one task: query, subset, answer, and what else tells a question from others."""
    near = [
        examined.Nearest(
            query=query,
            subset=subset,
            relevant=(answer,),
            belonging=1,
            teacher=(examined.Neighbour(text=answer, cosine=1, relevant=True),),
            student=(examined.Neighbour(text=f"{student} {other}", cosine=1, relevant=False),),
        )
        for query, subset, answer, other in asked
    ]
    return {"names": examined.TaskExamples(nearest=tuple(near), pairs=0, disagreements=())}


def test_examples_of_all_students_stand_beside_each_other_by_text():
    found = {name: examined.read_examples(SAMPLE / "examined" / name, name) for name in NAMES}
    (view,) = examples.nearest(found)
    (example,) = view.examples
    assert (view.task, example.relevant) == ("reverse_dictionary", ("nightingale",))
    assert [(column.model, column.neighbours[0].text) for column in example.columns] == [
        ("teacher", "nightingale"),
        ("hpd", "owl"),
        ("potion", "owl"),
    ]
    row = examples.disagreements(found)[1].rows[0]
    assert (row.task, row.gold, row.teacher, row.student) == (
        "relatedness",
        "3.50",
        ("0.810", "4 of 2,000"),
        ("0.120", "1,806 of 2,000"),
    )


def test_a_text_that_is_looked_for_in_several_subsets_is_an_example_in_each():
    asked = [("Paris", subset, f"Paris ({subset})", subset) for subset in ("de", "fr")]
    (view,) = examples.nearest({name: found(name, asked) for name in NAMES})
    assert [(one.query, one.subset, one.relevant) for one in view.examples] == [
        ("Paris", "de", ("Paris (de)",)),
        ("Paris", "fr", ("Paris (fr)",)),
    ]
    for one in view.examples:
        assert [(column.model, column.neighbours[0].text) for column in one.columns] == [
            ("teacher", f"Paris ({one.subset})"),
            *((name, f"{name} {one.subset}") for name in NAMES),
        ]
    report = dataclasses.replace(sample_report(), examples=(view,))
    assert "Paris <small>in fr</small>" in render(report)


@pytest.mark.parametrize(
    "asked",
    [
        [("bank", "", "money", "river"), ("bank", "", "shore", "river"), ("sun", "", "star", "tree")],
        [("bank", "", "money", "river"), ("bank", "", "money", "tree"), ("bank", "", "money", "dog")],
    ],
)
def test_two_questions_of_one_phrase_are_two_examples(asked):
    (view,) = examples.nearest({name: found(name, asked) for name in NAMES})
    assert [
        (one.query, one.relevant, [column.neighbours[0].text for column in one.columns])
        for one in view.examples
    ] == [
        (query, (answer,), [answer, *(f"{name} {other}" for name in NAMES)])
        for query, _, answer, other in asked
    ]
    assert [[column.model for column in one.columns] for one in view.examples] == [["teacher", *NAMES]] * 3
