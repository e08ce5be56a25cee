"""A classifier as it ships: its graph, its card, and `pipeline classify`."""

import json
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from classify_runs import classify, pair_rows, single_rows, write_inputs
from typer.testing import CliRunner

from pipeline.classifiers.saved import head as head_file
from pipeline.classifiers.shipped import export_classifier
from pipeline.cli.__main__ import app
from pipeline.core.errors import UserError
from pipeline.data.common.files import metrics
from pipeline.data.student import student_folder

QUICK = {"lr": [0.01], "epochs": 8.0, "batch_size": 8, "precision": "float32"}


def ship(folder, kind, rows, **block):
    """A trained and exported classifier `one`; its folder."""
    write_inputs(folder, kind, rows, train=QUICK, **block)
    classify(folder)
    cards = folder / "cards"
    (cards / "students").mkdir(parents=True)
    said = {"said": "no model", "licences": [], "languages": [], "hub_id": None}
    metrics.write({"teacher": said}, cards / "shared.json")
    metrics.write({"students.tiny.init.model": said}, cards / "students/tiny.json")
    metrics.write({"origins": {}, "tables": {}}, folder / "origins.json")
    out = folder / "exported/one"
    export_classifier.main(
        "one",
        classified=folder / "out",
        scores=folder / "metrics.json",
        tasks=folder / "tasks.parquet",
        eval_texts=folder / "eval.parquet",
        cards=cards,
        origins_file=folder / "origins.json",
        out=out,
        params_file=folder / "params.yaml",
    )
    return out


@pytest.mark.parametrize("kind", ["static", "transformer", "bilstm"])
@pytest.mark.parametrize("rows", [single_rows(), pair_rows()], ids=["texts", "pairs"])
def test_the_graph_gives_the_logits_of_the_folder(tmp_path, kind, rows):
    out = ship(tmp_path, kind, rows)
    content = [text for row in rows for text in row[:2] if text]
    model, head = student_folder.read(out, "export_classifier"), head_file.read(out)
    expected = head(model.encode(content, convert_to_tensor=True).cpu()).detach().numpy()
    onnx.checker.check_model(onnx.load(out / "onnx/model.onnx"))
    session = onnxruntime.InferenceSession(out / "onnx/model.onnx")
    assert [one.name for one in session.get_outputs()] == ["logits", "sentence_embedding"]
    batch = model.tokenizer(content, padding=True, return_tensors="np") if kind == "transformer" else None
    if batch is not None:  # as any user would ask it; the others' tokenizers are read by the card's program
        names = {one.name for one in session.get_inputs()}
        inputs = {name: batch[name].astype(np.int64) for name in names}
        assert session.run(["logits"], inputs)[0] == pytest.approx(expected, abs=1e-4)
    config = json.loads((out / "config.json").read_text())
    assert config["id2label"] == {"0": "0", "1": "1"}


@pytest.mark.parametrize("kind", ["static", "bilstm"])
def test_the_cards_program_runs_and_its_head_is_whole(tmp_path, kind):
    out = ship(tmp_path, kind, single_rows())
    text = (out / "README.md").read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert head["pipeline_tag"] == "text-classification"
    assert head["model-index"][0]["results"][0]["metrics"][0]["type"] == "accuracy"
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=out, capture_output=True, text=True, check=True
    )
    labels = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(labels) == 2
    assert {*labels} <= {"0", "1"}
    assert "licence" in text


def test_the_card_says_what_is_unknown_and_where_the_terms_are(tmp_path):
    out = ship(tmp_path, "static", single_rows())
    text = (out / "README.md").read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert (head["license"], head["license_link"]) == ("other", "LICENSE.md")
    assert re.search(r"\*\*Unknown: .*`a\.tsv`\.\*\*", text)
    assert "a.tsv" in (out / "LICENSE.md").read_text()


def test_the_cards_program_puts_the_prompt_before_a_text(tmp_path):
    out = ship(tmp_path, "static", single_rows(), prompt="a fine ")
    text = (out / "README.md").read_text()
    assert '`"a fine "`' in text
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    program = program.replace('["A first text.", "A second one."]', '["awful film", "dull song"]')
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=out, capture_output=True, text=True, check=True
    )
    options = ["classify", "--classifier", str(out)]
    rows = CliRunner().invoke(app, options, input="awful film\ndull song\n").stdout.splitlines()
    told = [line.split() for line in done.stdout.splitlines()]
    assert [label for label, _ in told] == [json.loads(row)["label"] for row in rows]
    found = [float(probability) for _, probability in told]
    assert found == pytest.approx([json.loads(row)["probability"] for row in rows], abs=1e-4)


def test_texts_are_labelled_from_the_command_line(tmp_path):
    out = ship(tmp_path, "static", single_rows())
    options = ["classify", "--classifier", "one", "--classifiers", str(out.parent)]
    done = CliRunner().invoke(app, options, input="a lovely day\na grim day\n")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["label"] for row in rows] == ["1", "0"]
    assert [row["text"] for row in rows] == ["a lovely day", "a grim day"]
    assert all(0.5 <= row["probability"] <= 1 for row in rows)


def test_pairs_are_labelled_from_a_file(tmp_path):
    out = ship(tmp_path, "static", pair_rows())
    test = [row for row in pair_rows() if row[3] == "test"]
    (tmp_path / "pairs.tsv").write_text("\n".join(f"{row[0]}\t{row[1]}" for row in test))
    options = ["classify", "--classifier", str(out), str(tmp_path / "pairs.tsv")]
    done = CliRunner().invoke(app, options)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    right = np.mean([row["label"] == true[2] for row, true in zip(rows, test, strict=True)])
    told = json.loads((tmp_path / "metrics.json").read_text())["scores"]["accuracy"]
    assert right == pytest.approx(told, abs=1e-6)
    assert {*rows[0]} == {"left", "right", "label", "probability"}


@pytest.mark.parametrize("line", ["only one text", "one\ttwo\tthree"])
def test_a_line_that_is_no_pair(tmp_path, line):
    out = ship(tmp_path, "static", pair_rows())
    done = CliRunner().invoke(app, ["classify", "--classifier", str(out)], input=f"a\tb\n{line}\n")
    assert done.exit_code == 1
    assert "stdin: line 2 has" in done.output
    assert "one tab" in done.output


def test_a_classifier_that_is_not_there(tmp_path):
    done = CliRunner().invoke(app, ["classify", "--classifier", "nobody", "--classifiers", str(tmp_path)])
    assert done.exit_code == 1
    assert "'nobody'" in done.output
    assert "dvc repro" in done.output


def test_a_graph_of_other_logits_is_refused():
    logits = np.array([[1.0, -2.0]])
    assert export_classifier.check_logits(logits + 1e-5, logits, "one") == pytest.approx(5e-6)
    with pytest.raises(UserError, match="export_classifier@one"):
        export_classifier.check_logits(logits + 0.1, logits, "one")
