"""Do other runtimes load what ships, and do they give its vectors?

`python benchmarks/compat.py [--students FOLDER] [--runtimes NAME ...]`, or `make compat`, after `make repro`.
Each runtime gets an environment of its own under .compat/, which is made once. What it loads is
data/exported/NAME; what its vectors are compared with is this project's sentence-transformers. It prints the
table of docs/deploy.md, whose programs it runs.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from compat_page import DIM, POSTGRESQL, START_JS, of_page
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
SENTENCE_TRANSFORMERS = """
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(folder, device="cpu"{options})
save(model.encode(texts))
"""
ONNXRUNTIME = """
import onnxruntime
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.no_padding()
session = onnxruntime.InferenceSession(f"{folder}/{graph}", providers=["CPUExecutionProvider"])
names = [one.name for one in session.get_inputs()]
found = []
for text in texts:
    ids = numpy.array([tokenizer.encode(text).ids])
    inputs = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
    found.append(session.run(["sentence_embedding"], {name: inputs[name] for name in names})[0][0])
save(numpy.stack(found))
"""
FASTEMBED = """
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
TextEmbedding.add_custom_model(
    model="ours", pooling=PoolingType.DISABLED, normalization=False, sources=ModelSource(url="https://none"),
    dim=dim, model_file="{graph}",
)
save(numpy.stack(list(TextEmbedding("ours", specific_model_path=folder).embed(texts))))
"""
MODEL2VEC = """
from model2vec import StaticModel
save(StaticModel.from_pretrained(folder).encode(texts))
"""
OPENVINO = """
import openvino
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.no_padding()
options = {"INFERENCE_PRECISION_HINT": "f32"}
model = openvino.Core().compile_model(f"{folder}/onnx/model.onnx", "CPU", options)
names = [one.get_any_name() for one in model.inputs]
found = []
for text in texts:
    ids = numpy.array([tokenizer.encode(text).ids])
    inputs = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
    found.append(model({name: inputs[name] for name in names})["sentence_embedding"][0])
save(numpy.stack(found))
"""
START = """
import json, sys
import numpy
folder, dim, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
texts = json.load(sys.stdin)
ourFolder, ourTexts = folder, texts
def save(vectors):
    numpy.save(out, vectors)
"""


@dataclass(frozen=True)
class Runtime:
    """What loads a folder."""

    packages: tuple[str, ...]
    """Of PyPI, or of npm where the program is JavaScript."""
    program: str
    kinds: tuple[str, ...] = ("transformer", "compact", "bilstm", "static")
    """Of students that it is made for."""
    cuts: bool = True
    """Whether it cuts a long text as sentence-transformers does; else it is not compared by one."""


def sentence_transformers(version: str, *others: str, options: str = "", kinds: tuple[str, ...]) -> Runtime:
    """A version of sentence-transformers."""
    program = SENTENCE_TRANSFORMERS.replace("{options}", options)
    return Runtime((TORCH, f"sentence-transformers=={version}", *others), program, kinds)


ENCODERS, TABLES = ("transformer", "compact"), ("static",)
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
    folders = sorted(path for path in args.students.iterdir() if (path / "modules.json").exists())
    if not folders:
        sys.exit(f"{args.students} has no exported student; run `make repro`")
    expected = {path: SentenceTransformer(str(path), device="cpu").encode(list(TEXTS)) for path in folders}
    rows, failed = [], False
    for name in args.runtimes:
        runtime = RUNTIMES[name]
        program = environment(runtime)
        cells = []
        for path in folders:
            cell = "-"
            if kind_of(path) in runtime.kinds:
                cell = compared(program, runtime, path, expected[path])
                limit = 2e-2 if "int8" in name else 1e-4
                failed |= cell.startswith("fails") or float(cell) > limit
            cells.append(cell)
        rows.append(f"| {name} | {' | '.join(cells)} |")
        print(rows[-1], file=sys.stderr)
    head = f"| runtime | {' | '.join(path.name for path in folders)} |"
    print("\n".join([head, f"|---|{'--:|' * len(folders)}", *rows]))
    sys.exit(int(failed))


def kind_of(folder: Path) -> str:
    """A student's kind, by its files."""
    modules = [one["type"].rpartition(".")[2] for one in json.loads((folder / "modules.json").read_text())]
    return {"Transformer": "transformer", "WordEmbeddings": "bilstm"}.get(modules[0], "static")


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
    result = subprocess.run(
        [*command, str(folder.absolute()), str(expected.shape[1]), str(out)],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin:/usr/sbin", "HF_HUB_OFFLINE": "1", "HOME": str(PLACE.absolute())},
    )
    if not out.exists():
        reason = (result.stderr.strip().splitlines() or ["no vectors"])[-1]
        return f"fails: {reason[:200]}"
    found = np.array(json.loads(out.read_text())) if out.suffix == ".json" else np.load(out)
    rows = [row for row, text in enumerate(TEXTS) if runtime.cuts or len(text) < LONG]
    return f"{np.abs(found - expected)[rows].max():.0e}"


if __name__ == "__main__":
    main()
