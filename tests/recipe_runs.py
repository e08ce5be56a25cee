"""Runs of a recipe's stages in the working folder, on small files in place of the recipe's."""

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
from project import sentence

from pipeline.augment.method import augment
from pipeline.augment.transfer_set import transfer
from pipeline.classifiers.training import classify
from pipeline.look import look
from pipeline.params.load import Params, load
from pipeline.prepare import prepare
from pipeline.score.evaluation import evaluate
from pipeline.select import fit_pca
from pipeline.select.gating import gate
from pipeline.select.mining import mine
from pipeline.teacher import teacher_parts
from pipeline.teacher.encoding import encode
from pipeline.train.distillation import distill
from pipeline.train.finetuning import finetune

METHODS = ("wordnet", "back_translation")
ROWS = 60
Document = dict[str, Any]
GLUE = {"sst2": ("sentence", "label"), "mrpc": ("#1 String", "#2 String", "Quality")}
"""Columns of the sets that recipes train classifiers on."""


def write_inputs(params: Params) -> None:
    """Small files where the recipe says that its files are."""
    texts = [sentence(31 * number) for number in range(ROWS)]
    for source in params.corpus.sources:
        rows = [json.dumps({source.column: text}) for text in texts] if "jsonl" in source.path else texts
        write(source.path, rows)
    for number, task in enumerate(params.evaluate.tasks.values()):
        start = 10_000 + 2_000 * number
        pairs = [
            (sentence(start + 31 * row), sentence(start + 31 * row + row % 3 * 300), 3 - row % 3)
            for row in range(12)
        ]
        if task.kind == "retrieval":
            write_collection(Path(task.path), pairs)
        elif task.kind in GLUE:
            write_glue(task.kind, Path(task.path), start)
        else:
            write_table(task.path, (task.left, task.right, task.score), pairs)
    for data in params.finetune.data.values():
        columns = (data.anchor, data.positive, *data.negatives)
        triplets = [[sentence(40_000 + 3 * row + side) for side in range(len(columns))] for row in range(20)]
        write_table(data.path, columns, triplets)
    for student in params.students.values():
        if getattr(student.init, "path", None):
            words = sorted({word for text in texts for word in text.split()})
            write(student.init.path, [f"{word} {row % 5} {row % 3} 1" for row, word in enumerate(words)])


def write_glue(kind: str, folder: Path, start: int) -> None:
    """A set of GLUE's in its official files: whether a sentence, or a pair, begins with a word of colour."""
    for file, count, first in (("train.tsv", 60, start), ("dev.tsv", 12, start + 500)):
        texts = [sentence(first + 31 * row) for row in range(count)]
        rows = [
            [*cells, int(text < "h")]
            for text in texts
            for cells in [[text] if kind == "sst2" else [text, sentence(len(text) + start)]]
        ]
        write_table(str(folder / file), GLUE[kind], rows)


def write_collection(folder: Path, pairs: list) -> None:
    """A retrieval task in BEIR's layout: the second of a pair answers the first."""
    for name, side in (("queries", 0), ("corpus", 1)):
        rows = [json.dumps({"_id": f"{row}", "text": pair[side]}) for row, pair in enumerate(pairs)]
        write(str(folder / f"{name}.jsonl"), rows)
    judged = [(row, row, score) for row, (*_, score) in enumerate(pairs)]
    write_table(str(folder / "qrels" / "test.tsv"), ("query-id", "corpus-id", "score"), judged)


def write_table(path: str, columns: tuple[str, ...], rows: list) -> None:
    if path.endswith(".parquet"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows, schema=list(columns), orient="row").write_parquet(path)
    else:
        write(path, ["\t".join(map(str, row)) for row in (columns, *rows)])


def write(path: str, lines: list[str]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    data = "\n".join(lines).encode()
    Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)


def prepared(wordnet: Path) -> None:
    """All stages before the students', in the working folder."""
    outs = {name: Path(f"{name}.parquet") for name in ("corpus", "eval", "tasks", "finetune", "triplets")}
    evaluated, counts = outs.pop("eval"), Path("counts.json")
    places = {"raw": Path("data/raw"), "wordnet": wordnet, "dev": Path("dev"), "tokenizer": Path("tokenizer")}
    look.main(Path("facts.json"), Path("tokenizer"), Path("readers.json"), Path("cards"))
    prepare.main(
        eval_texts=evaluated,
        metrics=counts,
        provenance=Path("provenance.parquet"),
        origins=Path("origins.json"),
        **places,
        **outs,
    )
    teacher_parts.main(Path("teacher"), Path("vocabulary"), Path("readers.json"), Path("facts.json"))
    made = {method: Path(f"augmented/{method}.parquet") for method in METHODS}
    for method, texts in made.items():
        augment.main(method, outs["corpus"], wordnet, Path("vocabulary") / method, texts, counts)
    new = Path("augmented/transfer.parquet")
    transfer.main(
        outs["tasks"], evaluated, wordnet, Path("tokenizer"), new, Path("augmented/rows.parquet"), counts
    )
    sets = {
        "corpus": outs["corpus"],
        **made,
        "transfer": new,
        "eval": evaluated,
        "finetune": outs["finetune"],
    }
    for name, texts in sets.items():
        encode.main(texts, Path("vectors") / name)
    for method, texts in made.items():
        vectors = Path("vectors") / method, Path("vectors/corpus")
        gated, sample = (Path(folder) / f"{method}.parquet" for folder in ("gated", "gated_sample"))
        gate.main(method, texts, outs["corpus"], evaluated, *vectors, gated, sample, counts)
    fit_pca.main(outs["corpus"], Path("vectors/corpus"), Path("pca"), counts)
    mine.main(outs["triplets"], Path("vectors/finetune"), Path("mined.parquet"), counts)


def trained(name: str) -> Document:
    """The stages of one student; their metrics."""
    made, out = Path(name), Path(name) / "out"
    stages = [made / f"{stage}.json" for stage in ("distill", "finetune", "evaluate")]
    shared = {
        "vectors": Path("vectors"),
        "teacher": Path("teacher"),
        "facts": Path("facts.json"),
        "pca": Path("pca"),
    }
    distill.main(
        name,
        corpus=Path("corpus.parquet"),
        gated=Path("gated"),
        **shared,
        vocabulary=Path("vocabulary") / load(Path("params.yaml")).student(name).kind,
        out=made / "distilled",
        untrained=made / "untrained",
        curve=made / "curve.tsv",
        metrics_file=stages[0],
    )
    tasks, texts = Path("tasks.parquet"), Path("eval.parquet")
    inputs = (
        made / "distilled",
        Path("facts.json"),
        Path("mined.parquet"),
        Path("finetune.parquet"),
        Path("dev"),
    )
    view = load(Path("params.yaml")).encode.views[0]
    corpus = {"corpus": Path("corpus.parquet"), "corpus_vectors": Path("vectors/corpus")}
    reread = {"gated": Path("gated"), "vectors": Path("vectors"), "pca": Path("pca"), "teacher_view": view}
    finetune.main(name, *inputs, out, made / "finetune.tsv", stages[1], **corpus, **reread)
    folders = (Path("pca"), made / "untrained", made / "distilled", out)
    outs = (stages[2], made / "examined")
    read = (tasks, texts, Path("vectors/eval"), view)
    evaluate.main(name, *read, *folders, *outs, **corpus, teacher_parts=Path("teacher"))
    return {stage.stem: json.loads(stage.read_text()) for stage in stages}


def classified(name: str, start: Path) -> Document:
    """The stage `classify` of a classifier; its metrics."""
    classify.main(
        name,
        start=start,
        tasks=Path("tasks.parquet"),
        eval_texts=Path("eval.parquet"),
        eval_vectors=Path("vectors/eval"),
        transfer_texts=Path("augmented/transfer.parquet"),
        transfer_rows=Path("augmented/rows.parquet"),
        transfer_vectors=Path("vectors/transfer"),
        teacher_view=load(Path("params.yaml")).encode.views[0],
        facts=Path("facts.json"),
        out=Path(name) / "out",
        curve=Path(name) / "curve.tsv",
        metrics_file=Path(name) / "metrics.json",
    )
    return json.loads((Path(name) / "metrics.json").read_text())
