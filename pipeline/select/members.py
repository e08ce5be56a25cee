"""members: the PCA of each member of an ensemble, and what else of the members the stages depend on."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from pipeline.core import fingerprint
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.fingerprint import code_digest
from pipeline.core.progress import progress, say
from pipeline.data.common import texts
from pipeline.params.load import Params, load
from pipeline.params.teacher import EnsembleTeacher, single_teachers
from pipeline.teacher.encoding.encode import ENGINES
from pipeline.teacher.encoding.engines.job import Job
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.teacher.shared import fitted_members
from pipeline.teacher.shared.composition import unit
from pipeline.teacher.shared.fitted_members import Reduction
from pipeline.teacher.shared.members import own_views
from pipeline.vectors.space import pca

SAMPLE_TEXTS = 20_000
"""Training texts that a PCA is fitted on, the first by text id, whose order is random."""


def main(
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")],
    out: Annotated[Path, typer.Option(help="Folder of a PCA for each member and view")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Fit the PCAs that an ensemble asks for; for any other teacher the manifest is empty.

    The manifest also has a digest of the code of the members' kinds: dvc.yaml names one kind for a stage, and
    an ensemble has several. So what depends on this stage's output reruns when that code changes.
    """
    params = load(params_file)
    with atomic_folder(out, sealed=False) as folder:
        content: dict[str, Any] = {}
        if isinstance(params.teacher, EnsembleTeacher):
            kinds = {block.kind for block in single_teachers(params.teacher).values()}
            content["code"] = {kind: code_digest("teacher.kinds", kind) for kind in kinds}
            if any(member.pca for member in params.teacher.members):
                content |= _fit(params, params.teacher, corpus, folder)
        fitted_members.write_manifest(folder, content)


def _fit(params: Params, teacher: EnsembleTeacher, corpus: Path, out: Path) -> dict[str, Any]:
    """Fit and write all PCAs; what the manifest says of them."""
    ids, chosen = texts.ids(corpus, None), texts.ids(corpus, "train")[:SAMPLE_TEXTS]
    # Whole shards of the corpus, so that stage `encode` finds what it would have encoded itself.
    shards = [
        shard
        for shard in filling.partition(ids, params.encode.shard_rows)
        if np.isin(ids[shard.start : shard.stop], chosen, assume_unique=True).any()
    ]
    if not shards:
        raise UserError("there are no training texts to fit teacher.members' PCAs on; add corpus.sources")
    job = Job(Path.cwd(), corpus, teacher, params.encode, params.runtime)
    with progress("members", sum(shard.rows for shard in shards), "texts") as advance:
        filled = ENGINES[params.runtime.engine](job, [shard.name for shard in shards], advance)
    numbers = filling.role_numbers(corpus, 0, len(ids))
    pcas: dict[str, dict[str, str]] = {}
    for number, (member, views) in enumerate(
        zip(teacher.members, own_views(teacher, params.encode.views), strict=True)
    ):
        recipes = filled.recipes[number]
        stores = {role: VectorStore(Path(params.runtime.cache), one) for role, one in recipes.items()}
        for view in views if member.pca else ():
            dim = filled.dims[number][view]
            vectors = (
                unit(filling.read_shard(numbers, shard, ids, view, dim, stores))[
                    np.isin(ids[shard.start : shard.stop], chosen, assume_unique=True)
                ]
                for shard in shards
            )
            fitted = pca.fit(vectors, dim, centre=True)
            if member.pca and member.pca > fitted.rank:
                raise UserError(
                    f"teacher.members.{number}.pca is {member.pca}; its view {view!r} of {dim} dimensions "
                    f"and {len(chosen):,} training texts allow {fitted.rank} or less: lower it, or set null"
                )
            kept = fitted.components[: member.pca].astype(np.float32)
            reduction = Reduction(fitted.mean.astype(np.float32), np.ascontiguousarray(kept))
            pcas |= fitted_members.write(reduction, out, number, view, recipes["text"])
    sample = {"texts": len(chosen), "text_ids": fingerprint.of_bytes(chosen.astype("<u8").tobytes())}
    say(f"members: {len(pcas)} PCAs of {len(chosen):,} texts; {sum(filled.encoded):,} encoded")
    return {"sample": sample, "pcas": pcas}


if __name__ == "__main__":
    typer.run(report_user_errors(main))
