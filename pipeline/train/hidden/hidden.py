"""hidden: the teacher's hidden states of some training texts, token by token, if they are asked for."""

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from pipeline.core import fingerprint, seal
from pipeline.core.atomic import atomic_folder, remove_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import progress, say
from pipeline.data import teacher_parts
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.params.load import load
from pipeline.train.distillation import states

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

VERSION = 1
"""Of the way in which states are made."""
FOLDER = "hidden"
"""In the cache: RECIPE/TEXTS, a folder a shard, both named by their fingerprints."""
LETTERS = 16
"""Of a fingerprint, in such a name."""
SHARD_TEXTS = 512
"""Texts of a shard, the most that a kill costs."""
BATCH_TEXTS = 16


def main(
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")],
    teacher: Annotated[Path, typer.Option(help="The teacher's parts")],
    facts: Annotated[Path, typer.Option(help="What the teacher is, by `look`: its window")],
    out: Annotated[Path, typer.Option(help="Folder of the states; empty where they are not asked for")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Write the states of the first training texts; a killed run goes on after its last whole shard."""
    params = load(params_file)
    hidden = params.encode.hidden
    if hidden is None:
        with atomic_folder(out):
            pass
        metrics.write({"texts": 0}, metrics_file)
        say("hidden: not needed, for encode.hidden is null")
        return
    encoder = Encoder(teacher, facts, params.runtime.device)
    layers = hidden.numbered(encoder.layers)
    ids = texts.ids(corpus, "train")[: hidden.texts]
    recipe = {
        "version": VERSION,
        "teacher": fingerprint.of_folder(teacher),
        "window": encoder.window,
        "layers": layers,
        "max_tokens": hidden.max_tokens,
    }
    if encoder.truncation_side != "right":
        recipe["truncation_side"] = encoder.truncation_side
    kept = Path(params.runtime.cache) / FOLDER / fingerprint.of_json(recipe)[:LETTERS]
    streamed, shards, made = chain.from_iterable(texts.stream(corpus, "train")), list[Path](), 0
    with progress("hidden", len(ids), "texts") as advance:
        for part in np.split(ids, range(SHARD_TEXTS, len(ids), SHARD_TEXTS)):
            shards.append(kept / fingerprint.of_bytes(part.tobytes())[:LETTERS])
            own = list(islice(streamed, len(part)))
            if not _is_whole(shards[-1]):
                made += len(part)
                with atomic_folder(shards[-1]) as folder:
                    arrays = encoder.states_of(own, layers, hidden.max_tokens)
                    states.write({"text_ids": part, **arrays}, folder)
            advance(len(part))
    with atomic_folder(out) as folder:
        states.join(shards, folder, layers, encoder.width, encoder.ends)
        size = sum(file.stat().st_size for file in folder.iterdir())
    metrics.write({"texts": len(ids), "layers": len(layers), "megabytes": size / 1e6}, metrics_file)
    say(f"hidden: {made:,} texts encoded, {len(ids) - made:,} taken from the cache, {size / 1e6:,.0f} MB")


def _is_whole(shard: Path) -> bool:
    """Whether a shard is in the cache; a damaged one is dropped, and said."""
    if not shard.exists():
        return False
    if wrong := seal.fault_of_own(shard):
        say(f"{wrong}; its states are made again")
        remove_folder(shard)
    return not wrong


class Encoder:
    """The encoder that `teacher_parts` has saved, in float32, and how it reads a text.

    It runs as transformers runs it, so that its states are those of `output_hidden_states`.
    """

    def __init__(self, parts: Path, facts: Path, device: str) -> None:
        from transformers import AutoTokenizer

        from pipeline.core.machine import find_device

        self._device = find_device(device)
        self._model: PreTrainedModel = teacher_parts.read_encoder(parts).eval()
        self._model.to(self._device)
        self._tokenizer: Tokenizer = teacher_parts.read_tokenizer(parts)
        special = self._tokenizer.encode("a").special_tokens_mask
        self.ends = special.index(0), special[::-1].index(0)
        """Special tokens before and after a text."""
        self.window = seal.read_json(facts, "look")["window"]
        self.truncation_side: str = AutoTokenizer.from_pretrained(parts).truncation_side
        if self.window:
            self._tokenizer.enable_truncation(self.window, direction=self.truncation_side)
        self.layers = int(self._model.config.num_hidden_layers)
        self.width = int(self._model.config.hidden_size)

    def states_of(self, shard: list[str], layers: Sequence[int], most: int) -> dict[str, NDArray]:
        """Of the first tokens of texts, `most` of each: lengths, tokens, scales, levels, as they are stored.

        Raises:
            UserError: a state is not finite.
        """
        before, after = self.ends
        ids = [one.ids for one in self._tokenizer.encode_batch_fast(shard)]
        inner = [one[before : len(one) - after][:most] for one in ids]
        levels, scales = [np.empty(0)] * len(ids), [np.empty(0)] * len(ids)
        order = np.argsort([-len(one) for one in ids], kind="stable")
        for batch in np.split(order, range(BATCH_TEXTS, len(order), BATCH_TEXTS)):
            for row, found in zip(batch, self._forward([ids[row] for row in batch], layers), strict=True):
                own = found[before : before + len(inner[row])]
                if not np.isfinite(own).all():
                    raise UserError(
                        f"hidden: the teacher gives NaN or infinite states for {shard[row][:40]!r}; check "
                        "its weights, or leave that layer out of encode.hidden.layers"
                    )
                levels[row], scales[row] = states.quantise(own)
        return {
            "lengths": np.array([len(one) for one in inner]),
            "tokens": np.array([*chain.from_iterable(inner)]),
            "scales": np.concatenate(scales),
            "levels": np.concatenate(levels),
        }

    def _forward(self, ids: list[list[int]], layers: Sequence[int]) -> NDArray[np.float32]:
        """States (n, longest, L, d) of texts with these token ids."""
        import torch

        longest = max(map(len, ids))
        mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in ids])
        pad = getattr(self._model.config, "pad_token_id", None) or 0
        padded = torch.tensor([one + [pad] * (longest - len(one)) for one in ids])
        with torch.inference_mode():
            out = self._model(
                input_ids=padded.to(self._device),
                attention_mask=mask.to(self._device),
                output_hidden_states=True,
            )
            found = torch.stack([out.hidden_states[layer + 1] for layer in layers], dim=2)
        return found.float().cpu().numpy()


if __name__ == "__main__":
    typer.run(report_user_errors(main))
