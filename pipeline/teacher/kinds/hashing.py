"""Deterministic vectors from the hashes of a text's words: a teacher without a model, for tests."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.data.models import teacher_facts
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.base import ROLES, Role
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import HashingTeacher, Similarity
from pipeline.teacher.shared.local.cut import NONE, Cut
from pipeline.teacher.shared.local.unweighted import Reading
from pipeline.teacher.shared.local.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import BertConfig, PreTrainedTokenizerFast

RECIPE_VERSION = 1
VIEWS = ("sentence", "token_mean", "cls")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def load(params: HashingTeacher, _runtime: Runtime) -> "Hashing":
    """The hashing teacher of these params."""
    return Hashing(params)


def look(params: HashingTeacher) -> TeacherFacts:
    """The facts of the hashing teacher of these params."""
    tokenizer = letter_tokenizer()
    config = {**_config(len(tokenizer)).to_diff_dict(), "model_type": "bert"}
    dims = dict.fromkeys(VIEWS, params.dim)
    return teacher_facts.of_parts(config, tokenizer, dims, params.dim, None)


def reading(_params: HashingTeacher) -> Reading:
    """It reads words, as many as there are."""
    return Reading(None, None, "")


class Hashing:
    """A text's vector is the sum of its words' random directions; every view gives the same."""

    similarity: Similarity = "cosine"
    module = None
    folders = ()

    def __init__(self, params: HashingTeacher) -> None:
        self.params = params
        self.dims = dict.fromkeys(VIEWS, params.dim)
        recipe = {"version": RECIPE_VERSION, **params.model_dump()}
        self.recipes: dict[str, dict[str, Any]] = dict.fromkeys(ROLES, recipe)
        self._word = lru_cache(maxsize=100_000)(self._direction)

    def encode(
        self,
        texts: Sequence[str],
        views: Sequence[str],
        role: Role = "text",
    ) -> dict[str, NDArray[np.float32]]:
        """Vectors (n, dim) at length 1; a text without words is the direction of the empty word."""
        vectors = np.empty((len(texts), self.params.dim), np.float32)
        for row, text in enumerate(texts):
            words = re.findall(r"\w+", text.lower()) or [""]
            total = np.sum([self._word(word) for word in words], axis=0)
            vectors[row] = total / np.linalg.norm(total)
        return dict.fromkeys(views, vectors)

    def cut(self, _texts: Sequence[str], _role: Role = "text") -> Cut:
        """Nothing: all words are read."""
        return NONE

    def save_parts(self, folder: Path) -> Vocabulary:
        """Save a two-layer BERT of seeded random weights over single letters; a token has its direction."""
        import torch
        from transformers import BertModel

        tokenizer = letter_tokenizer()
        with torch.random.fork_rng():
            torch.manual_seed(self.params.seed)
            BertModel(_config(len(tokenizer))).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
        return Vocabulary(
            {**self.recipes["text"], "vocabulary": 1},
            len(tokens),
            lambda ids: np.stack([self._direction(tokens[token]) for token in ids]),
        )

    def encode_as_users_do(self, texts: Sequence[str]) -> object:
        """The `sentence` vectors."""
        return self.encode(texts, ["sentence"])

    def _direction(self, word: str) -> NDArray[np.float32]:
        digest = hashlib.blake2b(f"{self.params.seed}:{word}".encode(), digest_size=8).digest()
        generator = np.random.default_rng(int.from_bytes(digest, "big"))
        return generator.standard_normal(self.params.dim, dtype=np.float32)


def _config(tokens: int) -> "BertConfig":
    from transformers import BertConfig

    return BertConfig(
        vocab_size=tokens,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )


def letter_tokenizer() -> "PreTrainedTokenizerFast":
    """A WordPiece tokenizer that spells every word in letters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = [*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    names = dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_TOKENS, strict=True)
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **names)
