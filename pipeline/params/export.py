"""`export:`: the formats that students ship in, and how far each may be from the trained student."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.params.base import Block, NonNegative

Format = Literal["sentence-transformers", "model2vec", "onnx", "onnx-int8", "onnx-fp16", "openvino", "router"]
Overlap = Annotated[float, Field(ge=0, le=1)]


class Tolerance(Block):
    """How far an export may be from the trained student before the stage fails."""

    distance: NonNegative
    """Largest 1 - cosine of a text's two vectors. Lengths may differ by sqrt(2 distance), the share by which
    a vector moves at that cosine."""
    loss: NonNegative
    """Largest share of the score that may be lost."""
    overlap: Overlap = 0.0
    """Least mean share of a text's ten nearest texts that the export finds too, by cosine, inner product and
    Euclidean distance."""


class Export(Block):
    """What `export` makes of every student."""

    formats: Annotated[tuple[Format, ...] | None, Field(strict=False, min_length=1)] = None
    """null: sentence-transformers, onnx and onnx-int8, and of static students model2vec. onnx-fp16 is for
    GPUs and browsers, openvino for Intel's runtime (`pip install openvino`). router is the student for
    queries and its teacher for documents, and as large as both. All lie in a sentence-transformers
    folder."""
    parity_texts: Annotated[int, Field(ge=3)] = 1000
    """Texts of corpus/eval.parquet whose vectors are compared, the first by text id; all where there are
    fewer."""
    fp32: Tolerance = Tolerance(distance=1e-5, loss=1e-3, overlap=0.99)
    """Of sentence-transformers, model2vec, onnx, openvino, and the queries of router."""
    fp16: Tolerance = Tolerance(distance=1e-3, loss=5e-3, overlap=0.95)
    """Of onnx-fp16."""
    int8: Tolerance = Tolerance(distance=0.05, loss=0.02, overlap=0.8)
    """Of onnx-int8."""
    sts: Literal["dev", "test", "agreement"] = "dev"
    """What the score is: the mean Spearman over the tasks of kind sts with this split, or else with the other
    one, or else over wordnet_relatedness. `agreement`, and where there is no such task or its score is not
    positive: Spearman of the cosines of all pairs of texts with the student's."""

    def tolerance(self, name: Format) -> Tolerance:
        """What is allowed of a format."""
        found: Tolerance = getattr(self, tolerance_of(name))
        return found


def tolerance_of(name: Format) -> Literal["fp32", "fp16", "int8"]:
    """The key of `export` that says what is allowed of a format."""
    match name:
        case "onnx-int8":
            return "int8"
        case "onnx-fp16":
            return "fp16"
        case _:
            return "fp32"
