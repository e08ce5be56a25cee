"""encode: the teacher's vectors of one text set, from the store where they are known."""

from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer

from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import progress, say
from pipeline.data.common import texts
from pipeline.params.load import Params, load
from pipeline.params.teacher import Storage
from pipeline.teacher.engines import local, ray_data
from pipeline.teacher.engines.job import Filled, Job
from pipeline.teacher.store import filling
from pipeline.teacher.store.filling import Shard
from pipeline.teacher.store.store import VectorStore
from pipeline.vectors.sets import published
from pipeline.vectors.sets.shards import Ids

ENGINES = {"local": local.run, "ray": ray_data.run}


def main(
    texts_file: Annotated[Path, typer.Option("--texts", help="Any text set: text_id, text")],
    out: Annotated[Path, typer.Option(help="Folder of a folder of shards and manifest.json for every view")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    unless_null: Annotated[str, typer.Option(help="Params without which nobody reads them")] = "encode",
    shard_index: Annotated[int | None, typer.Option(help="Of a job array: encode this part alone")] = None,
    num_shards: Annotated[int | None, typer.Option(help="Of a job array: in how many parts")] = None,
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
            with atomic_folder(out) as folder:
                for view in params.encode.views:
                    published.write_manifest(folder / view, {}, 0, {}, params.encode.storage)
        say(f"encode {out.name}: {'no texts' if is_read else f'not needed, for {unless_null} is null'}")
        return
    shards = filling.partition(ids, params.encode.shard_rows)
    mine = part(shards, shard_index, num_shards)
    job = Job(Path.cwd(), texts_file, params.teacher, params.encode, params.runtime)
    rows = sum(shard.rows for shard in mine)
    label = f"encode {out.name}" + ("" if shard_index is None else f" ({shard_index} of {num_shards})")
    if mine:
        with progress(label, rows, "texts") as advance:
            filled = ENGINES[params.runtime.engine](job, [shard.name for shard in mine], advance)
        if shard_index is None:
            store = VectorStore(Path(params.runtime.cache), filled.recipe)
            _publish(ids, shards, store, filled, params.encode.storage, out)
    encoded = filled.encoded if mine else 0
    say(f"{label}: {encoded:,} encoded, {rows - encoded:,} taken from the store")


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


def _publish(
    ids: Ids, shards: list[Shard], store: VectorStore, filled: Filled, storage: Storage, out: Path
) -> None:
    rows = {shard.name: shard.rows for shard in shards}
    with atomic_folder(out) as folder:
        for view, dim in filled.dims.items():
            (folder / view).mkdir()
            for shard in shards:
                part, path = ids[shard.start : shard.stop], folder / view / shard.name
                filling.publish_shard(part, view, dim, store, path, storage)
            # What a model says of its similarity, it says of the vectors that its own pipeline returns.
            similarity = filled.similarity if view == "sentence" else "cosine"
            published.write_manifest(folder / view, filled.recipe, dim, rows, storage, similarity)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
