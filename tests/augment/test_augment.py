import json

import polars as pl
import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.augment.method.augment import main
from pipeline.data.common import texts

SEED = [
    "a large dog chased the small cat",
    "musicians play violins in the orchestra",
    "the farmer harvested his crops early",
    "the engine of the car broke down",
    "children learn to read at school",
    "she bought a new house near the river",
]
GERMAN = "die Kinder lernen in der Schule lesen"


def table(rows, schema):
    return pl.DataFrame(rows, schema=schema, orient="row")


def augment(folder, nltk_data, method="wordnet", enabled=True, gates=None, seed=SEED):
    rows = [(texts.text_id(t), t, "text", "files", "dev" if i == 0 else "train") for i, t in enumerate(seed)]
    texts.write(table(rows, texts.CORPUS_SCHEMA), texts.CORPUS_SCHEMA, folder / "corpus.parquet")
    params = small_params(
        augment={
            "wordnet": {"enabled": enabled, "limit": 4, "variants": 2, "gates": gates or {}},
            "back_translation": {},
        }
    )
    YAML().dump(params, folder / "params.yaml")
    main(
        method,
        corpus=folder / "corpus.parquet",
        wordnet=nltk_data,
        vocabulary=folder / "teacher",
        out=folder / "out.parquet",
        metrics=folder / "out.json",
        params_file=folder / "params.yaml",
    )
    return texts.read_augmented(folder / "out.parquet"), json.loads((folder / "out.json").read_text())


def test_training_texts_up_to_the_limit_are_augmented(tmp_path, nltk_data):
    made, metrics = augment(tmp_path, nltk_data)
    train = sorted(texts.text_id(text) for text in SEED[1:])
    assert set(made["parent_id"]) <= set(train[:4])
    assert len(made) >= 4
    assert set(made["text"]).isdisjoint(SEED)
    assert set(made["method"]) == {"wordnet"}
    assert metrics["texts_in"] == 4
    assert metrics["made"] == 8 == metrics["rows_out"] + sum(metrics["dropped"].values())
    assert metrics["rate"] == pytest.approx(len(made) / 4)
    assert 0 < metrics["novelty"] < 1


def test_texts_that_are_left_alone_are_counted(tmp_path, nltk_data):
    made, metrics = augment(tmp_path, nltk_data, seed=[*SEED[:3], GERMAN])
    assert set(made["parent_id"]) == {texts.text_id(text) for text in SEED[1:3]}
    assert metrics["left_alone"] == {"other_language": 1}
    assert (metrics["texts_in"], metrics["made"]) == (3, 4)


def test_gates_are_those_of_the_method(tmp_path, nltk_data):
    made, metrics = augment(tmp_path, nltk_data, gates={"min_words": 100, "max_words": 101})
    assert made.is_empty()
    assert metrics["dropped"]["too_short"] >= 4
    assert metrics["novelty"] is None


def test_disabled_leaves_an_empty_artifact_and_opens_nothing(tmp_path):
    made, metrics = augment(tmp_path, tmp_path / "no_wordnet", enabled=False)
    assert made.is_empty()
    assert metrics["rows_out"] == 0


def test_an_unknown_method_names_those_there_are(tmp_path, nltk_data):
    with refuses("'wordnett'", "`augment:`", "params.yaml", " wordnet"):
        augment(tmp_path, nltk_data, method="wordnett")
