"""Single flipped bits in artifacts of every kind: is each found, or without effect?

`python benchmarks/bit_flips.py [--project FOLDER] [--flips N] [--seed S]`: the artifacts of a checkout in
which `dvc repro` has run, without --project of the tests' small project, are copied; a search index and an
unfinished training are made beside them. Then one bit at a time is flipped, and what it is in is read as the
next stage or command reads it. `found`: the reader says that it is damaged. `same`: what is read is equal.
Anything else is `SILENT` or an `error` that is not the user's; it is shown, and the exit code is 1.
"""

import argparse
import io
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import numpy as np
import torch
from typer.testing import CliRunner

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

from flipped import flip  # noqa: E402
from project import Project  # noqa: E402

from pipeline.augment.transfer_set import rows as transfer_rows  # noqa: E402
from pipeline.cli import dvc_cache, store_files  # noqa: E402
from pipeline.cli.__main__ import app  # noqa: E402
from pipeline.cli.encoders import open_encoders  # noqa: E402
from pipeline.core import seal  # noqa: E402
from pipeline.core.errors import UserError  # noqa: E402
from pipeline.core.registry import implementation  # noqa: E402
from pipeline.data import teacher_parts  # noqa: E402
from pipeline.data.common import texts  # noqa: E402
from pipeline.data.models import teacher_facts  # noqa: E402
from pipeline.data.student import student_folder  # noqa: E402
from pipeline.params.load import load  # noqa: E402
from pipeline.prepare import dev  # noqa: E402
from pipeline.report.artifacts import Places  # noqa: E402
from pipeline.report.report import Sources, read_inputs  # noqa: E402
from pipeline.score.statistics import examined  # noqa: E402
from pipeline.tasks import pairs  # noqa: E402
from pipeline.train.loop.checkpoint import Checkpoint  # noqa: E402
from pipeline.train.loop.data import materialise, open_corpus  # noqa: E402
from pipeline.train.students.shared.verdict import verdict  # noqa: E402
from pipeline.vectors.sets import published  # noqa: E402
from pipeline.vectors.space import pca  # noqa: E402

DATA, REPORTS, CACHE = Path("data"), Path("reports"), Path(".cache")
COPIED = ("data", "reports", ".cache", ".dvc", "dvc.yaml", "dvc.lock", "params.yaml")
TEXTS = ["a red cat", "an old house sings"]
STATE, INPUTS = CACHE / "training/distill-x-0.safetensors", CACHE / "training/distill-x-0/train"
OUTCOMES = ("found", "same", "SILENT", "error")
Read = Callable[[Path], object]


def main() -> None:
    """Flip, and print a table by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path)
    parser.add_argument("--flips", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        _fill(Path(name), asked.project and asked.project.absolute())
        os.chdir(name)
        _search(CACHE)
        for step in (2, 3):
            Checkpoint(STATE).save({"table": torch.arange(100.0)}, {}, {}, {"step": step, "rate": 0.1})
        _inputs(INPUTS)
        counts = _flip(asked.flips, random.Random(asked.seed))
        os.chdir(REPOSITORY)
    print("\t".join(["artifact", "flips", *OUTCOMES]))
    for kind, found in (*counts.items(), ("all", sum(counts.values(), Counter[str]()))):
        print("\t".join([kind, str(found.total()), *(str(found[outcome]) for outcome in OUTCOMES)]))
    sys.exit(any(found["SILENT"] or found["error"] for found in counts.values()))


def _fill(root: Path, project: Path | None) -> None:
    """Copy the artifacts of a project, or make those of the small one."""
    if project is None:
        Project.start(REPOSITORY, root).repro()
        return
    for path in (project / name for name in COPIED):
        if path.is_dir():
            shutil.copytree(path, root / path.name, symlinks=True)
        elif path.exists():
            shutil.copy(path, root)


def _flip(flips: int, generator: random.Random) -> dict[str, Counter[str]]:
    """How often each outcome was, by kind; the kinds take turns."""
    kinds = {kind: found for kind, found in _kinds().items() if found[0]}
    counts = {kind: Counter[str]() for kind in kinds}
    wanted: dict[Path, object] = {}
    for number in range(flips):
        kind = [*kinds][number % len(kinds)]
        units, read = kinds[kind]
        unit = generator.choice(units)
        if unit not in wanted:
            wanted[unit] = read(unit)
        file = generator.choice([path for path in (unit, *sorted(unit.rglob("*"))) if path.is_file()])
        bit = generator.randrange(8 * file.stat().st_size)
        with _flipped(file, bit):
            outcome, told = _outcome(read, unit, wanted[unit])
        counts[kind][outcome] += 1
        if told:
            print(f"{kind}: bit {bit} of {file}: {outcome}: {told}", file=sys.stderr)
    return counts


@contextmanager
def _flipped(file: Path, bit: int) -> Iterator[None]:
    intact, mode = file.read_bytes(), file.stat().st_mode
    file.chmod(0o644)
    flip(file, bit)
    try:
        yield
    finally:
        file.write_bytes(intact)
        file.chmod(mode)


def _outcome(read: Read, unit: Path, wanted: object) -> tuple[str, str]:
    """One of OUTCOMES, and what is to be told of it."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            value = read(unit)
    except UserError:
        return "found", ""
    except Exception as error:
        return "error", repr(error)
    if "damaged" in said.getvalue():
        return "found", ""
    return ("same", "") if value == wanted else ("SILENT", "what is read is another")


def _kinds() -> dict[str, tuple[list[Path], Read]]:
    """Files and folders of each kind, and what reads them."""
    corpus, stored = DATA / "corpus", {file: one for one in store_files.recipes(CACHE) for file in one.files}
    students = [path for stage in ("untrained", "distilled", "finetuned") for path in _in(stage)]
    told = (
        *DATA.glob("examined"),
        *DATA.glob("gated_sample"),
        *DATA.glob("timings"),
        *REPORTS.glob("curves"),
    )
    measured = [REPORTS / name for name in ("metrics", "stages", "footprint.json", "significance.json")]
    return {
        "corpus": ([corpus / "corpus.parquet"], lambda path: texts.read_corpus(path).rows()),
        "labelled texts": (
            [corpus / "eval.parquet", corpus / "finetune.parquet", DATA / "augmented/transfer.parquet"],
            lambda path: texts.read_labelled(path).rows(),
        ),
        "augmented texts": (
            [path for path in _in("augmented") if not path.stem.startswith("transfer")],
            lambda path: texts.read_augmented(path).rows(),
        ),
        "transfer set": (
            [DATA / "augmented/transfer_rows.parquet"],
            lambda path: transfer_rows.read(path).rows(),
        ),
        "gated texts": (_in("gated"), lambda path: list(texts.stream(path, None))),
        "tasks": (
            [corpus / "tasks.parquet", corpus / "triplets.parquet", *_in("mined")],
            lambda path: pairs.read(path).rows(),
        ),
        "dev tasks": ([corpus / "dev"], lambda path: repr(dev.read(path))),
        "facts": ([DATA / "teacher_facts.json"], teacher_facts.read),
        "readers": ([DATA / "vocabulary_readers.json"], lambda path: seal.read_json(path, "look")),
        "tokenizer": ([DATA / "tokenizer"], _sealed),
        "members": ([DATA / "members/manifest.json"], lambda path: seal.read_json(path, "members")),
        "hidden states": ([DATA / "hidden"], _sealed),
        "tuned teacher": (
            [DATA / "tuned_teacher/manifest.json"],
            lambda path: seal.read_json(path, "finetune_teacher"),
        ),
        "vectors": (_in("vectors"), _vectors),
        "PCA": (_in("pca"), lambda path: repr(pca.read(path.parent, path.stem))),
        "parts": ([DATA / "teacher"], _parts),
        "vocabulary": (
            [path.parent for path in sorted(DATA.glob("vocabulary/*/vocabulary.parquet"))],
            lambda path: (
                teacher_parts.read_vocabulary(path).tobytes(),
                teacher_parts.read_tokenizer(path).to_str(),
            ),
        ),
        "students": (students, _student),
        "exports": (_in("exported"), lambda path: open_encoders(path, "cpu", 8).texts(TEXTS).tobytes()),
        "reports": ([*told, *measured], _report),
        "search index": (sorted(CACHE.glob("indexes/*")), _search),
        "checkpoint": ([STATE, Checkpoint(STATE).before], lambda path: repr(Checkpoint(path).load())),
        "inputs": ([INPUTS], _inputs),
        "vector store": ([*stored], lambda path: _checked(path, stored[path].is_intact)),
        "DVC's cache": ([*dvc_cache.files()], lambda path: _checked(path, dvc_cache.is_intact)),
    }


def _in(folder: str) -> list[Path]:
    return sorted((DATA / folder).glob("[!.]*"))


def _checked(path: Path, is_intact: Callable[[Path], bool]) -> bytes:
    """What a file holds that passes: a flip that its check does not find is one that others would read."""
    if not is_intact(path):
        raise UserError(f"{path} is damaged")
    return path.read_bytes()


def _sealed(folder: Path) -> list[bytes]:
    """As `_checked`, of a folder that a seal lists the files of."""
    seal.check(folder, "make it again")
    return [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]


def _vectors(folder: Path) -> object:
    opened = published.open_set(folder)
    return opened.prompts, [part.tobytes() for view in opened.dims for part in opened.read(view)]


def _parts(folder: Path) -> object:
    tensors = teacher_parts.read_encoder(folder).state_dict().values()
    return teacher_parts.read_tokenizer(folder).to_str(), [tensor.numpy().tobytes() for tensor in tensors]


def _student(folder: Path) -> object:
    vectors = student_folder.read(folder, f"distill@{folder.name}").encode(TEXTS)
    return vectors.tobytes(), student_folder.prompts(folder), student_folder.similarity(folder)


def _report(_: Path) -> object:
    folders = {name: REPORTS / name for name in ("metrics", "curves", "stages")}
    files = {name: REPORTS / f"{name}.json" for name in ("footprint", "search", "significance")}
    kept = {"examined": DATA / "examined", "samples": DATA / "gated_sample", "timings": DATA / "timings"}
    kept |= {"cards": DATA / "model_cards", "origins": DATA / "corpus/origins.json"}
    artifacts = Places(**{name: DATA / name for name in ("gated", "vectors", "finetuned")})
    scores = [examined.read_scores(path, path.name).rows() for path in _in("examined")]
    return scores, repr(
        read_inputs(load(Path("params.yaml")), Sources(**folders, **files, **kept, artifacts=artifacts))
    )


def _search(_: Path) -> str:
    student = sorted((DATA / "finetuned").glob("*/modules.json"))[0].parent.name
    result = CliRunner().invoke(app, ["search", "params.yaml", "a cat", "--student", student])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        raise UserError(result.stderr)
    sys.stderr.write(result.stderr)
    return result.stdout


def _inputs(folder: Path) -> object:
    name, stated = next(iter(load(Path("params.yaml")).students.items()))
    block = verdict(name, stated, teacher_facts.read(DATA / "teacher_facts.json")).block
    places = (DATA / place for place in ("corpus/corpus.parquet", "gated", "vectors", "pca"))
    corpus = open_corpus(name, block, *places)
    parts = DATA / "vocabulary" / block.kind if block.reads_vocabulary else DATA / "teacher"
    learner = implementation("train.students.kinds", block.kind).build(block, parts)
    made = materialise(corpus.train, corpus, learner.tokenise, folder)
    tokens, targets = made.select(np.arange(len(made)))
    return [array.tobytes() for array in (tokens.ids, tokens.offsets, targets)]


if __name__ == "__main__":
    main()
