"""Vectors of a SentencePiece model's pieces, as BPEmb ships them, and that model as a fast tokenizer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.train.students.shared.vector_files import rows_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    ModelProto = Any  # its class is made when the library of messages is loaded

SPACE = "\u2581"
"""How SentencePiece writes a space."""
BPE, UNIGRAM = 2, 1
"""`trainer_spec.model_type`."""
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
"""`pieces.type`."""
OTHER_PIECES = "name the .model file beside the vectors, or remove init.pieces"


class Pieces:
    """A SentencePiece model of the type BPE.

    Raises:
        UserError: the file is missing, is no such model, or has what a tokenizer.json cannot say.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._model = _read(path)
        self.names: list[str] = [piece.piece for piece in self._model.pieces]
        """The pieces, by their numbers."""

    def vectors(self, path: Path) -> NDArray[np.float32]:
        """The vectors (pieces, d) of a file that has one for each piece, in any order.

        Raises:
            UserError: the file has other pieces, or as `rows_of`.
        """
        found: dict[str, NDArray[np.float32]] = {}
        for row, (name, vector) in enumerate(rows_of(path), start=1):
            if found.setdefault(name, vector) is not vector:
                raise UserError(f"{path}, row {row:,}: {name!r} has a vector above already; {OTHER_PIECES}")
        missing = [name for name in self.names if name not in found]
        if missing or len(found) != len(self.names):
            strange = sorted(found.keys() - set(self.names))
            example = f"{missing[0]!r} has no vector" if missing else f"{strange[0]!r} is no piece"
            raise UserError(
                f"{path} has {len(found):,} vectors and {self.path} {len(self.names):,} pieces, of which "
                f"{len(missing):,} have none ({example}); name two files that belong together as init.path "
                "and init.pieces"
            )
        return np.stack([found[name] for name in self.names])

    def tokenizer(self, *, lowercase: bool) -> "Tokenizer":
        """The tokenizer whose ids are the pieces' numbers.

        A text gets the pieces that SentencePiece gives it. Pieces for what is no text, <s> and </s>, are in
        the vocabulary, and no text has them. A joiner or an accent right after an unusual space is lost.

        Args:
            lowercase: lowercase texts and write each digit as 0 first, as BPEmb does to its texts
                (`BPEmb.preprocess`); a capital sigma that ends a word becomes σ, not ς as in Python.
        """
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

        trained, spaces = self._model.trainer_spec, self._model.normalizer_spec
        tokenizer = Tokenizer(
            models.BPE(
                {name: number for number, name in enumerate(self.names)},
                self._merges(),
                unk_token=self._unknown(),
                fuse_unk=True,
                byte_fallback=trained.byte_fallback,
            )
        )
        steps: list[Any] = []
        if lowercase:
            steps += [normalizers.Lowercase(), normalizers.Replace(Regex(r"\p{Nd}"), "0")]
        if spaces.precompiled_charsmap:
            steps.append(normalizers.Precompiled(spaces.precompiled_charsmap))
        if spaces.remove_extra_whitespaces:
            # Spaces alone: what else is white has become one, or stays.
            steps += [
                normalizers.Replace(Regex(r"\A +| +\z"), ""),
                normalizers.Replace(Regex(" {2,}"), " "),
            ]
        steps.append(normalizers.Replace(" ", SPACE))
        if spaces.add_dummy_prefix:
            steps.append(normalizers.Prepend(SPACE))
        tokenizer.normalizer = normalizers.Sequence(steps)
        # Where no piece goes across words, words are what is cut into pieces, and are remembered.
        words = not any(SPACE in name[1:] for name in self.names)
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="never", split=words)
        return tokenizer

    def _unknown(self) -> str:
        return next(piece.piece for piece in self._model.pieces if piece.type == UNKNOWN)

    def _merges(self) -> list[tuple[str, str]]:
        """Every two pieces that make a third, those of the highest score first: SentencePiece merges so."""
        scores = {piece.piece: piece.score for piece in self._model.pieces if piece.type == NORMAL}
        numbers = {name: number for number, name in enumerate(self.names)}
        found = [
            (-score, numbers[name[:cut]], name[:cut], name[cut:])
            for name, score in scores.items()
            for cut in range(1, len(name))
            if name[:cut] in scores and name[cut:] in scores
        ]
        return [(left, right) for *_, left, right in sorted(found)]


def _read(path: Path) -> "ModelProto":
    """The file as SentencePiece's own message."""
    from google.protobuf.message import DecodeError
    from transformers.convert_slow_tokenizer import import_protobuf

    if not path.is_file():
        raise UserError(f"init.pieces: there is no file {path}; correct it in params.yaml")
    model = import_protobuf().ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError:
        raise UserError(f"{path} is no SentencePiece model; {OTHER_PIECES}") from None
    if not model.pieces:
        raise UserError(f"{path} is no SentencePiece model, for it has no pieces; {OTHER_PIECES}")
    if model.trainer_spec.model_type != BPE:
        kind = "unigram" if model.trainer_spec.model_type == UNIGRAM else "word or character"
        raise UserError(f"{path} is a SentencePiece {kind} model, not a BPE model; {OTHER_PIECES}")
    strange = [piece.piece for piece in model.pieces if piece.type in (USER, UNUSED)]
    if strange:
        raise UserError(
            f"{path}: {len(strange):,} pieces are user-defined or unused, {strange[0]!r} for one; take a "
            "model without them"
        )
    if model.trainer_spec.treat_whitespace_as_suffix or not model.normalizer_spec.escape_whitespaces:
        raise UserError(
            f"{path} writes spaces after words, or not as {SPACE}; take a model trained with SentencePiece's "
            "defaults for spaces"
        )
    return model
