"""Against a real server that misbehaves."""

import socket
import threading
import time
from email.utils import formatdate
from threading import Event

import numpy as np
import pytest
from embeddings_server import change, close, drip, flood, hang, refuse, vectors
from refusals import refuses

from pipeline.core.errors import Unfinished
from pipeline.teacher.kinds import openai_api
from pipeline.teacher.shared.endpoint import Endpoint, estimate_tokens

TEXTS = [f"text number {i}" for i in range(12)]
PARTS = 4
"""Of a refused request that are asked for, where all are refused: two halves, and those of the first."""
REFUSED = [refuse(400)] * PARTS
TRANSIENT = {
    "429": refuse(429, '{"error": {"message": "slow down"}}'),
    "500": refuse(500),
    "502": refuse(502, "<html>bad gateway</html>"),
    "503": refuse(503),
    "504": refuse(504),
    "408": refuse(408),
    "529": refuse(529),
    "timeout": hang,
    "closed": close,
}


def sentence(teacher, texts=TEXTS):
    return teacher.encode(texts, ["sentence"])["sentence"]


@pytest.mark.parametrize("name", TRANSIENT)
def test_what_may_pass_is_tried_again(api, server, name):
    patience = {"timeout_seconds": 1} if name == "timeout" else {}
    teacher = api(dimensions=8, texts_per_request=4, **patience)
    server.faults += [TRANSIENT[name]] * 2
    np.testing.assert_array_equal(sentence(teacher), vectors(TEXTS))
    assert len(server.bodies) == teacher.endpoint.requests == 3 + 2


@pytest.mark.parametrize(
    ("name", "fault", "asked"), [("500", "HTTP 500", 4 + PARTS * 2), ("timeout", "ReadTimeout", 4)]
)
def test_retries_end(api, server, name, fault, asked):
    server.faults += [TRANSIENT[name]] * 20
    with refuses("/v1", fault, " 3 retries", "run again"):
        sentence(api(dimensions=8, retries=3, timeout_seconds=0.1 if name == "timeout" else 30))
    assert len(server.bodies) == asked


@pytest.mark.parametrize(
    "slow", [drip(b""), drip(b"HTTP/1.1 200 OK\r\nX: "), drip(b"HTTP/1.1 200 OK\r\n\r\n"), hang]
)
def test_an_answer_has_to_be_whole_in_time(api, server, slow):
    server.faults += [slow] * 2
    np.testing.assert_array_equal(sentence(api(dimensions=8, answer_seconds=0.3)), vectors(TEXTS))
    assert len(server.bodies) == 3


@pytest.mark.parametrize("slow", [drip(b"HTTP/1.1 200 OK\r\n\r\n"), hang])
def test_a_server_that_gives_no_answer_is_given_up(api, server, slow):
    server.faults += [slow] * 9
    with refuses("/v1/embeddings", "no answer for ", "run again"):
        sentence(api(dimensions=8, answer_seconds=0.2, give_up_seconds=0.3, retries=6))
    assert len(server.bodies) == 2


def test_a_server_that_takes_no_connection_is_named(api):
    """A full backlog: the system takes no further connection."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        place = listener.getsockname()
        with socket.create_connection(place), refuses(f"127.0.0.1:{place[1]}/v1", "Timeout", "run again"):
            waiting = [socket.socket() for _ in range(4)]
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(place)
            try:
                sentence(api(url=f"http://127.0.0.1:{place[1]}/v1", connect_seconds=0.2, retries=1))
            finally:
                for one in waiting:
                    one.close()


@pytest.mark.parametrize("status", [200, 400])
def test_no_more_is_read_than_an_answer_can_hold(api, server, status):
    server.faults += [flood(status), *REFUSED]
    named = "the answer exceeds" if status == 200 else "HTTP 400"
    with refuses("/v1", named):
        sentence(api(dimensions=8))
    server.closing.set()
    assert server.flooded < 16 << 20


def test_a_server_that_is_not_there_is_named(api):
    with refuses("http://127.0.0.1:9/v1/embeddings", "ConnectError", "run again"):
        sentence(api(url="http://127.0.0.1:9/v1", retries=1))


class Waits(Event):
    """Keeps how long it is waited for, and does not wait."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def wait(self, timeout=None):
        self.seconds.append(timeout)


@pytest.mark.parametrize(
    ("asked", "least", "most"), [("0.3", 0.3, 0.3), ("date", 900, 1000), ("soon", 0, 0.01)]
)
def test_retry_after_is_obeyed(api, server, capsys, asked, least, most):
    date = formatdate(time.time() + 1000, usegmt=True)
    server.faults.append(refuse(429, Retry_After=date if asked == "date" else asked))
    waits = Waits()
    api(dimensions=8).endpoint.embed(TEXTS, waits)
    assert len(waits.seconds) == 1
    assert least <= waits.seconds[0] <= most
    assert capsys.readouterr().err.count("HTTP 429 (Too Many Requests); trying again in ") == 1


def test_waits_grow_twofold_up_to_a_minute(api, server):
    server.faults += [refuse(503)] * 6
    waits = Waits()
    api(dimensions=8, backoff_seconds=4, retries=6).endpoint.embed(TEXTS, waits)
    for seconds, most in zip(waits.seconds, (4, 8, 16, 32, 60, 60), strict=True):
        assert most / 2 <= seconds <= most


def test_no_server_is_waited_for_longer_than_an_hour(api, server):
    server.faults.append(refuse(429, Retry_After="86400"))
    waits = Waits()
    api(dimensions=8).endpoint.embed(TEXTS, waits)
    assert waits.seconds == [3600]


def nan(answer):
    answer["data"][2]["embedding"][3] = float("nan")


def nested(answer, edit):
    for item in answer["data"]:
        item["embedding"] = edit(item["embedding"])


def wrong_dimension(answer):
    for item in answer["data"]:
        item["embedding"] = item["embedding"][:5]


MALFORMED = {
    ("11 vectors", "12 texts"): change(lambda answer: answer["data"].pop()),
    ("NaN", " 1 vectors"): change(nan),
    ("NaN", " 2 vectors"): change(
        lambda a: [item["embedding"].__setitem__(0, 1e300) for item in a["data"][:2]]
    ),
    (" 5 dimensions", " 8 "): change(wrong_dimension),
    ("[1, 8] dimensions",): change(lambda a: a["data"][3].update(embedding=[1.0])),
    ("`index`", "0 to 11", "[0, 1, 2, 3, 5, 5,"): change(lambda a: a["data"][4].update(index=5)),
    ("`index`", "0 to 11", "[None"): change(lambda a: a["data"][0].pop("index")),
    ("`data`",): change(lambda answer: answer.pop("data")),
    ("`embedding` is no list of numbers",): change(lambda a: a["data"][0].update(embedding="AAAA")),
    ("`embedding` is no list of numbers", ""): change(lambda a: a["data"][0].update(embedding=[])),
    ("`embedding` is no list of numbers", " "): change(lambda a: nested(a, lambda vector: [vector])),
    ("`embedding` is no list", ""): change(lambda a: nested(a, lambda vector: [vector] * 8)),
    ("`embedding` is no list", " "): change(lambda a: nested(a, lambda vector: [*map(str, vector)])),
    ("`embedding` is", ""): change(lambda a: nested(a, lambda vector: [x > 0 for x in vector])),
    ("`embedding` is", " "): change(lambda a: nested(a, lambda vector: [10**400, *vector[1:]])),
    ("JSON", "<html> hello"): refuse(200, "<html> hello"),
    ("JSON", "[[[["): refuse(200, "[" * 100_000),
    ("`data`", ""): refuse(200, "[]"),
    ("`data`", "the model is loading"): refuse(200, '{"error": {"message": "the model is loading"}}'),
}


@pytest.mark.parametrize("named", MALFORMED)
def test_an_answer_that_is_none_is_not_used(api, server, named):
    teacher = api()
    assert teacher.dims == {"sentence": 8}
    server.faults += [MALFORMED[named], *REFUSED]
    with refuses("/v1", *named):
        sentence(teacher)
    assert len(server.bodies) == 2 + (0 if named[0] in ("JSON", " 5 dimensions") else PARTS)


def test_a_shuffled_answer_is_put_into_order(api, server):
    server.faults.append(change(lambda answer: answer["data"].reverse()))
    np.testing.assert_array_equal(sentence(api(dimensions=8)), vectors(TEXTS))


@pytest.mark.parametrize(
    ("status", "body", "named"),
    [
        (400, '{"error": {"message": "too long\\nby far"}}', ("(too long by far)", " 14 char")),
        (404, '{"detail": "Not Found"}', ("(Not Found)", "teacher.url", "teacher.model")),
        (413, '{"error": "batch size 12 > 8"}', ("(batch size 12 > 8)", "lower runtime.api.texts_per")),
        (501, "", ("(Not Implemented)",)),
    ],
)
def test_a_refusal_is_told_in_the_servers_words_and_not_tried_again(api, server, status, body, named):
    server.faults += [refuse(status, body)] * 9
    with refuses("/v1", f"HTTP {status} ", *named):
        sentence(api(dimensions=8))
    assert len(server.bodies) == 1 + PARTS * (status == 400)


def test_a_redirect_is_not_followed(api, server):
    server.faults.append(refuse(307, Location="http://elsewhere/v1"))
    with refuses("HTTP 307 ", "(http://elsewhere/v1)"):
        sentence(api(dimensions=8))


@pytest.mark.parametrize(
    "cap", [{"max_requests": 4}, {"max_tokens": 4 * 8}], ids=["max_requests", "max_tokens"]
)
def test_a_cap_stops_before_it_is_exceeded_and_keeps_what_is_done(api, server, cap):
    teacher = api(texts_per_request=2, **cap)
    ((name, most),) = cap.items()
    with pytest.raises(Unfinished, match=rf"runtime\.api\.{name} .*{most}: 4 requests") as it:
        sentence(teacher)
    assert len(server.bodies) == 4
    assert len(it.value.rows) == 3 * 2
    np.testing.assert_array_equal(it.value.vectors["sentence"], vectors(TEXTS)[it.value.rows])
    assert {TEXTS[row] for row in it.value.rows} == set(server.texts) - {"dimension"}


def test_one_endpoint_counts_for_all_requests(api, server, monkeypatch):
    """From Python 3.12 on several threads that find nothing cached make one each."""
    makers = []
    monkeypatch.setattr(
        openai_api,
        "Endpoint",
        lambda *given: (makers.append(threading.current_thread()), Endpoint(*given))[1],
    )
    sentence(api(dimensions=8, texts_per_request=2, concurrency=4))
    assert makers == [threading.main_thread()]


def test_tokens_of_refused_requests_do_not_count(api, server):
    server.faults += [refuse(429)] * 3
    teacher = api(dimensions=8, texts_per_request=len(TEXTS), max_tokens=sum(map(estimate_tokens, TEXTS)))
    np.testing.assert_array_equal(sentence(teacher), vectors(TEXTS))
    assert len(server.bodies) == 4
    server.faults += [refuse(504)]
    with refuses("runtime.api.max_tokens", "raise it"):
        sentence(api(dimensions=8, texts_per_request=len(TEXTS), max_tokens=sum(map(estimate_tokens, TEXTS))))


def test_what_the_server_bills_counts(api, server):
    server.faults += [change(lambda answer: answer.update(usage={"total_tokens": 700}))] * 3
    teacher = api(dimensions=8, texts_per_request=2, concurrency=1, max_tokens=1_000)
    with pytest.raises(Unfinished, match=r"2 requests .*1,400 tokens"):
        sentence(teacher)


def test_a_failure_stops_the_others_at_once_and_keeps_what_is_done(api, server):
    """The second request waits a minute for its retry when the fourth one is refused."""
    teacher = api(dimensions=8, texts_per_request=2, concurrency=2)
    good = change(lambda _: None)
    server.faults += [good, refuse(429, Retry_After="60"), good, *[refuse(400, "no more")] * 4]
    started = time.monotonic()
    with pytest.raises(Unfinished, match=r"HTTP 400 \(no more\)") as stopped:
        sentence(teacher)
    assert time.monotonic() - started < 50
    assert len(stopped.value.rows) == 4
