"""The tasks that select weights are what `prepare` read of them, and name nothing of the others."""

import polars as pl
import pytest
from refusals import refuses
from small_params import small_params

from pipeline.data.common.texts import LABELLED_SCHEMA, text_id
from pipeline.params.evaluate import Evaluate, Probe
from pipeline.prepare import dev
from pipeline.tasks import pairs

TASKS = Evaluate.model_validate(
    small_params()["evaluate"]
    | {
        "tasks": {
            "alike": {"kind": "sts", "path": "dev.tsv", "split": "dev"},
            "whose": {"kind": "mrpc", "path": "MRPC", "split": "dev", "seeds": 2, "fractions": [0.5]},
            "found": {"kind": "retrieval", "path": "found", "split": "dev", "metric": "ndcg@10"},
            "both": {"kind": "wordnet_relatedness"},
            "reported": {"kind": "sts", "path": "test.tsv"},
        }
    }
).tasks


def rows(task, split, *texts):
    ids = [text_id(text) for text in texts]
    return pairs.make(task, split, {"left_id": ids, "right_id": [None, *ids[1:]], "score": [1.0] * len(ids)})


def written(folder, tests=("r", "s")):
    table = pl.concat(
        [
            rows("alike", "dev", "a", "b"),
            rows("whose", "dev", "c", "d"),
            rows("found", "dev", "e", "f"),
            rows("both", "dev", "g", "h"),
            rows("both", "test", "i", "j"),
            rows("reported", "test", *tests),
        ]
    )
    named = [*"abcdefghij", *tests]
    columns = {"text_id": list(map(text_id, named)), "text": named, "role": ["text"] * len(named)}
    known = pl.DataFrame(columns, schema=LABELLED_SCHEMA)
    dev.write(table, known, TASKS, folder)
    return folder


def test_what_is_written_is_read(tmp_path):
    found = dev.read(written(tmp_path / "dev"))
    assert set(found.pairs) == set(found.scoring) == set(found.metrics) == {"alike", "whose", "found", "both"}
    assert sorted(found.texts["text"]) == [*"abcdefgh"]
    assert found.metrics == {"alike": None, "whose": "f1", "found": "ndcg@10", "both": None}
    assert found.scoring["alike"] == found.scoring["both"] == "sts"
    probe = found.scoring["whose"]
    assert isinstance(probe, Probe)
    wanted = TASKS["whose"].scoring
    assert {name: getattr(probe, name) for name in Probe.model_fields} == {
        name: getattr(wanted, name) for name in Probe.model_fields
    }


def test_another_test_task_changes_no_byte(tmp_path):
    one, other = written(tmp_path / "one"), written(tmp_path / "other", tests=("x", "y", "z"))
    assert len(list(one.iterdir())) == 3
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes()


@pytest.mark.parametrize("spoil", ["{", '{"alike": {}}', '{"alike": {"scoring": "x", "metric": "y"}}'])
def test_a_damaged_file_is_named_with_the_stage(tmp_path, spoil):
    (written(tmp_path / "dev") / dev.SCORING).write_text(spoil)
    with refuses(tmp_path / "dev" / dev.SCORING, "`dvc repro -f prepare`"):
        dev.read(tmp_path / "dev")
