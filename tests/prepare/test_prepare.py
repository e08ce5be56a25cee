import hashlib
import json
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params
from small_students import bilstm_block

from pipeline.core.errors import UserError, report_user_errors
from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.prepare.prepare import main
from pipeline.tasks import pairs

OUTS = {
    "corpus": "corpus.parquet",
    "provenance": "provenance.parquet",
    "eval_texts": "eval.parquet",
    "tasks": "tasks.parquet",
    "dev": "dev",
    "finetune": "finetune.parquet",
    "triplets": "triplets.parquet",
    "origins": "origins.json",
    "metrics": "prepare.json",
}


@pytest.fixture
def project(tmp_path):
    """Params and data of a project that needs no WordNet."""
    lines = [f"this is training text number {i}" for i in range(200)]
    (tmp_path / "texts.txt").write_text("\n".join([*lines, "A held-out text, here.", "short"]))
    (tmp_path / "sts.tsv").write_text(
        "sentence1\tsentence2\tscore\na held out text here\tAnother one of them\t3\n"
        "Another one of them\ta held out text here\t1\n"
    )
    (tmp_path / "triplets.csv").write_text("anchor,positive\nan anchor,a positive\nanother one of them,x\n")
    params = small_params(
        corpus={"sources": [{"kind": "files", "path": str(tmp_path / "texts.txt")}], "dev_fraction": 0.1},
        finetune={
            "data": {"mine": {"kind": "triplets", "path": str(tmp_path / "triplets.csv")}},
            "mine": None,
        },
        evaluate={"tasks": {"mine": {"kind": "sts", "path": str(tmp_path / "sts.tsv")}}},
    )
    return tmp_path, params


def prepare(folder: Path, params: dict, out: str = "out") -> Path:
    YAML().dump(params, folder / "params.yaml")
    paths = {name: folder / out / file for name, file in OUTS.items()}
    inputs = {"raw": folder, "wordnet": folder / "no_wordnet", "tokenizer": folder / "tokenizer"}
    main(**inputs, params=folder / "params.yaml", **paths)
    return folder / out


def test_all_artifacts_and_counts(project):
    out = prepare(*project)
    corpus = texts.read_corpus(out / "corpus.parquet")
    assert len(corpus) == 200
    assert set(corpus["split"]) == {"train", "dev"}
    assert pairs.read(out / "tasks.parquet")["score"].to_list() == [3.0, 1.0]
    triplets = pairs.read(out / "triplets.parquet")
    assert triplets.select("task", "split").rows() == [("mine", "train")]
    for pairs_name, texts_name in (("tasks", "eval"), ("triplets", "finetune")):
        table = pairs.read(out / f"{pairs_name}.parquet")
        known = texts.read_labelled(out / f"{texts_name}.parquet")["text_id"]
        assert pl.concat([table["left_id"], table["right_id"]]).is_in(known.implode()).all()
    metrics = json.loads((out / "prepare.json").read_text())
    [source] = metrics["sources"].values()
    assert source["dropped"] == {"evaluation_text": 1, "too_few_words": 1}
    assert source["rows_in"] == 202
    assert metrics["finetune"]["mine"] == {"dropped": {"evaluation_text": 1}, "rows_in": 2, "rows_out": 1}
    assert metrics["tasks"]["mine"]["test"]["rows"] == 2


def test_equal_inputs_give_equal_bytes(project):
    first, second = (prepare(*project, out=name) for name in ("first", "second"))
    files = [path.relative_to(first) for path in first.rglob("*") if path.is_file()]
    assert len(files) == len(OUTS) + 2, "a folder of three files among them"
    for file in files:
        assert (first / file).read_bytes() == (second / file).read_bytes(), file


def test_an_empty_corpus_leaves_nothing_behind(project):
    folder, params = project
    params["corpus"]["min_words"] = 50
    with refuses("texts.txt", "202 rows", "202 too_few_words", "`corpus:` in params.yaml"):
        prepare(folder, params)
    assert not [*folder.glob("out/**/*")]


def test_missing_wordnet_is_one_line_and_exit_code_1(project, capsys):
    folder, params = project
    params["corpus"]["sources"] = [{"kind": "wordnet"}]
    with pytest.raises(SystemExit) as stopped:
        report_user_errors(prepare)(folder, params)
    assert stopped.value.code == 1
    assert "error: " in (message := capsys.readouterr().err)
    assert "run `make setup`" in message
    assert "Traceback" not in message


def test_a_file_whose_changes_dvc_does_not_see_is_named(project, capsys, tmp_path_factory):
    folder, params = project
    prepare(folder, params)
    assert "DVC does not see" not in capsys.readouterr().err
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "texts.txt"
    elsewhere.write_text("this is a text that lies elsewhere\n")
    params["corpus"]["sources"][0]["path"] = str(elsewhere)
    prepare(folder, params)
    assert (
        f"corpus.sources.0.path is not all in {folder}: DVC does not see when {elsewhere}"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(("linked", "seen"), [("texts.txt", True), ("sub", False)])
@pytest.mark.parametrize("pattern", ["**/*.txt", "{}"])
def test_dvc_reads_a_file_that_is_a_link_but_enters_no_folder(
    project, capsys, tmp_path_factory, linked, seen, pattern
):
    folder, params = project
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "sub").mkdir()
    for name in ("texts.txt", "sub/more.txt"):
        (elsewhere / name).write_text("this is a text that lies elsewhere\n")
    (folder / "raw").mkdir()
    (folder / "raw" / linked).symlink_to(elsewhere / linked)
    file = linked if seen else f"{linked}/more.txt"
    params["corpus"]["sources"] = [{"kind": "files", "path": str(folder / "raw" / pattern.format(file))}]
    YAML().dump(params, folder / "params.yaml")
    with suppress(UserError):  # one text makes no corpus
        prepare(folder, params)
    assert ("corpus.sources.0.path is not all in" not in capsys.readouterr().err) == seen


def test_a_part_of_a_tasks_folder_that_is_a_link_is_named(project, capsys, tmp_path_factory):
    folder, params = project
    judged = tmp_path_factory.mktemp("qrels")
    (judged / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    (folder / "find").mkdir()
    (folder / "find/corpus.jsonl").write_text('{"_id": "d", "text": "one", "title": null}\n')
    (folder / "find/queries.jsonl").write_text('{"_id": "q", "text": "what"}\n')
    (folder / "find/qrels").symlink_to(judged)
    params["evaluate"]["tasks"]["find"] = {"kind": "retrieval", "path": str(folder / "find")}
    prepare(folder, params)
    assert "evaluate.tasks.find.path is not all in" in capsys.readouterr().err


def test_a_dataset_whose_changes_dvc_does_not_see_is_named(project, capsys, tmp_path_factory):
    folder, params = project
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "train.csv").write_text("anchor,positive\na dog,the dog\n")
    params["finetune"]["data"] = {"mine": {"kind": "triplets", "path": f"hub:{elsewhere}?split=train"}}
    with suppress(UserError):  # where the library `datasets` is not installed
        prepare(folder, params)
    assert "finetune.data.mine.path: DVC does not see when a folder changes" in capsys.readouterr().err


def test_word_vectors_are_no_input_that_dvc_sees(project, capsys):
    folder, params = project
    words = {"embeddings": "file", "path": "data/raw/words.txt"}
    params["students"]["words"] = bilstm_block(init=words).model_dump(mode="json")
    prepare(folder, params)
    assert (
        "students.words.init.path: DVC does not see when data/raw/words.txt changes; run `dvc repro -f -s "
        "distill@words` then"
    ) in capsys.readouterr().err


def test_the_origins_have_rows_and_digests_of_all_that_is_read(project):
    folder, params = project
    (folder / "more.txt").write_text("\n".join(f"more text number {i} of them" for i in range(5)))
    params["corpus"]["sources"].append({"kind": "files", "path": str(folder / "mor*.txt")})
    out = prepare(folder, params)
    found = json.loads((out / "origins.json").read_text())
    origins, tables = found["origins"], found["tables"]
    assert set(origins) == {
        "corpus.sources.0", "corpus.sources.1", "finetune.data.mine", "evaluate.tasks.mine"
    }  # fmt: skip
    first, more = (origins[f"corpus.sources.{number}"] for number in (0, 1))
    assert first["rows_in"] == 202
    assert (more["rows_in"], more["rows"]) == (5, 5)
    digest = hashlib.sha256((folder / "more.txt").read_bytes()).hexdigest()
    assert more["files"] == [{"name": "more.txt", "sha256": digest}]
    assert origins["finetune.data.mine"]["rows"] == 1
    assert origins["evaluate.tasks.mine"]["files"][0]["name"] == "sts.tsv"
    assert len({one["texts_sha256"] for one in origins.values()}) == len(origins)
    for name, table in tables.items():
        assert table["sha256"] == hashlib.sha256((out / name).read_bytes()).hexdigest()
    assert tables["corpus.parquet"]["rows"] == first["rows"] + more["rows"]
    assert str(folder) not in (out / "origins.json").read_text()


@pytest.mark.parametrize("block", ["corpus", "finetune"])
def test_a_licence_changes_nothing_that_prepare_writes(project, block):
    folder, params = project
    before = prepare(folder, params, out="before")
    source = params["corpus"]["sources"][0] if block == "corpus" else params["finetune"]["data"]["mine"]
    source["licence"] = "cc-by-nc-4.0"
    after = prepare(folder, params, out="after")
    files = [path.relative_to(before) for path in before.rglob("*") if path.is_file()]
    assert [(after / path).read_bytes() for path in files] == [(before / path).read_bytes() for path in files]


def test_the_training_pairs_of_a_task_are_fine_tuning_data_without_their_labels(project):
    folder, params = project
    head, twins = (
        "left\tright\tlabel\n",
        [(f"the question {i}", f"question {i % 7} again") for i in range(40)],
    )
    rows = [f"{left}\t{right}\t{i % 2}\n" for i, (left, right) in enumerate(twins)]
    (folder / "train.tsv").write_text(head + "".join(rows) + "A held-out text here\tits twin\t1\n")
    (folder / "test.tsv").write_text(head + "the question 3\tanother twin\t0\none more\tand one\t1\n")
    task = {"kind": "pair_classification", "left": "left", "right": "right"}
    task |= {name: str(folder / f"{name}.tsv") for name in ("train", "test")}
    params["evaluate"]["tasks"]["twins"] = task
    params["finetune"]["data"] = {"theirs": {"kind": "task", "task": "twins"}}
    out = prepare(folder, params)
    tasks, triplets = (pairs.read(out / f"{name}.parquet") for name in ("tasks", "triplets"))
    sides = ["left_id", "right_id"]
    train = tasks.filter(task="twins", subset="train").select(sides)
    apart = tasks.filter(~((pl.col("task") == "twins") & (pl.col("subset") == "train"))).select(sides)
    apart = pl.concat([apart[side] for side in sides]).implode()
    leaked = text_id("A held-out text here")  # but for its hyphen, a text of another task
    expected = train.filter(~pl.any_horizontal(pl.col(sides).is_in(apart)), pl.col("left_id") != leaked)
    expected = expected.sort(sides)
    assert leaked in train["left_id"]
    assert 20 < len(expected) < len(train)
    assert triplets.select(sides).sort(sides).equals(expected)
    assert triplets.select("task", "split", "subset", "label", "score").unique().rows() == [
        ("theirs", "train", "", None, None)
    ]
    known = texts.read_labelled(out / "finetune.parquet")["text_id"]
    assert set(known) == set(pl.concat([expected[side] for side in sides]))
    told = json.loads((out / "prepare.json").read_text())["finetune"]["theirs"]
    assert told == {
        "rows_in": len(train),
        "rows_out": len(expected),
        "dropped": {"evaluation_text": len(train) - len(expected)},
    }
    files = json.loads((out / "origins.json").read_text())["origins"]["finetune.data.theirs"]["files"]
    assert [one["name"] for one in files] == ["train.tsv", "test.tsv"]


@pytest.mark.parametrize("name", ["mnli_matched", "again"])
def test_the_training_pairs_of_two_tasks_with_the_same_ones_are_not_each_others_test_rows(project, name):
    """MNLI is two tasks of one train.tsv; so are two tasks of files that share the training file."""
    folder, params = project
    head, labels = "index\tsentence1\tsentence2\tgold_label\n", ("neutral", "entailment", "contradiction")
    rows = [f"{i}\tthe premise {i}\ta guess {i}\t{labels[i % 3]}\n" for i in range(60)]
    other = "7\tsomething else\tthe premise 3\tneutral\n8\tand more\tof it\tentailment\n"
    for file in ("train", "dev_matched", "dev_mismatched"):
        text = head + ("".join(rows) if file == "train" else other)
        (folder / f"{file}.tsv").write_text(text)
    if name == "mnli_matched":
        params["evaluate"]["tasks"]["mnli"] = {"kind": "mnli", "path": str(folder)}
    else:
        files = {"train": str(folder / "train.tsv"), "test": str(folder / "dev_matched.tsv")}
        task = {"kind": "pair_classification", "label": "gold_label", **files}
        params["evaluate"]["tasks"] |= {"again": task, "once": task}
    params["finetune"]["data"] = {"theirs": {"kind": "task", "task": name}}
    out = prepare(folder, params)
    tasks, triplets = (pairs.read(out / f"{file}.parquet") for file in ("tasks", "triplets"))
    train = tasks.filter(task=name, subset="train")
    assert 40 < len(triplets) <= len(train)
    assert text_id("the premise 3") not in triplets["left_id"]
