import html
import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from flipped import flip
from refusals import refuses

from pipeline.core import seal
from pipeline.report import report

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture
def inputs(tmp_path):
    return Path(shutil.copytree(SAMPLE, tmp_path / "in"))


def run(inputs, out):
    report.main(
        metrics_folder=inputs / "metrics",
        footprint=inputs / "footprint.json",
        significance_file=inputs / "significance.json",
        search=inputs / "search.json",
        examined_folder=inputs / "examined",
        samples=inputs / "samples",
        curves=inputs / "curves",
        stages=inputs / "stages",
        timings_folder=inputs / "timings",
        cards=inputs / "cards",
        origins_file=inputs / "origins.json",
        gated=inputs / "gated",
        vectors=inputs / "vectors",
        finetuned=inputs / "finetuned",
        ledger_out=out / "ledger.json",
        leaderboard=out / "leaderboard.md",
        table=out / "leaderboard.tsv",
        page=out / "index.html",
        plots=out / "plots",
        summary=out / "summary.json",
        settings_out=out / "params.json",
        params=inputs / "params.yaml",
    )
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_equal_inputs_give_equal_files_without_paths_of_this_machine(inputs, tmp_path):
    first = run(inputs, tmp_path / "one")
    assert run(inputs, tmp_path / "two") == first
    assert sorted(first) == [
        "index.html",
        "leaderboard.md",
        "leaderboard.tsv",
        "ledger.json",
        "params.json",
        "plots/budget.svg",
        "plots/correlation_hpd.png",
        "plots/correlation_potion.png",
        "plots/correlation_teacher.png",
        "plots/curves.svg",
        "plots/quality_size.svg",
        "plots/quality_speed.svg",
        "plots/uniformity_alignment.svg",
        "summary.json",
    ]
    assert not [name for name, content in first.items() if str(tmp_path).encode() in content]


def test_a_student_that_the_teacher_cannot_give_is_named_with_its_reason(inputs, tmp_path):
    reason = "students.wide: init.layers names layer 9, the encoder has 6 (0 to 5); name others"
    params = inputs / "params.yaml"
    block = params.read_text().partition("  hpd:")[2].partition("  potion:")[0]
    params.write_text(params.read_text().replace("  potion:", f"  wide:{block}  potion:", 1))
    (inputs / "cards/students/wide.json").write_text("{}")
    for stage in ("distill", "finetune"):
        (inputs / f"stages/{stage}_wide.json").write_text(json.dumps({"refused": reason}))
    for stage in ("distill", "finetune", "evaluate"):
        shutil.copy(inputs / f"timings/{stage}_hpd.json", inputs / f"timings/{stage}_wide.json")
    (inputs / "metrics/wide.json").write_text(json.dumps({"refused": reason}))
    made = run(inputs, tmp_path / "out")
    for name in ("leaderboard.md", "index.html"):
        assert reason in html.unescape(made[name].decode())
    assert "wide" not in json.loads(made["summary.json"])


def test_the_tab_separated_table_has_a_row_a_model(inputs, tmp_path):
    run(inputs, tmp_path / "out")
    table = pl.read_csv(tmp_path / "out/leaderboard.tsv", separator="\t")
    assert table["model"].to_list() == ["teacher", "hpd", "potion"]
    assert table["megabytes"].to_list() == [90.9, 69.4, 15.6]


def test_a_student_that_is_no_longer_in_params_is_left_out(inputs, tmp_path):
    params = (inputs / "params.yaml").read_text()
    start, end = params.index("  potion:"), params.index("footprint:")
    (inputs / "params.yaml").write_text(params[:start] + params[end:])
    written = run(inputs, tmp_path / "out")
    assert not [name for name, content in written.items() if b"potion" in content]


def test_the_curve_of_a_teacher_that_is_fine_tuned_stands_beside_those_of_students(inputs, tmp_path):
    before = run(inputs, tmp_path / "before")
    assert b"teacher: fine-tuning" not in before["index.html"] + before["plots/curves.svg"]
    curve = inputs / "curves/teacher_finetune.tsv"
    curve.write_text(curve.read_text() + "0\t0\t\t0.71234\n80\t2e-05\t1.31\t0.73456\n")
    after = run(inputs, tmp_path / "after")
    for file in ("index.html", "plots/curves.svg"):
        assert "teacher: fine-tuning score" in after[file].decode()
    page = after["index.html"].decode()
    assert "dev 0.712 to 0.735" in page


@pytest.mark.parametrize(
    ("missing", "stage"),
    [
        ("metrics/potion.json", "evaluate@potion"),
        ("footprint.json", "footprint"),
        ("significance.json", "significance"),
        ("search.json", "search_speed"),
        ("examined/hpd/examples.json", "evaluate@hpd"),
        ("examined/potion/correlation.safetensors", "evaluate@potion"),
        ("curves/hpd.tsv", "distill@hpd"),
        ("curves/hpd_finetune.tsv", "finetune@hpd"),
        ("curves/teacher_finetune.tsv", "finetune_teacher"),
        ("stages/distill_hpd.json", "distill@hpd"),
        ("stages/finetune_potion.json", "finetune@potion"),
        ("stages/prepare.json", "prepare"),
        ("stages/augment_wordnet.json", "augment@wordnet"),
        ("stages/gate_wordnet.json", "gate@wordnet"),
        ("samples/wordnet.parquet", "gate@wordnet"),
        ("stages/encode_eval.json", "encode@eval"),
        ("timings/prepare.json", "prepare"),
        ("cards/shared.json", "look"),
        ("cards/students/potion.json", "look"),
        ("origins.json", "prepare"),
        ("gated/wordnet.parquet", "gate@wordnet"),
        ("vectors/corpus", "encode@corpus"),
        ("timings/encode_back_translation.json", "encode@back_translation"),
        ("timings/finetune_potion.json", "finetune@potion"),
    ],
)
def test_a_missing_file_names_the_stage_that_writes_it_and_leaves_nothing(inputs, tmp_path, missing, stage):
    shutil.rmtree(inputs / missing) if (inputs / missing).is_dir() else (inputs / missing).unlink()
    with refuses(inputs / missing, f"`dvc repro {stage}`"):
        run(inputs, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["step\tloss\n1\t2\n", "step\ttrain_loss\tdev_value\n1\tx\t2\n", ""])
def test_a_curve_of_another_form_names_the_file(inputs, tmp_path, content):
    (inputs / "curves/hpd.tsv").write_text(content)
    with refuses(inputs / "curves/hpd.tsv", "step, train_loss, dev_value", "`dvc repro -f distill@hpd`"):
        run(inputs, tmp_path / "out")


def test_a_flipped_bit_of_a_curve_names_its_stage(inputs, tmp_path):
    for name, stage in (("hpd", "distill"), ("hpd_finetune", "finetune")):
        path, timing = inputs / f"curves/{name}.tsv", inputs / f"timings/{stage}_hpd.json"
        seal.keep_digest(path)
        told = {**seal.read_json(timing, stage), seal.DIGESTS: {path.name: seal.kept[path.name]}}
        timing.write_text(seal.to_json(told))
        run(inputs, tmp_path / "out")
        intact = path.read_bytes()
        flip(path, -20)
        with refuses(path, f"`dvc repro -f {stage}@hpd`"):
            run(inputs, tmp_path / "out")
        path.write_bytes(intact)


def test_times_of_students_that_are_no_longer_in_params_are_left_out(inputs, tmp_path):
    first = run(inputs, tmp_path / "one")
    (inputs / "timings/distill_gone.json").write_text('{"seconds": 1e6, "peak_megabytes": 1}')
    assert run(inputs, tmp_path / "two") == first


def test_a_teacher_without_weights_is_said_not_to_be_drawn_by_size(inputs, tmp_path):
    footprint = inputs / "footprint.json"
    footprint.write_text(footprint.read_text().replace('"megabytes": 90.9', '"megabytes": 0.0'))
    page = run(inputs, tmp_path / "out")["index.html"].decode()
    assert page.count("Not drawn, since a log scale has no zero: teacher.") == 1


def test_curves_of_one_row_and_of_none_are_fine(inputs, tmp_path):
    for name, rows in (("hpd", "1\t64\t0.1\t\t0.5\n"), ("potion", "")):
        (inputs / f"curves/{name}.tsv").write_text(f"step\tsentences\tlr\ttrain_loss\tdev_value\n{rows}")
    page = run(inputs, tmp_path / "out")["index.html"].decode()
    assert "hpd: distillation loss" in page
    assert "potion: distillation loss" not in page


def test_the_settings_are_written_without_what_changes_no_result(inputs, tmp_path):
    params = inputs / "params.yaml"
    params.write_text(params.read_text().replace("dim: 128", "dim: 64") + "runtime: {workers: 2}\n")
    written = json.loads(run(inputs, tmp_path / "out")["params.json"])
    assert written["students"]["hpd"]["dim"] == 64
    assert "runtime" not in written
