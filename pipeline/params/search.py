"""`evaluate.indexes` and `evaluate.budget`: how search is made cheaper, and what that costs in quality."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.params.base import Block, Count


class FlatIndex(Block):
    """Exact search: a query is compared with every document."""

    kind: Literal["flat"]


class IvfIndex(Block):
    """Documents in lists around the centroids of k-means; a query looks into the nearest lists alone.

    The defaults are HPD's (appendix C).
    """

    kind: Literal["ivf"]
    nlist: Count = 1024
    """Lists, at most: fewer than 39 documents a list are too few to find a centroid by (faiss), so a small
    corpus has as many lists as it has 39 documents."""
    nprobe: Count = 5
    """Lists that a query looks into; where there are fewer, all of them."""


class HnswIndex(Block):
    """A graph of near documents in several layers, walked from its top towards the query."""

    kind: Literal["hnsw"]
    m: Annotated[int, Field(ge=2)] = 32
    """Neighbours that a document is linked to; twice as many in the lowest layer."""
    ef_construction: Count = 40
    """Candidates that are kept while a document is added."""
    ef_search: Annotated[int, Field(ge=11)] = 64
    """Candidates that are kept while a query is answered; ten and the query's own document, at least."""


Index = Annotated[FlatIndex | IvfIndex | HnswIndex, Field(discriminator="kind")]
DEFAULT_INDEXES: tuple[Index, ...] = (
    FlatIndex(kind="flat"),
    IvfIndex(kind="ivf"),
    HnswIndex(kind="hnsw"),
)

VectorType = Literal["float32", "float16", "int8", "binary"]


class Budget(Block):
    """A student's scores with fewer and smaller numbers a vector.

    Tasks with classifiers are left out: a classifier would have to be trained anew for each.
    """

    types: Annotated[tuple[VectorType, ...], Field(min_length=1, strict=False)] = (
        "float32",
        "float16",
        "int8",
        "binary",
    )
    """`int8`: 256 steps between the least and the greatest value of each dimension in the documents.
    `binary`: the signs, compared by how many differ (Hamming)."""
    dims: Annotated[tuple[Count, ...] | None, Field(strict=False)] = None
    """Prefixes of the vectors beside the whole, those of them that are shorter than it; null: the student's
    `train.matryoshka`, or else halves down to 32."""


def index_faults(indexes: tuple[Index, ...]) -> list[str]:
    """What is wrong with the indexes, a line each."""
    faults = []
    for number, index in enumerate(indexes):
        where = f"evaluate.indexes.{number}"
        if isinstance(index, IvfIndex) and index.nprobe > index.nlist:
            faults.append(
                f"{where}.nprobe is {index.nprobe}, above nlist, {index.nlist}: there are no more lists to "
                "look into; lower it"
            )
        if index in indexes[:number]:
            faults.append(f"{where} is evaluate.indexes.{indexes.index(index)} again; remove one")
    return faults
