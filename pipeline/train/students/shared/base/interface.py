"""What the stages ask of a student of any kind."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.data.tokens.tokens import Tokens


class Encoded(NamedTuple):
    """What a student makes of n sentences with T tokens in all; differentiable."""

    vectors: Tensor
    """(n, dim)."""
    embedded: Tensor | None
    """(T, d) the embedding layer's output, transformers' hidden state 0, in the order of the tokens given;
    None where it was not asked for."""
    states: Mapping[int, Tensor] = MappingProxyType({})
    """(T, width) what each layer that was asked for gives, by its number, in the same order."""


class Student(Protocol):
    """A model in training.

    A kind's module has `build(params, teacher_folder) -> Student`, which starts from the teacher's parts,
    `weigh(params, facts) -> int`, which counts the numbers that `build` starts from by the teacher's facts
    and refuses what `build` would refuse, and `load(params, folder) -> Student`, which goes on from a saved
    one.
    """

    module: nn.Module
    """Everything that is trained."""

    def tokenise(self, texts: list[str]) -> Tokens:
        """The texts as this student reads them."""
        ...

    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Solve what can be solved in closed form, so that the vectors come close to `targets` (n, dim)."""
        ...

    def encode(self, tokens: Tokens, *, embedded: bool = False) -> Encoded:
        """Sentence vectors, and the embedding layer's output if asked for.

        Raises:
            UserError: this kind of student has no embedding layer apart from its vectors.
        """
        ...

    def regularise(self, tokens: Tokens) -> None:
        """What is done once training is over; `tokens` are the training texts."""
        ...

    def save(self, folder: Path) -> None:
        """Save as a folder that SentenceTransformer(folder) loads without this project."""
        ...


@runtime_checkable
class MapsLinearly(Protocol):
    """What a student has that is no SentenceTransformer, to which a last layer could be appended."""

    def map_linearly(self, weights: NDArray[np.float32], bias: NDArray[np.float32]) -> None:
        """From here on a text's vector v (d,) is v @ weights + bias; weights (d, dim), bias (dim,)."""
        ...


@runtime_checkable
class HasLayers(Protocol):
    """What a student may have besides: layers, whose hidden states a loss may read."""

    layers: int
    """How many; they are counted from 0."""
    width: int
    """Of their states."""

    def encode_layers(self, tokens: Tokens, layers: Collection[int], *, embedded: bool = False) -> Encoded:
        """As `encode`, with the hidden states of these layers."""
        ...


@runtime_checkable
class ReadsPairs(HasLayers, Protocol):
    """What a student may do besides: read both texts of a pair as one."""

    def tokenise_pairs(self, pairs: list[tuple[str, str]]) -> Tokens:
        """Each pair as one sequence, with the types of its tokens where the student has such."""
        ...


@runtime_checkable
class LearnsVocabulary(Protocol):
    """What a student may have besides: a vocabulary that the training texts decide."""

    def learn_vocabulary(self, texts: Callable[[], Iterable[list[str]]]) -> None:
        """Look at the training texts, some at a time, as often as it calls; before anything is tokenised."""
        ...
