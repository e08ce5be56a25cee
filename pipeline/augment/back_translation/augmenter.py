"""Back-translation (Sennrich et al. 2016; HPD sec. 4.3): what comes back of a text from other languages."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl

from pipeline.augment.back_translation.models import BLOCK, EXTRA, Model, find_pivots, missing_packages
from pipeline.augment.back_translation.translations import FOLDER, Translations
from pipeline.augment.method.interface import Made, Resources
from pipeline.core import fingerprint
from pipeline.core.errors import UserError
from pipeline.core.progress import progress, say
from pipeline.params.augment import BackTranslationAugment, Sampling

RECIPE_VERSION = 1
ID_BITS = 64


class Translator(Protocol):
    """A pivot's models, loaded."""

    def translate(self, texts: Sequence[str], seed: int) -> list[str]:
        """What comes back of the texts."""
        ...


def augment(texts: pl.DataFrame, params: BackTranslationAugment, resources: Resources) -> Made:
    """Translate texts there and back, by every pivot; what is in the cache is not translated again.

    A beam search gives the same translation of a text in any run, but for rounding. What sampling draws
    depends on the seed and on the texts of the same chunk.

    Args:
        texts: columns `text_id` and `text`.
        params: the models, and how they decode.
        resources: the cache and the device.

    Returns:
        A row for every text and pivot, some of them unchanged; by text id, then by pivot.

    Raises:
        UserError: a package or a model is missing, does not fit or cannot be loaded.
    """
    if missing := missing_packages(params):
        raise UserError(f"{BLOCK} needs {', '.join(missing)}, not installed here: {EXTRA}")
    texts = texts.select("text_id", "text").sort("text_id")
    made = [pl.DataFrame(schema={"parent_id": pl.UInt64, "text": pl.String})]
    recipes: list[dict[str, Any]] = []
    for number, pivot in enumerate(find_pivots(params)):
        recipe = recipe_of(pivot, params)
        recipes.append(recipe)
        drawn = {"draw": recipes.count(recipe)} if isinstance(params.decoding, Sampling) else {}
        label = f"back-translation {number + 1} of {len(params.pivots)}"
        made.append(translated(texts, pivot, params, resources, recipe | drawn, label))
    return Made(pl.concat(made).sort("parent_id", maintain_order=True))


def recipe_of(pivot: Sequence[Model], params: BackTranslationAugment) -> dict[str, Any]:
    """Everything that decides a translation, and no path of this machine.

    Not the device, nor the versions of the engine and torch, although they change what sampling draws: as of
    the teacher's vectors, a draw made elsewhere or earlier is as good as one made here, and days of
    translation should outlive an update. RECIPE_VERSION is for what changes more than the draws.
    """
    sampled = {"tokens_per_batch": params.tokens_per_batch} if isinstance(params.decoding, Sampling) else {}
    return {
        "version": RECIPE_VERSION,
        "models": [model.identity for model in pivot],
        "engine": params.engine,
        "compute_type": params.compute_type,
        "decoding": params.decoding.model_dump(),
        "max_length": params.max_length,
        **sampled,
    }


def translated(
    texts: pl.DataFrame,
    pivot: Sequence[Model],
    params: BackTranslationAugment,
    resources: Resources,
    recipe: dict[str, Any],
    label: str,
) -> pl.DataFrame:
    """What comes back of texts with ascending ids, as `parent_id` and `text`; from the cache where known."""
    store = Translations(resources.cache, recipe)
    known = pl.col("text_id").is_in(store.load()["text_id"].implode())
    marked = texts.with_columns(known.alias("known"))
    translator: Translator | None = None
    count = 0
    with progress(label, len(texts), "texts") as advance:
        for chunk in chunks(marked, params.chunk_texts):
            lacking = chunk.filter(~pl.col("known"))
            if len(lacking):
                translator = translator or load_translator(pivot, params, resources)
                back = translator.translate(lacking["text"].to_list(), seed_of(lacking, recipe))
                store.add(lacking["text_id"], back)
                count += len(lacking)
            advance(len(chunk))
    say(f"{label}: {count:,} translated, {len(texts) - count:,} taken from the cache")
    found = texts.select("text_id").join(store.load(), on="text_id", maintain_order="left")
    return found.select(pl.col("text_id").alias("parent_id"), "text")


def chunks(texts: pl.DataFrame, most: int) -> Iterator[pl.DataFrame]:
    """Texts with ascending ids, `most` or fewer together: the range of ids is halved while it holds more.

    What is translated together must not depend on how a run went: a chunk is in the cache whole or not at
    all (or lacks what a smaller corpus did not have). So a run that is killed gives what an undisturbed one
    does, draws included.
    """
    ids = texts["text_id"].to_numpy()

    def halved(start: int, stop: int, low: int, size: int) -> Iterator[pl.DataFrame]:
        if stop - start > most:
            middle = low + size // 2
            cut = int(np.searchsorted(ids, np.uint64(middle)))
            yield from halved(start, cut, low, size // 2)
            yield from halved(cut, stop, middle, size // 2)
        elif stop > start:
            yield texts[start:stop]

    yield from halved(0, len(texts), 0, 1 << ID_BITS)


def seed_of(texts: pl.DataFrame, recipe: dict[str, Any]) -> int:
    """31 bits of the recipe, a sampling seed included, and the texts."""
    return int(fingerprint.of_json({**recipe, "texts": texts["text_id"].to_list()})[:8], 16) >> 1


def load_translator(
    pivot: Sequence[Model], params: BackTranslationAugment, resources: Resources
) -> Translator:
    """A pivot's models in the engine that params choose."""
    match params.engine:
        case "transformers":
            from pipeline.augment.back_translation import transformers

            return transformers.Translator(pivot, params, resources.device)
        case "nlpaug":
            from pipeline.augment.back_translation import nlpaug

            return nlpaug.Translator(pivot, params, resources.device)
        case "ctranslate2":
            from pipeline.augment.back_translation import ctranslate2

            return ctranslate2.Translator(pivot, params, resources.device, resources.cache / FOLDER)
