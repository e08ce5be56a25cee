import json
from pathlib import Path

import numpy as np
import polars as pl
from refusals import refuses
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_encoders import small_encoder
from small_params import small_params
from small_students import TEXTS, static_block, write_encoder, write_parts

from pipeline.data.common import texts
from pipeline.score.footprint import footprint
from pipeline.tasks import pairs
from pipeline.train.students.kinds import static


def test_a_teacher_that_encodes_in_bfloat16_is_timed_in_float32_as_students_are(folder, monkeypatch):
    write_encoder(small_encoder("bert"), folder / "bert")
    static.build(static_block(), write_parts(folder / "parts")).save(folder / "students" / "tiny")
    teacher = {"kind": "transformer", "model": "bert", "pooling": "mean", "precision": "bfloat16"}
    costs = {"rounds": 1, "sentences": 8, "single": 2, "pairs": "pairs"}
    YAML().dump(small_params(teacher=teacher, footprint=costs), Path("params.yaml"))
    ids = pl.Series(list(map(texts.text_id, TEXTS)), dtype=pl.UInt64)
    texts.write(pl.DataFrame({"text_id": ids, "text": TEXTS}), texts.LABELLED_SCHEMA, folder / "eval.parquet")
    measure, measured, plans = footprint.measure, {}, []

    def measured_too(models, plan, *args):
        measured.update(models)
        plans.append(plan)
        return measure(models, plan, *args)

    monkeypatch.setattr(footprint, "measure", measured_too)
    rows = {"left_id": ids[:2], "right_id": ids[2:4], "score": [1.0, 2.0]}
    tasks = [pairs.make("pairs", split, rows) for split in ("dev", "test")]
    pairs.write(pl.concat([*tasks, pairs.make("other", "test", rows)]), folder / "tasks.parquet")
    places = [folder / name for name in ("eval.parquet", "tasks.parquet", "students", "footprint.json")]
    footprint.main(*places)
    assert plans[0].pairs == [(TEXTS[0], TEXTS[2]), (TEXTS[1], TEXTS[3])]
    figures = json.loads(Path("footprint.json").read_text())
    assert all(figures[name]["pair_ms"] > 0 for name in ("teacher", "tiny"))
    assert [*figures] == ["teacher", "tiny", "seal"]
    plain = SentenceTransformer(modules=[Transformer("bert"), Pooling(16, "mean")], device="cpu")
    np.testing.assert_allclose(measured["teacher"].encode(TEXTS), plain.encode(TEXTS), atol=1e-5)


def test_pairs_that_are_not_there_and_empty_texts(folder):
    table = pl.DataFrame(
        {"text_id": [1, 2, 3], "text": ["a", "b", "c"]}, schema={"text_id": pl.UInt64, "text": pl.String}
    )
    rows = {"left_id": [1, 3, 9], "right_id": [2, 9, 1], "score": [1.0, 2.0, 3.0]}
    pairs.write(pairs.make("sets_stsb", "test", rows), folder / "tasks.parquet")
    # The empty text, id 9 here, is not in the table.
    assert footprint.pairs_of("sets_stsb", folder / "tasks.parquet", table) == [("a", "b")]
    with refuses("footprint.pairs", "'sets_stb'", folder / "tasks.parquet", "sets_stsb"):
        footprint.pairs_of("sets_stb", folder / "tasks.parquet", table)
