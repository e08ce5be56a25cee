"""The programs of `compat.py` that stand in no page. `START`, before each, gives it what it embeds."""

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
INFINITY_OPTIMUM = """
import asyncio
from infinity_emb import AsyncEmbeddingEngine, EngineArgs
engine = AsyncEmbeddingEngine.from_args(EngineArgs(
    model_name_or_path=folder, device="cpu", engine="optimum", pooling_method="mean",
    onnx_disable_optimize=True, onnx_do_not_prefer_quantized=True,
))
async def embed():
    async with engine:
        return await engine.embed(sentences=texts)
save(asyncio.run(embed())[0])
"""
"""Without these options it pools by the first token, and writes into the folder."""
START = """
import json, sys
import numpy
folder, dim, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
texts = json.load(sys.stdin)
ourFolder, ourTexts = folder, texts
def save(vectors):
    numpy.save(out, vectors)
"""
