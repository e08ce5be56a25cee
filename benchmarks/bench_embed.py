"""`pipeline embed` as a whole command, against the library's own encode in a script, in turn.

`python benchmarks/bench_embed.py [--rounds N]`, after `make repro`. The static student embeds 100,000 texts,
the transformer 5,000, as the machine prefers (bfloat16 where the CPU has it) and in float32. The scripts read
the same file, load the same folder, encode with the library's defaults and save the vectors with numpy.
Seconds include starting Python and loading the model; texts a second and what is compared do not: the same
command on eight texts is taken off. The first library of a student is the one that all are compared with.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from measuring import interleaved, report, speedup

FOLDER = Path("data/finetuned")
OURS = "pipeline embed"
FEW = 8
TRANSFORMER = "simtde"
TEXTS = {"potion": 100_000, TRANSFORMER: 5000}
READ = "import sys, numpy as np; texts = open(sys.argv[2], encoding='utf-8').read().splitlines()\n"
PEERS = {
    "model2vec": READ
    + "from model2vec import StaticModel\n"
    + "np.save(sys.argv[3], StaticModel.from_pretrained(sys.argv[1]).encode(texts))",
    "sentence-transformers": READ
    + "from sentence_transformers import SentenceTransformer\n"
    + "np.save(sys.argv[3], SentenceTransformer(sys.argv[1], device='cpu').encode(texts))",
}
AGAINST = {"potion": ("model2vec", "sentence-transformers"), TRANSFORMER: ("sentence-transformers",)}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    glosses = pl.read_parquet("data/corpus/corpus.parquet", columns=["text"])["text"].to_list()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for student, count in TEXTS.items():
            made = [f"{glosses[row % len(glosses)]} {row // len(glosses)}" for row in range(count)]
            few, many = (Path(folder) / f"{student}-{size}.txt" for size in (FEW, count))
            few.write_text("\n".join(made[:FEW]), encoding="utf-8")
            many.write_text("\n".join(made), encoding="utf-8")
            start = interleaved(contenders(student, few), args.rounds)
            whole = interleaved(contenders(student, many), args.rounds)
            check_same(many)
            encoding = {
                name: np.subtract(times, np.median(start[name])).tolist() for name, times in whole.items()
            }
            rows += [
                {
                    "student": student,
                    "by": name,
                    "texts": count,
                    "seconds": float(np.median(whole[name])),
                    "of which start": float(np.median(start[name])),
                    "texts/s": float(count / np.median(times)),
                    "times the library's speed": speedup(encoding, name, AGAINST[student][0]),
                }
                for name, times in encoding.items()
            ]
    report(
        "embed",
        rows,
        f"python benchmarks/bench_embed.py --rounds {args.rounds}",
        ratios=["times the library's speed"],
    )


def contenders(student: str, file: Path) -> dict[str, Callable[[], object]]:
    """Whole commands that embed the texts of a file."""
    ours = [sys.executable, "-m", "pipeline.cli", "embed", "--student", student, str(file), "--out"]
    found: dict[str, Callable[[], object]] = {OURS: running([*ours, str(file.with_suffix(".parquet"))])}
    if student == TRANSFORMER:
        exact = [*ours, str(file.with_suffix(".exact.parquet")), "--precision", "float32"]
        found[f"{OURS}, float32"] = running(exact)
    for name in AGAINST[student]:
        out = str(file.with_suffix(f".{name}.npy"))
        found[name] = running([sys.executable, "-c", PEERS[name], str(FOLDER / student), str(file), out])
    return found


def running(command: list[str]) -> Callable[[], object]:
    """Run a command, quietly."""
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check_same(file: Path) -> None:
    """Fail unless all have made the same vectors of a file; in bfloat16 almost the same."""
    chosen, exact = file.with_suffix(".parquet"), file.with_suffix(".exact.parquet")
    vectors, of_float32 = (
        pl.read_parquet(path if path.exists() else chosen)["vector"].to_numpy() for path in (chosen, exact)
    )
    for other in file.parent.glob(f"{file.stem}.*.npy"):
        expected = np.load(other)
        np.testing.assert_allclose(of_float32, expected, atol=1e-4)
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
        assert (np.einsum("nd,nd->n", vectors, expected) / lengths).min() > 0.99


if __name__ == "__main__":
    main()
