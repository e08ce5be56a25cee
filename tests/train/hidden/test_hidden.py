import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hidden_runs import OUT, made, run, run_slowly, write
from killed import asked, kill_after, starter
from refusals import refuses
from ruamel.yaml import YAML
from small_corpus import TRAIN
from small_teachers import write_teacher
from transformers import AutoModel, AutoTokenizer

from pipeline.core import json_text, seal
from pipeline.core.atomic import write_text
from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.train.distillation import states
from pipeline.train.hidden import hidden
from pipeline.train.hidden.hidden import Encoder

ORDERED = sorted(TRAIN, key=text_id)


def read() -> states.TeacherStates:
    return states.read(OUT, texts.ids(Path("data/corpus.parquet"), "train"), 0, 1 / len(TRAIN))


def expected(text: str, layers: list[int], most: int = 10**6) -> tuple[list[int], np.ndarray]:
    """Token ids, and states (tokens, L, d) by transformers, without special tokens."""
    model, tokenizer = AutoModel.from_pretrained("teacher").eval(), AutoTokenizer.from_pretrained("teacher")
    found = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
    kept = ~found.pop("special_tokens_mask")[0].bool()
    with torch.no_grad():
        states = model(**found, output_hidden_states=True).hidden_states
    chosen = torch.stack([states[layer + 1][0][kept] for layer in layers], dim=1)
    return found["input_ids"][0][kept][:most].tolist(), chosen[:most].numpy()


def own(found: states.TeacherStates, row: int) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Token ids, restored states (tokens, L, d) and scales of a text."""
    part = slice(found.offsets[row], found.offsets[row + 1])
    scales = found.scales[part]
    return found.tokens[part].tolist(), found.levels[part] * scales[:, :, None], scales


@pytest.mark.parametrize("most", [4, 64])
def test_states_are_those_of_transformers_to_half_a_step_of_int8(folder, most):
    write(folder, {"texts": 7, "layers": [0, 1], "max_tokens": most})
    assert run() == {"texts": 7, "layers": 2, "megabytes": pytest.approx(0, abs=0.1)}
    found = read()
    assert (found.layers, found.width, found.before, found.after) == ((0, 1), 32, 1, 1)
    assert len(found.offsets) == 8
    for row, text in enumerate(ORDERED[:7]):
        ids, restored, scales = own(found, row)
        known, right = expected(text, [0, 1], most)
        assert ids == known
        assert 0 < len(ids) <= most
        off = np.abs(restored - right)
        assert (off <= 0.5001 * scales[:, :, None] + 1e-5).all()
        assert off.max() > 1e-4  # int8 it is


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_long_text_is_cut_where_the_teacher_cuts_it(folder, side):
    write(folder, {"texts": 7, "layers": [0]})
    run()
    whole = read()
    config = json_text.parse(Path("teacher/tokenizer_config.json").read_text())
    write_text(Path("teacher/tokenizer_config.json"), json.dumps({**config, "truncation_side": side}))
    facts = seal.read_json(Path("facts.json"), "look")
    write_text(Path("facts.json"), seal.to_json(facts | {"window": 8}))
    seal.write_folder(Path("teacher"))
    run()
    found = read()
    for row in range(7):
        all_of_it, cut = own(whole, row)[0], own(found, row)[0]
        assert len(cut) == min(6, len(all_of_it))
        assert cut == (all_of_it[-len(cut) :] if side == "left" else all_of_it[: len(cut)])


@pytest.mark.parametrize("name", ["mpnet", "deberta-v2", "t5", "gpt2", "xlnet"])
def test_an_architecture_of_any_kind(folder, name, tmp_path):
    write(folder, {"texts": 3, "layers": [1, 3]})
    shutil.rmtree("teacher")
    shutil.copytree(write_teacher(name, tmp_path / "model").parent / "encoder", "teacher")
    run()
    found = read()
    for row, text in enumerate(ORDERED[:3]):
        encoder = Encoder(Path("teacher"), Path("facts.json"), "cpu")
        ids = encoder._tokenizer.encode(text).ids
        with torch.no_grad():
            right = encoder._model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        kept = slice(encoder.ends[0], len(ids) - encoder.ends[1])
        restored, scales = own(found, row)[1:]
        for place, layer in enumerate((1, 3)):
            off = np.abs(restored[:, place] - right[layer + 1][0].numpy()[kept])
            assert (off <= 0.501 * scales[:, place, None] + 1e-4).all()


def test_a_text_is_read_up_to_the_teachers_window(folder):
    write(folder, {"texts": 2})
    facts = json_text.parse(Path("facts.json").read_text())
    facts.pop("seal")
    write_text(Path("facts.json"), seal.to_json(facts | {"window": 7}))
    run()
    assert np.diff(read().offsets).tolist() == [5, 5]


def test_without_encode_hidden_the_folder_is_empty_and_nothing_is_loaded(folder, monkeypatch):
    write(folder, None)
    monkeypatch.delattr(hidden, "Encoder")
    assert run() == {"texts": 0}
    assert [*made(folder)] == [seal.NAME]
    assert not Path(".cache").exists()
    with refuses("data/hidden", "set encode.hidden"):
        read()


def test_a_layer_that_the_teacher_lacks(folder):
    write(folder, {"layers": [0, 2]})
    with refuses("encode.hidden.layers", "layer 2", "0 to 1"):
        run()


def test_states_that_are_not_finite(folder):
    write(folder, {})
    model = AutoModel.from_pretrained("teacher")
    torch.nn.init.constant_(model.encoder.layer[1].output.dense.weight, float("nan"))
    model.save_pretrained("teacher")
    with refuses("hidden", "NaN", "encode.hidden.layers"):
        run()


def test_what_is_kept_is_not_encoded_again_and_damage_is(folder, monkeypatch, capfd):
    monkeypatch.setattr(hidden, "SHARD_TEXTS", 4)
    write(folder, {"texts": 10})
    run()
    before, shards = made(folder), sorted(Path(".cache/hidden").glob("*/*"))
    assert len(shards) == 3
    capfd.readouterr()
    run()
    assert "0 texts encoded, 10 taken from the cache" in capfd.readouterr().err
    levels = next(shard for shard in shards) / "levels.bin"
    content = bytearray(levels.read_bytes())
    content[5] ^= 1
    levels.write_bytes(content)
    run()
    said = capfd.readouterr().err
    assert "is damaged" in said
    assert "0 texts encoded" not in said
    assert made(folder) == before


def test_other_settings_have_shards_of_their_own(folder):
    write(folder, {"texts": 10})
    run()
    params = YAML(typ="safe").load(Path("params.yaml"))
    for more in ({"layers": [1]}, {"max_tokens": 3}):
        params["encode"]["hidden"] = {"texts": 10, **more}
        with Path("params.yaml").open("w") as file:
            YAML().dump(params, file)
        run()
    assert len(list(Path(".cache/hidden").iterdir())) == 3
    assert np.diff(read().offsets).max() == 3


def test_states_of_other_texts_are_refused(folder):
    write(folder, {"texts": 10})
    run()
    ids = texts.ids(Path("data/corpus.parquet"), "train")
    with refuses("data/hidden", "other texts", "dvc repro -f hidden"):
        states.read(OUT, ids[1:], 0, 0.1)
    (OUT / "levels.bin").write_bytes(b"x" + (OUT / "levels.bin").read_bytes()[1:])
    with refuses("levels.bin", "damaged", "dvc repro -f hidden"):
        states.read(OUT, ids, 0, 0.1)


def test_a_killed_stage_loses_a_shard_at_most_and_makes_the_same_bytes(folder, processes):
    write(folder, {})
    start = starter(processes, run_slowly, folder)
    start(folder / "undisturbed", 0).join()
    whole = made(folder)
    shards = asked(folder / "undisturbed")
    assert [text for shard in shards for text in shard] == ORDERED
    for place in (OUT, Path(".cache")):
        shutil.rmtree(place)
    moments, done = random.Random(2), set()
    for kill in range(4):
        log = folder / f"asked {kill}"
        process, after = start(log, 0.05), moments.randrange(1, 3)
        kill_after(process, lambda log=log, after=after: len(asked(log)) >= after, moments, seconds=0.07)
        assert not OUT.exists()
        begun = [tuple(shard) for shard in asked(log)]
        assert not done & {*begun}
        assert {*begun} <= {*map(tuple, shards)}
        done |= {*begun[:-1]}
    assert done
    start(folder / "rest", 0).join()
    assert not done & {*map(tuple, asked(folder / "rest"))}
    assert made(folder) == whole, (folder / "stderr").read_text()
