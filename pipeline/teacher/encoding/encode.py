"""encode: the teacher's vectors of one text set, from the store where they are known."""

from operator import attrgetter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.facts import check_facts
from pipeline.core.progress import progress, say
from pipeline.data.common import texts
from pipeline.data.common.files import metrics as metrics_file
from pipeline.params.base import ROLES
from pipeline.params.load import Params, load
from pipeline.params.teacher import EnsembleTeacher, single_teachers
from pipeline.teacher.encoding.engines import local, ray_actors
from pipeline.teacher.encoding.engines.job import Filled, Job
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.filling import Shard
from pipeline.teacher.encoding.store.store import VectorStore, kept_as
from pipeline.teacher.shared import composition
from pipeline.teacher.shared.local.cut import NONE
from pipeline.teacher.shared.local.described.tuned import TUNED
from pipeline.teacher.shared.members import own_views
from pipeline.vectors.sets import published
from pipeline.vectors.sets.int8 import Packed
from pipeline.vectors.sets.shards import Half, Ids, write_shard

ENGINES = {"local": local.run, "ray": ray_actors.run}


def main(
    texts_file: Annotated[Path, typer.Option("--texts", help="Any text set: text_id, text")],
    out: Annotated[Path, typer.Option(help="Folder of a folder of shards and manifest.json for every view")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    facts: Annotated[Path | None, typer.Option(help="What the teacher is, by `look`, to compare")] = None,
    unless_null: Annotated[str, typer.Option(help="Params without which nobody reads them")] = "encode",
    shard_index: Annotated[int | None, typer.Option(help="Of a job array: encode this part alone")] = None,
    metrics: Annotated[Path | None, typer.Option(help="How much of the texts is cut, to write")] = None,
    num_shards: Annotated[int | None, typer.Option(help="Of a job array: in how many parts")] = None,
    members: Annotated[Path, typer.Option(help="The PCAs and flows of an ensemble's members")] = Path(
        "data/members"
    ),
    tuned: Annotated[Path, typer.Option(help="The fine-tuned teacher, if it is")] = TUNED,
) -> None:
    """Encode a text set; a killed run goes on where it stopped.

    A job of an array fills the store and publishes nothing; the run without a part, which comes last, does.
    No teacher is loaded for an empty set, such as that of an augmenter that is not enabled, nor for one that
    nobody reads, which is published empty.
    """
    params = load(params_file)
    ids, is_read = texts.ids(texts_file, None), _is_given(params, unless_null)
    if not len(ids) or not is_read:
        part([], shard_index, num_shards)
        if shard_index is None:
            with atomic_folder(out, sealed=False) as folder:
                for view in params.encode.views:
                    published.write_manifest(folder / view, {}, 0, {}, params.encode.storage)
            _write_metrics(0, NONE, metrics)
        say(f"encode {out.name}: {'no texts' if is_read else f'not needed, for {unless_null} is null'}")
        return
    shards = filling.partition(ids, params.encode.shard_rows)
    mine = part(shards, shard_index, num_shards)
    job = Job(
        Path.cwd(), texts_file, params.teacher, params.encode, params.runtime, tuned, shard_index is not None
    )
    rows = sum(shard.rows for shard in mine)
    label = f"encode {out.name}" + ("" if shard_index is None else f" ({shard_index} of {num_shards})")
    filled = None
    if mine:
        with progress(label, rows, "texts") as advance:
            filled = ENGINES[params.runtime.engine](job, [shard.name for shard in mine], advance)
        if facts and len(filled.dims) == 1:  # an ensemble's members are checked as they are joined
            check_facts(facts, {"dims": filled.dims[0]}, "look")
        if any(filled.encoded):
            _say_rounded(texts_file, ids, params, filled, label)
        if shard_index is None:
            _publish(texts_file, ids, shards, params, filled, members, out)
            _write_metrics(rows, filled.cut, metrics)
    teachers = single_teachers(params.teacher)
    for key, encoded in zip(teachers, filled.encoded if filled else [0] * len(teachers), strict=True):
        whose = "" if len(teachers) == 1 else f", {key.removesuffix('.teacher')}"
        say(f"{label}{whose}: {encoded:,} encoded, {rows - encoded:,} taken from the store")


def _is_given(params: Params, key: str) -> bool:
    """Whether the params have something other than null there."""
    try:
        return attrgetter(key)(params) is not None
    except AttributeError:
        raise UserError(
            f"--unless-null {key!r} is no key of params.yaml; mend vars.text_sets in dvc.yaml"
        ) from None


def part(shards: list[Shard], index: int | None, parts: int | None) -> list[Shard]:
    """Shards I, I + N, ... of a job array; all of them where there is none.

    Raises:
        UserError: one number is missing or out of bounds.
    """
    if index is None and parts is None:
        return shards
    if index is None or parts is None or not 0 <= index < parts:
        raise UserError(f"--shard-index is {index} and --num-shards {parts}; give both, 0 <= index < number")
    return shards[index::parts]


def _write_metrics(rows: int, cut: tuple[int, int, int] | None, path: Path | None) -> None:
    """Write how many texts there are and how much of them the teacher does not read, if that is known."""
    if path:
        left_out = (
            {} if cut is None else dict(zip(("texts_cut", "tokens_of_cut", "tokens_lost"), cut, strict=True))
        )
        metrics_file.write({"texts": rows, **left_out}, path)


def _publish(
    texts_file: Path,
    ids: Ids,
    shards: list[Shard],
    params: Params,
    filled: Filled,
    members: Path,
    out: Path,
) -> None:
    """Write what the stores hold; the vectors of an ensemble's members as its own."""
    rows, storage = {shard.name: shard.rows for shard in shards}, params.encode.storage
    numbers = filling.role_numbers(texts_file, 0, len(ids))
    roles = [ROLES[number] for number in np.flatnonzero(np.bincount(numbers))]
    kept, stores = kept_as(params.teacher, params.encode), _stores(params, filled)
    recipe = published.recipe_of(
        {
            role: composition.recipe(params.teacher, [recipes[role] for recipes in filled.recipes], members)
            for role in roles
        }
    )
    plain = [recipes["text"] for recipes in filled.recipes]
    with atomic_folder(out, sealed=False) as folder:
        for view in params.encode.views:
            (folder / view).mkdir()
            shares = composition.shares(params.teacher, view, members, plain)
            for shard in shards:
                told = [
                    (share.view, dims[share.view], of_role)
                    for share, dims, of_role in zip(shares, filled.dims, stores, strict=True)
                ]
                vectors: Half | Packed
                if kept == "int8":
                    vectors = filling.read_packed_shard(numbers, shard, ids, *told[0])
                else:
                    halves = [filling.read_shard(numbers, shard, ids, *one) for one in told]
                    joined = composition.joined(params.teacher, halves, shares)
                    vectors = joined.astype(np.float16, copy=False)
                part = ids[shard.start : shard.stop]
                write_shard(part, {view: vectors}, folder / view / shard.name, storage)
            # What a model says of its similarity, it says of the vectors that its own pipeline returns.
            similarity = filled.similarity if view == "sentence" else "cosine"
            published.write_manifest(folder / view, recipe, vectors.shape[1], rows, storage, similarity)


def _stores(params: Params, filled: Filled) -> list[dict[str, VectorStore]]:
    """Those of each teacher, by role."""
    cache, kept = Path(params.runtime.cache), kept_as(params.teacher, params.encode)
    return [
        {role: VectorStore(cache, one, kept) for role, one in recipes.items()} for recipes in filled.recipes
    ]


def _say_rounded(texts_file: Path, ids: Ids, params: Params, filled: Filled, label: str) -> None:
    """Say how many of the texts that were encoded the store may have had, in int8, which was not taken."""
    if kept_as(params.teacher, params.encode) == "int8":
        return
    is_ensemble = isinstance(params.teacher, EnsembleTeacher)
    wanted = "the members of an ensemble" if is_ensemble else "encode.storage: float16"
    numbers, views = (
        filling.role_numbers(texts_file, 0, len(ids)),
        own_views(params.teacher, params.encode.views),
    )
    rounded = 0
    for encoded, its_views, stores in zip(filled.encoded, views, _stores(params, filled), strict=True):
        found = (
            int(np.any([stores[role].rounds(own, view) for view in its_views], axis=0).sum())
            for role, _, own in filling.by_role(numbers, Shard("", 0, len(ids)), ids)
        )
        rounded = max(rounded, min(encoded, sum(found) if encoded else 0))
    if rounded:
        say(
            f"{label}: up to {rounded:,} of the texts that were encoded are in the store in int8, which is "
            f"not taken for {wanted}"
        )


if __name__ == "__main__":
    typer.run(report_user_errors(main))
