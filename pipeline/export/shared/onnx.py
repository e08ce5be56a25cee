"""A student as one ONNX graph: from token ids and their mask to sentence vectors."""

from typing import TYPE_CHECKING, cast

import numpy as np
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
from pipeline.data.tokens.tokens import has_types
from pipeline.export.shared.onnx_folder import IDS, MASK, SENTENCES, TOKENS, TYPES
from pipeline.export.shared.quiet import quiet

if TYPE_CHECKING:
    from onnx import ModelProto
    from sentence_transformers import SentenceTransformer

OPSET = 20
"""The first with Gelu; onnxruntime runs it since 1.17."""
IR_VERSION = 9
"""The newest that onnxruntime 1.17 reads."""
AS_THEY_ARE = (Dense, Normalize, Pooling, WordWeights)


def export(model: "SentenceTransformer") -> "ModelProto":
    """A student's graph, traced by torch.export; batch and length are free.

    Raises:
        UserError: one of its modules has no ONNX form here.
    """
    from torch.export import Dim

    inputs = input_names(model)
    # The batch and the length of an example may not be 1: it would be taken for fixed.
    ids = torch.zeros((2, 7), dtype=torch.int64)
    example = tuple(torch.ones_like(ids) if name == MASK else ids.clone() for name in inputs)
    axes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    # What the tracer says of its own source files is left out.
    try:
        with torch.no_grad(), quiet():
            program = torch.onnx.export(
                Graph(model).eval(),
                example,
                dynamo=True,
                input_names=list(inputs),
                output_names=[SENTENCES, TOKENS],
                dynamic_shapes=((axes,) * len(inputs),),
                opset_version=OPSET,
                external_data=False,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        kind = getattr(getattr(model[0], "config", None), "model_type", type(model[0]).__name__)
        raise UserError(
            f"torch has no ONNX form of this {kind} student ({reason}); name `formats` without onnx under "
            "`export`: [sentence-transformers]"
        ) from None
    if program is None:
        raise RuntimeError("torch.onnx.export gave no program")
    proto: ModelProto = program.model_proto
    proto.ir_version = IR_VERSION
    # Shapes of what lies between are inferred again by whoever needs them, after quantisation too.
    for holder in (proto, proto.graph, *proto.graph.node, *proto.graph.input, *proto.graph.output):
        del holder.metadata_props[:]
    for initializer in proto.graph.initializer:
        del initializer.metadata_props[:]
    for node in proto.graph.node:
        node.doc_string = ""
    del proto.graph.value_info[:]
    first = model[0]
    if isinstance(first, WordEmbeddings):
        _cut(proto, first.max_seq_length)
    return proto


def input_names(model: "SentenceTransformer") -> tuple[str, ...]:
    """Token ids, their mask and, of a model that tells two texts of an input apart, their types."""
    first = model[0]
    if isinstance(first, TransformerModule):
        if has_types(first.model.config, first.tokenizer):
            return IDS, MASK, TYPES
    return IDS, MASK


def _cut(proto: "ModelProto", longest: int) -> None:
    """Take the first tokens of each text alone, as WordEmbeddings does: no tokenizer cuts like that."""
    from onnx import helper, numpy_helper

    graph = proto.graph
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in (IDS, MASK):
                node.input[place] = f"{name}_cut"
    bounds = {"cut_from": 0, "cut_to": longest, "cut_axis": 1}
    for name, value in bounds.items():
        graph.initializer.append(numpy_helper.from_array(np.array([value], np.int64), name))
    for name in (IDS, MASK):
        graph.node.insert(0, helper.make_node("Slice", [name, *bounds], [f"{name}_cut"]))


class Graph(nn.Module):
    """A student's modules, one after the other, in a form that can be traced."""

    def __init__(self, model: "SentenceTransformer") -> None:
        super().__init__()
        self.inputs = input_names(model)
        self.steps = nn.ModuleList(_step(module) for module in model)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs (n, length) in their order to vectors (n, dim), and those of the tokens (n, length, d)."""
        features = dict(zip(self.inputs, inputs, strict=True))
        for step in self.steps:
            features = step(features)
        return features["sentence_embedding"], features["token_embeddings"]


def _step(module: nn.Module) -> nn.Module:
    if isinstance(module, TransformerModule):
        return _Encoder(module)
    if isinstance(module, LSTM):
        return _Lstm(module)
    if isinstance(module, StaticEmbedding):
        return _Mean(module)
    if isinstance(module, AS_THEY_ARE):
        return module
    if isinstance(module, WordEmbeddings):
        return _Words(module)
    raise UserError(
        f"a student with a module {type(module).__name__} has no ONNX form; name `formats` without onnx "
        "under `export`"
    )


class _Encoder(nn.Module):
    """The encoder alone: what sentence-transformers does around it is for other inputs than texts."""

    def __init__(self, module: TransformerModule) -> None:
        super().__init__()
        self.encoder = module.model
        self.encoder.set_attn_implementation("eager")

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        inputs = {name: features[name] for name in (IDS, MASK, TYPES) if name in features}
        states = self.encoder(**inputs).last_hidden_state
        return {**features, "token_embeddings": states}


class _Mean(nn.Module):
    """The mean of token vectors; a text without tokens gives zeros, as EmbeddingBag does."""

    def __init__(self, module: StaticEmbedding) -> None:
        super().__init__()
        self.table = module.embedding.weight

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        mask = features[MASK].unsqueeze(1).to(self.table.dtype)
        rows = nn.functional.embedding(features[IDS], self.table)
        means = (mask @ rows).squeeze(1) / mask.sum(2).clamp(min=1)
        return {**features, "token_embeddings": rows, "sentence_embedding": means}


class _Words(nn.Module):
    """Word vectors of all tokens."""

    def __init__(self, module: WordEmbeddings) -> None:
        super().__init__()
        self.table = module.emb_layer.weight

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {**features, "token_embeddings": nn.functional.embedding(features[IDS], self.table)}


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
        lengths = features[MASK].sum(1).to(torch.int32)
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
