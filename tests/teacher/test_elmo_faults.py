"""What may be wrong with an ELMo's files, and what it is told in params.yaml that it does not do."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import small_elmo
from refusals import refuses
from small_params import small_params

from pipeline.cli.needs import extras, is_here, teachers
from pipeline.params.load import check
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import ElmoTeacher
from pipeline.teacher.kinds import elmo
from pipeline.teacher.shared.elmo import options


def block(model, parts="none", **more):
    return {"kind": "elmo", "model": str(model), "parts": str(parts), **more}


def load(folder):
    return elmo.load(ElmoTeacher(**block(folder)), Runtime(device="cpu"))


def look(folder, parts="none"):
    return elmo.look(ElmoTeacher(**block(folder, parts)))


def test_files_that_are_not_there(tmp_path):
    with refuses("teacher.model", "no folder", "nowhere", "options.json and weights.hdf5"):
        load(tmp_path / "nowhere")
    folder = small_elmo.write(tmp_path / "elmo")
    (folder / "other_options.json").write_text("{}")
    with refuses("other_options.json, tiny_options.json", "leave one"):
        look(folder)
    for name in ("other_options.json", "tiny_weights.hdf5"):
        (folder / name).unlink()
    with refuses("teacher.model", str(folder), "no weights.hdf5"):
        look(folder)
    (folder / "tiny_options.json").unlink()
    with refuses("teacher.model", str(folder), "no options.json"):
        load(folder)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("{", ("is no JSON", "obtain it again")),
        ("[]", ("it is at fault",)),
        (small_elmo.options(char_cnn={"activation": "gelu"}), ("char_cnn.activation", "'relu' or 'tanh'")),
        (small_elmo.options(char_cnn={"n_characters": 300}), ("char_cnn.n_characters", "261 or 262")),
        (small_elmo.options(char_cnn={"filters": [[13, 2]]}), ("char_cnn", "wider than max_characters")),
        (small_elmo.options(lstm={"dim": 0}), ("lstm.dim", "greater than or equal to 1")),
        (small_elmo.options() | {"bidirectional": False}, ("bidirectional", "True")),
        ({"lstm": small_elmo.options()["lstm"]}, ("char_cnn", "required", "over characters")),
    ],
)
def test_options_of_other_models(tmp_path, said, named):
    folder = small_elmo.write(tmp_path)
    (folder / "tiny_options.json").write_text(said if isinstance(said, str) else json.dumps(said))
    with refuses("teacher.model", "tiny_options.json", *named):
        look(folder)


@pytest.mark.parametrize(
    ("name", "array", "named"),
    [
        ("CNN/W_cnn_1", None, ("has no CNN/W_cnn_1",)),
        ("RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0", None, ("has no RNN_1/", "Cell1/LSTMCell/W_P_0")),
        ("char_embed", np.zeros((262, 4), np.float32), ("char_embed is (262, 4)", "make it (261, 4)")),
        ("CNN_proj/W_proj", np.zeros((12, 9), np.float32), ("CNN_proj/W_proj is (12, 9)", "(12, 8)")),
        ("CNN_proj/b_proj", np.full(8, np.nan, np.float32), ("CNN_proj/b_proj is not finite",)),
    ],
)
def test_weights_that_do_not_fit_their_options(tmp_path, name, array, named):
    found = small_elmo.arrays(small_elmo.options())
    found.pop(name)
    if array is not None:
        found[name] = array
    with refuses("teacher.model", "tiny_weights.hdf5", *named):
        load(small_elmo.write(tmp_path, found=found))


def test_weights_that_are_a_group_or_damaged(tmp_path):
    folder = small_elmo.write(tmp_path)
    path = folder / "tiny_weights.hdf5"
    with h5py.File(path, "a") as file:
        del file["char_embed"]
        file.create_group("char_embed")
    with refuses("has no char_embed"):
        load(folder)
    path.write_bytes(path.read_bytes()[:1000])
    with refuses("teacher.model", "tiny_weights.hdf5 cannot be read", "obtain it again"):
        load(folder)


def test_without_the_extra(tmp_path, monkeypatch, bert):
    monkeypatch.setattr(options, "PACKAGES", ("h5py", "no_such_package"))
    folder = small_elmo.write(tmp_path)
    for call in (load, lambda folder: look(folder, bert)):
        with refuses("teacher.kind elmo", "no_such_package", "pip install -e '.[elmo]'"):
            call(folder)
    params = check(small_params(teacher=block(folder, bert)), Path("params.yaml"))
    (missing,) = [one for one in extras(params) if one.fix]
    assert (missing.name, missing.fix) == ("no_such_package", "pip install -e '.[elmo]'")


def test_views_that_it_does_not_give(tmp_path):
    given = small_params(teacher=block("m"), encode={"views": ["sentence", "cls"]})
    with refuses("encode.views has 'cls'", "teacher.kind elmo gives `sentence` and `token_mean` alone"):
        check(given, Path("params.yaml"))
    ensemble = {"kind": "ensemble", "members": [{"teacher": block("m"), "view": "cls"}]}
    with refuses("teacher.members.0.view is 'cls'", "kind elmo gives `sentence` and `token_mean`"):
        check(small_params(teacher=ensemble), Path("params.yaml"))
    with refuses("encode.views has 'cls'", "ELMo gives sentence and token_mean"):
        load(small_elmo.write(tmp_path)).encode(["a"], ["cls"])


def test_parts_are_missing(tmp_path):
    with refuses("teacher.parts", "no folder", "none"):
        look(small_elmo.write(tmp_path))


def test_what_doctor_says_of_it(tmp_path, bert):
    folder = small_elmo.write(tmp_path / "elmo")
    (found,) = teachers(ElmoTeacher(**block(folder, bert)))
    assert (found.fix, found.found) == (
        "",
        f"{folder}: ELMo, 16 dimensions, 512 words; parts of {bert}",
    )
    (found,) = teachers(ElmoTeacher(**block(folder, tmp_path / "gone")))
    assert (found.fix, "teacher.parts" in found.found) == ("edit teacher.parts in the params file", True)
    (found,) = teachers(ElmoTeacher(**block(tmp_path / "gone", bert)))
    assert "edit teacher.model" in found.fix
    assert is_here(ElmoTeacher(**block(folder, bert)))
    assert not is_here(ElmoTeacher(**block(folder, "someone/no-such-model")))
