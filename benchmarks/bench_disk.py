"""What the vectors of a set take on the disk: three copies, two, or one.

`python benchmarks/bench_disk.py [--texts N]`: numbered texts, the hashing teacher with 384 dimensions and one
view, a DVC project of the one stage `encode` in the folder for temporary files, with `encode.storage` float16
and with int8. `du` counts a hard link once.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
from measuring import report
from ruamel.yaml import YAML

from pipeline.data.common import texts

DIM = 384
OUT = "data/vectors/corpus"
PARTS = ("data/vectors", ".dvc/cache", ".cache/vectors")
STAGE = f"{sys.executable} -m pipeline.teacher.encoding.encode --texts corpus.parquet --out {OUT}"
STEPS = {
    "dvc repro": ["dvc repro -q"],
    "pipeline cache share": ["pipeline cache share"],
    "dvc config cache.type hardlink,copy, and dvc checkout --relink": [
        "dvc config cache.type hardlink,copy",
        "dvc checkout -q --relink",
    ],
}


def main() -> None:
    """Run the steps one after the other and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=100_000)
    args = parser.parse_args()
    rows = [row for storage in ("float16", "int8") for row in measured(args.texts, storage)]
    report("disk", rows, f"python benchmarks/bench_disk.py --texts {args.texts}")


def measured(texts_in_all: int, storage: str) -> list[dict[str, object]]:
    """What a project takes after each step."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder), texts_in_all, storage)
        for step, commands in STEPS.items():
            for command in commands:
                run(command, folder)
            here = {part: taken(folder, part) / texts_in_all / 1e3 for part in PARTS}
            whole = taken(folder, *PARTS) / texts_in_all / 1e3
            rows.append({"storage": storage, "after": step, **here, "GB a million texts, all": whole})
    return rows


def lay_out(folder: Path, number: int, storage: str) -> None:
    """Texts, params and a stage."""
    lines = [f"the text of number {row}, which is as long as a sentence is" for row in range(number)]
    table = pl.DataFrame({"text_id": map(texts.text_id, lines), "text": lines, "role": "text"})
    texts.write(
        table.cast({"text_id": pl.UInt64}).sort("text_id"), texts.LABELLED_SCHEMA, folder / "corpus.parquet"
    )
    yaml = YAML(typ="safe")
    params = yaml.load(Path("params.yaml"))
    params |= {"teacher": {"kind": "hashing", "dim": DIM}, "runtime": {"cache": ".cache"}}
    params["encode"] = {"views": ["sentence"], "storage": storage}
    params["students"] = {
        name: student for name, student in params["students"].items() if student["view"] == "sentence"
    }
    with (folder / "params.yaml").open("w") as file:
        yaml.dump(params, file)
    with (folder / "dvc.yaml").open("w") as file:
        yaml.dump({"stages": {"encode": {"cmd": STAGE, "deps": ["corpus.parquet"], "outs": [OUT]}}}, file)
    run("dvc init -q --no-scm", str(folder))


def run(command: str, folder: str) -> None:
    """A command in the project, with this checkout's code."""
    paths = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command.split(), cwd=folder, check=True, env={**os.environ, "PYTHONPATH": paths})


def taken(folder: str, *parts: str) -> int:
    """Bytes on the disk, by du."""
    command = ["du", "--block-size=1", "--summarize", "--total", *parts]
    said = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(said.splitlines()[-1].split()[0])


if __name__ == "__main__":
    main()
