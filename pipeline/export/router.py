"""The student for queries and its teacher for documents: a Router of sentence-transformers.

A document store that the teacher has filled stays; queries cost what the student costs.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from pipeline.core.errors import UserError
from pipeline.data.models.locate import find_model
from pipeline.data.student import layout, student_folder
from pipeline.params.students import Student
from pipeline.params.teacher import Teacher, TransformerTeacher
from pipeline.teacher.shared.local.described import prompts
from pipeline.teacher.shared.local.described.tuned import TUNED, as_tuned
from pipeline.vectors.space.pca import Pca
from pipeline.vectors.space.targets import reduction

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def write(
    finetuned: Path,
    block: Student,
    teacher: Teacher,
    fitted: Pca,
    view: str,
    folder: Path,
    tuned: Path = TUNED,
) -> None:
    """Write the model.

    Args:
        finetuned: the student.
        block: its params.
        teacher: whose documents it searches.
        fitted: the PCA of the student's view.
        view: the one that stands for the teacher.
        folder: where to.
        tuned: the folder of the fine-tuned teacher, if it is.

    Raises:
        UserError: the teacher is no model that is here, or `view` is none that its own pipeline gives.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Router

    if not isinstance(teacher, TransformerTeacher):
        raise UserError(
            f"export.formats has router, which holds the teacher's weights; teacher.kind {teacher.kind} has "
            "none here: leave router out"
        )
    if view != "sentence":
        raise UserError(
            "export.formats has router, whose documents are encoded by the teacher's own pipeline, and the "
            f"first of encode.views is {view}; put sentence first, or leave router out"
        )
    queries = student_folder.read(finetuned, f"finetune@{finetuned.name}")
    with torch.random.fork_rng(devices=[]):
        documents = _load(as_tuned(teacher, tuned))
        modules = [*documents, *_reducing(block, fitted)]
        if layout.is_unit(finetuned) and not isinstance(modules[-1], Normalize):
            modules.append(Normalize())
    model = SentenceTransformer(modules=[Router.for_query_document([*queries], modules)], device="cpu")
    model.similarity_fn_name = student_folder.similarity(finetuned)
    model.prompts = {
        "query": student_folder.prompts(finetuned).get("query", ""),
        "document": prompts.by_role(documents.prompts, documents.default_prompt_name, teacher.prompts)[
            "document"
        ],
    }
    model.save_pretrained(str(folder), create_model_card=False)


def _load(teacher: TransformerTeacher) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    code = teacher.trust_remote_code
    folder = find_model(teacher.model, "teacher.model", revision=teacher.revision, code=code)
    if teacher.pooling is None:
        model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=code)
    else:
        encoder = Transformer(
            str(folder),
            model_kwargs={"use_safetensors": True, "trust_remote_code": code},
            modality_config={"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
            module_output_name="token_embeddings",  # else a chat template would wrap every text
        )
        pooling = Pooling(encoder.get_embedding_dimension(), teacher.pooling)
        model = SentenceTransformer(modules=[encoder, pooling], device="cpu")
    if teacher.max_length:
        model.max_seq_length = teacher.max_length
    return model


def _reducing(block: Student, fitted: Pca) -> list[nn.Module]:
    """The layer that brings the teacher's vectors to the student's targets, where these are others."""
    from sentence_transformers.base.modules import Dense
    from torch import from_numpy

    reduce = reduction(block, fitted)
    offset = reduce(np.zeros((1, fitted.dim), np.float32))[0]
    matrix = reduce(np.eye(fitted.dim, dtype=np.float32)) - offset
    if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(fitted.dim)) and not offset.any():
        return []
    weight, bias = from_numpy(np.ascontiguousarray(matrix.T)), from_numpy(offset.copy())
    width, dim = matrix.shape
    return [Dense(width, dim, activation_function=nn.Identity(), init_weight=weight, init_bias=bias)]
