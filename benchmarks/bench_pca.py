"""The streamed PCA: against scikit-learn and faiss, seconds and memory.

`python benchmarks/bench_pca.py [--rows N] [--more N] [--rounds N]`. Everyone starts from the same published
set and ends with all components, in a process of its own, in turn, round after round. Peak memory is above
what the process held before it started to read. Only ours sums up in float64; the others are given float32.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import report, speedup
from vector_sets import publish, random_ids

from pipeline.vectors.sets.published import VectorSet, open_set
from pipeline.vectors.space.pca import fit

VIEW, DIM = "sentence", 384
OURS = "ours, streamed"


def ours(vectors: VectorSet) -> np.ndarray:
    """As the stage does it."""
    return fit((batch for _, batch in vectors.batches(VIEW)), DIM, centre=True).explained_variance


def covariance(vectors: VectorSet) -> np.ndarray:
    """scikit-learn's fastest for many rows; all vectors in memory."""
    from sklearn.decomposition import PCA

    return PCA(svd_solver="covariance_eigh").fit(vectors.read(VIEW)[1].astype(np.float32)).explained_variance_


def incremental(vectors: VectorSet) -> np.ndarray:
    """scikit-learn's own for data that do not fit into memory."""
    from sklearn.decomposition import IncrementalPCA

    fitted = IncrementalPCA()
    for _, batch in vectors.batches(VIEW):
        fitted.partial_fit(batch.astype(np.float32))
    return fitted.explained_variance_


def faiss_matrix(vectors: VectorSet) -> np.ndarray:
    """faiss; all vectors in memory."""
    import faiss

    fitted = faiss.PCAMatrix(DIM, DIM)
    fitted.train(vectors.read(VIEW)[1].astype(np.float32))
    return faiss.vector_to_array(fitted.eigenvalues)


CONTENDERS = {
    OURS: ours,
    "scikit-learn, covariance_eigh": covariance,
    "scikit-learn, IncrementalPCA": incremental,
    "faiss, PCAMatrix": faiss_matrix,
}
ON_MORE = (OURS, "scikit-learn, covariance_eigh")
"""Those that also take the larger set."""


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--more", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    runs = [(name, args.rows) for name in CONTENDERS] + [(name, args.more) for name in ON_MORE]
    seconds: dict[tuple[str, int], list[float]] = {run: [] for run in runs}
    peaks: dict[tuple[str, int], list[float]] = {run: [] for run in runs}
    with tempfile.TemporaryDirectory() as temporary:
        for rows in (args.rows, args.more):
            publish(Path(temporary, str(rows)), random_ids(rows), DIM, VIEW)
        for _ in range(args.rounds):
            for name, rows in runs:
                command = [sys.executable, __file__, "--alone", name, str(Path(temporary, str(rows)))]
                said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                seconds[name, rows].append(said["seconds"])
                peaks[name, rows].append(said["peak"])
    table: list[dict[str, object]] = [
        {
            "PCA": name,
            "rows": f"{rows:,}",
            "seconds": float(np.median(seconds[name, rows])),
            "ours is faster by": speedup(
                {"ours": seconds[OURS, rows], "other": seconds[name, rows]}, "ours", "other"
            ),
            "peak MB above the start": float(np.median(peaks[name, rows])),
        }
        for name, rows in runs
    ]
    options = f"--rows {args.rows} --more {args.more} --rounds {args.rounds}"
    report("pca", table, f"python benchmarks/bench_pca.py {options}", ratios=["ours is faster by"])


def alone(name: str, folder: Path) -> None:
    """Run one contender in this process, which has everything imported, and print what it took."""
    import faiss  # noqa: F401 - what is timed must not import it
    import sklearn.decomposition  # noqa: F401 - likewise

    vectors = open_set(folder)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    before = pages * resource.getpagesize() / 1e6
    started = time.perf_counter()
    CONTENDERS[name](vectors)
    seconds = time.perf_counter() - started
    lines = Path("/proc/self/status").read_text().splitlines()  # getrusage counts the parent's peak too
    peak = next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM")) - before
    print(json.dumps({"seconds": seconds, "peak": peak}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        alone(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
