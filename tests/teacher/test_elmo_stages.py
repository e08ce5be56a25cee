"""The stages that load a teacher, with an ELMo: its facts, its vectors, and what students start from."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import small_elmo
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params
from small_students import transformer_block

from pipeline.core import seal
from pipeline.data.common import texts
from pipeline.data.models import teacher_facts
from pipeline.data.teacher_parts import read_encoder, read_vocabulary
from pipeline.look import look
from pipeline.params.load import check, load
from pipeline.params.teacher import teacher_name
from pipeline.score.footprint import footprint
from pipeline.teacher import teacher_parts
from pipeline.teacher.encoding import encode
from pipeline.vectors.sets import published

LINES = ["the cat sat .", "a dog", "it ran , and ran", "on the mat"]
FACTS, READERS = Path("facts.json"), Path("readers.json")


@pytest.fixture
def folder(tmp_path, monkeypatch, bert):
    """The working folder, with params, texts and an ELMo whose card names its licence."""
    monkeypatch.chdir(tmp_path)
    small_elmo.write(tmp_path / "elmo")
    Path("elmo/README.md").write_text("---\nlicense: apache-2.0\nlanguage: en\n---\n# ELMo\n")
    static = small_params()["students"]["tiny"]
    layered = {**transformer_block().model_dump(mode="json"), "view": "token_mean"}
    params = small_params(
        teacher={"kind": "elmo", "model": "elmo", "parts": str(bert), "max_length": 20},
        encode={"views": ["sentence", "token_mean"]},
        students={"tiny": static, "layered": layered},
        runtime={"device": "cpu"},
    )
    YAML().dump(params, Path("params.yaml"))
    rows = [(texts.text_id(text), text, "text") for text in LINES]
    table = pl.DataFrame(rows, schema=texts.LABELLED_SCHEMA, orient="row")
    texts.write(table, texts.LABELLED_SCHEMA, Path("corpus.parquet"))
    look.main(FACTS, Path("tokenizer"), READERS, Path("cards"))
    return tmp_path


def test_what_it_is_and_which_students_it_can_give(folder, bert):
    facts = teacher_facts.read(FACTS)
    assert facts.dims == {"sentence": 16, "token_mean": 16}
    assert facts.config["model_type"] == "bert"
    params = load(Path("params.yaml"))
    assert teacher_name(params.teacher) == "elmo"
    assert {type(one).__name__ for one in look.verdicts(params, facts).values()} == {"Possible"}
    cards = seal.read_json(Path("cards/shared.json"), "look")
    assert cards["teacher"]["licences"] == ["apache-2.0"]
    assert cards["teacher.parts"].keys() == cards["teacher"].keys()


def test_its_vectors_are_published(folder):
    encode.main(
        texts_file=Path("corpus.parquet"), out=Path("vectors"), facts=FACTS, metrics=Path("metrics.json")
    )
    said = small_elmo.options()
    for view in ("sentence", "token_mean"):
        ids, found = published.open_set(Path("vectors"), view).read(view)
        by_id = {texts.text_id(line): line.split() for line in LINES}
        layers = [small_elmo.reference(by_id[i], said, small_elmo.arrays(said)) for i in ids.tolist()]
        states = [one.mean(axis=0) if view == "sentence" else one[-1] for one in layers]
        np.testing.assert_allclose(found, [one[1:-1].mean(axis=0) for one in states], rtol=1e-3, atol=1e-4)
    small_elmo.write(Path("elmo"), small_elmo.options(lstm={"projection_dim": 6}))
    with refuses(FACTS, "look"):  # it was another when students were judged by it
        encode.main(texts_file=Path("corpus.parquet"), out=Path("vectors"), facts=FACTS)


def test_students_start_from_the_local_model(folder):
    teacher_parts.main(Path("teacher"), Path("vocabulary"), READERS, FACTS)
    assert read_encoder(Path("teacher")).config.hidden_size == 16
    assert len(read_vocabulary(Path("vocabulary/static"))) == teacher_facts.read(FACTS).tokens


def test_its_size_is_told(folder):
    params = load(Path("params.yaml"))
    teacher = footprint.load_teacher(params.teacher, params.runtime, Path("members"))
    told = footprint.describe(
        teacher.encode_as_users_do, teacher.module, teacher.folders, teacher.dims["sentence"]
    )
    arrays = small_elmo.arrays(small_elmo.options())
    assert told.parameters == sum(array.size for array in arrays.values())
    assert told.embedding_parameters == arrays["char_embed"].size
    assert told.megabytes * 1e6 > 4 * told.parameters


def test_as_a_member_of_an_ensemble(folder, bert):
    elmo = {"kind": "elmo", "model": "elmo", "parts": str(bert)}
    members = [{"teacher": {"kind": "hashing", "dim": 8}}, {"teacher": elmo, "view": "token_mean"}]
    params = check(small_params(teacher={"kind": "ensemble", "members": members, "parts": 1}), Path("p.yaml"))
    facts = look.look(params)
    assert (facts.dims["sentence"], facts.config["model_type"]) == (8 + 16, "bert")
    Path("elmo/tiny_weights.hdf5").unlink()
    with refuses("teacher.members.1.teacher.model", "no weights.hdf5"):
        look.look(params)
