"""Model cards."""

from collections.abc import Collection

from pipeline.params import mixture, start
from pipeline.params.students import StudentBlock
from pipeline.params.teacher import Teacher, teacher_name

CONTENT = """---
{data}
---

# {name}

A {kind} student of {dim} dimensions, {made}.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}")
vectors = model.encode(["A sentence.", "Another one."])
```
{static}
{training}{finetuned} Made with the distillation pipeline; its report says what this
student costs and keeps.
"""
STATIC = """
Or without torch:

```python
from model2vec import StaticModel

vectors = StaticModel.from_pretrained("{name}").encode(["A sentence.", "Another one."])
```
"""


def model_card(
    name: str,
    kind: str,
    student: StudentBlock,
    teacher: Teacher,
    augmented: Collection[str],
    finetuned: Collection[str] = (),
    *,
    whitened: bool = False,
) -> str:
    """The README.md of a student's folder: what it is, where it comes from, how to load it.

    Args:
        name: the student's.
        kind: the student's.
        student: its block in the params.
        teacher: the params'.
        augmented: the text sets that were made, of which those that the student reads are told.
        finetuned: names of the triplets that it was fine-tuned on.
        whitened: whether its last layer whitens its vectors.
    """
    from huggingface_hub import ModelCard, ModelCardData

    origin = teacher_name(teacher, "a hashing teacher")
    library = "model2vec" if kind == "static" else "sentence-transformers"
    data = ModelCardData(
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", *(["distillation"] if student.train else [])],
    )
    cosines = student.finetune is not None and student.finetune.loss == "cosines"
    on = f"to the cosines that `{origin}` gives pairs of texts" if cosines else "on triplets"
    then = f" Then fine-tuned {on}: {', '.join(finetuned)}." if finetuned else ""
    if finetuned and student.finetune is not None and student.finetune.replay:
        then += " Its distillation went on beside."
    if whitened:
        then += " Its last layer whitens its vectors, by their principal components."
    static = STATIC.format(name=name) if kind == "static" else ""
    return str(
        ModelCard(
            CONTENT.format(
                data=data.to_yaml(),
                name=name,
                kind=kind,
                dim=student.width,
                made=_made(student, origin),
                static=static,
                training=_training(student, augmented),
                finetuned=then,
            )
        )
    )


def _made(student: StudentBlock, teacher: str) -> str:
    if student.train:
        return f"distilled from `{teacher}` (its `{student.view}` vectors)"
    named = f"`{teacher}`"
    return f"not distilled: {start.said(student, f'`{start.place(student) or teacher}`', named)}"


def _training(student: StudentBlock, augmented: Collection[str]) -> str:
    if not student.train or not student.loss:
        return "No distillation."
    texts = [item for item in student.train.texts.items() if item[0] in {"corpus", *augmented}]
    return f"Loss: `{student.loss.kind}`. Training texts: {', '.join(mixture.said(*read) for read in texts)}."
