"""How a student is loaded in each runtime: whole programs, run in the folder of the card. Tests run them."""

from pipeline.export.shared.onnx_folder import GRAPHS
from pipeline.params.export import Format

SENTENCE_TRANSFORMERS = """
`pip install sentence-transformers` (3 or later; of a BiLSTM 6.2 or later)

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(".")
vectors = model.encode(["A sentence.", "Another one."])
print(vectors.shape)
```
"""
MODEL2VEC = """
`pip install model2vec` (no torch)

```python
from model2vec import StaticModel

model = StaticModel.from_pretrained(".")
vectors = model.encode(["A sentence.", "Another one."])
print(vectors.shape)
```
"""
ONNX = """
`pip install onnxruntime tokenizers numpy` (no torch)

```python
import json
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.no_padding()
pad_id = json.loads(Path("config.json").read_text(encoding="utf-8"))["pad_token_id"]
session = onnxruntime.InferenceSession("{graph}", providers=["CPUExecutionProvider"])
names = [one.name for one in session.get_inputs()]


def encode(texts, tokens_at_a_time=1024):  # of a batch; more do not fit into a core's cache
    tokens = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    order = sorted(range(len(texts)), key=lambda row: len(tokens[row]))
    vectors = [None] * len(texts)
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * len(tokens[order[stop]]) <= tokens_at_a_time:
            stop += 1
        rows, start = order[start:stop], stop
        longest = max(1, len(tokens[rows[-1]]))
        ids = np.full((len(rows), longest), pad_id, np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(tokens[row])] = tokens[row]
            mask[place, : len(tokens[row])] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        found = session.run(["sentence_embedding"], {name: inputs[name] for name in names})[0]
        for row, vector in zip(rows, found):
            vectors[row] = vector
    return np.stack(vectors)


vectors = encode(["A sentence.", "Another one."])
print(vectors.shape)
```
"""
TRANSFORMERS_JS = """
`npm install @huggingface/transformers`

```js
import { AutoModel, AutoTokenizer, env } from "@huggingface/transformers";

env.allowRemoteModels = false; // of a folder; leave these two lines out for a model of the hub
env.localModelPath = "..";
const folder = process.cwd().split("/").pop();
const tokenizer = await AutoTokenizer.from_pretrained(folder);
const model = await AutoModel.from_pretrained(folder, { dtype: "{dtype}" });
const inputs = tokenizer(["A sentence.", "Another one."], { padding: true, truncation: true });
const { sentence_embedding } = await model(inputs);
console.log(sentence_embedding.dims);
```
"""
OPENVINO = """
`pip install openvino sentence-transformers optimum-intel`

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(".", backend="openvino")
vectors = model.encode(["A sentence.", "Another one."])
print(vectors.shape)
```
"""
ROUTER = """
`pip install sentence-transformers` (5 or later)

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("router")
queries = model.encode_query(["What is it?"])  # by this student
documents = model.encode_document(["A sentence.", "Another one."])  # by its teacher
print(model.similarity(queries, documents))
```
"""
PROGRAMS: dict[Format, str] = {
    "sentence-transformers": SENTENCE_TRANSFORMERS,
    "model2vec": MODEL2VEC,
    "openvino": OPENVINO,
    "router": ROUTER,
}
TITLES: dict[Format, str] = {
    "sentence-transformers": "sentence-transformers",
    "model2vec": "model2vec",
    "onnx": "onnxruntime",
    "onnx-int8": "onnxruntime, int8",
    "onnx-fp16": "onnxruntime, float16",
    "openvino": "OpenVINO",
    "router": "sentence-transformers, queries by the student and documents by its teacher",
}
DTYPES: dict[Format, str] = {"onnx": "fp32", "onnx-int8": "q8", "onnx-fp16": "fp16"}
"""What transformers.js calls the graphs."""


def how_to_load(name: Format) -> str:
    """A section of the card."""
    program = PROGRAMS[name] if name in PROGRAMS else ONNX.replace("{graph}", GRAPHS[name])
    return f"### {TITLES[name]}\n{program}"


def in_a_browser(graphs: list[Format]) -> str:
    """The section on transformers.js, by the first of these graphs."""
    return f"### transformers.js\n{TRANSFORMERS_JS.replace('{dtype}', DTYPES[graphs[0]])}"
