"""members: the PCA and the flow of each member of an ensemble, and what else of them the stages depend on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from pipeline.select.members.flows import fit as fit_flow
from pipeline.teacher.encoding.encode import ENGINES
from pipeline.teacher.encoding.engines.job import Job
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.teacher.shared import fitted_members
from pipeline.teacher.shared.composition import read_by_flow, unit
from pipeline.teacher.shared.fitted_members import Reduction
from pipeline.teacher.shared.members import own_views
from pipeline.vectors.sets.shards import Half, Ids, places
from pipeline.vectors.space import pca

SAMPLE_TEXTS = 20_000
"""Training texts that a PCA is fitted on, the first by text id, whose order is random."""


def main(
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")],
    out: Annotated[Path, typer.Option(help="Folder of a PCA and a flow for each member and view")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Fit the PCAs and flows that an ensemble asks for; for any other teacher the manifest is empty.

    The manifest also has a digest of the code of the members' kinds: dvc.yaml names one kind for a stage, and
    an ensemble has several. So what depends on this stage's output reruns when that code changes.
    """
    params = load(params_file)
    with atomic_folder(out, sealed=False) as folder:
        content: dict[str, Any] = {}
        if isinstance(params.teacher, EnsembleTeacher):
            kinds = {block.kind for block in single_teachers(params.teacher).values()}
            content["code"] = {kind: code_digest("teacher.kinds", kind) for kind in kinds}
            if any(member.pca or member.flow for member in params.teacher.members):
                content |= _fit(params, params.teacher, corpus, folder)
        fitted_members.write_manifest(folder, content)


@dataclass(frozen=True)
class _Stored:
    """Where the members' vectors of the first training texts lie."""

    ids: Ids
    """Of all texts of the corpus."""
    train: Ids
    """Of the training texts."""
    numbers: filling.Numbers
    shards: list[filling.Shard]
    """Of the corpus, those that are encoded."""

    def of(self, rows: int, view: str, dim: int, stores: Mapping[str, VectorStore]) -> Iterator[Half]:
        """The vectors (n, dim) of the first training texts, of one shard at a time."""
        for shard in self.shards:
            chosen = _among(self.ids, shard, self.train[:rows])
            yield filling.read_shard(self.numbers, shard, self.ids, view, dim, stores)[chosen]


def _fit(params: Params, teacher: EnsembleTeacher, corpus: Path, out: Path) -> dict[str, Any]:
    """Fit and write all PCAs and flows; what the manifest says of them."""
    ids, train = texts.ids(corpus, None), texts.ids(corpus, "train")
    asked = [SAMPLE_TEXTS if any(member.pca for member in teacher.members) else 0]
    asked += [member.flow.max_rows for member in teacher.members if member.flow]
    # Whole shards of the corpus, so that stage `encode` finds what it would have encoded itself.
    shards = [
        shard
        for shard in filling.partition(ids, params.encode.shard_rows)
        if _among(ids, shard, train[: max(asked)]).any()
    ]
    if not shards:
        raise UserError(
            "there are no training texts to fit teacher.members' PCAs and flows on; add corpus.sources"
        )
    job = Job(Path.cwd(), corpus, teacher, params.encode, params.runtime)
    with progress("members", sum(shard.rows for shard in shards), "texts") as advance:
        filled = ENGINES[params.runtime.engine](job, [shard.name for shard in shards], advance)
    stored = _Stored(ids, train, filling.role_numbers(corpus, 0, len(ids)), shards)
    pcas: dict[str, dict[str, str]] = {}
    flows: dict[str, dict[str, str]] = {}
    for number, (member, views) in enumerate(
        zip(teacher.members, own_views(teacher, params.encode.views), strict=True)
    ):
        key, recipes = f"teacher.members.{number}", filled.recipes[number]
        stores = {role: VectorStore(Path(params.runtime.cache), one) for role, one in recipes.items()}
        for view in views:
            dim, reduction = filled.dims[number][view], None
            if member.pca:
                reduction = _reduction(stored, member.pca, view, dim, stores, key)
                pcas |= fitted_members.write(reduction, out, number, view, recipes["text"])
            if member.flow:
                parts = stored.of(member.flow.max_rows, view, dim, stores)
                vectors = np.concatenate([read_by_flow(part, reduction) for part in parts])
                flow, before, after = fit_flow(vectors, member.flow, f"{key}.flow")
                flows |= fitted_members.write_flow(flow, member.flow, out, number, view, recipes["text"])
                told = f"{before:.4f} nats a dimension before its training, {after:.4f} after it"
                say(f"members: the flow of {key}, {view}, {len(vectors):,} texts: {told}")
    content: dict[str, Any] = {}
    if pcas:
        content |= {"sample": _told(train[:SAMPLE_TEXTS]), "pcas": pcas}
    if flows:
        samples = {
            str(number): _told(train[: member.flow.max_rows])
            for number, member in enumerate(teacher.members)
            if member.flow
        }
        content |= {"flow_samples": samples, "flows": flows}
    say(f"members: {len(pcas)} PCAs and {len(flows)} flows; {sum(filled.encoded):,} encoded")
    return content


def _reduction(
    stored: _Stored, kept: int, view: str, dim: int, stores: Mapping[str, VectorStore], key: str
) -> Reduction:
    """The PCA of a member's normalised vectors."""
    fitted = pca.fit(map(unit, stored.of(SAMPLE_TEXTS, view, dim, stores)), dim, centre=True)
    rows = len(stored.train[:SAMPLE_TEXTS])
    if kept > fitted.rank:
        raise UserError(
            f"{key}.pca is {kept}; its view {view!r} of {dim} dimensions and {rows:,} training texts allow "
            f"{fitted.rank} or less: lower it, or set null"
        )
    components = fitted.components[:kept].astype(np.float32)
    return Reduction(fitted.mean.astype(np.float32), np.ascontiguousarray(components))


def _among(ids: Ids, shard: filling.Shard, chosen: Ids) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which texts of a shard are chosen."""
    return places(chosen, ids[shard.start : shard.stop])[1]


def _told(chosen: Ids) -> dict[str, Any]:
    """Which texts something is fitted on."""
    return {"texts": len(chosen), "text_ids": fingerprint.of_bytes(chosen.astype("<u8").tobytes())}


if __name__ == "__main__":
    typer.run(report_user_errors(main))
