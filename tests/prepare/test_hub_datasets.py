import gzip
import sys

import polars as pl
import pytest
from refusals import refuses
from small_params import small_params

from pipeline.cli import needs
from pipeline.params.corpus import HubSource, TripletFile
from pipeline.params.evaluate import Evaluate
from pipeline.params.load import check
from pipeline.prepare.sources import read_sources
from pipeline.prepare.tasks import evaluation
from pipeline.prepare.triplets import finetuning

pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """`datasets` keeps what it reads, here apart from the user's; no network."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.getbasetemp() / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def dataset(tmp_path):
    """A folder of Parquet files that `load_dataset` reads: the splits train and test."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = {
        "sentence1": [f"left {n}" for n in range(40)],
        "sentence2": [f"right {n}" for n in range(40)],
        "score": [n % 6 for n in range(40)],
        "label": [n % 2 for n in range(40)],
        "tokens": [["a"]] * 40,
    }
    pl.DataFrame(rows).write_parquet(folder / "train.parquet")
    pl.DataFrame(rows)[:5].with_columns(pl.col("sentence1") + " more").write_parquet(folder / "test.parquet")
    return f"hub:{folder}"


def read(block):
    tasks = Evaluate.model_validate({"tasks": {"mine": block}}).tasks
    return evaluation(tasks, None)


def test_tasks_read_a_dataset_of_parquet_files(dataset):
    found = read({"kind": "sts", "path": f"{dataset}?split=test", "range": [0, 5]})
    assert found.pairs["score"].to_list() == [0, 1, 2, 3, 4]
    assert set(found.pairs["subset"]) == {"data?split=test"}
    pair = {"kind": "pair_classification", "train": f"{dataset}?split=train", "test": f"{dataset}?split=test"}
    assert dict(read(pair).pairs["subset"].value_counts().iter_rows()) == {"train": 36, "dev": 4, "test": 5}
    columns = {"query": "sentence1", "entity": "sentence2"}
    found = read({"kind": "entity_resolution", "path": f"{dataset}?split=test", **columns})
    assert found.pairs["left_id"].drop_nulls().len() == 2
    block = TripletFile(
        kind="triplets", path=f"{dataset}?split=train", anchor="sentence1", positive="sentence2"
    )
    assert len(finetuning({"t": block}, None, pl.Series([], dtype=pl.String))[0].pairs) == 40


def test_a_dataset_of_json_lines_with_one_split_and_a_corpus(tmp_path):
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "data.jsonl").write_text(
        '{"sentence1": "a", "sentence2": "b", "score": 4.5}\n'
        '{"sentence1": "a", "sentence2": "c", "score": 1}\n'
    )
    assert read({"kind": "sts", "path": f"hub:{folder}"}).pairs["score"].to_list() == [4.5, 1]
    source = HubSource(kind="huggingface", dataset=str(folder), column="sentence2")
    (part,) = read_sources([source], None, None, None)
    assert [[*rows.texts] for rows in part.rows] == [["b", "c"]]


def test_splits_that_are_joined_and_a_corpus_of_numbers(dataset):
    found = read({"kind": "sts", "path": f"{dataset}?split=train+test", "range": [0, 5]})
    assert len(found.pairs) == 45
    folder = dataset.removeprefix("hub:")
    (part,) = read_sources(
        [HubSource(kind="huggingface", dataset=folder, dataset_split="test", column="score")],
        None,
        None,
        None,
    )
    assert [*next(iter(part.rows)).texts] == ["0", "1", "2", "3", "4"]
    lists = HubSource(kind="huggingface", dataset=folder, dataset_split="test", column="tokens")
    with refuses("corpus.sources", folder, "tokens", "List(String)", "another column"):
        [[*part.rows] for part in read_sources([lists], None, None, None)]


@pytest.mark.parametrize(
    ("address", "fields", "named"),
    [
        ("{}", {}, ("`split`: train, test",)),
        ("{}?split=dev", {}, ('"dev"', "check dataset, config, split")),
        ("{}?config=x&split=test", {}, ("'x'", "check dataset, config, split")),
        ("{}?spilt=test", {}, ("`?`", "hub:OWNER/NAME@")),
        ("{}?split=test&split=train", {}, ("`?`", "hub:OWNER/NAME@")),
        ("{}?test", {}, ("`?`", "hub:OWNER/NAME@")),
        ("hub:someone/nothing?split=test", {}, ("'someone/nothing'", "check dataset, config, split")),
        ("{}?split=test", {"left": "sentence"}, ("'sentence'", "'sentence2'?")),
        ("{}?split=test", {"left": "tokens"}, ("tokens", "List(String)", "another column")),
        ("{}?split=train", {"range": [0, 4]}, ("split=train, row 6 ", "score", "'5'", "0 and 4")),
    ],
)
def test_a_fault_names_the_dataset(dataset, address, fields, named):
    with refuses(address.format(dataset), *named) as error:
        read({"kind": "sts", "path": address.format(dataset), **fields})
    assert "\n" not in str(error.value)


def cut(folder):
    content = gzip.compress(b'{"sentence1": "a", "sentence2": "b", "score": 1}\n' * 1000)
    (folder / "train.jsonl.gz").write_bytes(content[:-20])


def of_a_script(folder):
    (folder / f"{folder.name}.py").write_text("import datasets\n")


def of_a_faulty_card(folder):
    (folder / "README.md").write_text("---\nconfigs: [a\n---\n")
    (folder / "train.csv").write_text("sentence1,sentence2,score\na,b,1\n")


def of_two_kinds(folder):
    (folder / "train-0.jsonl").write_text('{"sentence1": "a", "sentence2": "b", "score": 1}\n')
    (folder / "train-1.jsonl").write_text('{"text": "a"}\n')


def ragged(folder):
    (folder / "train.csv").write_text("sentence1,sentence2\na,b\nc,d,e\n")


@pytest.mark.parametrize(
    ("fill", "named"),
    [
        (cut, ("end-of-stream",)),
        (of_a_script, ("cripts", "refs/convert/parquet")),
        (of_a_faulty_card, ("expected", "correct its files")),
        (of_two_kinds, ("text",)),
        (ragged, ("Expected 2 fields in line 3, saw 3",)),
    ],
)
def test_a_dataset_whose_files_are_at_fault_is_told_in_a_line_with_the_cause(tmp_path, fill, named):
    folder = tmp_path / "faulty"
    folder.mkdir()
    fill(folder)
    with refuses(f"hub:{folder}", "cannot be loaded", *named) as error:
        read({"kind": "sts", "path": f"hub:{folder}"})
    assert "\n" not in str(error.value)


def test_without_the_extra_the_message_says_what_to_install(dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with refuses(f"{dataset}?split=test", "`pip install -e '.[datasets]'`"):
        read({"kind": "sts", "path": f"{dataset}?split=test"})


def test_doctor_looks_for_the_extra_and_not_for_a_file(monkeypatch):
    block = {"tasks": {"mine": {"kind": "sts", "path": "hub:owner/name?split=test"}}}
    params = check(small_params(evaluate=block), "params.yaml")
    assert dict(params.user_files()) == {"corpus.sources.0.path": "texts.csv"}
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    [finding] = needs.extras(params)
    assert finding.found == "not installed, but used by evaluate.tasks.mine.path"
    assert finding.fix == "pip install -e '.[datasets]'"
    source = {"kind": "huggingface", "dataset": "owner/name", "split": "sentences"}
    params = check(small_params(corpus={"sources": [source], "dev_fraction": 0.2}), "params.yaml")
    fixes = {finding.name: finding.fix for finding in needs.extras(params)}
    assert set(fixes) == {"datasets", "sentencex", "semantic_text_splitter"}
    assert fixes["sentencex"] == fixes["semantic_text_splitter"] == "pip install -e '.[split]'"
