"""How an export is loaded in each runtime: whole programs, run in the folder of the card. Tests run them."""

from pipeline.params.export import Format

SENTENCE_TRANSFORMERS = """
`pip install sentence-transformers`

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("sentence-transformers")
vectors = model.encode(["A sentence.", "Another one."])
print(vectors.shape)
```
"""
MODEL2VEC = """
`pip install model2vec` (no torch)

```python
from model2vec import StaticModel

model = StaticModel.from_pretrained("model2vec")
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

folder = Path("{name}")
config = json.loads((folder / "config.json").read_text())
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
session = onnxruntime.InferenceSession(str(folder / config["model"]), providers=["CPUExecutionProvider"])


def encode(texts, batch_size=64):
    encodings = tokenizer.encode_batch(texts, add_special_tokens=config["special_tokens"])
    tokens = [encoding.ids[: config["max_length"]] for encoding in encodings]
    order = sorted(range(len(texts)), key=lambda row: len(tokens[row]))
    vectors = np.empty((len(texts), config["dim"]), np.float32)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        longest = max(1, *(len(tokens[row]) for row in rows))
        ids = np.full((len(rows), longest), config["pad_id"], np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(tokens[row])] = tokens[row]
            mask[place, : len(tokens[row])] = 1
        inputs = dict(zip(config["inputs"], (ids, mask)))
        vectors[rows] = session.run([config["output"]], inputs)[0]
    return vectors


vectors = encode(["A sentence.", "Another one."])
print(vectors.shape)
```
"""
ROUTER = """
`pip install sentence-transformers`

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("router")
queries = model.encode_query(["What is it?"])  # by this student
documents = model.encode_document(["A sentence.", "Another one."])  # by its teacher
print(model.similarity(queries, documents))
```
"""
TITLES: dict[Format, str] = {
    "sentence-transformers": "sentence-transformers",
    "model2vec": "model2vec",
    "onnx": "onnxruntime",
    "onnx-int8": "onnxruntime, int8",
    "router": "sentence-transformers, queries by the student and documents by its teacher",
}


def how_to_load(name: Format) -> str:
    """A section of the card."""
    if name == "sentence-transformers":
        content = SENTENCE_TRANSFORMERS
    elif name == "model2vec":
        content = MODEL2VEC
    elif name == "router":
        content = ROUTER
    else:
        content = ONNX.replace("{name}", name)
    return f"### {TITLES[name]}\n{content}"
