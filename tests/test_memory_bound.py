"""Stages write the same bytes however little memory they are to hold."""

from itertools import cycle
from pathlib import Path

from project import sentence
from published_sets import published_files
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.core import memory
from pipeline.data.common import texts
from pipeline.data.common.files import tables
from pipeline.prepare import prepare
from pipeline.prepare.readers import delimited
from pipeline.select.mining import mine
from pipeline.teacher.encoding import encode

OUTS = ("corpus", "provenance", "eval", "tasks", "finetune", "triplets")


def run(gigabytes: float) -> dict[str, bytes]:
    """The stages from files to mined triplets in the working folder; what they write."""
    blocks = {
        "corpus": {"sources": [{"kind": "files", "path": f"{name}.txt"} for name in "ab"]},
        "finetune": {"data": {"own": {"kind": "triplets", "path": "triplets.tsv"}}, "mine": {"top_k": 5}},
        "runtime": {"memory": gigabytes, "cache": f"cache-{gigabytes}"},
    }
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(**blocks), file)
    out = Path(f"out-{gigabytes}")
    files = {name: out / f"{name}.parquet" for name in OUTS}
    renamed = {"eval_texts": files.pop("eval"), "origins": out / "origins.json", "dev": out / "dev"}
    inputs = {"raw": Path(), "wordnet": Path("none"), "tokenizer": Path("none")}
    prepare.main(**inputs, **files, **renamed, metrics=out / "prepare.json")
    for name in ("corpus", "finetune"):
        encode.main(texts_file=files[name], out=out / "vectors" / name)
    mined = {"out": out / "mined.parquet", "metrics_file": out / "mine.json"}
    mine.main(triplets=files["triplets"], finetune_vectors=out / "vectors" / "finetune", **mined)
    assert memory.bound() == gigabytes
    return published_files(out)


def test_a_smaller_bound_gives_the_same_bytes(folder, monkeypatch):
    monkeypatch.setattr(memory, "_bound", memory.DEFAULT)
    monkeypatch.setattr(tables, "RANGE_ROWS", 64)
    monkeypatch.setattr(texts, "ROWS_AT_A_TIME", 64)
    monkeypatch.setattr(delimited, "LINES_AT_A_TIME", 64)
    Path("a.txt").write_text("\n".join(sentence(31 * i) for i in range(300)))
    Path("b.txt").write_text("\n".join(sentence(62 * i) for i in range(300)))
    pairs = [f"{sentence(1)}\tx\t1", f"{sentence(2)}\ty\t2"]
    Path("pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *pairs]))
    sides = zip(range(150), cycle([7, 9, 11]), strict=False)
    rows = (f"{sentence(5 + 17 * row)}\t{sentence(row * other)}" for row, other in sides)
    Path("triplets.tsv").write_text("\n".join(["anchor\tpositive", *rows]))
    large, small = run(memory.DEFAULT), run(memory.LEAST)
    assert len(large) > 10
    assert large == small
