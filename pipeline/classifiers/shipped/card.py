"""The model card of a classifier: its labels, its scores, what it is made of, how it is loaded."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.classifiers.saved.said import Said
from pipeline.classifiers.shipped.graph import LOGITS
from pipeline.export.shared import terms
from pipeline.export.shared.header import LICENCES, base_models, languages
from pipeline.export.shared.ledger.licences import OTHER, strictest
from pipeline.export.shared.ledger.origins import Origin
from pipeline.export.shared.markdown import code, plain
from pipeline.params.classifiers import Classifier

PROGRAM = """
`pip install onnxruntime tokenizers numpy` (no torch)

```python
import json
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_padding(pad_id=json.loads(Path("config.json").read_text(encoding="utf-8"))["pad_token_id"])
labels = json.loads(Path("classifier.json").read_text(encoding="utf-8"))["labels"]
prompt = {prompt}
session = onnxruntime.InferenceSession("onnx/model.onnx", providers=["CPUExecutionProvider"])
tokens = tokenizer.encode_batch([{inputs}])
ids = np.array([one.ids for one in tokens], np.int64)
mask = np.array([one.attention_mask for one in tokens], np.int64)
inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": {types}}
names = [one.name for one in session.get_inputs()]
logits = session.run(["logits"], {name: inputs[name] for name in names})[0]
for row in logits:
    print(labels[row.argmax()], (np.exp(row) / np.exp(row).sum()).max())
```
"""


def card(
    name: str,
    block: Classifier,
    said: Said,
    told: Mapping[str, Any],
    made_of: Sequence[Origin],
    apart: float,
    prompts: Mapping[str, str],
) -> str:
    """README.md of a classifier's folder.

    Args:
        name: the classifier's.
        block: how it was made.
        said: its labels.
        told: metrics of `classify`.
        made_of: all that it is made from.
        apart: the largest difference of the graph's logits, as a share of the largest logit.
        prompts: what its encoder has before the texts of each role.
    """
    from huggingface_hub import EvalResult, ModelCard, ModelCardData

    licence = strictest(one.licence for one in made_of)
    prompt = prompts.get("text", "")
    scores = [
        EvalResult(
            task_type="text-classification",
            dataset_type=said.task,
            dataset_name=said.task,
            dataset_split="test",
            metric_type=metric,
            metric_value=told["scores"][metric],
        )
        for metric in ("accuracy", "f1")
    ]
    data = ModelCardData(
        base_model=base_models(made_of) or None,
        eval_results=scores,
        language=languages(made_of) or None,
        library_name="sentence-transformers",
        license=licence.identifier,
        license_name=licence.name,
        license_link=LICENCES if licence.identifier == OTHER else None,
        model_name=name,
        pipeline_tag="text-classification",
        tags=["text-classification", "distillation", "onnx"],
    )
    labels = ", ".join(code(label) for label in said.labels)
    what = "pairs of texts" if said.pairs else "texts"
    rows = [
        "| what | of | licence |",
        "|---|---|---|",
        *(f"| {plain(one.what)} | {terms.named(one)} | {plain(one.licence.said)} |" for one in made_of),
    ]
    order = "A pair is two rows that follow each other. " if said.group == 2 else ""
    if said.together:
        order = "A pair is one row, with `token_type_ids` where the graph has them. "
    before = f"Each text has {code(json.dumps(prompt, ensure_ascii=False))} before it. " if prompt else ""
    texts = '["A first text.", "A second one."]'
    program = PROGRAM.replace("{inputs}", f"prompt + text for text in {texts}")
    program = program.replace("{types}", "np.zeros_like(ids)")
    if said.together:
        pairs = '[("A first text.", "Its pair."), ("A second one.", "Another.")]'
        program = PROGRAM.replace("{inputs}", f"(prompt + left, prompt + right) for left, right in {pairs}")
        program = program.replace("{types}", "np.array([one.type_ids for one in tokens], np.int64)")
    parts = [
        f"---\n{data.to_yaml()}\n---\n",
        f"# {name}\n",
        f"It gives {what} one of {len(said.labels)} labels: {labels}. Its encoder is the student "
        f"{code(block.student)} ({block.start}), trained together with a head on {code(said.task)}.\n",
        "## Quality\n",
        _quality(told),
        "## What it is made of\n",
        "\n".join(rows) + "\n",
        "## Licence\n",
        terms.said(made_of),
        "## How to load it\n",
        f"`onnx/model.onnx` gives `{LOGITS}`, within {apart:.1e} of the trained classifier's. {order}"
        f"{before}The program runs in the folder of this card.\n",
        program.replace("{prompt}", repr(prompt)),
    ]
    return str(ModelCard("\n".join(parts)))


def _quality(told: Mapping[str, Any]) -> str:
    rows = ["| on the test rows | accuracy | F1 |", "|---|--:|--:|", _row("this classifier", told["scores"])]
    if told["task_teacher"]:
        model = told["settings"].get("kd", {}).get("teacher", {}).get("model")
        taught = f"{code(model)}, fine-tuned on the labels" if model else "a head on the teacher's vectors"
        rows.append(_row(taught, told["task_teacher"]))
    if told["untuned"]:
        rows.append(_row("a threshold on the student's similarity, before training", told["untuned"]))
    seeds = told["seeds"]
    note = f"\nThe mean of {seeds} trainings; the first one ships.\n" if seeds > 1 else ""
    return "\n".join(rows) + "\n" + note


def _row(what: str, scores: Mapping[str, float]) -> str:
    return f"| {what} | {scores['accuracy']:.4f} | {scores['f1']:.4f} |"
