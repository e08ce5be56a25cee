"""What evaluate needs, from the task files and params in the working folder."""

from pathlib import Path

import numpy as np
from small_students import TEACHER_DIM

from pipeline.prepare import prepare
from pipeline.teacher.encoding import encode
from pipeline.vectors.space import pca
from pipeline.vectors.space.pca import Pca

PREPARED = {
    name: Path(f"{name}.parquet") for name in ("corpus", "provenance", "tasks", "finetune", "triplets")
}


def prepare_tasks(eval_texts: str = "eval.parquet", metrics: str = "prepare.json") -> None:
    """Run prepare."""
    inputs = {"raw": Path(), "wordnet": Path("wn"), "tokenizer": Path("tokenizer")}
    outs = {"eval_texts": Path(eval_texts), "metrics": Path(metrics), "dev": Path("dev"), **PREPARED}
    outs["origins"] = Path("origins.json")
    prepare.main(**inputs, **outs)


def prepare_and_encode() -> None:
    """Tasks, the teacher's vectors of their texts, and a PCA that keeps what comes first."""
    prepare_tasks()
    encode.main(Path("eval.parquet"), Path("vectors"))
    Path("pca").mkdir()
    flat = Pca(np.zeros(TEACHER_DIM), np.eye(TEACHER_DIM), np.ones(TEACHER_DIM))
    pca.write(flat, Path("pca/sentence.safetensors"))
