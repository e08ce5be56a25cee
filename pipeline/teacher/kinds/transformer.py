"""A transformer teacher: any sentence-transformers model, or a plain transformers model with a pooling."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.core import memory
from pipeline.core.errors import UserError
from pipeline.core.machine import Half, how_much_slower, largest_layer
from pipeline.core.progress import say
from pipeline.data.models.locate import weights_hash
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.encoders.packed_model import PackedModel, encoder_of, preprocesses, whole_tokenizer
from pipeline.encoders.packing.packing import is_namesake
from pipeline.params.base import Role
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Similarity, TransformerTeacher
from pipeline.teacher.shared.local.cut import Cut, cut
from pipeline.teacher.shared.local.described import prompts
from pipeline.teacher.shared.local.local_facts import facts_of
from pipeline.teacher.shared.local.local_model import (
    find_teacher,
    load_model,
    save_parts,
)
from pipeline.teacher.shared.local.unweighted import (
    Reading,
    load_unweighted,
    max_length_of,
    stated_prompts,
)
from pipeline.teacher.shared.local.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

RECIPE_VERSION = 2


def load(params: TransformerTeacher, runtime: Runtime) -> "Transformer":
    """The transformer teacher of these params.

    Raises:
        UserError: the model is missing or cannot be loaded as asked.
    """
    return Transformer(params, runtime)


def look(params: TransformerTeacher) -> TeacherFacts:
    """The facts of the teacher of these params.

    Raises:
        UserError: the model is missing, or cannot be a teacher.
    """
    return facts_of(find_teacher(params), params)


def reading(params: TransformerTeacher) -> Reading:
    """How the teacher of these params reads a text, by its longest prompt; no weights are loaded.

    Raises:
        UserError: the model is missing or cannot be read, or names no longest text.
    """
    folder = find_teacher(params)
    model = load_unweighted(folder, params)
    longest = max(prompts.by_role(*stated_prompts(folder), params.prompts).values(), key=len)
    return Reading(model.tokenizer.backend_tokenizer.to_str(), max_length_of(model, params), longest)


class Transformer:
    """A sentence-transformers model, fed with length-sorted batches, packed where it can be."""

    def __init__(self, params: TransformerTeacher, runtime: Runtime) -> None:
        folder = find_teacher(params)
        self.folders = (folder,)
        self._params = params
        self.module = load_model(folder, params, runtime.device)
        memory.say_if_more(
            f"the teacher {params.model} takes",
            sum(weight.nbytes for weight in self.module.parameters()),
            "a smaller one takes less",
            runtime.memory,
        )
        if params.precision != "float32":
            _tell_if_slower(params.precision, self.module)
        self.prompts = prompts.by_role(self.module.prompts, self.module.default_prompt_name, params.prompts)
        self.max_length = max_length_of(self.module, params)
        self.module.max_seq_length = self.max_length  # for its users, whom the footprint stands for
        self.model = PackedModel(self.module, self.max_length, runtime.tokens_per_batch)
        self.dims = self.model.dims
        self.similarity: Similarity = self.module.similarity_fn_name
        self._check_pooling(params.model)
        recipe: dict[str, Any] = {
            "version": RECIPE_VERSION,
            **params.model_dump(exclude={"prompts", "finetune"}),
            # Neither a path of this machine nor a name for a commit is an identity; the files are.
            "model": Path(params.model).name,
            "revision": None,
            "max_length": self.max_length,
            "weights": weights_hash(folder, code=params.trust_remote_code),
        }
        if preprocesses(encoder_of(self.module)):
            recipe["preprocessing"] = "sentence-transformers"
        if self.module.tokenizer.truncation_side != "right":
            recipe["truncation_side"] = self.module.tokenizer.truncation_side
        if self.module.tokenizer.split_special_tokens:
            recipe["split_special_tokens"] = True
        if is_namesake(encoder_of(self.module).model):
            recipe["code"] = "own"
        self.recipes: dict[str, dict[str, Any]] = {
            role: {**recipe, "prompt": prompt} for role, prompt in self.prompts.items()
        }
        if self.model.knows_tasks:
            for role in ("query", "document"):
                self.recipes[role]["task"] = role

    def _check_pooling(self, name: str) -> None:
        try:
            self.model.encode(["a"], ["sentence"])
        except KeyError as error:
            raise UserError(
                f"teacher.model: {name} gives no {error.args[0]}; add a Pooling to its modules.json, or "
                "remove modules.json and set teacher.pooling"
            ) from None
        except (ValueError, TypeError) as error:
            raise UserError(
                f"teacher.model: {name} cannot encode a text ({error}); correct its modules, or name another "
                "model"
            ) from None

    def encode(
        self, texts: Sequence[str], views: Sequence[str], role: Role = "text"
    ) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, dims[view]) of each view.

        `sentence` equals sentence-transformers' `encode`, `encode_query` or `encode_document`, by the role.
        """
        return self.model.encode(texts, views, self.prompts[role], None if role == "text" else role)

    def cut(self, texts: Sequence[str], role: Role = "text") -> Cut:
        """How much of the texts in a role lies behind `max_length`."""
        return cut([self.prompts[role] + text for text in texts], self._whole, self.max_length)

    @cached_property
    def _whole(self) -> Tokenizer:
        """The tokenizer without truncation and padding."""
        return whole_tokenizer(self.module.tokenizer)

    def save_parts(self, folder: Path) -> Vocabulary:
        """Save the encoder as a transformers folder; return what encodes tokens on their own (model2vec)."""
        return save_parts(
            self.module, folder, self._params, self.recipes["text"]["weights"], self.model.tokens_per_batch
        )

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors by sentence-transformers' own encode, with its defaults."""
        return self.module.encode(list(texts), prompt=self.prompts["text"], show_progress_bar=False)


def _tell_if_slower(precision: Half, model: "SentenceTransformer") -> None:
    layer = largest_layer(encoder_of(model).model)
    if layer and (said := how_much_slower(precision, layer, str(model.device))):
        say(f"teacher.precision: {said}")
