"""What stages, commands and params say of an ensemble."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from encode_runs import OUT
from ensemble_runs import (
    BERT,
    FITTED,
    HASHING,
    OTHER,
    TEXTS,
    run,
    write_corpus,
    write_params,
    write_teacher,
)
from refusals import refuses
from typer.testing import CliRunner

from pipeline.cli.__main__ import app
from pipeline.core import seal
from pipeline.data import teacher_parts
from pipeline.look import look
from pipeline.params.load import load
from pipeline.params.teacher import teacher_name
from pipeline.score.footprint.cost import describe
from pipeline.score.footprint.footprint import in_float32
from pipeline.select.members import members
from pipeline.teacher import teacher_parts as parts_stage
from pipeline.teacher.encoding import encode
from pipeline.teacher.kinds.hashing import Hashing
from pipeline.teacher.shared.members import load_teacher


@pytest.mark.parametrize(("parts", "dim"), [(None, 32), (1, 20)])
def test_students_start_from_one_member(corpus_folder, parts, dim):
    write_params([HASHING, OTHER, BERT], parts=parts)
    members.main(Path("corpus.parquet"), FITTED)
    readers, facts = Path("readers.json"), Path("facts.json")
    look.main(facts, Path("tokenizer"), readers, Path("cards"))
    parts_stage.main(Path("data/teacher"), Path("vocabulary"), readers, facts)
    assert teacher_parts.read_vocabulary(Path("vocabulary/static")).shape[1] == dim
    manifest = FITTED / "manifest.json"
    manifest.write_text(manifest.read_text().replace('hing": "', 'hing": "0').replace('mer": "', 'mer": "0'))
    with refuses("data/members/manifest.json", "`dvc repro -f members`"):
        parts_stage.main(Path("data/teacher"), Path("vocabulary"), readers, facts)


def test_another_teacher_has_an_empty_manifest_that_no_corpus_changes(corpus_folder):
    write_teacher({"kind": "hashing"})
    contents = []
    for lines in (TEXTS, TEXTS[:50]):
        write_corpus(lines)
        members.main(Path("corpus.parquet"), FITTED)
        contents.append({path.name: path.read_text() for path in FITTED.rglob("*") if path.is_file()})
    assert contents[0] == contents[1]
    assert contents[0].keys() == {"manifest.json"}
    assert seal.read_json(FITTED / "manifest.json", "members") == {}


@pytest.mark.parametrize(
    ("member", "key"),
    [
        (
            {**BERT, "teacher": {**BERT["teacher"], "max_length": 5000}},
            "1.teacher.max_length",
        ),
        (
            {**BERT, "teacher": {"kind": "transformer", "model": "bert"}},
            "1.teacher.pooling",
        ),
        (
            {**BERT, "teacher": {"kind": "transformer", "model": "gone/x/y"}},
            "1.teacher.model",
        ),
        ({**HASHING, "pca": 13}, "1.pca is 13"),
    ],
)
def test_a_fault_of_a_member_names_its_key(corpus_folder, member, key):
    with refuses(f"teacher.members.{key}"):
        run(OTHER, member)


def test_values_that_are_not_finite_name_the_member(corpus_folder, monkeypatch):
    monkeypatch.setattr(
        Hashing, "encode", lambda _, texts, views, role: {v: np.full((len(texts), 12), np.nan) for v in views}
    )
    with refuses("'sentence'", "teacher.members.1.teacher.precision"):
        run(BERT, HASHING)


def damage(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("fault", [Path.unlink, damage])
def test_a_pca_that_is_gone_or_damaged_is_told(corpus_folder, fault):
    run({**HASHING, "pca": 4}, OTHER)
    fault(FITTED / "0/sentence.safetensors")
    with refuses("data/members/0/sentence.safetensors", "`dvc repro -f members`"):
        encode.main(Path("corpus.parquet"), OUT)


def test_a_pca_of_another_member_is_told(corpus_folder):
    run({**HASHING, "pca": 4}, OTHER)
    write_params([{**HASHING, "teacher": {"kind": "hashing", "dim": 12, "seed": 9}, "pca": 4}, OTHER])
    with refuses("data/members/0/sentence.safetensors", "teacher.members.0", "`dvc repro -f members`"):
        encode.main(Path("corpus.parquet"), OUT)


def cache(*args):
    """The rows of a `pipeline cache` command."""
    done = CliRunner().invoke(app, ["cache", *args])
    assert done.exit_code == 0, done.output
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_the_cache_knows_that_members_are_used(corpus_folder):
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


def test_doctor_tells_of_each_member(corpus_folder):
    write_params([HASHING, {**BERT, "teacher": {"kind": "transformer", "model": "gone/x/y"}}])
    lines = CliRunner().invoke(app, ["doctor"]).stdout.splitlines()
    found = [line.split("\t") for line in lines if "\tteacher" in line]
    assert [(sign, name) for sign, name, _ in found] == [
        ("ok", "teacher.members.0"),
        ("missing", "teacher.members.1"),
    ]
    assert "edit teacher.members.1.teacher.model" in found[1][2]


API = {"teacher": {"kind": "openai_api", "url": "http://x/v1", "model": "m", "parts": "bert"}}
SENTENCE = {"views": ["sentence"]}


@pytest.mark.parametrize(
    ("members", "options", "named"),
    [
        ([HASHING, API], {}, ["encode.views", "'token_mean'", "teacher.members.1.teacher.kind"]),
        ([{**API, "view": "cls"}], SENTENCE, ["teacher.members.0.view is 'cls'", "`sentence`"]),
        ([API, BERT], {**SENTENCE, "engine": "ray"}, ["runtime.engine is ray", "local"]),
        ([API, BERT], {**SENTENCE, "workers": 2}, ["runtime.workers is 2", "runtime.api.concurrency"]),
        ([{**HASHING, "weight": 0}], {}, ["teacher.members.0.weight is 0"]),
        ([HASHING], {"parts": 1}, ["teacher.parts is 1", "0 to 0"]),
        ([], {}, ["teacher.members is empty"]),
        ([{**HASHING, "weigth": 1}], {}, ["teacher.members.0.weigth", "'weight'"]),
        ([{"teacher": {"kind": "hashing", "dmi": 1}}], {}, ["teacher.members.0.teacher.dmi", "'dim'"]),
        ([{"teacher": {"kind": "ensemble"}}], {}, ["teacher.members.0.teacher.kind is 'ensemble'"]),
        (
            [{"teacher": {**API["teacher"], "url": "x"}}],
            SENTENCE,
            ["teacher.members.0.teacher.url", "https://"],
        ),
    ],
)
def test_faults_of_the_block_name_their_keys(corpus_folder, members, options, named):
    write_params(members, **options)
    with refuses(*named):
        load(Path("params.yaml"))


def test_the_footprint_is_all_members(corpus_folder):
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


def test_readers_see_all_names(corpus_folder):
    write_params(
        [BERT, {**BERT, "teacher": {**BERT["teacher"], "model": str(corpus_folder / "bert")}}, HASHING]
    )
    assert teacher_name(load(Path("params.yaml")).teacher) == "bert + bert + hashing"
