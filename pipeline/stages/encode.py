"""encode: the teacher's vectors of one text set, from the store where they are known."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.artifacts import encoding, texts, vectors
from pipeline.artifacts.store import VectorStore
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import report_user_errors
from pipeline.core.params.load import load
from pipeline.core.progress import progress, say
from pipeline.core.registry import implementation

if TYPE_CHECKING:
    from pipeline.teachers.interface import Teacher


def main(
    texts_file: Annotated[Path, typer.Option("--texts", help="Any text set: text_id, text")],
    out: Annotated[Path, typer.Option(help="Folder of shards and manifest.json")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Encode a text set; a killed run goes on where it stopped."""
    params = load(params_file)
    table = texts.read_any(texts_file)
    teacher: Teacher = implementation("teachers", params.teacher.kind).load(params.teacher, params.runtime)
    dims: dict[str, int] = {view: teacher.dims[view] for view in params.encode.views}
    store = VectorStore(Path(params.runtime.cache), teacher.recipe)
    ids, sentences = table["text_id"].to_numpy(), table["text"].to_list()
    shards = encoding.partition(ids, params.encode.shard_rows)
    encoded = 0
    with atomic_folder(out) as folder, progress(f"encode {out.name}", len(ids), "texts") as advance:
        for shard in shards:
            rows = slice(shard.start, shard.stop)
            path = folder / shard.name
            encoded += encoding.encode_shard(ids[rows], sentences[rows], dims, store, teacher.encode, path)
            advance(shard.rows)
        vectors.write_manifest(folder, teacher.recipe, dims, {shard.name: shard.rows for shard in shards})
    say(f"encode {out.name}: {encoded:,} encoded, {len(ids) - encoded:,} taken from the store")


if __name__ == "__main__":
    typer.run(report_user_errors(main))
