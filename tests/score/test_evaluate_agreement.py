"""Agreement with the teacher on the corpus' dev texts, without labels and beside a task."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from evaluate_runs import prepare_and_encode
from project import sentence
from refusals import refuses
from ruamel.yaml import YAML
from scipy.stats import spearmanr
from sklearn.neighbors import NearestNeighbors
from small_params import small_params
from small_students import TEACHER_DIM, static_block, teacher

from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.data.teacher_parts import read_tokenizer
from pipeline.score.evaluation import evaluate
from pipeline.score.significance import significance
from pipeline.score.statistics import examined
from pipeline.teacher.encoding import encode
from pipeline.train.students.kinds import static

LENGTHS = {4: range(220), 8: range(300, 380), 20: range(400, 460)}
"""How often a sentence is repeated in a text -> which sentences are."""


def write_params(tasks=None, **evaluated):
    document = small_params(
        teacher={"kind": "hashing", "dim": TEACHER_DIM},
        corpus={
            "sources": [
                {"kind": "files", "path": "texts.csv"},
                {"kind": "files", "path": "asked.csv", "role": "query"},
            ],
            "dev_fraction": 0.5,
        },
        evaluate={"tasks": tasks or {}, **evaluated},
        students={"tiny": static_block().model_dump(mode="json")},
        significance={"samples": 100},
    )
    YAML().dump(document, Path("params.yaml"))


@pytest.fixture
def prepared(folder, parts):
    """Everything before evaluate, in the working folder."""
    rows = [" and ".join([sentence(31 * n)] * (many // 4)) for many, which in LENGTHS.items() for n in which]
    Path("texts.csv").write_text("\n".join(["text", *rows]))
    asked = [sentence(20_000 + 31 * n) for n in range(100)]
    Path("asked.csv").write_text("\n".join(["text", *asked]))
    write_params()
    prepare_and_encode()
    encode.main(Path("corpus.parquet"), Path("corpus_vectors"))
    student_folder.write(static.build(static_block(), parts), "tiny", Path("student"))
    return parts


def run(parts):
    inputs = [Path(name) for name in ("tasks.parquet", "eval.parquet", "vectors")]
    folders = [Path("pca"), *[Path("student")] * 3]
    outs = (Path("metrics/tiny.json"), Path("examined/tiny"))
    corpus = {"corpus": Path("corpus.parquet"), "corpus_vectors": Path("corpus_vectors")}
    evaluate.main("tiny", *inputs, "sentence", *folders, *outs, **corpus, teacher_parts=parts)
    return json.loads(outs[0].read_text())


def dev_texts():
    return texts.read_corpus(Path("corpus.parquet")).filter(split="dev")


def near(vectors):
    found = NearestNeighbors(n_neighbors=10, metric="cosine", algorithm="brute").fit(vectors)
    return found.kneighbors(return_distance=False)


def test_without_a_task_it_is_what_students_are_scored_by(prepared):
    metrics = run(prepared)
    assert metrics["main"] == {"agreement": "overlap@10"}
    assert metrics["averaged"] == ["agreement"]
    assert (
        metrics["average"]["teacher"]
        == metrics["retention"]["distilled"] / metrics["average"]["distilled"]
        == 1
    )
    table = dev_texts()
    content = texts.with_prompts(table, {})["text"].to_list()
    own = student_folder.read(Path("student"), "").encode(content).astype(np.float64)
    theirs = teacher().encode(content, ["sentence"])["sentence"].astype(np.float16).astype(np.float64)
    shares = [len({*a} & {*b}) / 10 for a, b in zip(near(own), near(theirs), strict=True)]
    found = metrics["scores"]["finetuned"]["agreement"]
    assert found["texts"] == len(table)
    assert found["overlap@10"] == pytest.approx(np.mean(shares), abs=2e-3)
    assert metrics["average"]["finetuned"] == found["overlap@10"] < 1
    assert metrics["scores"]["teacher"]["agreement"] == {"overlap@10": 1, "spearman": 1, "texts": len(table)}


def test_it_is_told_by_length_and_by_role(prepared):
    groups = {group["group"]: group["scores"] for group in run(prepared)["agreement"]["groups"]}
    table, tokenizer = dev_texts(), read_tokenizer(prepared)
    counts = np.array([len(tokenizer.encode(text).ids) for text in table["text"]])
    bounds = {"up to 16": (0, 16), "17 to 32": (16, 32), "33 to 64": (32, 64), "65 to 128": (64, 128)}
    expected = {
        f"{name} tokens": ((counts > above) & (counts <= most)).sum()
        for name, (above, most) in bounds.items()
    }
    expected["more than 128 tokens"] = (counts > 128).sum()
    expected |= {f"role {role}": (table["role"] == role).sum() for role in ("query", "text")}
    assert {name: group["texts"] for name, group in groups.items()} == {
        name: count for name, count in expected.items() if count >= 30
    }
    assert len(groups) >= 4
    assert all(0 < group["overlap@10"] < 1 for group in groups.values())


def test_its_items_have_intervals_and_its_texts_examples(prepared):
    metrics = run(prepared)
    items = examined.read_scores(Path("examined/tiny"), "tiny").filter(model="finetuned")
    assert items["measure"].unique().to_list() == ["overlap@10"]
    assert items["value"].mean() == pytest.approx(metrics["average"]["finetuned"], rel=1e-5)
    shown = examined.read_examples(Path("examined/tiny"), "tiny")["agreement"]
    assert {one.query for one in shown.nearest} <= {*dev_texts()["text"]}
    assert len(shown.disagreements) == 10
    significance.main(Path("examined"), Path("metrics"), Path("significance.json"))
    intervals = json.loads(Path("significance.json").read_text())["intervals"]
    low, high = intervals["tiny"]["average"]
    assert low < metrics["average"]["finetuned"] < high
    assert intervals["teacher"]["agreement"] == [1, 1]


def test_beside_a_task_it_stays_out_of_the_average(prepared):
    rows = [(sentence(30_000 + 3 * n), sentence(30_000 + 3 * n + n % 5 * 300), 5 - n % 5) for n in range(40)]
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
    Path("alike.tsv").write_text("\n".join(lines))
    alone = run(prepared)
    for path in Path().glob("*.parquet"):
        path.unlink()
    write_params({"alike": {"kind": "sts", "path": "alike.tsv"}})
    Path("pca/sentence.safetensors").unlink()
    Path("pca").rmdir()
    prepare_and_encode()
    metrics = run(prepared)
    assert metrics["main"] == {"alike": "spearman", "agreement": "overlap@10"}
    assert metrics["averaged"] == ["alike"]
    assert metrics["average"]["finetuned"] == metrics["scores"]["finetuned"]["alike"]["spearman"]
    assert metrics["scores"]["finetuned"]["agreement"] == alone["scores"]["finetuned"]["agreement"]
    write_params({"alike": {"kind": "sts", "path": "alike.tsv"}}, agreement=None)
    off = run(prepared)
    assert set(off["scores"]["finetuned"]) == {"alike"}
    assert off["scores"]["finetuned"]["alike"] == metrics["scores"]["finetuned"]["alike"]
    assert off["agreement"] == {"groups": [], "left_out": "`evaluate.agreement` is null."}
    # Too few texts are told, and fail nothing where there is a task.
    write_params({"alike": {"kind": "sts", "path": "alike.tsv"}})
    short(90)
    few = run(prepared)
    assert set(few["scores"]["finetuned"]) == {"alike"}
    assert "has 90 texts, and 100 are needed" in few["agreement"]["left_out"]


def short(count):
    """The corpus with so many dev texts."""
    table = texts.read_corpus(Path("corpus.parquet"))
    kept = pl.concat([table.filter(split="train"), table.filter(split="dev").head(count)])
    texts.write(kept, texts.CORPUS_SCHEMA, Path("corpus.parquet"))


def test_too_few_texts_and_no_task_end_with_the_fix(prepared):
    short(90)
    with refuses("nothing to score", "90 texts", "corpus.dev_fraction", "evaluate.tasks"):
        run(prepared)


def test_without_a_task_the_eval_texts_are_dev_texts(prepared):
    shown = texts.read_labelled(Path("eval.parquet"))
    assert shown["text_id"].to_list() == dev_texts()["text_id"].to_list()
    assert spearmanr([1, 2, 3], [1, 2, 3]).statistic == 1
