"""The trainings of a classifier: which there are, and what a run that was cut short keeps."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import polars as pl
import pytest
from classify_runs import change, classify, single_rows, write_inputs
from refusals import refuses
from ruamel.yaml import YAML
from safetensors.torch import load_file, save_file

from pipeline.classifiers.training import joint
from pipeline.core import seal
from pipeline.tasks import pairs
from pipeline.train.loop.checkpoint import Checkpoint

LEARNS = {"lr": [0.01], "epochs": 8.0, "batch_size": 8, "precision": "float32"}


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())


def in_a_process(folder, steps):
    """The exit code of a run that ends before it has done this many steps, and the steps that it did."""
    script = "import sys; from pathlib import Path; import classify_runs as c; c.die(Path(sys.argv[1]), {})"
    command = [sys.executable, "-c", script.format(steps), str(folder)]
    path = os.pathsep.join([str(Path(__file__).parent.parent), str(Path(joint.__file__).parents[3])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.count("step")


class StopError(Exception):
    """A training ends here."""


def steps_of(folder, most=1000):
    """How many steps a run does that ends before it does more than this many."""
    done, loss, hold, held = count(), joint.loss, Checkpoint.hold, []

    def counted(*given):
        if next(done) == most:
            raise StopError
        return loss(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "loss", counted)
        patch.setattr(Checkpoint, "hold", lambda one: (hold(one), held.append(one)))
        with suppress(StopError):
            classify(folder)
            most = next(done)
    for one in held:  # as when a process ends
        one.let_go()
    return most


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path):
    """One training of two is over, and is not repeated."""
    for name in ("killed", "whole"):
        write_inputs(tmp_path / name, "static", single_rows(), train={**LEARNS, "lr": [0.01, 0.005]})
    assert in_a_process(tmp_path / "killed", 60) == (9, 60)
    assert not (tmp_path / "killed/out").exists()
    # The second training's state was not yet written.
    assert in_a_process(tmp_path / "killed", 1000) == (0, 48)
    classify(tmp_path / "whole")
    assert metrics_of(tmp_path / "whole") == metrics_of(tmp_path / "killed")
    assert not list((tmp_path / "killed/cache/training").glob("*.safetensors"))


def test_a_rate_that_is_named_twice_trains_once(tmp_path):
    write_inputs(tmp_path, "static", single_rows(), train={**LEARNS, "lr": [0.01, 1e-2]})
    assert steps_of(tmp_path) == 48


@pytest.mark.parametrize(
    ("block", "steps"),
    [
        ({"seeds": 2, "train": LEARNS}, 48),
        ({"fractions": [0.5, 1.0], "train": LEARNS}, 24),
        ({"train": {**LEARNS, "lr": [0.01, 0.005]}}, 48),
    ],
    ids=["another seed", "another share", "another rate"],
)
def test_a_finished_training_serves_a_block_that_asks_for_more(tmp_path, block, steps):
    write_inputs(tmp_path, "static", single_rows(), train={**LEARNS, "lr": [0.01, 0.002]})
    assert steps_of(tmp_path, 50) == 50
    change(tmp_path, **block)
    assert steps_of(tmp_path) == steps
    assert not list((tmp_path / "cache/training").iterdir())


@pytest.mark.parametrize("what", ["labels", "metric", "student"])
def test_a_finished_training_of_something_else_is_repeated(tmp_path, what):
    write_inputs(tmp_path, "static", single_rows(), train={**LEARNS, "lr": [0.01, 0.002]})
    assert steps_of(tmp_path, 50) == 50
    if what == "labels":
        rows = pl.read_parquet(tmp_path / "tasks.parquet")
        flipped = pl.col("label").replace({"0": "1", "1": "0"})
        pairs.write(rows.with_columns(label=flipped), tmp_path / "tasks.parquet")
    elif what == "metric":
        yaml = YAML()
        params = yaml.load(tmp_path / "params.yaml")
        params["evaluate"]["tasks"]["said"]["metric"] = "f1"
        yaml.dump(params, tmp_path / "params.yaml")
    else:
        weights = next((tmp_path / "start/tiny").rglob("*.safetensors"))
        tensors = load_file(weights)
        save_file({name: tensor * 1.01 for name, tensor in tensors.items()}, weights)
        seal.write_folder(tmp_path / "start/tiny")
    assert steps_of(tmp_path) == 96


def test_a_finished_trainings_state_is_its_best_weights(tmp_path):
    write_inputs(tmp_path, "static", single_rows(), train={**LEARNS, "lr": [0.01, 0.002]})
    assert steps_of(tmp_path, 50) == 50
    [state] = (tmp_path / "cache/training").glob("*.safetensors")
    assert {name.partition("/")[0] for name in load_file(state)} == {"best"}


@pytest.mark.parametrize("rates", [[0.01, 1e30], [1e30, 0.01, 1e31]])
def test_a_rate_that_diverges_loses_to_one_that_does_not(tmp_path, capfd, rates):
    write_inputs(tmp_path, "static", single_rows(), train={**LEARNS, "lr": rates})
    classify(tmp_path)
    assert list(metrics_of(tmp_path)["dev"]) == ["0.01"]
    assert metrics_of(tmp_path)["lr"] == 0.01
    assert "lr 1e+30 is left out: the loss is" in capfd.readouterr().err


def test_rates_that_all_diverge_are_refused(tmp_path):
    write_inputs(tmp_path, "static", single_rows(), train={**LEARNS, "lr": [1e30, 1e31]})
    with refuses("the loss is", "lower train.lr"):
        classify(tmp_path)
