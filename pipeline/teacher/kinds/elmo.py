"""ELMo (Peters et al. 2018), from AllenNLP's options.json and weights.hdf5; students start from `parts`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.core import fingerprint
from pipeline.core.errors import UserError
from pipeline.core.machine import find_device
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.encoders.packed_model import length_sorted_batches, windows
from pipeline.params.base import ROLES, Role
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import ElmoTeacher, Similarity
from pipeline.teacher.shared.borrowed_parts import borrowed_facts, save_borrowed
from pipeline.teacher.shared.elmo import options, weights
from pipeline.teacher.shared.elmo.network import ENDS, Packed, build
from pipeline.teacher.shared.elmo.words import bytes_of, characters, ends, split
from pipeline.teacher.shared.local.cut import Cut
from pipeline.teacher.shared.local.unweighted import Reading
from pipeline.teacher.shared.local.vocabulary import Vocabulary

RECIPE_VERSION = 1
VIEWS = ("sentence", "token_mean")
WORDS_AT_A_TIME = 512
"""Distinct words, of similar lengths, whose characters go through the filters together."""


def load(params: ElmoTeacher, runtime: Runtime) -> "Elmo":
    """The ELMo of these params.

    Raises:
        UserError: a file or a package is missing, or the files are damaged or of two models.
    """
    return Elmo(params, runtime)


def look(params: ElmoTeacher) -> TeacherFacts:
    """The facts of `teacher.parts`, with the dimensions that options.json says; no weights are read.

    Raises:
        UserError: a file, a package or the local model is missing, or students cannot start from that.
    """
    options.check_packages()
    width = options.read(options.find(params.model).options).width
    return borrowed_facts(params, dict.fromkeys(VIEWS, width))


def reading(params: ElmoTeacher) -> Reading:
    """It has no tokenizer but one of words, and no prompt."""
    return Reading(None, params.max_length, "")


class Elmo:
    """Mean vectors of a text's words, by length-sorted batches; a distinct word goes through the CNN once.

    A text without words is the mean of its sentence's two ends.
    """

    similarity: Similarity = "cosine"

    def __init__(self, params: ElmoTeacher, runtime: Runtime) -> None:
        files = options.find(params.model)
        said = options.read(files.options)
        self.params = params
        self._runtime = runtime
        self._most = said.char_cnn.max_characters_per_token
        self._widest = max(width for width, _ in said.char_cnn.filters)
        self.folders = (Path(params.model),)
        self.dims = dict.fromkeys(VIEWS, said.width)
        self._device = find_device(runtime.device)
        self.module = build(said, weights.read(files.weights, said)).to(self._device)
        recipe = {
            "version": RECIPE_VERSION,
            "kind": params.kind,
            "model": Path(params.model).name,
            "weights": fingerprint.of_json({name: fingerprint.of_file(path) for name, path in _named(files)}),
            "layers": params.layers,
            "max_length": params.max_length,
        }
        self.recipes: dict[str, dict[str, Any]] = dict.fromkeys(ROLES, recipe)

    @torch.inference_mode()
    def encode(
        self, texts: Sequence[str], views: Sequence[str], role: Role = "text"
    ) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, dims[view]) of each view, in the order of the texts; they are the same in all roles.

        Raises:
            UserError: another view than `sentence` and `token_mean` is asked for.
        """
        if others := [view for view in views if view not in VIEWS]:
            raise UserError(f"encode.views has {others[0]!r}; ELMo gives {' and '.join(VIEWS)} alone")
        found = {view: np.empty((len(texts), self.dims[view]), np.float32) for view in views}
        for start, stop in windows(texts):
            sentences, table = self._words(
                [split(text)[: self.params.max_length] for text in texts[start:stop]]
            )
            lengths = np.array([len(sentence) for sentence in sentences])
            for batch in length_sorted_batches(lengths, self._runtime.tokens_per_batch):
                layers, packed = self._layers([sentences[row] for row in batch], lengths[batch], table)
                for view in views:
                    is_top = view == "token_mean" or self.params.layers == "top"
                    states = layers[-1] if is_top else torch.stack(layers).mean(dim=0)
                    found[view][start + batch] = packed.means(states).cpu().numpy()
        return found

    def _words(self, texts: Sequence[Sequence[str]]) -> tuple[list[NDArray[np.int64]], torch.Tensor]:
        """Of each text's sentence, its two ends included, the rows of its words in a table (words, d)."""
        numbers: dict[bytes, int] = {}
        sentences = []
        for text in texts:
            named = [numbers.setdefault(bytes_of(word, self._most), len(numbers) + ENDS) for word in text]
            sentences.append(np.array([0, *named, 1]))
        distinct = list(numbers)
        lengths = np.array([len(word) for word in distinct], np.int64)
        order = np.argsort(lengths, kind="stable")
        of_ends = self._of_characters(ends(self._most))
        table = torch.cat([of_ends, of_ends.new_empty(len(distinct), of_ends.shape[1])])
        for first in range(0, len(order), WORDS_AT_A_TIME):
            rows = order[first : first + WORDS_AT_A_TIME]
            found = characters([distinct[row] for row in rows], self._most)
            # What lies behind a word and its ends is padding: of that, one window of each filter is enough.
            table[torch.from_numpy(rows + ENDS)] = self._of_characters(
                found[:, : int(lengths[rows[-1]]) + ENDS + self._widest]
            )
        return sentences, table

    def _of_characters(self, found: NDArray[np.int64]) -> torch.Tensor:
        return self.module.words(torch.from_numpy(found).to(self._device))

    def _layers(
        self, sentences: Sequence[NDArray[np.int64]], lengths: NDArray[np.int64], table: torch.Tensor
    ) -> tuple[list[torch.Tensor], Packed]:
        """Packed vectors of each layer, of sentences of falling lengths."""
        packed = Packed.of(lengths)
        rows = torch.from_numpy(np.concatenate(sentences)[packed.order]).to(self._device)
        return self.module.layers(table[rows], packed), packed

    def cut(self, texts: Sequence[str], _role: Role = "text") -> Cut:
        """How many texts have more words than `max_length`, and how many more."""
        most = self.params.max_length
        counts = [len(split(text)) for text in texts if len(text) > most]
        over = [count for count in counts if count > most]
        return Cut(len(over), sum(over), sum(over) - most * len(over))

    def save_parts(self, folder: Path) -> Vocabulary:
        """The parts of the local model `teacher.parts`, as the transformer teacher saves them."""
        return save_borrowed(self.params, folder, self._runtime)

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors."""
        return self.encode(texts, ["sentence"])


def _named(files: options.Files) -> list[tuple[str, Path]]:
    return [(options.OPTIONS, files.options), (options.WEIGHTS, files.weights)]
