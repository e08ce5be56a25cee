import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from pipeline.score.footprint import cost
from pipeline.score.footprint.cost import Model, Plan, describe, measure, megabytes

TEXTS = [f"text {number}" for number in range(10)]


def model(encode) -> Model:
    return Model(encode=encode, parameters=5, embedding_parameters=2, megabytes=0.5, dim=3)


def plan(rounds: int = 3, threads: int = 1) -> Plan:
    return Plan(rounds=rounds, threads=threads, texts=TEXTS, single_texts=TEXTS[:2])


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 3)
        self.bags = nn.EmbeddingBag(5, 3)
        self.frozen = nn.Linear(3, 2, bias=False).requires_grad_(False)
        self.same = self.frozen
        self.out = nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4))
        self.register_buffer("positions", torch.arange(100))


def test_parameters_by_hand(tmp_path):
    described = describe(len, Network(), [tmp_path], 4)
    assert described.embedding_parameters == 7 * 3 + 5 * 3
    assert described.parameters == 7 * 3 + 5 * 3 + 3 * 2 + (2 * 4 + 4) + (4 + 4)
    assert described.dim == 4
    assert described.encode is len


def test_megabytes_are_of_all_files_but_the_card(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "model.safetensors").write_bytes(bytes(1_500_000))
    (tmp_path / "config.json").write_bytes(bytes(250_000))
    (tmp_path / "README.md").write_bytes(bytes(900_000))
    assert megabytes(tmp_path) == 1.75
    assert describe(len, Network(), [tmp_path], 4).megabytes == 1.75


def test_a_teacher_without_a_model_has_no_size():
    described = describe(len, None, [], 64)
    assert (described.parameters, described.embedding_parameters, described.megabytes) == (0, 0, 0)


def test_all_models_are_measured_in_every_round():
    calls: list[tuple[str, int]] = []
    names = ("teacher", "small", "tiny")
    models = {name: model(lambda texts, name=name: calls.append((name, len(texts)))) for name in names}
    measure(models, plan(rounds=4), "teacher")
    warm_up = [(name, 8) for name in names]
    assert calls == warm_up + [(name, size) for name in names for size in (10, 1, 1)] * 4


def test_speeds_by_hand(monkeypatch):
    # Seconds of the warm-up, then of two rounds: all texts, and two single ones.
    seconds = {
        "teacher": [9.0, 2.0, 0.1, 0.2, 4.0, 0.3, 0.4],
        "fast": [9.0, 0.5, 0.01, 0.01, 2.0, 0.01, 0.03],
    }
    left = {name: iter(of_one) for name, of_one in seconds.items()}
    monkeypatch.setattr(cost, "_time", lambda encode, *_: next(left[encode]))
    models = {name: model(name) for name in seconds}
    measured = measure(models, plan(rounds=2), "teacher")
    assert measured["teacher"]["speedup"] == 1
    assert measured["fast"]["speedup"] == pytest.approx((2 / 0.5 + 4 / 2) / 2)
    assert measured["teacher"]["sentences_per_second"] == pytest.approx(10 / 3)
    assert measured["teacher"]["latency_ms_p50"] == pytest.approx(250)
    assert measured["teacher"]["latency_ms_p95"] == pytest.approx(385)
    assert measured["teacher"]["batch_spread"] == pytest.approx(1 / 3)  # 2 and 4 seconds, 3 between them
    assert measured["teacher"]["latency_spread"] == pytest.approx(0.1 / 0.25)  # 150 and 350 ms


def test_pairs_are_encoded_one_text_at_a_time_in_every_round():
    calls: list[list[str]] = []
    pairs = [("a", "b"), ("c", "a")]
    models = {"teacher": model(calls.append), "api": replace(model(lambda _: None), repeats=False)}
    measured = measure(models, replace(plan(rounds=3), pairs=pairs), "teacher")
    a_round = [TEXTS, ["text 0"], ["text 1"], ["a"], ["b"], ["c"], ["a"]]
    assert calls == [TEXTS[:8], *a_round * 3]
    assert measured["teacher"]["pair_ms"] > 0
    assert "pair_ms" not in measured["api"]  # its calls cost money


def test_the_time_of_a_pair_by_hand(monkeypatch):
    # Seconds of the warm-up, then of three rounds: all texts, two single ones, the pairs.
    seconds = iter([9.0, *(one for pairs in (0.2, 0.6, 0.3) for one in (2.0, 0.1, 0.1, pairs))])
    monkeypatch.setattr(cost, "_time", lambda *_: next(seconds))
    pairs = [("a", "b"), ("c", "a"), ("d", "e"), ("f", "g")]
    measured = measure({"teacher": model(len)}, replace(plan(rounds=3), pairs=pairs), "teacher")
    assert measured["teacher"]["pair_ms"] == pytest.approx(75)
    assert measured["teacher"]["pair_spread"] == pytest.approx(1)  # 0.6 seconds, 0.3 in the middle
    assert measured["teacher"]["latency_ms_p50"] == pytest.approx(100)


def test_without_pairs_there_is_no_time_of_them():
    assert (
        not {"pair_ms", "pair_spread"} & measure({"teacher": model(len)}, plan(), "teacher")["teacher"].keys()
    )


def test_real_speeds_have_their_units():
    models = {"teacher": model(lambda _: time.sleep(0.01)), "fast": model(lambda _: None)}
    measured = measure(models, plan(), "teacher")
    assert measured["teacher"]["sentences_per_second"] <= 10 / 0.01
    assert measured["teacher"]["latency_ms_p50"] >= 10
    assert measured["fast"]["speedup"] > measured["teacher"]["speedup"] == 1


def test_the_models_own_figures_are_passed_on():
    measured = measure({"teacher": model(len)}, plan(), "teacher")["teacher"]
    assert {key: measured[key] for key in ("parameters", "embedding_parameters", "megabytes", "dim")} == {
        "parameters": 5,
        "embedding_parameters": 2,
        "megabytes": 0.5,
        "dim": 3,
    }
    assert all(np.isfinite(value) for value in measured.values())


def test_models_run_on_the_planned_threads_and_the_threads_are_restored():
    before, seen = torch.get_num_threads(), []
    measure(
        {"teacher": model(lambda _: seen.append(torch.get_num_threads()))},
        plan(threads=before + 1),
        "teacher",
    )
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def test_a_short_batch_is_repeated_and_an_api_is_asked_once():
    calls: list[int] = []
    plan_of_a_while = Plan(1, 1, TEXTS, TEXTS[:1], batch_seconds=0.05)
    for repeats in (True, False):
        calls.clear()
        once = Model(lambda texts: calls.append(len(texts)), 0, 0, 0, 3, repeats)
        found = measure({"teacher": once}, plan_of_a_while, "teacher")
        assert (calls.count(10) > 1) == repeats
        assert found["teacher"]["sentences_per_second"] > 10 / 0.05
