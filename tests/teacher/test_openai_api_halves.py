"""A text that a server cannot do: it is named, and the others of its request are kept."""

import numpy as np
import pytest
from embeddings_server import change, refuse, vectors

from pipeline.core.errors import Unfinished

TEXTS = [f"text number {i}" for i in range(60)]
BAD = "text number 7"


def first_bad(edit):
    """What the server does to the vector of the bad text, wherever that stands in the request."""

    def fault(handler):
        row = handler.body["input"].index(BAD)
        change(lambda answer: edit(answer["data"], row))(handler)

    return fault


FAULTS = {
    "NaN": first_bad(lambda data, row: data[row]["embedding"].__setitem__(0, float("nan"))),
    "null": first_bad(lambda data, row: data[row].update(embedding=None)),
    "one fewer": first_bad(lambda data, row: data.pop(row)),
    "400": refuse(400, '{"error": "input is invalid"}'),
    "422": refuse(422),
    "500": refuse(500, '{"error": "json: unsupported value: NaN"}'),
}


@pytest.mark.parametrize("most", [1, 16, 60])
@pytest.mark.parametrize("name", FAULTS)
def test_it_is_named_and_the_others_are_kept(api, server, name, most):
    teacher = api(dimensions=8, texts_per_request=most, retries=1, concurrency=1)
    server.of_texts[BAD] = FAULTS[name]
    with pytest.raises(Unfinished, match=rf"begins '{BAD}'") as stopped:
        teacher.encode(TEXTS, ["sentence"])
    rows = stopped.value.rows.tolist()
    np.testing.assert_array_equal(stopped.value.vectors["sentence"], vectors(TEXTS)[rows])
    together = next(body["input"] for body in server.bodies if BAD in body["input"])
    assert {TEXTS[row] for row in rows} >= {*together} - {BAD}
    assert len(server.bodies) <= len(TEXTS) / most + 4 * 7


def test_a_prompt_does_not_hide_its_beginning(api, server):
    teacher = api(dimensions=8, prompts={"text": "Represent this sentence for clustering, please: "})
    server.of_texts["Represent this sentence for clustering, please: " + BAD] = refuse(400)
    with pytest.raises(Unfinished, match=rf"has 13 characters and begins '{BAD}'"):
        teacher.encode(TEXTS, ["sentence"])


def at_most(most):
    def fault(handler):
        too_many = len(handler.body["input"]) > most
        (refuse(422, "batch size") if too_many else change(lambda _: None))(handler)

    return fault


def test_where_no_text_is_to_blame_none_is_named(api, server):
    server.of_texts = dict.fromkeys(TEXTS, at_most(8))
    with pytest.raises(Unfinished, match="batch size") as stopped:
        api(dimensions=8, texts_per_request=30).encode(TEXTS, ["sentence"])
    assert "alone" not in str(stopped.value)


def test_a_server_that_takes_fewer_at_once_is_asked_for_fewer_which_is_said(api, server, capsys):
    server.of_texts = dict.fromkeys(TEXTS, at_most(20))
    found = api(dimensions=8, texts_per_request=30).encode(TEXTS, ["sentence"])
    np.testing.assert_array_equal(found["sentence"], vectors(TEXTS))
    said = capsys.readouterr().err
    assert said.count("lower runtime.api.texts_per_request") == 1
    assert "batch size" in said


@pytest.mark.parametrize("bad_first", [True, False])
def test_vectors_of_another_dimension_are_not_taken_from_a_part_either(api, server, bad_first):
    """The server has another model from the second request on, or from the third."""
    shorter = change(lambda answer: [item.update(embedding=[1.0] * 5) for item in answer["data"]])
    good = [] if bad_first else [change(lambda _: None)]
    server.faults += [FAULTS["422"], *good, *[shorter] * 20]
    with pytest.raises(Unfinished, match=r"HTTP 422| 5 dimensions") as stopped:
        api(dimensions=8, texts_per_request=60, concurrency=1).encode(TEXTS, ["sentence"])
    rows = stopped.value.rows.tolist()
    assert len(rows) == (0 if bad_first else 30)
    np.testing.assert_array_equal(stopped.value.vectors["sentence"], vectors(TEXTS)[rows])


@pytest.mark.parametrize("value", [1e5, -1e30])
def test_one_that_float16_cannot_hold_costs_no_other(api, server, value):
    teacher = api(dimensions=8, texts_per_request=16)
    server.of_texts[BAD] = first_bad(lambda data, row: data[row]["embedding"].__setitem__(0, value))
    with pytest.raises(Unfinished, match=rf"65,504.* 1 texts, .*begins '{BAD}'") as stopped:
        teacher.encode(TEXTS, ["sentence"])
    assert sorted({*range(60)} - {*stopped.value.rows.tolist()}) == [TEXTS.index(BAD)]
