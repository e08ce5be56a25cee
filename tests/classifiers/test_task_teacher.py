"""A task teacher that is fine-tuned on the task, and a student that learns from it and from its layers."""

import json
import shutil
import threading
import time

import numpy as np
import pytest
import torch
from classify_runs import BERT_WIDTH, change, classify, pair_rows, single_rows, write_bert, write_inputs
from safetensors.torch import load_file
from test_trainings import steps_of
from transformers import AutoModel, AutoTokenizer

from pipeline.classifiers.training import joint, tuned
from pipeline.classifiers.training.task import Cached, read_task
from pipeline.classifiers.training.tuned import said_of
from pipeline.core.errors import UserError
from pipeline.data.common import texts
from pipeline.data.models import teacher_facts
from pipeline.params.load import load
from pipeline.tasks import pairs
from pipeline.train.loop.checkpoint import Checkpoint

QUICK = {"lr": [0.003], "epochs": 2.0, "batch_size": 8, "precision": "float32"}
STUDENT_STEPS = TEACHER_STEPS = 24
"""Of 96 pairs."""


def kd(folder, layers=4, width=BERT_WIDTH, **block):
    """The params of a teacher in a folder, which is made if it is not there."""
    path = folder / f"bert-{layers}-{width}"
    if not path.exists():
        write_bert(path, layers, width)
    return {"alpha": 0.5, "teacher": {"model": str(path), **QUICK}, **block}


PKD = {"distance": "kl", "temperature": 5.0, "patience": {"weight": 10.0, "layers": "skip"}}


def told(folder):
    return json.loads((folder / "metrics.json").read_text())


def weights_of(folder):
    files = sorted((folder / "out").rglob("*.safetensors"))
    assert len(files) >= 2
    return [file.read_bytes() for file in files]


def task_of(folder):
    """The task with what its teacher says, as the stage reads it."""
    params = load(folder / "params.yaml")
    block = params.classifier("one")
    facts = teacher_facts.read(folder / "facts.json")
    teacher = tuned.TaskTeacher.of("one", block.kd.teacher, facts, params.runtime)
    layers = ()
    if block.kd.patience:
        layers = teacher.patient_layers(params.student("tiny"), facts, block.kd.patience.layers)
    rows, table = pairs.read(folder / "tasks.parquet"), texts.read_labelled(folder / "eval.parquet")

    def ask(*given):
        return teacher.tell(*given, layers)

    metric = params.evaluate.tasks["said"].metric
    return read_task(rows, table, None, block, metric, Cached(folder / "eval", "sentence"), ask), table


@pytest.mark.parametrize("how", ["skip", "last"])
def test_what_it_says_is_what_transformers_makes_of_the_pairs(tmp_path, how):
    """The first tokens' states of its fine-tuned encoder, by the right layers, and its head's logits."""
    patience = {"patience": {"weight": 10.0, "layers": how}}
    write_inputs(tmp_path, "bert", pair_rows(), train=QUICK, read="together", kd=kd(tmp_path, **patience))
    task, table = task_of(tmp_path)
    (trained,) = (tmp_path / "cache/task_teachers").glob("*/trained")
    numbers = load_file(trained / "weights.safetensors")
    model = AutoModel.from_pretrained(tmp_path / f"bert-4-{BERT_WIDTH}").eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    (prefix,) = {name.split("embeddings.word")[0] for name in numbers if "embeddings.word" in name}
    model.load_state_dict(
        {name.removeprefix(prefix): one for name, one in numbers.items() if name.startswith(prefix)}
    )
    assert any(not torch.equal(before[name], one) for name, one in model.state_dict().items())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / f"bert-4-{BERT_WIDTH}")
    left, right = ([table["text"][at] for at in task.train.texts[:, side].tolist()] for side in (0, 1))
    batch = tokenizer(left, right, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
    layer = {"skip": 2, "last": 3}[how]  # of 4, of a student of 2
    first = torch.nn.functional.normalize(states[layer][:, 0], dim=1)
    assert task.train.states.shape == (len(task.train), 1, BERT_WIDTH)
    np.testing.assert_allclose(task.train.states[:, 0], first, atol=2e-3)
    features = (states[-1][:, 0] - numbers["head.mean"]) * numbers["head.scale"]
    units = torch.relu(features @ numbers["head.hidden.weight"].T + numbers["head.hidden.bias"])
    logits = units @ numbers["head.output.weight"].T + numbers["head.output.bias"]
    np.testing.assert_allclose(task.train.logits, logits, rtol=1e-3, atol=1e-3)


def test_it_is_trained_once_for_all_classifiers_that_ask_for_it(tmp_path):
    """Equal blocks; a student's own settings, its layers or patience have no part in it."""
    write_inputs(tmp_path, "bert", pair_rows(), train=QUICK, read="together", kd=kd(tmp_path))
    assert steps_of(tmp_path) == TEACHER_STEPS + STUDENT_STEPS
    first, bytes_of_first = told(tmp_path), weights_of(tmp_path)
    assert steps_of(tmp_path) == STUDENT_STEPS
    assert (told(tmp_path), weights_of(tmp_path)) == (first, bytes_of_first)
    change(tmp_path, kd=kd(tmp_path, **PKD), hidden=32)
    assert steps_of(tmp_path) == STUDENT_STEPS
    assert told(tmp_path)["task_teacher"] == first["task_teacher"]
    change(tmp_path, read="apart", kd=kd(tmp_path))
    assert steps_of(tmp_path) == STUDENT_STEPS
    block = kd(tmp_path)
    block["teacher"]["seed"] = 1
    change(tmp_path, kd=block)
    assert steps_of(tmp_path) == TEACHER_STEPS + STUDENT_STEPS
    assert not list((tmp_path / "cache/training").iterdir())


def test_another_model_of_the_same_name_is_another_teacher(tmp_path):
    write_inputs(tmp_path, "bert", pair_rows(), train=QUICK, read="together", kd=kd(tmp_path))
    assert steps_of(tmp_path) == TEACHER_STEPS + STUDENT_STEPS
    file = tmp_path / f"bert-4-{BERT_WIDTH}/config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"layer_norm_eps": 1e-6}))
    assert steps_of(tmp_path) == TEACHER_STEPS + STUDENT_STEPS


@pytest.mark.parametrize("stop", [10, TEACHER_STEPS + 10])
def test_a_run_that_is_cut_short_goes_on_to_the_same_bytes(tmp_path, stop):
    for name in ("cut", "whole"):
        block = {"read": "together", "kd": kd(tmp_path, **PKD), "train": QUICK}
        write_inputs(tmp_path / name, "bert", pair_rows(), **block)
    with pytest.MonkeyPatch.context() as patch:
        # Its state is written after each step.
        patch.setattr("pipeline.classifiers.training.trainings.train", every_step(joint.train))
        assert steps_of(tmp_path / "cut", stop) == stop
        left = steps_of(tmp_path / "cut")
        assert left == TEACHER_STEPS + STUDENT_STEPS - stop
    classify(tmp_path / "whole")
    assert weights_of(tmp_path / "cut") == weights_of(tmp_path / "whole")
    assert told(tmp_path / "cut") == told(tmp_path / "whole")


def every_step(train):
    def trained(*given, **named):
        *others, _ = given
        return train(*others, -1.0, **named)

    return trained


def test_whoever_comes_second_waits_and_trains_it_no_more(tmp_path, capfd):
    """Another classifier, with code of its own: a BiLSTM's."""
    block = {"train": QUICK, "kd": kd(tmp_path)}
    write_inputs(tmp_path / "one", "bert", pair_rows(), **block)
    write_inputs(tmp_path / "two", "bilstm", pair_rows(), **block)
    with pytest.MonkeyPatch.context() as patch:
        hold, held = Checkpoint.hold, []
        patch.setattr(Checkpoint, "hold", lambda one: (held.append(one.path.name), hold(one)))
        classify(tmp_path / "one")
    lock = Checkpoint(tmp_path / "two/cache/training" / next(name for name in held if "@" not in name))
    lock.hold()
    steps = []
    second = threading.Thread(target=lambda: steps.append(steps_of(tmp_path / "two")))
    second.start()
    while "is at work in another process" not in capfd.readouterr().err:
        time.sleep(0.01)
    shutil.copytree(tmp_path / "one/cache/task_teachers", tmp_path / "two/cache/task_teachers")
    lock.clear()
    second.join()
    assert steps == [STUDENT_STEPS]
    assert told(tmp_path / "two")["task_teacher"] == told(tmp_path / "one")["task_teacher"]


def test_a_damaged_file_of_the_cache_is_made_again(tmp_path):
    write_inputs(tmp_path, "bert", pair_rows(), train=QUICK, read="together", kd=kd(tmp_path))
    classify(tmp_path)
    first = weights_of(tmp_path)
    (logits,) = (tmp_path / "cache/task_teachers").glob("*/*/logits.npy")
    content = bytearray(logits.read_bytes())
    content[-1] ^= 255
    logits.write_bytes(content)
    assert steps_of(tmp_path) == STUDENT_STEPS  # its weights are whole
    assert weights_of(tmp_path) == first


def test_labels_of_the_transfer_set_are_its(tmp_path):
    made = [(f"a {row[0]} again", row[1]) for row in pair_rows()[:20]]
    block = {"kd": {**kd(tmp_path), "alpha": 0.0}, "transfer": True, "read": "together"}
    write_inputs(tmp_path / "one", "bert", pair_rows(), made, train=QUICK, **block)
    write_inputs(tmp_path / "two", "bert", pair_rows(), train=QUICK, kd=kd(tmp_path))
    (tmp_path / "cache").mkdir()
    for name in ("one", "two"):
        (tmp_path / name / "cache").symlink_to(tmp_path / "cache")
    classify(tmp_path / "one")
    assert told(tmp_path / "one")["transfer_rows"] == len(made)
    assert told(tmp_path / "one")["scores"]["train"] == 96
    assert steps_of(tmp_path / "two") == STUDENT_STEPS  # of the same teacher, without those texts


def test_a_bilstm_learns_from_it(tmp_path):
    """SRA's rows KD: its teacher reads a pair together, the student each text alone."""
    write_inputs(tmp_path, "bilstm", pair_rows(), train=QUICK, kd={**kd(tmp_path), "alpha": 0.0})
    classify(tmp_path)
    assert {*told(tmp_path)["task_teacher"]} == {"accuracy", "f1"}
    assert told(tmp_path)["untuned"]
    assert told(tmp_path)["settings"]["kd"]["teacher"]["model"] == f"bert-4-{BERT_WIDTH}"


def test_patience_changes_what_is_learned(tmp_path):
    found = []
    for name, how in (("none", None), ("skip", "skip"), ("last", "last")):
        patience = {"patience": {"weight": 10.0, "layers": how}} if how else {}
        block = {"read": "together", "train": QUICK, "kd": kd(tmp_path, **patience)}
        write_inputs(tmp_path / name, "bert", pair_rows(), **block)
        classify(tmp_path / name)
        found.append(weights_of(tmp_path / name))
    assert found[0] != found[1] != found[2] != found[0]


@pytest.mark.parametrize(
    ("rows", "kind", "block", "said"),
    [
        (pair_rows(), "bert", {"teacher": None, **PKD}, "kd.patience reads the layers of a model"),
        (pair_rows(), "bert", {"temperature": 5.0}, "kd.temperature is of `distance: kl`"),
        (pair_rows(), "static", PKD, "kd.patience compares layers, and tiny is a static student"),
        (pair_rows(), "bert", PKD, "kd.patience compares what student and teacher make of a pair"),
        (single_rows(), "bert", {"width": 32, **PKD}, "have 16 dimensions, the task teacher's 32"),
        (single_rows(), "bert", {"layers": 1, **PKD}, "the student has 2 layers and the task teacher 1"),
    ],
)
def test_what_cannot_be_learned_names_key_and_fix(tmp_path, rows, kind, block, said):
    write_inputs(tmp_path, kind, rows)
    change(tmp_path, kd=kd(tmp_path, **block))
    with pytest.raises(UserError) as error:
        classify(tmp_path)
    assert said in str(error.value)
    assert "classifiers.one" in str(error.value)
    assert "; " in str(error.value)
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("teacher", "said"),
    [
        ({"model": "/nowhere"}, "classifiers.one.kd.teacher.model: there is no folder '/nowhere'"),
        ({"max_length": 65}, "classifiers.one.kd.teacher.max_length is 65, the encoder has 64 positions"),
        ({"layers": [7]}, "classifiers.one.kd.teacher.layers names layer 7, the encoder has 4"),
        ({"layers": {"last": 9}}, "classifiers.one.kd.teacher.layers asks for 9 layers"),
        ({"revision": "main"}, "classifiers.one.kd.teacher.revision is 'main'"),
        ({"lr": [1e12]}, "lower classifiers.one.kd.teacher.lr"),
        ({"poling": "cls"}, "classifiers.one.kd.teacher.poling is unknown; did you mean 'pooling'"),
    ],
)
def test_a_teacher_that_cannot_be_made_names_its_keys(tmp_path, teacher, said):
    write_inputs(tmp_path, "bert", single_rows())
    block = kd(tmp_path)
    change(tmp_path, kd={**block, "teacher": {**block["teacher"], **teacher}})
    with pytest.raises(UserError) as error:
        classify(tmp_path)
    assert said in str(error.value)


def test_a_share_of_the_rows_has_no_teacher_of_its_own(tmp_path):
    write_inputs(tmp_path, "bert", single_rows())
    change(tmp_path, kd=kd(tmp_path), fractions=[0.5, 1.0])
    with pytest.raises(UserError, match=r"classifiers\.one\.fractions: the model of kd\.teacher"):
        classify(tmp_path)


def test_layers_of_the_teacher_are_those_that_are_kept(tmp_path):
    block = kd(tmp_path, patience={"weight": 1.0, "layers": "last"})
    block["teacher"]["layers"] = [0, 2, 3]
    write_inputs(tmp_path, "bert", single_rows(), train=QUICK, kd=block)
    params, facts = load(tmp_path / "params.yaml"), teacher_facts.read(tmp_path / "facts.json")
    teacher = tuned.TaskTeacher.of("one", params.classifier("one").kd.teacher, facts, params.runtime)
    assert teacher.layers == 3
    assert teacher.patient_layers(params.student("tiny"), facts, "last") == (1,)


def test_a_users_own_path_stays_as_it_is_in_messages():
    with pytest.raises(UserError) as told, said_of("one"):
        raise UserError("init.model: there is no folder ./init.d/init.model; train.lr, a/train.lr")
    at = "classifiers.one.kd.teacher"
    assert str(told.value) == f"{at}.model: there is no folder ./init.d/init.model; {at}.lr, a/train.lr"
