"""An ensemble against numpy on its members' own vectors; its sets by the stages `members` and `encode`."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import small_students
import torch
from encode_runs import OUT, stored, write_texts
from ruamel.yaml import YAML
from small_params import small_params
from typer.testing import CliRunner

from pipeline.cli.__main__ import app
from pipeline.core.errors import UserError
from pipeline.core.fingerprint import of_json
from pipeline.data import teacher_parts
from pipeline.params.load import load
from pipeline.params.teacher import teacher_name
from pipeline.score.cost import describe
from pipeline.score.footprint import in_float32
from pipeline.select import members
from pipeline.teacher import encode
from pipeline.teacher import teacher_parts as parts_stage
from pipeline.teacher.kinds.hashing import Hashing
from pipeline.teacher.shared.members import load_members, load_teacher
from pipeline.vectors.sets import published

FITTED = Path("data/members")
TEXTS = [f"red text {i} of {i % 7} letters and {i * i % 11} words" for i in range(150)]
HASHING = {"teacher": {"kind": "hashing", "dim": 12}, "weight": 3.0}
OTHER = {"teacher": {"kind": "hashing", "dim": 20, "seed": 5}, "weight": 1.0, "view": "cls"}
BERT = {"teacher": {"kind": "transformer", "model": "bert", "pooling": "mean"}, "weight": 2.0}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A two-layer BERT."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    small_students.teacher().save_parts(folder)
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, bert):
    """The working folder, with the texts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").symlink_to(bert)
    write_corpus(TEXTS)
    return tmp_path


def write_corpus(lines):
    """corpus.parquet as stage `prepare` writes it; every tenth text is a dev text."""
    import polars as pl

    from pipeline.data.common import texts

    write_texts(lines)
    table = pl.read_parquet("corpus.parquet").with_columns(
        pl.lit("mine").alias("source"),
        pl.when(pl.int_range(pl.len()) % 10 == 0)
        .then(pl.lit("dev"))
        .otherwise(pl.lit("train"))
        .alias("split"),
    )
    texts.write(table, texts.CORPUS_SCHEMA, Path("corpus.parquet"))


def run(*ensemble, views=("sentence", "token_mean"), shard_rows=32, **runtime):
    """Both stages; the ids and the vectors of each view."""
    write_params(ensemble, views, shard_rows, **runtime)
    members.main(Path("corpus.parquet"), FITTED)
    encode.main(Path("corpus.parquet"), OUT)
    return published.open_set(OUT)


def write_params(ensemble, views=("sentence", "token_mean"), shard_rows=32, parts=None, **runtime):
    block = {"kind": "ensemble", "members": list(ensemble), "parts": parts}
    write_teacher(block, views, shard_rows, **runtime)


def write_teacher(block, views=("sentence", "token_mean", "cls"), shard_rows=32, **runtime):
    how = {"views": list(views), "shard_rows": shard_rows}
    document = small_params(teacher=block, encode=how, runtime={"device": "cpu", **runtime})
    YAML().dump(document, Path("params.yaml"))


def alone(member, view):
    """A member's own published vectors, (n, d) in float64."""
    write_teacher(member["teacher"])
    encode.main(Path("corpus.parquet"), OUT)
    return published.open_set(OUT).read(view)[1].astype(np.float64)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("ensemble", [(HASHING, OTHER, BERT), (BERT, HASHING), (OTHER,)])
def test_cosines_are_the_weighted_mean_of_the_members(folder, ensemble):
    found = run(*ensemble)
    vectors = {view: found.read(view)[1].astype(np.float64) for view in ("sentence", "token_mean")}
    weights = np.array([member["weight"] for member in ensemble])
    for view, ours in vectors.items():
        own = [unit(alone(m, m.get("view", view) if view == "sentence" else view)) for m in ensemble]
        wanted = sum(w * u @ u.T for w, u in zip(weights, own, strict=True)) / weights.sum()
        np.testing.assert_allclose(unit(ours) @ unit(ours).T, wanted, atol=2e-3)
        side_by_side = [np.sqrt(w / weights.sum()) * u for w, u in zip(weights, own, strict=True)]
        np.testing.assert_allclose(ours, np.concatenate(side_by_side, axis=1), atol=1e-3)


def test_a_member_is_reduced_by_the_pca_of_its_training_texts(folder, monkeypatch):
    monkeypatch.setattr(members, "SAMPLE_TEXTS", 90)
    ids, ours = run({**HASHING, "pca": 5}, OTHER).read("sentence")
    own, other = unit(alone(HASHING, "sentence")), unit(alone(OTHER, "cls"))
    import polars as pl

    train = pl.read_parquet("corpus.parquet").filter(pl.col("split") == "train")["text_id"].to_numpy()[:90]
    sample = own[np.isin(ids, train)]
    _, _, components = np.linalg.svd(sample - sample.mean(axis=0), full_matrices=False)
    reduced = unit((own - sample.mean(axis=0)) @ components[:5].T)
    ours = ours.astype(np.float64)
    wanted = 0.75 * reduced @ reduced.T + 0.25 * other @ other.T
    np.testing.assert_allclose(ours @ ours.T, wanted, atol=4e-3)
    assert ours.shape[1] == 5 + 20


def test_every_set_is_reduced_by_the_same_matrix(folder):
    ensemble = ({**HASHING, "pca": 4}, OTHER)
    ids, corpus = run(*ensemble).read("sentence")
    write_texts(TEXTS[20:40])
    encode.main(Path("corpus.parquet"), Path("vectors/eval"))
    other_ids, other = published.open_set(Path("vectors/eval")).read("sentence")
    np.testing.assert_array_equal(other, corpus[np.isin(ids, other_ids)])
    published.same_recipe(published.open_set(OUT), published.open_set(Path("vectors/eval")))


def test_members_have_the_stores_that_they_have_alone(folder, capsys):
    for member in (HASHING, OTHER):
        write_teacher(member["teacher"])
        encode.main(Path("corpus.parquet"), OUT)
    capsys.readouterr()
    run(HASHING, {**OTHER, "view": "token_mean"})
    assert told(capsys) == {"members.0": (0, 150), "members.1": (0, 150)}


def told(capsys):
    """By member: encoded, taken from the store."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("encode corpus, ")]
    found = {}
    for line in lines:
        name, _, counts = line.removeprefix("encode corpus, teacher.").partition(": ")
        found[name] = tuple(int(word.replace(",", "")) for word in counts.split() if word[0].isdigit())
    return found


def test_one_member_changed_encodes_that_one_and_one_removed_encodes_nothing(folder, capsys):
    run(HASHING, OTHER, BERT)
    assert told(capsys) == {f"members.{i}": (150, 0) for i in range(3)}
    changed = {**OTHER, "teacher": {**OTHER["teacher"], "seed": 6}}
    run(HASHING, changed, BERT)
    assert told(capsys) == {"members.0": (0, 150), "members.1": (150, 0), "members.2": (0, 150)}
    files = stored()
    run({**BERT, "weight": 0.5}, HASHING)
    assert told(capsys) == {"members.0": (0, 150), "members.1": (0, 150)}
    run({**HASHING, "pca": 3}, OTHER)
    assert told(capsys) == {"members.0": (0, 150), "members.1": (0, 150)}
    assert stored() == files


def test_the_bytes_do_not_depend_on_how_a_run_went(folder):
    from encode_runs import published as files

    ensemble = ({**BERT, "pca": 6}, HASHING)
    run(*ensemble)
    whole = files()
    shutil.rmtree(".cache")
    write_params(ensemble)
    for index in (1, 0):
        encode.main(Path("corpus.parquet"), OUT, shard_index=index, num_shards=2)
    run(*ensemble, workers=2)
    assert files() == whole


def test_a_view_more_leaves_the_files_of_the_others_as_they_are(folder):
    from encode_runs import published as files

    ensemble = ({**HASHING, "pca": 4}, BERT)
    run(*ensemble, views=["sentence"])
    before = files()
    run(*ensemble, views=["sentence", "token_mean", "cls"])
    assert before.items() < files().items()


def test_the_ensemble_itself_gives_what_its_sets_hold(folder):
    _, ours = run({**HASHING, "pca": 4}, OTHER, BERT).read("token_mean")
    params = load(Path("params.yaml"))
    teacher = load_teacher(params.teacher, params.runtime, FITTED)
    import polars as pl

    texts = pl.read_parquet("corpus.parquet")["text"].to_list()
    np.testing.assert_allclose(teacher.encode(texts, ["token_mean"])["token_mean"], ours, atol=1e-3)
    assert teacher.dims["token_mean"] == ours.shape[1] == published.open_set(OUT).dims["token_mean"]
    manifest = published.open_set(OUT).manifests["token_mean"]
    assert of_json(teacher.recipe) == manifest["fingerprint"]
    assert teacher.folders == load_members(params.teacher, params.runtime)[2].folders
    assert sum(p.numel() for p in teacher.module.parameters()) > 0


@pytest.mark.parametrize(("parts", "dim"), [(None, 32), (1, 20)])
def test_students_start_from_one_member(folder, parts, dim):
    write_params([HASHING, OTHER, BERT], parts=parts)
    members.main(Path("corpus.parquet"), FITTED)
    parts_stage.main(Path("data/teacher"))
    assert teacher_parts.read_vocabulary(Path("data/teacher")).shape[1] == dim
    manifest = FITTED / "manifest.json"
    manifest.write_text(manifest.read_text().replace('hing": "', 'hing": "0').replace('mer": "', 'mer": "0'))
    with pytest.raises(UserError, match=r"data/members/manifest\.json .* kind .*dvc repro -f members"):
        parts_stage.main(Path("data/teacher"))


def test_another_teacher_has_an_empty_manifest_that_no_corpus_changes(folder):
    YAML().dump(small_params(), Path("params.yaml"))
    contents = []
    for lines in (TEXTS, TEXTS[:50]):
        write_corpus(lines)
        members.main(Path("corpus.parquet"), FITTED)
        contents.append({path.name: path.read_text() for path in FITTED.rglob("*") if path.is_file()})
    assert contents == [{"manifest.json": "{}\n"}] * 2


@pytest.mark.parametrize(
    ("member", "key"),
    [
        (
            {**BERT, "teacher": {**BERT["teacher"], "max_length": 5000}},
            r"teacher\.members\.1\.teacher\.max_length",
        ),
        (
            {**BERT, "teacher": {"kind": "transformer", "model": "bert"}},
            r"teacher\.members\.1\.teacher\.pooling",
        ),
        (
            {**BERT, "teacher": {"kind": "transformer", "model": "gone/x/y"}},
            r"teacher\.members\.1\.teacher\.model",
        ),
        ({**HASHING, "pca": 13}, r"teacher\.members\.1\.pca is 13; .* 12 or less"),
    ],
)
def test_a_fault_of_a_member_names_its_key(folder, member, key):
    with pytest.raises(UserError, match=key):
        run(OTHER, member)


def test_values_that_are_not_finite_name_the_member(folder, monkeypatch):
    monkeypatch.setattr(
        Hashing, "encode", lambda _, texts, views: {v: np.full((len(texts), 12), np.nan) for v in views}
    )
    with pytest.raises(UserError, match=r"view 'sentence'.*teacher\.members\.1\.teacher\.precision"):
        run(BERT, HASHING)


def damage(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("fault", [Path.unlink, damage])
def test_a_pca_that_is_gone_or_damaged_is_told(folder, fault):
    run({**HASHING, "pca": 4}, OTHER)
    fault(FITTED / "0/sentence.safetensors")
    with pytest.raises(UserError, match=r"data/members/0/sentence\.safetensors .*dvc repro -f members"):
        encode.main(Path("corpus.parquet"), OUT)


def test_a_pca_of_another_member_is_told(folder):
    run({**HASHING, "pca": 4}, OTHER)
    write_params([{**HASHING, "teacher": {"kind": "hashing", "dim": 12, "seed": 9}, "pca": 4}, OTHER])
    with pytest.raises(
        UserError, match=r"another teacher than teacher\.members\.0; run `dvc repro -f members`"
    ):
        encode.main(Path("corpus.parquet"), OUT)


def cache(*args):
    """The rows of a `pipeline cache` command."""
    done = CliRunner().invoke(app, ["cache", *args])
    assert done.exit_code == 0, done.output
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_the_cache_knows_that_members_are_used(folder):
    run(HASHING, OTHER, views=["sentence"])
    shutil.copytree(OUT.parent, "data/vectors")
    assert {(row[2], row[-1]) for row in cache("list")} == {
        ("sentence", "corpus,params.yaml"),
        ("cls", "corpus,params.yaml"),
    }
    write_teacher({"kind": "hashing", "dim": 7})
    assert {row[-1] for row in cache("list")} == {"corpus"}
    assert cache("prune") == []
    shutil.rmtree("data/vectors")
    assert len(cache("prune")) == 2


def test_doctor_tells_of_each_member(folder):
    write_params([HASHING, {**BERT, "teacher": {"kind": "transformer", "model": "gone/x/y"}}])
    lines = CliRunner().invoke(app, ["doctor"]).stdout.splitlines()
    found = [line.split("\t") for line in lines if "\tteacher" in line]
    assert [(sign, name) for sign, name, _ in found] == [
        ("ok", "teacher.members.0"),
        ("missing", "teacher.members.1"),
    ]
    assert "edit teacher.members.1.teacher.model" in found[1][2]


API = {"teacher": {"kind": "openai_api", "url": "http://x/v1", "model": "m", "parts": "bert"}}


@pytest.mark.parametrize(
    ("members", "options", "fault"),
    [
        (
            [HASHING, API],
            {},
            r"encode\.views has 'token_mean'; teacher\.members\.1\.teacher\.kind openai_api",
        ),
        ([{**API, "view": "cls"}], {"views": ["sentence"]}, r"teacher\.members\.0\.view is 'cls'"),
        ([API, BERT], {"views": ["sentence"], "engine": "ray"}, r"runtime\.engine is ray"),
        ([API, BERT], {"views": ["sentence"], "workers": 2}, r"runtime\.workers is 2"),
        ([{**HASHING, "weight": 0}], {}, r"teacher\.members\.0\.weight is 0"),
        ([HASHING], {"parts": 1}, r"teacher\.parts is 1; teacher\.members are numbered 0 to 0"),
        ([], {}, r"teacher\.members is empty"),
        ([{**HASHING, "weigth": 1}], {}, r"teacher\.members\.0\.weigth is unknown.*'weight'"),
        ([{"teacher": {"kind": "hashing", "dmi": 1}}], {}, r"teacher\.members\.0\.teacher\.dmi .*'dim'"),
        (
            [{"teacher": {"kind": "ensemble", "members": []}}],
            {},
            r"teacher\.members\.0\.teacher\.kind is 'ensemble'",
        ),
        (
            [{"teacher": {**API["teacher"], "url": "x"}}],
            {"views": ["sentence"]},
            r"members\.0\.teacher\.url: no base URL",
        ),
    ],
)
def test_faults_of_the_block_name_their_keys(folder, members, options, fault):
    write_params(members, **options)
    with pytest.raises(UserError, match=fault):
        load(Path("params.yaml"))


def test_the_footprint_is_all_members(folder):
    write_params([{**BERT, "teacher": {**BERT["teacher"], "precision": "bfloat16"}}, HASHING, BERT])
    params = load(Path("params.yaml"))
    teacher = load_teacher(in_float32(params.teacher), params.runtime, FITTED)
    described = describe(
        teacher.encode_as_users_do, teacher.module, teacher.folders, teacher.dims["sentence"]
    )
    single = load_teacher(params.teacher.members[2].teacher, params.runtime, FITTED)
    alone = describe(single.encode_as_users_do, single.module, single.folders, 32)
    assert described.parameters == 2 * alone.parameters > 0
    assert described.megabytes == 2 * alone.megabytes > 0
    assert described.dim == 2 * 32 + 12
    assert {p.dtype for p in teacher.module.parameters()} == {torch.float32}
    assert len(described.encode(["a text"])) == 3


def test_readers_see_all_names(folder):
    write_params([BERT, {**BERT, "teacher": {**BERT["teacher"], "model": str(folder / "bert")}}, HASHING])
    assert teacher_name(load(Path("params.yaml")).teacher) == "bert + bert + hashing"
