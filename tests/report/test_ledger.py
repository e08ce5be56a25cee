"""What the ledger says of tests/report/sample, and how the page shows it."""

import html
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refuses
from sample_report import SAMPLE, sample_report
from test_report import run

from pipeline.data.common.files import metrics
from pipeline.report import page

NASTY = ["<script>alert(1)</script>", "{{ 7 * 7 }}", "a\n---\nb | `c`"]
TEXTS = 'corpus: {sources: [{kind: files, path: texts.csv, licence: "%s"}, {kind: files, path: more.csv}]}'


@pytest.fixture
def inputs(tmp_path):
    return Path(shutil.copytree(SAMPLE, tmp_path / "in"))


def written(inputs: Path, out: Path) -> dict:
    return json.loads(run(inputs, out)["ledger.json"])


def edit(inputs: Path, old: str, new: str) -> None:
    params = inputs / "params.yaml"
    assert old in params.read_text()
    params.write_text(params.read_text().replace(old, new))


def tune_the_teacher(inputs: Path) -> None:
    edit(inputs, "finetune: {data: {}", "finetune: {data: {nli: {kind: triplets, path: nli.tsv}}")
    edit(inputs, 'l6_v2/model"}', 'l6_v2/model", finetune: {data: [nli]}}')
    edit(inputs, "evaluate: {tasks: {", "evaluate: {tasks: {dev: {kind: sts, path: dev.tsv, split: dev}, ")


def test_every_artifact_has_its_origins_rows_and_digest(inputs, tmp_path):
    found = written(inputs, tmp_path / "out")
    artifacts = found["artifacts"]
    assert set(artifacts) == {
        *(f"data/corpus/{name}.parquet" for name in ("corpus", "tasks", "triplets")),
        "data/gated/wordnet.parquet",
        *(f"data/vectors/{name}" for name in ("corpus", "wordnet", "eval", "finetune")),
        *(f"data/{kind}/{name}" for kind in ("finetuned", "exported") for name in ("hpd", "potion")),
    }
    made_of = [key for one in artifacts.values() for key in one["made_of"]]
    assert set(made_of) == found["origins"].keys()
    student = artifacts["data/finetuned/hpd"]
    assert student["made_of"] == ["teacher", "corpus.sources.0", "augment.wordnet"]
    assert len(student["sha256"]) == 64
    assert artifacts["data/gated/wordnet.parquet"]["rows"] > 0
    assert artifacts["data/vectors/corpus"] == {
        "made_of": ["teacher", "corpus.sources.0"],
        "rows": 60000,
        "manifest_sha256": artifacts["data/vectors/corpus"]["manifest_sha256"],
    }
    assert found["students"]["hpd"] == {"license": "apache-2.0", "license_name": None, "unknown": []}


def test_an_origin_has_its_licence_rows_and_digests(inputs, tmp_path):
    found = written(inputs, tmp_path / "out")["origins"]
    assert found["teacher"]["weights_sha256"] == "9" * 64
    assert found["teacher"]["licence_said"] == "apache-2.0, by its model card"
    source = found["corpus.sources.0"]
    assert (source["rows_in"], source["rows"], source["licence"]) == (165021, 60000, ["wordnet-3.0"])
    assert [file["name"] for file in source["files"]] == ["data.adj", "data.noun"]
    assert found["evaluate.tasks.relatedness"]["licence_said"].startswith("not asked")


def test_what_a_classifier_is_trained_on_is_asked_for_its_licence(inputs, tmp_path):
    edit(inputs, "classifiers: {}", "classifiers: {one: {student: hpd, start: finetuned, task: said}}")
    edit(inputs, "evaluate: {tasks: {", "evaluate: {tasks: {said: {kind: sst2, path: s}, ")
    told = json.loads((inputs / "origins.json").read_text())
    told.pop("seal", None)
    told["origins"]["evaluate.tasks.said"] = {
        "datasets": [],
        "files": [{"name": "s", "sha256": "0" * 64}],
        "rows": 9,
    }
    (inputs / "origins.json").write_text(json.dumps(told))
    scores = {"accuracy": 0.75, "f1": 0.5, "spread": 0.0}
    measured = {"task": "said", "metric": "accuracy", "student": "hpd", "start": "finetuned", "kd": False}
    metrics.write(
        {**measured, "scores": scores, "parameters_without_embeddings": 9},
        inputs / "stages/classify_one.json",
    )
    for folder, old, new in (
        ("timings", "finetune_hpd.json", "classify_one.json"),
        ("curves", "hpd_finetune.tsv", "classify_one.tsv"),
    ):
        shutil.copy(inputs / folder / old, inputs / folder / new)
    files = run(inputs, tmp_path / "out")
    found = json.loads(files["ledger.json"])
    assert found["artifacts"]["data/exported_classifiers/one"]["made_of"][-1] == "evaluate.tasks.said"
    assert found["origins"]["evaluate.tasks.said"]["unknown"]
    assert not found["origins"]["evaluate.tasks.relatedness"]["unknown"]
    assert b'<h2 id="classifiers">' in files["index.html"]
    assert b"one: dev score" in files["index.html"]


def test_a_transfer_set_is_made_of_the_tasks_that_it_names(inputs, tmp_path):
    edit(inputs, "back_translation: {}}", "back_translation: {}, transfer: {tasks: [mnli, sst2]}}")
    tasks = ("mnli: {kind: mnli, path: m}", "sst2: {kind: sst2, path: s}", "sst2_b: {kind: sst2, path: b}")
    edit(inputs, "evaluate: {tasks: {", f"evaluate: {{tasks: {{{', '.join(tasks)}, ")
    origins = json.loads((inputs / "origins.json").read_text())
    origins.pop("seal", None)
    names = ("mnli_matched", "mnli_mismatched", "sst2", "sst2_b")
    origins["origins"] |= {
        f"evaluate.tasks.{name}": {"datasets": [name], "files": [], "rows": 9} for name in names
    }
    (inputs / "origins.json").write_text(json.dumps(origins))
    shutil.copytree(inputs / "vectors/wordnet", inputs / "vectors/transfer")
    found = written(inputs, tmp_path / "out")["artifacts"]["data/vectors/transfer"]
    assert found["made_of"] == ["teacher", *(f"evaluate.tasks.{name}" for name in names[:3])]
    assert found["rows"] > 0
    shutil.rmtree(inputs / "vectors/transfer")
    with refuses("vectors/transfer", "`dvc repro encode@transfer`"):
        written(inputs, tmp_path / "again")


def test_a_source_without_a_licence_says_so_in_the_ledger_and_on_the_page(inputs, tmp_path):
    edit(inputs, "corpus: {sources: [{kind: wordnet}]}", TEXTS % "cc-by-sa-4.0")
    found = written(inputs, tmp_path / "out")
    first, more = (found["origins"][f"corpus.sources.{number}"] for number in (0, 1))
    assert (first["licence"], first["unknown"]) == (["cc-by-sa-4.0"], False)
    assert (more["licence"], more["unknown"]) == ([], True)
    assert found["students"]["potion"] == {
        "license": "other",
        "license_name": "cc-by-sa-4.0-and-unknown",
        "unknown": ["corpus.sources.1"],
    }
    shown = (tmp_path / "out/index.html").read_text()
    assert "<b>unknown: params.yaml names no licence</b>" in shown


def test_fine_tuning_data_counts_where_it_changed_the_student(inputs, tmp_path):
    edit(inputs, "finetune: {data: {}", "finetune: {data: {nli: {kind: triplets, path: nli.tsv}}")
    edit(
        inputs,
        "lr: 1e-3}, finetune: null}\n  potion",
        "lr: 1e-3}, finetune: {data: [nli], epochs: 1, batch_size: 8, lr: 1e-3}}\n  potion",
    )
    metrics = json.loads((inputs / "metrics/hpd.json").read_text())
    keys = {True: [], False: []}
    for changed, kept in keys.items():
        metrics["ships"] = "finetuned" if changed else "distilled"
        (inputs / "metrics/hpd.json").write_text(json.dumps(metrics))
        kept += written(inputs, tmp_path / str(changed))["artifacts"]["data/finetuned/hpd"]["made_of"]
    assert ("finetune.data.nli" in keys[True], "finetune.data.nli" in keys[False]) == (True, False)


def test_what_the_teacher_is_fine_tuned_on_counts_for_its_vectors_and_all_students(inputs, tmp_path):
    tune_the_teacher(inputs)
    ledger = written(inputs, tmp_path / "out")
    for artifact in ("data/vectors/corpus", "data/vectors/finetune", "data/finetuned/potion"):
        assert ledger["artifacts"][artifact]["made_of"].count("finetune.data.nli") == 1
    assert "finetune.data.nli" in ledger["students"]["potion"]["unknown"]


@pytest.mark.parametrize("missing", ["vectors/eval", "finetuned/potion"])
def test_a_missing_folder_names_the_stage_that_writes_it(inputs, tmp_path, missing):
    shutil.rmtree(inputs / missing)
    stage = {"vectors/eval": "encode@eval", "finetuned/potion": "finetune@potion"}[missing]
    with refuses(inputs / missing, f"`dvc repro {stage}`"):
        run(inputs, tmp_path / "out")


@pytest.mark.parametrize("nasty", NASTY)
def test_names_and_licences_of_users_are_escaped_on_the_page(nasty):
    report = sample_report()
    rows = tuple(replace(row, name=nasty, licence=nasty, unknown=True) for row in report.ledger.rows)
    students = tuple(replace(row, licence=nasty, unknown=nasty) for row in report.ledger.students)
    shown = page.render(replace(report, ledger=replace(report.ledger, rows=rows, students=students)))
    section = shown[shown.index('<h2 id="ledger">') :]
    section = section[: section.index("</section>")]
    assert "<script" not in section
    assert section.count(html.escape(nasty)) == 2 * len(rows) + 2 * len(students)


@pytest.mark.parametrize("changed", [True, False], ids=["tuned", "as it was"])
def test_the_digest_of_tuned_weights_is_not_that_of_the_model_they_came_from(inputs, tmp_path, changed):
    tune_the_teacher(inputs)
    manifest = inputs / "vectors/corpus/sentence/manifest.json"
    if changed:
        manifest.write_text(manifest.read_text().replace('"model": "model"', '"model": "model-finetuned"'))
    found = written(inputs, tmp_path / "out")
    assert found["origins"]["teacher"].get("weights_sha256") == (None if changed else "9" * 64)
    tuned = {"made_of": ["teacher", "finetune.data.nli"], "weights_sha256": "9" * 64}
    assert found["artifacts"].get("data/tuned_teacher") == (tuned if changed else None)
