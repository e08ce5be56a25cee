"""Every stage on synthetic corpora: the most memory that it holds, and its CPU time for a text.

`python benchmarks/bench_scale.py [--texts N ...] [--stages NAME ...]`, with WordNet under data/raw. Texts are
WordNet's glosses, numbered, so that there are as many as asked for, and a tenth as many that a second source
repeats. A tenth as many documents are searched, and a twentieth as many triplets fine-tune. The teacher is
the one of kind `hashing`, which costs little. Each stage is the command of dvc.yaml, in a process of its own.
`PYTHONPATH=CHECKOUT` measures other code. A folder that `--folder` names is kept: a later call with
`--stages` runs some stages again on what it holds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

REPOSITORY = Path(__file__).parents[1]
DIM, WORDS = 64, 12
FILES, LINES = 8, 100_000
DOCUMENTS, TRIPLETS = 10, 20
"""One in so many texts."""
QUERIES = 1000
GRAPH = """
import json
import networkx
from dvc.repo import Repo
graph = Repo().index.graph
ordered = networkx.lexicographical_topological_sort(graph.reverse(), key=lambda stage: stage.addressing)
print(json.dumps([(stage.addressing, stage.cmd) for stage in ordered if stage.cmd]))
"""


def main() -> None:
    """Measure each size and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, nargs="+", default=[250_000, 1_000_000])
    parser.add_argument("--stages", nargs="*", default=[], help="these alone, of what --folder holds")
    parser.add_argument("--until", help="the last stage that runs")
    parser.add_argument("--folder", type=Path, help="where the corpora and results of the stages are kept")
    parser.add_argument("--wordnet", type=Path, default=Path("data/raw/nltk_data"))
    parser.add_argument("--name", default="scale", help="of the file in benchmarks/results")
    args = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for texts in args.texts:
            root = (args.folder or Path(temporary)) / str(texts)
            if not root.exists():
                lay_out(root, texts, args.wordnet.resolve())
            for stage, command in commands(root):
                if args.stages and stage not in args.stages:
                    continue
                row = rows.setdefault(stage, {"stage": stage})
                told = measured(command, root, texts)
                row |= {f"{what} at {texts:,}": value for what, value in told.items()}
                print(json.dumps(row), flush=True)
                if stage == args.until:
                    break
    # Here, as it imports torch: Linux counts in a process's peak what its parent held as it started it.
    from measuring import report

    sizes = " ".join(map(str, args.texts))
    report(args.name, [*rows.values()], f"python benchmarks/bench_scale.py --texts {sizes}")


def lay_out(root: Path, texts: int, wordnet: Path) -> None:
    """A project of so many texts."""
    raw = root / "data" / "raw"
    raw.mkdir(parents=True)
    (raw / "nltk_data").symlink_to(wordnet)
    glosses = read_glosses(wordnet)
    made = numbered(glosses, "text", texts)
    for number in range(FILES):
        write_lines(raw / f"texts-{number}.txt", islice(made, -(-texts // FILES)))
    write_lines(raw / "repeated.txt", numbered(glosses, "text", texts // 10))
    searched = raw / "searched"
    (searched / "qrels").mkdir(parents=True)
    count = max(QUERIES, texts // DOCUMENTS)
    documents = numbered(glosses, "document", count)
    write_lines(searched / "corpus.jsonl", (_json(row, text) for row, text in enumerate(documents)))
    queries = enumerate(numbered(glosses, "query", QUERIES))
    write_lines(searched / "queries.jsonl", (_json(row, text) for row, text in queries))
    judged = (f"{row}\t{row}\t1" for row in range(QUERIES))
    write_lines(searched / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *judged])
    sides = (numbered(glosses, side, texts // TRIPLETS) for side in ("anchor", "positive"))
    triplets = (f"{anchor}\t{positive}" for anchor, positive in zip(*sides, strict=True))
    write_lines(raw / "triplets.tsv", (line for part in (["anchor\tpositive"], triplets) for line in part))
    with (root / "params.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(settings(), file)
    (root / "dvc.yaml").symlink_to(REPOSITORY / "dvc.yaml")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], cwd=root, check=True)


def settings() -> dict[str, Any]:
    """The params of all sizes."""
    train = {"texts": ["corpus", "wordnet"], "epochs": 1, "batch_size": 1024, "lr": 1e-3, "sparse": True}
    return {
        "teacher": {"kind": "hashing", "dim": DIM},
        "corpus": {
            "sources": [
                {"kind": "files", "path": "data/raw/texts-*.txt"},
                {"kind": "files", "path": "data/raw/repeated.txt"},
            ]
        },
        "augment": {"wordnet": {}, "back_translation": {"enabled": False}},
        "encode": {"views": ["sentence"]},
        "gate": {"wordnet": {"min_similarity": 0.5}, "back_translation": None},
        "pca": {},
        "finetune": {
            "data": {"pairs": {"kind": "triplets", "path": "data/raw/triplets.tsv"}},
            "mine": {"exact_rows": 20_000},
        },
        "students": {
            "potion": {
                "kind": "static",
                "view": "sentence",
                "dim": 32,
                "init": {},
                "loss": {"kind": "mse"},
                "train": {**train, "evaluations": 2},
                "finetune": {"data": ["pairs"], "batch_size": 256, "lr": 1e-4, "select": "agreement"},
            }
        },
        "classifiers": {},
        "evaluate": {
            "tasks": {"searched": {"kind": "retrieval", "path": "data/raw/searched"}},
            "indexes": [{"kind": "flat"}, {"kind": "ivf"}],
        },
        "significance": {},
        "footprint": {"rounds": 2},
        "export": {},
    }


def commands(root: Path) -> list[tuple[str, str]]:
    """Names and commands of the stages, each after those whose results it reads."""
    asked = [sys.executable, "-c", GRAPH]
    done = subprocess.run(asked, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return [(stage, command) for stage, command in json.loads(done.stdout.splitlines()[-1])]


def measured(command: str, root: Path, texts: int) -> dict[str, float]:
    """Run a stage: its peak of resident memory, mapped files' pages included, and CPU time for a text."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    code = os.environ.get("PYTHONPATH", str(REPOSITORY)).split(os.pathsep)[0]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(code).resolve())}
    process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=root, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command}: exit status {process.returncode}")
    seconds = used.ru_utime + used.ru_stime
    return {
        "MB": round(used.ru_maxrss * 1024 / 1e6),
        "CPU s": round(seconds, 1),
        "us a text": round(seconds / texts * 1e6, 2),
    }


def read_glosses(wordnet: Path) -> list[str]:
    """The first words of WordNet's glosses, some words of each."""
    files = sorted((wordnet / "corpora" / "wordnet").glob("data.*"))
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    cut = (line.partition(" | ")[2].partition(";")[0].split() for line in lines if " | " in line)
    return [" ".join(words[:WORDS]) for words in cut if len(words) > 3]


def numbered(glosses: list[str], what: str, count: int) -> Iterator[str]:
    """So many different texts; those of another kind are others."""
    for row in range(count):
        yield f"{glosses[row % len(glosses)]} {what} {row // len(glosses)}"


def write_lines(path: Path, lines: Iterator[str] | list[str]) -> None:
    """Write a file, some lines at a time."""
    lines = iter(lines)
    with path.open("w", encoding="utf-8") as file:
        while part := list(islice(lines, LINES)):
            file.write("\n".join(part) + "\n")


def _json(row: int, text: str) -> str:
    return json.dumps({"_id": str(row), "text": text})


if __name__ == "__main__":
    main()
