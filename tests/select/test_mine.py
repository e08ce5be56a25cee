import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_disk import disk_of
from small_params import small_params

from pipeline.core.atomic import scratch_folder
from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.select.mining import mine as stage
from pipeline.select.mining.mine import main
from pipeline.tasks import pairs
from pipeline.teacher.encoding import encode
from pipeline.vectors.sets import published

WORDS = ["red", "green", "blue", "old", "new", "cat", "dog", "bird"]
SENTENCES = [f"the {one} {other}" for one in WORDS for other in WORDS]
SETS = Path("vectors/finetune")
OFF = {"margin": None, "percentile": None, "max_similarity": None}


@pytest.fixture(autouse=True)
def _project(folder):
    """Triplets of one task with one given negative each, and their texts."""
    ids = [text_id(text) for text in SENTENCES]
    table = pl.DataFrame({"text_id": ids, "text": SENTENCES}, schema_overrides={"text_id": pl.UInt64})
    texts.write(table, texts.LABELLED_SCHEMA, Path("finetune.parquet"))
    columns = {"left_id": ids[:20], "right_id": ids[20:40], "negative_ids": [[text] for text in ids[44:64]]}
    pairs.write(pairs.make("mine", "train", columns), Path("triplets.parquet"))


def mine(block: dict | None, views: tuple[str, ...] = ("sentence",), out: str = "mined") -> dict:
    """Encode and mine; the metrics."""
    params = small_params(encode={"views": list(views)}, finetune={"data": {}, "mine": block})
    params["students"]["tiny"]["view"] = views[0]
    YAML().dump(params, Path("params.yaml"))
    if block is not None:
        encode.main(Path("finetune.parquet"), SETS)
    main(Path("triplets.parquet"), SETS, Path(out) / "triplets.parquet", Path("mine.json"))
    return json.loads(Path("mine.json").read_text())


def test_mined_negatives_are_the_nearest_and_come_after_the_given_ones():
    metrics = mine({"top_k": 12, "negatives": 3, **OFF})
    given = pairs.read(Path("triplets.parquet"))
    table = pairs.read(Path("mined/triplets.parquet"))
    assert table.drop("negative_ids").equals(given.drop("negative_ids"))
    ids, found = published.open_set(SETS).read("sentence")
    units = dict(
        zip(ids, found / np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True), strict=True)
    )
    candidates = {*given["right_id"], *given["negative_ids"].explode()}
    for anchor, positive, before, after in zip(
        given["left_id"], given["right_id"], given["negative_ids"], table["negative_ids"], strict=True
    ):
        assert after[:1].to_list() == before.to_list()
        others = candidates - {anchor, positive, *before}
        nearest = sorted(others, key=lambda text: (-round(units[text] @ units[anchor], 6), text))
        assert after[1:].to_list() == nearest[:3]
    assert metrics["triplets"] == 20
    assert metrics["mined"] == 60
    assert metrics["dropped"]["positive"] > 0
    assert metrics["mean_cosine"]["mined"] > metrics["mean_cosine"]["given"]


def test_null_copies_the_triplets_and_needs_no_vectors():
    metrics = mine(None)
    assert Path("mined/triplets.parquet").read_bytes() == Path("triplets.parquet").read_bytes()
    wanted = {"triplets": 20, "mined": 0, "dropped": {}, "mean_cosine": {}}
    assert metrics == {**wanted, "seal": metrics["seal"]}


def test_a_second_run_writes_the_same_bytes_and_leaves_nothing_behind():
    mine({}, out="one")
    mine({}, out="two")
    one, two = (Path(out, "triplets.parquet").read_bytes() for out in ("one", "two"))
    assert one == two
    assert list(Path(".cache/training").iterdir()) == []


def test_another_checkout_that_shares_the_cache_may_mine_meanwhile(monkeypatch):
    @contextmanager
    def shared(path):
        with scratch_folder(path) as folder:
            with scratch_folder(path) as others:
                (others / "unit.bin").touch()
            yield folder

    mine({}, out="alone")
    monkeypatch.setattr(stage, "scratch_folder", shared)
    mine({}, out="disturbed")
    alone, disturbed = (Path(out, "triplets.parquet").read_bytes() for out in ("alone", "disturbed"))
    assert alone == disturbed


def test_a_full_disk_is_told_and_leaves_nothing():
    mine({})
    with disk_of(100), refuses(".cache/training/", "unit.bin", "File too large"):
        main(Path("triplets.parquet"), SETS, Path("again/triplets.parquet"), Path("mine.json"))
    assert list(Path(".cache/training").iterdir()) == []
