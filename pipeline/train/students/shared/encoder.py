"""A student made of an encoder, pooling and an optional projection: transformer and compact."""

import tempfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.base.modules import Transformer as TransformerModule
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.data.tokens.mapped import positions
from pipeline.data.tokens.tokens import TYPES, Tokens, has_types, parts_of, tokenise
from pipeline.encoders.packing.packing import PackedEncoder, can_pack, word_table
from pipeline.params.students import FITTED
from pipeline.train.students.shared import vocabulary
from pipeline.train.students.shared.base.interface import Encoded
from pipeline.train.students.shared.base.settings import write_settings, write_tokenizer_config
from pipeline.train.students.shared.feed_forward import fit_feed_forward
from pipeline.train.students.shared.ridge import orthogonal, ridge
from pipeline.train.students.shared.teacher_layers import as_module
from pipeline.train.students.shared.token_rows import keep_rows, pinned

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENS_AT_A_TIME = 512
"""Padded tokens of one forward pass of a model that cannot be packed: a batch is split by length."""
LEAST_OF_A_PAIR = 2
"""Special tokens of two texts that are told apart: one between them, and one at an end."""
TOKENS_ON_A_GPU = 16_384
"""The same on a GPU, which small passes would leave idle."""


class Init(Protocol):
    """The params that an encoder student reads."""

    @property
    def projection(self) -> str:
        """`ridge` and `orthogonal` are solved, all else stays as built."""
        ...

    @property
    def pooling(self) -> str:
        """`mean` of a text's last hidden states, or `cls`: the first token's."""
        ...

    @property
    def ridge_rows(self) -> int:
        """Texts that it is solved on."""
        ...

    @property
    def ridge_lambda(self) -> float:
        """Its penalty."""
        ...

    @property
    def longest(self) -> int:
        """Tokens of a text that are read."""
        ...

    @property
    def tokens(self) -> int | None:
        """Most tokens that are kept of the vocabulary; None: all."""
        ...


class EncoderStudent:
    """A sentence-transformers model of an encoder, pooling and perhaps a Dense layer, in training.

    What is trained are the very modules that are saved. Encoders of the known families run packed.
    """

    teacher_ids: NDArray[np.int64] | None = None
    """(V,) the ids that the tokens had before some were left out; None where none were."""

    def __init__(
        self,
        init: Init,
        model: SentenceTransformer,
        whole: "Callable[[], PreTrainedModel] | None" = None,
    ) -> None:
        """The student of a model.

        Args:
            init: its params.
            model: its modules.
            whole: gives the encoder with all neurons of its feed-forward blocks, which `fit_projection` fits
                the student's fewer ones to; None: they stay as built.
        """
        self._init = init
        self._whole = whole
        self._set(model)

    def _set(self, model: SentenceTransformer) -> None:
        # Distillation is a regression on fixed targets: dropout would be noise, and a resumed run would
        # need its state.
        self.module: nn.Module = model.eval()
        self._model = model
        self._transformer = cast("TransformerModule", model[0])
        encoder = self._transformer.model
        self._packed = PackedEncoder(encoder, training=True) if can_pack(encoder) else None
        self._tokenizer = model.tokenizer.backend_tokenizer
        self._pad = model.tokenizer.pad_token_id or 0

    def learn_vocabulary(self, texts: Callable[[], Iterable[list[str]]]) -> None:
        """Keep the `init.tokens` most frequent tokens: others are made of those, by the tokenizer's rules."""
        encoder, tokenizer = self._transformer.model, self._model.tokenizer
        table = cast("nn.Embedding", encoder.get_input_embeddings())
        kept = vocabulary.learn(tokenizer, len(table.weight), texts(), self._init.tokens, pinned(encoder))
        if kept is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            vocabulary.cut(tokenizer, kept).save_pretrained(folder)
            fewer = as_module(keep_rows(encoder, kept), Path(folder), self._init.longest)
        self.teacher_ids = np.array(kept)
        self._set(SentenceTransformer(modules=[fewer, *list(self._model)[1:]], device="cpu"))

    def tokenise(self, texts: list[str]) -> Tokens:
        """Token ids with special tokens, cut at max_length."""
        self._set_tokenizer()
        return tokenise(self._tokenizer, texts, special=True)

    def tokenise_pairs(self, pairs: list[tuple[str, str]]) -> Tokens:
        """Both texts of a pair as one sequence, by the tokenizer's own template, the longer one cut first.

        Raises:
            UserError: the template puts nothing between them, or leaves them no room.
        """
        self._set_tokenizer()
        special, longest = self._tokenizer.num_special_tokens_to_add(is_pair=True), self._init.longest
        if special < LEAST_OF_A_PAIR:
            raise UserError(
                f"read is together, and the tokenizer puts {special} special tokens to a pair, so nothing "
                "tells one text from the other; name another init.model, or set read to apart"
            )
        if longest <= special:
            raise UserError(
                f"init.max_length is {longest}, and a pair's special tokens are {special}; raise it"
            )
        found = tokenise(self._tokenizer, pairs, special=True)
        typed = has_types(self._transformer.model.config, self._model.tokenizer)
        return found if typed else replace(found, types=None)

    @torch.no_grad()
    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Fit narrow feed-forward blocks, then the projection of pooled outputs to the targets (n, dim).

        Of both what params want.
        """
        if self._whole is not None:
            encoder = self._transformer.model
            fit_feed_forward(self._whole(), encoder, tokens, self._init.ridge_lambda, self.teacher_ids)
        if self._init.projection not in FITTED:
            return
        lengths = tokens.lengths[: self._init.ridge_rows]
        pooled = torch.cat([self._pooled(tokens.select(part))[0] for part in parts_of(lengths)])
        linear = cast("Dense", self._model[2]).linear
        if self._init.projection == "orthogonal":
            linear.weight.copy_(torch.from_numpy(orthogonal(pooled.numpy(), targets[: len(pooled)]).T))
            linear.bias.zero_()
            return
        weights, bias = ridge(pooled.numpy(), targets[: len(pooled)], self._init.ridge_lambda)
        linear.weight.copy_(torch.from_numpy(weights.T))
        linear.bias.copy_(torch.from_numpy(bias))

    def encode(self, tokens: Tokens, *, embedded: bool = False) -> Encoded:
        """Sentence vectors, and the embedding layer's output if asked for."""
        return self.encode_layers(tokens, (), embedded=embedded)

    @property
    def layers(self) -> int:
        """How many it has."""
        return int(self._transformer.model.config.num_hidden_layers)

    @property
    def width(self) -> int:
        """Dimension of its hidden states."""
        return int(self._transformer.model.config.hidden_size)

    def encode_layers(self, tokens: Tokens, layers: Collection[int], *, embedded: bool = False) -> Encoded:
        """As `encode`, with the hidden states of these layers, counted from 0."""
        levels = [*([0] if embedded else []), *(layer + 1 for layer in layers)]
        pooled, states = self._pooled(tokens, levels)
        features = {"sentence_embedding": pooled}
        for module in list(self._model)[2:]:
            features = module(features)
        first = states.pop(0, None)
        of_layers = {level - 1: found for level, found in states.items()}
        return Encoded(features["sentence_embedding"], first, of_layers)

    def token_table(self) -> Tensor:
        """Word vectors (V, d) in the space that the first layer reads, differentiable."""
        return word_table(self._transformer.model)

    def regularise(self, tokens: Tokens) -> None:
        """Nothing: an encoder is final as trained."""

    def save(self, folder: Path) -> None:
        """Save as a sentence-transformers folder."""
        self._set_tokenizer()  # a resumed training has not tokenised
        self._model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)
        write_settings(self._transformer.model.config, folder)
        write_tokenizer_config(folder)

    def _set_tokenizer(self) -> None:
        """No padding, cut at max_length: whoever tokenised last has left their own."""
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._init.longest, direction=self._model.tokenizer.truncation_side)

    def _pooled(self, tokens: Tokens, levels: Collection[int] = ()) -> tuple[Tensor, dict[int, Tensor]]:
        """Pooled last hidden states (n, d), and hidden states (T, d) by level, as transformers count.

        Level 0 is the embedding layer's, level i + 1 that of layer i.
        """
        groups = [np.argsort(tokens.lengths, kind="stable")]
        if not self._packed:
            most = TOKENS_ON_A_GPU if self._model.device.type == "cuda" else TOKENS_AT_A_TIME
            groups = length_groups(tokens.lengths, most)
        order = np.concatenate(groups)
        places = positions(tokens.offsets[order], tokens.lengths[order]) if levels else None
        # Before the model runs: a copy to a GPU waits for all that is queued there.
        texts_back = self._inverse(order)
        tokens_back = None if places is None else self._inverse(places)
        # A packed text has no padding to be read where no text of a batch has a token.
        run = self._run_packed if self._packed and len(tokens.ids) else self._run_padded
        pooled, states = zip(*(run(tokens.select(group), levels) for group in groups), strict=True)
        in_order = torch.cat(pooled).index_select(0, texts_back)
        if tokens_back is None:
            return in_order, {}
        joined = {level: torch.cat([one[level] for one in states]) for level in levels}
        return in_order, {level: found.index_select(0, tokens_back) for level, found in joined.items()}

    def _inverse(self, order: NDArray[np.int64]) -> Tensor:
        """Where each row lies in an order, (n,), on the student's device."""
        return torch.from_numpy(np.argsort(order)).to(self._model.device)

    def _run_packed(self, tokens: Tokens, levels: Collection[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """Texts from short to long, without padding."""
        assert self._packed
        lengths = tokens.lengths
        ids = torch.from_numpy(tokens.ids.astype(np.int64)).to(self._model.device)
        texts = torch.from_numpy(lengths).to(self._model.device)
        types = None
        if tokens.types is not None:
            types = torch.from_numpy(tokens.types.astype(np.int64)).to(self._model.device)
        last = self._packed.embedded(ids, lengths.tolist(), types)
        found = {0: last} if 0 in levels else {}
        for level, last in enumerate(self._packed.layer_by_layer(last, lengths.tolist()), 1):  # noqa: B020
            if level in levels:
                found[level] = last
        # A text may have no token: its vector is zero, as sentence-transformers has the mean of none.
        if self._init.pooling == "cls":
            firsts = (texts.cumsum(0) - texts).clamp(max=len(last) - 1)
            return last.float()[firsts] * (texts > 0).unsqueeze(1), found
        return torch.segment_reduce(
            last.float(), "mean", lengths=texts, axis=0, initial=0.0, unsafe=True
        ), found

    def _run_padded(self, tokens: Tokens, levels: Collection[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """Texts of similar length through the model's own forward."""
        ids, mask = tokens.padded(self._pad)
        there = self._model.device
        inputs = {
            "input_ids": torch.from_numpy(ids).to(there),
            "attention_mask": torch.from_numpy(mask).to(there),
        }
        if tokens.types is not None:
            inputs[TYPES] = torch.from_numpy(tokens.padded_types()).to(there)
        out = self._transformer.model(**inputs, output_hidden_states=bool(levels))
        real = inputs["attention_mask"].bool()
        states = {level: out.hidden_states[level][real] for level in levels}
        kept = inputs["attention_mask"].unsqueeze(-1)
        if self._init.pooling == "cls":
            return out.last_hidden_state[:, 0].float() * kept[:, 0], states
        pooled = (out.last_hidden_state.float() * kept).sum(1) / kept.sum(1).clamp(min=1)
        return pooled, states


def length_groups(lengths: NDArray[np.int64], tokens: int) -> list[NDArray[np.int64]]:
    """Rows in groups of similar length, each of at most `tokens` padded tokens or one row."""
    order = np.argsort(lengths, kind="stable")
    groups, start = [], 0
    for stop in range(1, len(order) + 1):
        full = stop == len(order) or (stop + 1 - start) * lengths[order[stop]] > tokens
        if full:
            groups.append(order[start:stop])
            start = stop
    return groups
