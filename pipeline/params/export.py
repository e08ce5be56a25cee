"""`export:`: the formats that students ship in, and how far each may be from the trained student."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.params.base import Block, NonNegative

Format = Literal["sentence-transformers", "model2vec", "onnx", "onnx-int8", "router"]


class Tolerance(Block):
    """How far an export may be from the trained student before the stage fails."""

    distance: NonNegative
    """Largest 1 - cosine of a text's two vectors. Lengths may differ by sqrt(2 distance), the share by which
    a vector moves at that cosine."""
    loss: NonNegative
    """Largest share of the score that may be lost."""


class Export(Block):
    """What `export` makes of every student."""

    formats: Annotated[tuple[Format, ...] | None, Field(strict=False, min_length=1)] = None
    """null: all that a student has (model2vec: static students alone) but router, which is the student for
    queries and its teacher for documents, and as large as both."""
    parity_texts: Annotated[int, Field(ge=3)] = 1000
    """Texts of corpus/eval.parquet whose vectors are compared, the first by text id; all where there are
    fewer."""
    fp32: Tolerance = Tolerance(distance=1e-5, loss=1e-3)
    """Of sentence-transformers, model2vec, onnx, and the queries of router."""
    int8: Tolerance = Tolerance(distance=0.05, loss=0.02)
    """Of onnx-int8."""
    sts: Literal["dev", "test", "agreement"] = "dev"
    """What the score is: the mean Spearman over the tasks of kind sts with this split, or else with the other
    one, or else over wordnet_relatedness. `agreement`, and where there is no such task or its score is not
    positive: Spearman of the cosines of all pairs of texts with the student's."""

    def tolerance(self, name: Format) -> Tolerance:
        """What is allowed of a format."""
        return self.int8 if name == "onnx-int8" else self.fp32
