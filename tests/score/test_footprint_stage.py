import json
from pathlib import Path

import numpy as np
import polars as pl
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_encoders import small_encoder
from small_params import small_params
from small_students import TEXTS, static_block, write_encoder, write_parts

from pipeline.data.common import texts
from pipeline.score import footprint
from pipeline.train.students.kinds import static


def test_a_teacher_that_encodes_in_bfloat16_is_timed_in_float32_as_students_are(folder, monkeypatch):
    write_encoder(small_encoder("bert"), folder / "bert")
    static.build(static_block(), write_parts(folder / "parts")).save(folder / "students" / "tiny")
    teacher = {"kind": "transformer", "model": "bert", "pooling": "mean", "precision": "bfloat16"}
    costs = {"rounds": 1, "sentences": 8, "single": 2}
    YAML().dump(small_params(teacher=teacher, footprint=costs), Path("params.yaml"))
    ids = pl.Series(list(map(texts.text_id, TEXTS)), dtype=pl.UInt64)
    texts.write(pl.DataFrame({"text_id": ids, "text": TEXTS}), texts.LABELLED_SCHEMA, folder / "eval.parquet")
    measure, measured = footprint.measure, {}

    def measured_too(models, *args):
        measured.update(models)
        return measure(models, *args)

    monkeypatch.setattr(footprint, "measure", measured_too)
    footprint.main(folder / "eval.parquet", folder / "students", folder / "footprint.json")
    assert [*json.loads(Path("footprint.json").read_text())] == ["teacher", "tiny", "seal"]
    plain = SentenceTransformer(modules=[Transformer("bert"), Pooling(16, "mean")], device="cpu")
    np.testing.assert_allclose(measured["teacher"].encode(TEXTS), plain.encode(TEXTS), atol=1e-5)
