"""What models cost: size, batch speed and the latency of a single sentence."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.core.rounds import spread

if TYPE_CHECKING:
    from torch import nn

LOADED = (".safetensors", ".hdf5", ".json", ".txt", ".model")
"""Weights, configuration and vocabulary."""

Encode = Callable[[Sequence[str]], object]
"""Texts to vectors, as a user would call it."""


@dataclass(frozen=True)
class Model:
    """One model to be measured."""

    encode: Encode
    parameters: int
    embedding_parameters: int
    """Of lookup tables: they cost memory, not time."""
    megabytes: float
    """On disk, everything that is needed to load it (1 MB = 1,000,000 bytes)."""
    dim: int
    repeats: bool = True
    """Whether the same texts may be encoded again: an API's calls cost money, and it may remember answers."""


@dataclass(frozen=True)
class Plan:
    """How often and on how much."""

    rounds: int
    threads: int
    texts: Sequence[str]
    """Encoded in one call."""
    single_texts: Sequence[str]
    """Encoded one at a time."""
    batch_seconds: float = 0.0
    """A batch run of less is repeated, within its round, until so many have passed; its mean counts."""
    pairs: Sequence[tuple[str, str]] = ()
    """Encoded one text at a time, by models whose texts may be encoded again."""


def measure(models: Mapping[str, Model], plan: Plan, reference: str) -> dict[str, dict[str, float | None]]:
    """Measure all models in turn, round after round, so that a drift of the machine meets all alike.

    Returns:
        A model's parameters, embedding_parameters, megabytes, dim, sentences_per_second (median of the
        rounds), speedup over the reference model (median of the rounds' ratios), latency_ms_p50 and _p95;
        batch_spread and latency_spread, by how much a round's time, or its median latency, differs from the
        median round's. Where there are pairs, pair_ms and pair_spread too: the time of a pass over them, by
        pair, median of the rounds, and how much a round's differs from it.
    """
    seconds: dict[str, list[float]] = {name: [] for name in models}
    latencies: dict[str, list[list[float]]] = {name: [] for name in models}
    passes: dict[str, list[float]] = {name: [] for name in models}
    of_pairs = [*chain.from_iterable(plan.pairs)]
    for name in models:
        _time(models[name].encode, plan.texts[:8], plan.threads)
    for _ in range(plan.rounds):
        for name, model in models.items():
            least = plan.batch_seconds if model.repeats else 0.0
            seconds[name].append(_time(model.encode, plan.texts, plan.threads, least))
            latencies[name].append([_time(model.encode, [text], plan.threads) for text in plan.single_texts])
            if plan.pairs and model.repeats:
                passes[name].append(_time(partial(_one_by_one, model.encode), of_pairs, plan.threads))
    return {
        name: {
            "parameters": model.parameters,
            "embedding_parameters": model.embedding_parameters,
            "megabytes": model.megabytes,
            "dim": model.dim,
            "sentences_per_second": float(len(plan.texts) / np.median(seconds[name])),
            "speedup": float(np.median(np.divide(seconds[reference], seconds[name]))),
            "batch_spread": spread(seconds[name]),
            "latency_ms_p50": float(np.percentile(latencies[name], 50) * 1000),
            "latency_ms_p95": float(np.percentile(latencies[name], 95) * 1000),
            "latency_spread": spread(np.median(latencies[name], axis=1).tolist()),
            **(_of_pairs(passes[name], len(plan.pairs)) if passes[name] else {}),
        }
        for name, model in models.items()
    }


def _one_by_one(encode: Encode, texts: Sequence[str]) -> None:
    for text in texts:
        encode([text])


def _of_pairs(seconds: Sequence[float], pairs: int) -> dict[str, float | None]:
    """What passes over so many pairs tell."""
    return {"pair_ms": float(np.median(seconds) / pairs * 1000), "pair_spread": spread(seconds)}


def describe(
    encode: Encode, module: "nn.Module | None", folders: Sequence[Path], dim: int, *, repeats: bool = True
) -> Model:
    """A model to be measured, by its modules' parameters and folders' bytes; without either they are 0."""
    from torch import nn

    modules = list(module.modules()) if module else []
    tables = (table for table in modules if isinstance(table, nn.Embedding | nn.EmbeddingBag))
    return Model(
        encode=encode,
        parameters=sum(parameter.numel() for parameter in module.parameters()) if module else 0,
        embedding_parameters=sum(table.weight.numel() for table in tables),
        megabytes=sum(map(megabytes, folders)),
        dim=dim,
        repeats=repeats,
    )


def megabytes(folder: Path) -> float:
    """Size of what a model's folder needs to be loaded, in MB; a hub folder may hold more."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix in LOADED]
    return sum(file.stat().st_size for file in files) / 1e6


def _time(encode: Encode, texts: Sequence[str], threads: int, least: float = 0.0) -> float:
    """Seconds of a call: the mean of as many as take at least so long, of one without."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        started, calls, taken = time.perf_counter(), 0, 0.0
        while not calls or taken < least:
            encode(texts)
            calls, taken = calls + 1, time.perf_counter() - started
        return taken / calls
    finally:
        torch.set_num_threads(before)
