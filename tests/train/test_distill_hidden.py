"""Students that learn the teacher's hidden states: the stage `hidden`, then `distill`."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from distill_runs import distill, made
from hidden_runs import OUT, run, write
from refusals import refuses
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from small_corpus import DEV, TRAIN
from small_distillation import gradients
from small_students import compact_block, own_vectors, transformer_block

from pipeline.core import seal
from pipeline.data.common.texts import text_id
from pipeline.train.distillation import states
from pipeline.train.loop.data import Examples
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.objective import Step
from pipeline.train.loop.world import World
from pipeline.train.losses.building.objective import build_objective
from pipeline.train.students.kinds import compact, transformer
from pipeline.train.students.shared.base.interface import HasLayers

STUDENTS = {
    "narrow and deep": ("transformer", {"layers": None, "hidden": 16}),
    "fewer layers": ("transformer", {"layers": [1]}),
    "compact": ("compact", {"table_dim": 8, "layers": None, "projection": "ridge"}),
}


def student(kind: str, init: dict, **loss) -> dict:
    losses = {1.0: {"kind": "mse"}, 2.0: {"kind": "hidden_states", **loss}}
    terms = [{"weight": weight, "loss": one} for weight, one in losses.items()]
    return {"kind": kind, "init": init, "loss": {"kind": "sum", "terms": terms}}


@pytest.mark.parametrize("name", STUDENTS)
def test_training_lowers_the_distance_and_ships_no_matrix(folder, name):
    write(folder, {"texts": 15}, student(*STUDENTS[name]), epochs=12)
    run()
    distill()
    curve = pl.read_csv("curve.tsv", separator="\t")["loss_hidden_states"]
    assert curve.to_list()[-1] < 0.8 * curve[1]
    model = SentenceTransformer("distilled", device="cpu")
    assert model.encode(DEV).shape == (len(DEV), 8)
    names = [name for file in Path("distilled").rglob("*.safetensors") for name in load_file(file)]
    assert names
    assert not [name for name in names if "matri" in name]


def test_a_resumed_run_makes_the_same_bytes(folder):
    write(folder, {"texts": 15}, student(*STUDENTS["compact"]))
    run()
    distill()
    first = made(folder)
    for place in ("distilled", "untrained"):
        shutil.rmtree(place)
    distill()
    assert made(folder) == first


def test_an_unprepared_folder_ends_the_stage(folder):
    write(folder, {"texts": 15}, student(*STUDENTS["compact"]))
    with refuses("data/hidden", "dvc repro -f hidden"):
        distill()


def test_a_student_that_names_a_layer_too_many_is_refused_by_name(folder):
    write(folder, {"texts": 15}, student("transformer", {"layers": [1]}, layers=[[1, 1]]))
    run()
    distill()
    told = json.loads(Path("distilled/refused.json").read_text())
    assert "layer 1 of the student" in told["reason"]


def test_without_the_loss_nothing_of_the_folder_is_read(folder):
    write(folder, None, {"kind": "transformer", "init": {"layers": [1]}})
    assert not OUT.exists()
    distill()
    assert "refused" not in seal.read_json(Path("metrics.json"), "distill")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["transformer", "compact"])
def test_layers_of_a_student_are_those_of_its_model(parts, kind, packed):
    """Whatever the order of the texts, and after its embeddings."""
    made = (
        transformer.build(transformer_block(), parts)
        if kind == "transformer"
        else compact.build(compact_block(init={"layers": (0, 1)}), parts)
    )
    made._packed = made._packed if packed else None
    assert isinstance(made, HasLayers)
    assert (made.layers, made.width) == (2, 32)
    texts = [TRAIN[0], "x", TRAIN[1]]
    tokens = made.tokenise(texts)
    found = made.encode_layers(tokens, [1, 0], embedded=True)
    starts = tokens.offsets
    for row in range(len(texts)):
        ids = torch.from_numpy(tokens.ids[starts[row] : starts[row + 1]]).long()[None]
        right = made.module[0].model(input_ids=ids, output_hidden_states=True).hidden_states
        for level, given in ((0, found.embedded), (1, found.states[0]), (2, found.states[1])):
            own = given[starts[row] : starts[row + 1]]
            torch.testing.assert_close(own, right[level][0], atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(found.vectors.detach().numpy(), own_vectors(made, texts), atol=1e-6)


def test_split_steps_have_equal_gradients(folder):
    write(folder, {"texts": 15}, student(*STUDENTS["fewer layers"]))
    run()
    ids = np.fromfile(OUT / "text_ids.bin", np.uint64)
    teacher = states.read(OUT, ids, 0, 1 / len(TRAIN))
    block = transformer_block(layers=(1,))
    terms = [{"weight": 2.0, "loss": {"kind": "hidden_states"}}, {"weight": 1.0, "loss": {"kind": "infonce"}}]
    block = type(block).model_validate({**block.model_dump(), "loss": {"kind": "sum", "terms": terms}})
    ordered = sorted(TRAIN, key=text_id)
    rows, found = np.array([17, 3, 0, 12, 19, 8]), []
    for micro_batch in (None, 2, 5):
        learner = transformer.build(block, Path("teacher"))
        context = LossContext(8, 8, len(TRAIN), 60, Path("teacher"), 0, layers=1, width=32, hidden=teacher)
        trained = build_objective(block, context)
        examples = Examples(learner.tokenise(ordered), np.ones((len(TRAIN), 8), np.float32))
        Step(learner, trained, examples, World(), micro_batch).backward(rows)
        found.append(gradients(learner.module, trained))
    assert any("matrices" in name for name in found[0])
    for other in found[1:]:
        for name, gradient in found[0].items():
            torch.testing.assert_close(other[name], gradient, atol=1e-6, rtol=1e-4)
