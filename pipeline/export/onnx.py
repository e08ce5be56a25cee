"""A student as one ONNX graph: from token ids and their mask to sentence vectors."""

from typing import TYPE_CHECKING, cast

import torch
from sentence_transformers.base.modules import Dense
from sentence_transformers.base.modules import Transformer as TransformerModule
from sentence_transformers.sentence_transformer.modules import (
    LSTM,
    Normalize,
    Pooling,
    StaticEmbedding,
    WordEmbeddings,
    WordWeights,
)
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.export.onnx_folder import INPUTS, OUTPUT, OnnxFolder
from pipeline.export.quiet import quiet

if TYPE_CHECKING:
    from onnx import ModelProto
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

OPSET = 20
"""The first with Gelu; onnxruntime runs it since 1.17."""
AS_THEY_ARE = (Dense, Normalize, Pooling, WordEmbeddings, WordWeights)


def export(model: "SentenceTransformer") -> OnnxFolder:
    """A student's graph, tokenizer and settings; batch and length are free.

    Raises:
        UserError: one of its modules has no ONNX form here.
    """
    first = model[0]
    static = isinstance(first, StaticEmbedding)
    longest = None if static else model.max_seq_length
    dim = model.get_embedding_dimension()
    return OnnxFolder(
        graph=_graph(model),
        tokenizer=_tokenizer(model, longest),
        special_tokens=not static,
        max_length=longest,
        pad_id=0 if static else _pad_id(model),
        dim=dim or 0,
        similarity=model.similarity_fn_name,
    )


def _graph(model: "SentenceTransformer") -> "ModelProto":
    """Traced by torch.export; what the tracer says of its own source files is left out."""
    from torch.export import Dim

    # The batch and the length of an example may not be 1: it would be taken for fixed.
    ids = torch.zeros((2, 7), dtype=torch.int64)
    mask = torch.ones_like(ids)
    axes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    with torch.no_grad(), quiet():
        program = torch.onnx.export(
            Graph(model).eval(),
            (ids, mask),
            dynamo=True,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_shapes=(axes, axes),
            opset_version=OPSET,
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export gave no program")
    proto: ModelProto = program.model_proto
    # Shapes of what lies between are inferred again by whoever needs them, after quantisation too.
    for holder in (proto, proto.graph, *proto.graph.node, *proto.graph.input, *proto.graph.output):
        del holder.metadata_props[:]
    for initializer in proto.graph.initializer:
        del initializer.metadata_props[:]
    for node in proto.graph.node:
        node.doc_string = ""
    del proto.graph.value_info[:]
    return proto


class Graph(nn.Module):
    """A student's modules, one after the other, in a form that can be traced."""

    def __init__(self, model: "SentenceTransformer") -> None:
        super().__init__()
        self.steps = nn.ModuleList(_step(module) for module in model)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids and mask (n, length) to vectors (n, dim)."""
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        for step in self.steps:
            features = step(features)
        return features["sentence_embedding"]


def _step(module: nn.Module) -> nn.Module:
    if isinstance(module, TransformerModule):
        return _Encoder(module)
    if isinstance(module, LSTM):
        return _Lstm(module)
    if isinstance(module, StaticEmbedding):
        return _Mean(module)
    if isinstance(module, AS_THEY_ARE):
        return module
    raise UserError(
        f"a student with a module {type(module).__name__} has no ONNX form; name `formats` without onnx and "
        "onnx-int8 under `export`"
    )


class _Encoder(nn.Module):
    """The encoder alone: what sentence-transformers does around it is for other inputs than texts."""

    def __init__(self, module: TransformerModule) -> None:
        super().__init__()
        self.encoder = module.model
        self.encoder.set_attn_implementation("eager")

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        ids, mask = features["input_ids"], features["attention_mask"]
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return {**features, "token_embeddings": states}


class _Mean(nn.Module):
    """The mean of token vectors; a text without tokens gives zeros, as EmbeddingBag does."""

    def __init__(self, module: StaticEmbedding) -> None:
        super().__init__()
        self.table = module.embedding.weight

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        mask = features["attention_mask"].unsqueeze(1).to(self.table.dtype)
        sums = mask @ nn.functional.embedding(features["input_ids"], self.table)
        return {**features, "sentence_embedding": sums.squeeze(1) / mask.sum(2).clamp(min=1)}


class _Lstm(nn.Module):
    """ONNX's own LSTM, which takes every text's length, so that the way back starts at the text's own end.

    Its gates stand in the order input, output, forget, cell; torch's in the order input, forget, cell,
    output.
    """

    weights: Tensor
    recurrence: Tensor
    bias: Tensor

    def __init__(self, module: LSTM) -> None:
        super().__init__()
        lstm = module.encoder
        if lstm.num_layers > 1 or not lstm.bidirectional:
            raise UserError("an LSTM has an ONNX form here with one layer and both directions")
        self.units = lstm.hidden_size
        self.register_buffer("weights", _both_ways(lstm, "weight_ih_l0"))
        self.register_buffer("recurrence", _both_ways(lstm, "weight_hh_l0"))
        bias = torch.cat([_both_ways(lstm, "bias_ih_l0"), _both_ways(lstm, "bias_hh_l0")], dim=1)
        self.register_buffer("bias", bias)

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        words = features["token_embeddings"].transpose(0, 1)
        lengths = features["attention_mask"].sum(1).to(torch.int32)
        states = torch.onnx.ops.symbolic(
            "LSTM",
            (words, self.weights, self.recurrence, self.bias, lengths),
            {"hidden_size": self.units, "direction": "bidirectional"},
            dtype=torch.float32,
            shape=(words.shape[0], 2, words.shape[1], self.units),
        )
        return {**features, "token_embeddings": states.permute(2, 0, 1, 3).flatten(2)}


def _both_ways(lstm: nn.LSTM, name: str) -> Tensor:
    """A weight of both directions (2, 4 units, ...), its gates in ONNX's order."""
    found = (cast("Tensor", getattr(lstm, way)).detach().chunk(4) for way in (name, f"{name}_reverse"))
    return torch.stack([torch.cat([gates[at] for at in (0, 3, 1, 2)]) for gates in found])


def _tokenizer(model: "SentenceTransformer", longest: int | None) -> "Tokenizer":
    """A copy of the student's tokenizer that cuts as the student does and leaves padding to the caller."""
    from tokenizers import Tokenizer

    own, side = model.tokenizer, "right"
    while not isinstance(own, Tokenizer):  # a wrapper of sentence-transformers, of transformers, or both
        side = getattr(own, "truncation_side", side)
        own = own.backend_tokenizer if hasattr(own, "backend_tokenizer") else own.tokenizer
    copy = Tokenizer.from_str(own.to_str())
    copy.no_padding()
    copy.no_truncation()
    if longest is not None and isinstance(model[0], TransformerModule):
        copy.enable_truncation(longest, direction=side)
    return copy


def _pad_id(model: "SentenceTransformer") -> int:
    """WordEmbeddings pad with 0, encoders with their tokenizer's own."""
    if isinstance(model[0], WordEmbeddings):
        return 0
    return model.tokenizer.pad_token_id or 0
