"""Do the int8 exports give the same vectors on a processor without VNNI and AVX-512 as on this one?

`python benchmarks/bench_int8.py [--texts N]`, after `make repro`; the other processor is a Haswell (AVX2
alone) that QEMU emulates (`apt-get install qemu-user`): onnxruntime chooses its kernels by what the processor
says it has. Distances are 1 - cosine over the first texts of the evaluation, the worst of them; beside those
between the two processors stand those to the float32 ONNX student here.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from measuring import report

from pipeline.export.parity import difference
from pipeline.export.shared.onnx_folder import GRAPHS
from pipeline.params.export import Format

EXPORTED = Path("data/exported")
EMULATOR = ["qemu-x86_64", "-cpu", "Haswell"]
ENCODE = """
import sys
from pathlib import Path
import numpy as np
from pipeline.export.shared.session import OnnxEncoder
texts = Path(sys.argv[2]).read_text(encoding="utf-8").split("\\n")
np.save(sys.argv[3], OnnxEncoder(Path(sys.argv[1]), graph=sys.argv[4]).encode(texts))
"""


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=1000)
    args = parser.parse_args()
    if shutil.which(EMULATOR[0]) is None:
        print(f"there is no {EMULATOR[0]} (Debian's qemu-user): nothing is compared", file=sys.stderr)
        return
    texts = pl.read_parquet("data/corpus/eval.parquet", columns=["text"])["text"].to_list()[: args.texts]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "texts.txt"
        listed.write_text("\n".join(text.replace("\n", " ") for text in texts), encoding="utf-8")
        for student in sorted(EXPORTED.iterdir()):
            exact = encoded(student, "onnx", listed, [])
            here, there = (encoded(student, "onnx-int8", listed, by) for by in ([], EMULATOR))
            rows.append(
                {
                    "student": student.name,
                    "here to Haswell": float(difference(there, here).distances.max()),
                    "here to float32": float(difference(here, exact).distances.max()),
                    "Haswell to float32": float(difference(there, exact).distances.max()),
                }
            )
    report("int8", rows, f"python benchmarks/bench_int8.py --texts {args.texts}")


def encoded(folder: Path, name: Format, texts: Path, by: list[str]) -> np.ndarray:
    """Vectors (n, dim) of an exported student's graph, computed by an emulator or by the processor itself."""
    out = texts.with_name("vectors.npy")
    subprocess.run(
        [*by, sys.executable, "-c", ENCODE, folder, texts, out, GRAPHS[name]],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return np.load(out)


if __name__ == "__main__":
    main()
