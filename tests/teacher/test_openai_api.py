"""Against a real server: what is asked for, and what comes back."""

import base64
import threading

import numpy as np
import pytest
from embeddings_server import change, refuse, vectors
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from small_params import small_params
from small_students import vectors_of

from pipeline.core.fingerprint import of_folder, of_json
from pipeline.params.load import check
from pipeline.params.teacher import OpenAiApiTeacher
from pipeline.teacher.kinds.openai_api import OpenAiApi, request_batches
from pipeline.teacher.shared.endpoint import estimate_tokens

TEXTS = [" ".join(f"word{(7 * i + j) % 50}" for j in range(1 + 5 * i % 17)) for i in range(60)]


def sentence(teacher, texts):
    return teacher.encode(texts, ["sentence"])["sentence"]


def test_vectors_are_in_the_order_of_the_texts(api, server):
    found = sentence(api(texts_per_request=7, concurrency=5), TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, vectors(TEXTS))
    assert len(server.bodies) > 8


def test_requests_hold_texts_of_like_length_up_to_both_limits(api, server):
    teacher = api(texts_per_request=7, tokens_per_request=60, concurrency=1)
    sentence(teacher, [*TEXTS, "long " * 200])
    _, *bulk = [body["input"] for body in server.bodies]
    sizes = [sum(map(estimate_tokens, batch)) for batch in bulk]
    assert max(map(len, bulk)) == 7
    assert bulk[0] == ["long " * 200]
    assert max(sizes[1:]) <= 60
    assert sum(sizes[1:]) > 0.8 * 60 * sum(len(batch) < 7 for batch in bulk[1:])
    lengths = [estimate_tokens(text) for batch in bulk for text in batch]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize(
    ("count", "limits", "together", "requests"),
    [
        (1200, {}, 12, 12),
        (1200, {"tokens_per_request": 3000}, 12, 12),
        (1200, {"texts_per_request": 150}, 12, 14),
        (1200, {"texts_per_request": 10}, 12, 120),
        (100, {}, 6, 6),  # some 1,600 tokens: requests are not made smaller than 256
        (10, {}, 1, 1),
    ],
)
def test_a_piece_keeps_all_connections_busy(api, server, count, limits, together, requests):
    """The first requests are not answered before all of them are there."""
    texts = [f"{TEXTS[i % 60]} {i}" for i in range(count)]
    teacher = api(dimensions=8, concurrency=12, **{"texts_per_request": 2048, "retries": 0, **limits})
    all_there = threading.Barrier(together)

    def meet(handler):
        all_there.wait(5)
        change(lambda _: None)(handler)

    server.faults += [meet] * together
    np.testing.assert_array_equal(sentence(teacher, texts), vectors(texts))
    assert len(server.bodies) == requests


@given(
    st.lists(st.integers(1, 400), max_size=80),
    st.integers(1, 500),
    st.integers(1, 20),
    st.integers(1, 12),
)
def test_every_text_is_in_one_request_within_the_limits(tokens, most_tokens, most_texts, shares):
    counts = np.array(tokens, np.int64)
    batches = request_batches(counts, most_tokens, most_texts, shares)
    order = np.concatenate([[], *batches]).astype(int)
    assert sorted(order) == list(range(len(tokens)))
    assert (np.diff(counts[order]) <= 0).all()
    share = np.ceil(sum(tokens) / shares)
    for batch in batches:
        assert 0 < len(batch) <= most_texts
        assert counts[batch].sum() <= most_tokens or len(batch) == 1
        assert counts[batch[:-1]].sum() <= share


def test_estimated_tokens_are_a_quarter_of_the_bytes():
    assert [estimate_tokens(text) for text in (" ", "four", "fives", "東京都")] == [1, 1, 2, 3]


def test_a_request_names_the_model_and_what_params_ask_for_alone(api, server):
    """Some servers refuse a key that they do not know, such as encoding_format."""
    teacher = api(dimensions=5, prompts={"text": "query: "})
    assert sentence(teacher, ["a", ""]).shape == (2, 5)
    assert sentence(api(), ["b"]).shape == (1, 8)
    assert server.bodies == [
        {"model": "tiny", "dimensions": 5, "input": ["query: a", "query: "]},
        {"model": "tiny", "input": ["dimension"]},
        {"model": "tiny", "input": ["b"]},
    ]


def no_index(answer):
    for item in answer["data"]:
        del item["index"]


def null_index(answer):
    for item in answer["data"]:
        item["index"] = None


def base64_of_floats(answer):
    for item in answer["data"]:
        item["embedding"] = base64.b64encode(np.array(item["embedding"], "<f4").tobytes()).decode()


@pytest.mark.parametrize("edit", [no_index, null_index, base64_of_floats])
def test_what_servers_write_otherwise_is_understood(api, server, edit):
    server.faults += [change(edit)] * 9
    np.testing.assert_array_equal(sentence(api(dimensions=8, texts_per_request=7), TEXTS), vectors(TEXTS))


def test_the_count_decides_whether_vectors_without_an_index_are_taken(api, server):
    server.faults += [change(lambda answer: (no_index(answer), answer["data"].pop())), *[refuse(400)] * 4]
    with refuses("/v1", "11 vectors for 12 texts"):
        sentence(api(dimensions=8), TEXTS[:12])


def test_an_empty_text_is_sent_as_a_space(api, server):
    assert sentence(api(), ["", "a"]).shape == (2, 8)
    assert "" not in server.texts
    assert " " in server.texts


def test_no_text_needs_no_request(api, server):
    assert sentence(api(dimensions=8), []).shape == (0, 8)
    assert server.bodies == []


def test_the_dimension_is_asked_for_once(api, server):
    teacher = api()
    assert server.bodies == []
    assert teacher.dims == teacher.dims == {"sentence": 8}
    assert len(server.bodies) == teacher.endpoint.requests == 1
    assert api(dimensions=3).dims == {"sentence": 3}
    assert len(server.bodies) == 1


def test_what_will_be_asked_for_is_estimated(api, server, capsys):
    api(texts_per_request=7).announce((piece, "text") for piece in [TEXTS[:15], [], TEXTS[15:]])
    tokens = sum(map(estimate_tokens, TEXTS))
    assert (
        f"tiny at {server.url}: 60 texts take about 10 requests and {tokens:,} tokens\n"
        == capsys.readouterr().err
    )
    assert server.bodies == []


def test_the_recipe_changes_with_what_decides_a_vector_alone(api, server):
    same = of_json(api().recipes)
    alike = (api(texts_per_request=1), api(key_variable="K"), api(parts="x"))
    assert {of_json(other.recipes) for other in alike} == {same}
    changes = [{"url": "http://other/v1"}, {"model": "other"}, {"dimensions": 4}, {"prompts": {"query": "p"}}]
    assert len({same, *(of_json(api(**change).recipes) for change in changes)}) == 5
    assert api(url=f"{server.url}/").recipes == api(prompts={"text": ""}).recipes == api().recipes


def test_another_view_is_refused_by_the_teacher_and_by_the_params(api):
    with refuses("encode.views", "'cls'", "`sentence`"):
        api().encode(["a"], ["sentence", "cls"])
    teacher = {"kind": "openai_api", "url": "http://x/v1", "model": "m", "parts": "p"}
    assert isinstance(check(small_params(teacher=teacher), "params.yaml").teacher, OpenAiApiTeacher)
    with refuses("params.yaml", "runtime.engine", "ray"):
        check(small_params(teacher=teacher, runtime={"engine": "ray"}), "params.yaml")
    wrong = small_params(teacher=teacher, encode={"views": ["sentence", "token_mean"]})
    with refuses("params.yaml", "encode.views", "'token_mean'", "teacher.kind openai_api"):
        check(wrong, "params.yaml")


def test_users_call_it_as_the_pipeline_does(api):
    np.testing.assert_array_equal(api().encode_as_users_do(TEXTS)["sentence"], vectors(TEXTS))


def test_students_start_from_a_local_model_and_without_a_key(api, load, bert, server, tmp_path):
    teacher: OpenAiApi = api(parts=str(bert), key_variable="NO_SUCH_KEY")
    vocabulary = vectors_of(teacher.save_parts(tmp_path / "parts"))
    expected = vectors_of(load(bert, pooling="mean").save_parts(tmp_path / "expected"))
    np.testing.assert_array_equal(vocabulary, expected)
    assert of_folder(tmp_path / "parts") == of_folder(tmp_path / "expected")
    assert server.bodies == []
    assert teacher.module is None
    assert teacher.folders == ()


def test_a_missing_local_model_is_named_by_its_key(api, tmp_path):
    with refuses("teacher.parts", "'./nowhere'", "OWNER/NAME"):
        api(parts="./nowhere").save_parts(tmp_path)
