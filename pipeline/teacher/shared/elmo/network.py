"""ELMo's network (Peters et al. 2018): words from characters, and an LSTM in each direction over them.

Sentences are packed as `PackedSequence` has them: the first tokens of all sentences, the longest sentence's
first, then the second tokens of those that have one, and so on. There is no padding.

A sentence starts from zeros. AllenNLP lets an LSTM go on from the states that the batch before it ended in,
which makes a sentence's vectors depend on what was encoded earlier; that is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.teacher.shared.elmo.options import Lstm, Options
from pipeline.teacher.shared.elmo.words import CHARACTERS

ENDS = 2
"""Of a sentence."""


@dataclass(frozen=True)
class Packed:
    """How sentences of falling lengths lie in packed order."""

    sizes: list[int]
    """How many sentences have a token at each position."""
    order: NDArray[np.int64]
    """Where each packed token lies in the sentences one after the other."""
    mirrored: NDArray[np.int64]
    """The packed place of the token that is as far from its sentence's end as this one from its begin."""
    words: NDArray[np.bool_]
    """Which packed tokens are words: all but a sentence's ends; these too where it has no words."""

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> "Packed":
        """Sentences of these falling lengths, their two ends included."""
        there = lengths > np.arange(lengths[0])[:, np.newaxis]
        position, sentence = np.nonzero(there)
        sizes = there.sum(axis=1)
        before, starts = np.cumsum(sizes) - sizes, np.cumsum(lengths) - lengths
        left = lengths[sentence] - 1 - position
        words = (position > 0) & (left > 0) | (lengths[sentence] == ENDS)
        return cls(sizes.tolist(), starts[sentence] + position, before[left] + sentence, words)

    def means(self, states: Tensor) -> Tensor:
        """Mean (sentences, d) of the packed states (n, d) of each sentence's words."""
        words = torch.from_numpy(self.words).to(states).unsqueeze(1)
        total, count = states.new_zeros(self.sizes[0], states.shape[1]), words.new_zeros(self.sizes[0], 1)
        start = 0
        for size in self.sizes:
            counted = words[start : start + size]
            total[:size] += states[start : start + size] * counted
            count[:size] += counted
            start += size
        return total / count


class Highway(nn.Module):
    """A gated step: g relu(W x) + (1 - g) x."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(n, width) to (n, width)."""
        return torch.lerp(x, self.transform(x).relu(), self.carry(x).sigmoid())


class Cell(nn.Module):
    """An LSTM whose output is projected, and whose memory and output are clipped."""

    def __init__(self, shape: Lstm) -> None:
        super().__init__()
        self.shape = shape
        self.inputs = nn.Linear(shape.projection_dim, 4 * shape.dim)
        self.state = nn.Linear(shape.projection_dim, 4 * shape.dim, bias=False)
        self.output = nn.Linear(shape.dim, shape.projection_dim, bias=False)

    def forward(self, inputs: Tensor, sizes: Sequence[int]) -> Tensor:
        """Packed inputs (n, d) to packed outputs (n, d), from zeros."""
        gates, outputs = self.inputs(inputs), torch.empty_like(inputs)
        state = inputs.new_zeros(sizes[0], self.shape.projection_dim)
        memory = inputs.new_zeros(sizes[0], self.shape.dim)
        start = 0
        for size in sizes:
            step = torch.addmm(gates[start : start + size], state[:size], self.state.weight.T)
            enter, new, keep, leave = step.chunk(4, dim=1)
            memory = keep.sigmoid_() * memory[:size] + enter.sigmoid_() * new.tanh_()
            memory = _clipped(memory, self.shape.cell_clip)
            state = _clipped(self.output(leave.sigmoid_() * memory.tanh()), self.shape.proj_clip)
            outputs[start : start + size] = state
            start += size
        return outputs


def _clipped(numbers: Tensor, most: float | None) -> Tensor:
    return numbers if most is None else numbers.clamp_(-most, most)


class Network(nn.Module):
    """A whole ELMo, without the softmax that it was trained with."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        cnn, lstm = options.char_cnn, options.lstm
        self.embedding = nn.Embedding(CHARACTERS, cnn.embedding.dim)
        self.filters = nn.ModuleList(
            nn.Conv1d(cnn.embedding.dim, count, width) for width, count in cnn.filters
        )
        self.highways = nn.ModuleList(Highway(cnn.filtered) for _ in range(cnn.n_highway))
        self.projection = nn.Linear(cnn.filtered, lstm.projection_dim)
        self.ahead = nn.ModuleList(Cell(lstm) for _ in range(lstm.n_layers))
        self.back = nn.ModuleList(Cell(lstm) for _ in range(lstm.n_layers))

    def words(self, characters: Tensor) -> Tensor:
        """Vectors (n, d) of words, by the characters (n, most) of each; they know no neighbours."""
        embedded = self.embedding(characters).transpose(1, 2)
        activation = torch.relu if self.options.char_cnn.activation == "relu" else torch.tanh
        x = torch.cat([activation(one(embedded).amax(dim=-1)) for one in self.filters], dim=1)
        for highway in self.highways:
            x = highway(x)
        return cast("Tensor", self.projection(x))

    def layers(self, words: Tensor, packed: Packed) -> list[Tensor]:
        """Packed vectors (n, 2 d) of each layer, the words' own first, by packed word vectors (n, d)."""
        mirrored = torch.from_numpy(packed.mirrored).to(words.device)
        ahead, back = words, words[mirrored]
        found = [torch.cat([words, words], dim=1)]
        for number, (forward, backward) in enumerate(zip(self.ahead, self.back, strict=True)):
            below = ahead, back
            ahead, back = forward(ahead, packed.sizes), backward(back, packed.sizes)
            if number and self.options.lstm.use_skip_connections:
                ahead, back = ahead + below[0], back + below[1]
            found.append(torch.cat([ahead, back[mirrored]], dim=1))
        return found


def build(options: Options, state: dict[str, Tensor]) -> Network:
    """The network of a state, as `weights.read` gives it."""
    with torch.device("meta"):
        network = Network(options)
    network.load_state_dict(state, assign=True)
    return network.requires_grad_(False).eval()
