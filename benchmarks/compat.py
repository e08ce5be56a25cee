"""Do other runtimes load what ships, and do they give its vectors?

`python benchmarks/compat.py [--students FOLDER] [--runtimes NAME ...]`, or `make compat`, after `make repro`.
Each runtime gets an environment of its own under .compat/, which is made once. What it loads is a copy of
data/exported/NAME, in which it must not write; what its vectors are compared with is this project's
sentence-transformers. It prints the table of docs/deploy.md, whose programs it runs.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from compat_page import DIM, POSTGRESQL, START_JS, of_page
from compat_programs import (
    FASTEMBED,
    INFINITY_OPTIMUM,
    MODEL2VEC,
    ONNXRUNTIME,
    OPENVINO,
    SENTENCE_TRANSFORMERS,
    START,
)
from sentence_transformers import SentenceTransformer

TEXTS = (
    "A small dog runs over the green hill.",
    "zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich",
    "hello world",
    "An interest rate is what a lender asks of a borrower, as a share of the amount that is lent. " * 12,
    "日本語 \U0001f600 e\u0301",
)
LONG = 500
"""Letters."""
PLACE = Path(".compat")
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Runtime:
    """What loads a folder."""

    packages: tuple[str, ...]
    """Of PyPI, or of npm where the program is JavaScript."""
    program: str
    kinds: tuple[str, ...] = ("transformer", "projected", "bilstm", "static")
    """Of students that it is made for."""
    cuts: bool = True
    """Whether it cuts a long text as sentence-transformers does; else it is not compared by one."""


def sentence_transformers(version: str, *others: str, options: str = "", kinds: tuple[str, ...]) -> Runtime:
    """A version of sentence-transformers."""
    program = SENTENCE_TRANSFORMERS.replace("{options}", options)
    return Runtime((TORCH, f"sentence-transformers=={version}", *others), program, kinds)


ENCODERS, TABLES = ("transformer", "projected"), ("static",)
RUNTIMES = {
    "sentence-transformers 3.4.1": sentence_transformers(
        "3.4.1", "transformers<4.50", kinds=ENCODERS + TABLES
    ),
    "sentence-transformers 5.1.2": sentence_transformers("5.1.2", "transformers<5", kinds=ENCODERS + TABLES),
    "sentence-transformers 5.7.0": sentence_transformers("5.7.0", kinds=ENCODERS + TABLES),
    "sentence-transformers 6.0.0": sentence_transformers("6.0.0", kinds=ENCODERS + TABLES),
    "sentence-transformers 5.1.2, backend onnx": sentence_transformers(
        "5.1.2", "transformers<5", "optimum-onnx[onnxruntime]", options=', backend="onnx"', kinds=ENCODERS
    ),
    "onnxruntime 1.17.3": Runtime(
        ("onnxruntime==1.17.3", "numpy<2", "tokenizers"), ONNXRUNTIME.replace("{graph}", "onnx/model.onnx")
    ),
    "onnxruntime 1.17.3, int8": Runtime(
        ("onnxruntime==1.17.3", "numpy<2", "tokenizers"),
        ONNXRUNTIME.replace("{graph}", "onnx/model_quantized.onnx"),
    ),
    "fastembed 0.7.4": Runtime(("fastembed==0.7.4",), FASTEMBED.replace("{graph}", "onnx/model.onnx")),
    "fastembed 0.7.4, int8": Runtime(
        ("fastembed==0.7.4",), FASTEMBED.replace("{graph}", "onnx/model_quantized.onnx")
    ),
    "openvino 2026.4.1": Runtime(("openvino==2026.4.1", "tokenizers", "numpy"), OPENVINO),
    "model2vec 0.6.0": Runtime(("model2vec==0.6.0",), MODEL2VEC, TABLES),
    # It pools by itself, leaves out the projection, and cuts where the positions end. With optimum 2 it finds
    # no graph in a subfolder; 1.27 imports what torch 2.13 lacks; 1.26 needs transformers before 4.49.
    "Infinity 0.0.78, optimum 1.26.1": Runtime(
        (
            TORCH,
            "infinity-emb[torch,optimum]==0.0.78",
            "optimum==1.26.1",
            "transformers==4.48.3",
            "pyarrow<24",
        ),
        INFINITY_OPTIMUM,
        ("transformer",),
        cuts=False,
    ),
    "FAISS 1.15.1": Runtime(
        ("faiss-cpu==1.15.1", "onnxruntime==1.31.1", "tokenizers"),
        of_page("FAISS", "index.reconstruct_n()"),
    ),
    "Qdrant 1.20.0, fastembed 0.9.1": Runtime(
        ("qdrant-client[fastembed]==1.20.0", "fastembed==0.9.1"),
        of_page(
            "Qdrant, fastembed",
            "numpy.array([one.vector for one in client.scroll('texts', with_vectors=True)[0]])",
            {f"={DIM}": "=dim"},
        ),
    ),
    "pgvector 0.6.2": Runtime(
        (
            TORCH,
            "sentence-transformers==6.2.0",
            "pgserver==0.1.4",
            "pgvector==0.5.1",
            "psycopg[binary]==3.3.9",
        ),
        POSTGRESQL
        + of_page(
            "pgvector",
            "numpy.array([row[2].to_numpy() for row in server.execute('TABLE texts')])",
            {'"postgresql://localhost"': "address", f'({DIM}))"': '(%d))" % dim'},
        ),
    ),
    "LangChain 1.2.3": Runtime(
        (TORCH, "sentence-transformers==6.2.0", "langchain-huggingface==1.2.3"),
        of_page("LangChain", "numpy.array([one['vector'] for one in store.store.values()])"),
    ),
    # It asks for a length, which a table does not have.
    "LlamaIndex 0.8.0": Runtime(
        (TORCH, "sentence-transformers==6.2.0", "llama-index-embeddings-huggingface==0.8.0"),
        of_page("LlamaIndex", "numpy.array([index.vector_store.get(one.node_id) for one in nodes])"),
        (*ENCODERS, "bilstm"),
    ),
    "Infinity 0.0.78": Runtime(
        (TORCH, "infinity-emb[torch,server]==0.0.78"),
        of_page("Infinity", "vectors"),
        ENCODERS,
    ),
    # It cuts off the last special token too.
    **{
        f"transformers.js {version}{name}": Runtime(
            (f"@huggingface/transformers@{version}",),
            START_JS
            + of_page(
                "transformers.js", "sentence_embedding.tolist()", {'"."': '"/"', '"fp32"': f'"{dtype}"'}
            ),
            cuts=False,
        )
        for version in ("3.7.5", "4.3.1")
        for name, dtype in (("", "fp32"), (", int8", "q8"))
    },
}


def main() -> None:
    """Compare and print the table; fail where a runtime fails or differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=Path, default=Path("data/exported"))
    parser.add_argument("--runtimes", nargs="+", default=[*RUNTIMES], choices=[*RUNTIMES], metavar="NAME")
    args = parser.parse_args()
    originals = sorted(path for path in args.students.iterdir() if (path / "modules.json").exists())
    if not originals:
        sys.exit(f"{args.students} has no exported student; run `make repro`")
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PLACE.absolute()) as copies:
        folders = [Path(shutil.copytree(path, Path(copies, path.name))) for path in originals]
        rows, failed = table(folders, args.runtimes)
    head = f"| runtime | {' | '.join(path.name for path in originals)} |"
    print("\n".join([head, f"|---|{'--:|' * len(originals)}", *rows]))
    sys.exit(int(failed))


def table(folders: list[Path], names: list[str]) -> tuple[list[str], bool]:
    """A row for each runtime, and whether one fails or differs."""
    expected = {path: SentenceTransformer(str(path), device="cpu").encode(list(TEXTS)) for path in folders}
    rows, failed = [], False
    for name in names:
        runtime = RUNTIMES[name]
        program = environment(runtime)
        cells = []
        for path in folders:
            cell = "-"
            if kind_of(path) in runtime.kinds:
                cell = compared(program, runtime, path, expected[path])
                limit = 2e-2 if "int8" in name else 1e-4
                failed |= cell.startswith("fails") or not float(cell) <= limit  # nor where that is NaN
                cell = cell if cell.startswith("fails") else f"{float(cell):.0e}"
            cells.append(cell)
        rows.append(f"| {name} | {' | '.join(cells)} |")
        print(rows[-1], file=sys.stderr)
    return rows, failed


def kind_of(folder: Path) -> str:
    """A student's kind, by its files."""
    modules = [one["type"].rpartition(".")[2] for one in json.loads((folder / "modules.json").read_text())]
    if modules[0] == "Transformer":
        return "projected" if "Dense" in modules else "transformer"
    return {"WordEmbeddings": "bilstm"}.get(modules[0], "static")


def environment(runtime: Runtime) -> list[str]:
    """The command that runs a program with a runtime's packages; they are installed once."""
    key = "-".join(runtime.packages).replace("/", "_").replace("@", "").replace("<", "").replace("=", "")
    place = (PLACE / key[:80]).absolute()
    done = place / ".installed"
    javascript = runtime.packages[0].startswith("@")
    if not done.exists():
        print(f"installing {' '.join(runtime.packages)}", file=sys.stderr)
        place.mkdir(parents=True, exist_ok=True)
        if javascript:
            # Its script would download CUDA.
            subprocess.run(
                ["npm", "install", "--silent", "--ignore-scripts", *runtime.packages], cwd=place, check=True
            )
        else:
            subprocess.run([sys.executable, "-m", "venv", place], check=True)
            pip: list[str | Path] = [
                place / "bin/python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
            torch = [one for one in runtime.packages if one == TORCH]  # first and alone: else with CUDA
            for packages in (torch, [one for one in runtime.packages if one != TORCH]):
                if packages:
                    subprocess.run([*pip, *packages], check=True)
        done.touch()
    if javascript:
        (place / "program.mjs").write_text(runtime.program)
        return ["node", str(place / "program.mjs")]
    return [str(place / "bin/python"), "-c", START + runtime.program]


def compared(command: list[str], runtime: Runtime, folder: Path, expected: np.ndarray) -> str:
    """The largest difference of a component, or how it fails."""
    out = PLACE.absolute() / ("vectors.json" if command[0] == "node" else "vectors.npy")
    out.unlink(missing_ok=True)
    before = written(folder)
    result = subprocess.run(
        [*command, str(folder.absolute()), str(expected.shape[1]), str(out)],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        check=False,
        cwd=PLACE,
        env={"PATH": "/usr/bin:/bin:/usr/sbin", "HF_HUB_OFFLINE": "1", "HOME": str(PLACE.absolute())},
    )
    if not out.exists():
        reason = (result.stderr.strip().splitlines() or ["no vectors"])[-1]
        return f"fails: {reason[:200]}"
    if changed := written(folder) ^ before:
        return f"fails: it writes {', '.join(sorted({path.name for path, _ in changed}))} into the folder"
    found = np.array(json.loads(out.read_text())) if out.suffix == ".json" else np.load(out)
    rows = [row for row, text in enumerate(TEXTS) if runtime.cuts or len(text) < LONG]
    return str(np.abs(found - expected)[rows].max())


def written(folder: Path) -> set[tuple[Path, int]]:
    """A folder's files, and when each was last written."""
    return {(path, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    main()
