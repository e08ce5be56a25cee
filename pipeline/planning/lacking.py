"""Which texts the vector store lacks: `encode` computes those alone.

Of a teacher that is fine-tuned all count as lacking, for its recipe is known once that is done.
"""

from pathlib import Path

import numpy as np

from pipeline.data.common import texts as texts_file
from pipeline.params.load import Params
from pipeline.params.teacher import single_teachers
from pipeline.planning.probe import Probe
from pipeline.planning.sizes import Sizes, Texts
from pipeline.teacher.encoding.store.store import VectorStore, kept_as

PLACES = {"corpus": "corpus", "eval": "corpus", "finetune": "corpus"}
"""Where a set's texts lie in data/; the others are made by augmentation."""


def lacking(params: Params, sizes: Sizes, probe: Probe, root: Path) -> dict[str, Texts]:
    """By text set, the texts that have to be encoded; all of a set that could not be counted."""
    cache = root / params.runtime.cache
    tuned = any(getattr(one, "finetune", None) for one in single_teachers(params.teacher).values())
    found = {}
    for name, texts in sizes.sets.items():
        path = root / "data" / PLACES.get(name, "augmented") / f"{name}.parquet"
        number = texts.number
        if name in sizes.counted and number and len(probe.recipes) == 1 and not tuned:
            (recipes,) = probe.recipes.values()
            ids = texts_file.ids(path, None)
            # A text in another role has another recipe; those are few, and count as lacking.
            store = VectorStore(cache, recipes["text"], kept_as(params.teacher, params.encode))
            views = [store.holds(ids, view) for view in params.encode.views]
            number = int((~np.all(views, axis=0)).sum())
        found[name] = Texts(number, texts.characters)
    return found
