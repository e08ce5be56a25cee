"""A teacher in training: all its weights, by the loop and the loss of the students' fine-tuning."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn

from pipeline.core import fingerprint, seal
from pipeline.core.errors import UserError, under
from pipeline.data.common import texts
from pipeline.data.common.files.tables import read_table
from pipeline.data.tokens.tokens import Tokens, tokenise
from pipeline.encoders.packed_model import PackedModel, encoder_of, length_sorted_batches, preprocesses
from pipeline.params.finetune import Finetune, TeacherFinetune
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import TransformerTeacher
from pipeline.prepare import dev as dev_file
from pipeline.tasks import pairs
from pipeline.teacher.kinds import transformer
from pipeline.teacher.shared.local.local_model import keep_settings
from pipeline.train.finetuning.shared.dev_score import DevScore, summary_of
from pipeline.train.finetuning.shared.finetuning import Finetuning, chosen_triplets
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.loop import Point
from pipeline.train.loop.precision import takes_bfloat16
from pipeline.train.loop.world import World
from pipeline.train.students.shared.base.interface import Encoded
from pipeline.train.students.shared.base.settings import write_tokenizer_config

KEY = "teacher.finetune"
PROBE = "a"


class TeacherInTraining:
    """A sentence-transformers model as the teacher encodes with it, differentiable: a `Student` to the loop.

    Args:
        model: as the kind `transformer` loads it.
        max_length: tokens after which a text is cut.
        tokens_per_batch: padded tokens that go through it at a time.
        name: of the model, for messages.

    Raises:
        UserError: the model makes more of a text than the tokens of its tokenizer.
    """

    def __init__(self, model: SentenceTransformer, max_length: int, tokens_per_batch: int, name: str) -> None:
        # Dropout would need its state in a resumed run; students are trained without it too.
        self.module: nn.Module = model.eval().requires_grad_(True)
        self._model = model
        self._packed = PackedModel(model, max_length, tokens_per_batch, training=True)
        self._pad = model.tokenizer.pad_token_id or 0
        self._max_length = max_length
        self._check(name)

    def _check(self, name: str) -> None:
        first = encoder_of(self._model)
        if preprocesses(first):
            what = (
                "sentence_bert_config.json sets modality_config.message or processing_kwargs, or its first "
                "module is of code of its own"
            )
        elif self._packed.knows_tasks:
            what = "it treats queries and documents apart"
        elif not all(getattr(module, "include_prompt", True) for module in self._model):
            what = "its Pooling leaves prompts out (include_prompt: false)"
        elif any(any(one.type_ids) for one in self._packed.tokenise([PROBE])):
            what = "its tokens have several types"
        else:
            return
        raise UserError(f"{KEY}: {name} cannot be fine-tuned here, for {what}; set it to null")

    def tokenise(self, texts: list[str]) -> Tokens:
        """Token ids with special tokens, cut at max_length."""
        tokenizer = self._model.tokenizer.backend_tokenizer
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._max_length, direction=self._model.tokenizer.truncation_side)
        return tokenise(tokenizer, texts, special=True)

    def encode(self, tokens: Tokens, *, embedded: bool = False) -> Encoded:
        """Vectors of the view `sentence`; no loss of a teacher asks for more."""
        assert not embedded, "teacher.finetune has no loss of the embedding layer"
        groups = length_sorted_batches(tokens.lengths, self._packed.tokens_per_batch)
        parts = [self._packed.sentence_vectors(*tokens.select(group).padded(self._pad)) for group in groups]
        back = torch.from_numpy(np.argsort(np.concatenate(groups))).to(self._model.device)
        return Encoded(torch.cat(parts).index_select(0, back), None)

    def fit_projection(self, tokens: Tokens, targets: NDArray[np.float32]) -> None:
        """Nothing: a teacher has no layer to be solved."""

    def regularise(self, tokens: Tokens) -> None:
        """Nothing: a teacher is final as trained."""

    def save(self, folder: Path) -> None:
        """Save as a sealed sentence-transformers folder, with the modules, prompts and similarity it had."""
        self._model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)
        keep_settings(encoder_of(self._model).model, folder)
        write_tokenizer_config(folder)
        seal.write_folder(folder)


class TunedTeacher(NamedTuple):
    """What fine-tuning came to."""

    teacher: TeacherInTraining
    """With the weights of the best dev score."""
    points: list[Point]
    summary: dict[str, Any]
    """Metrics."""
    changed: bool
    """Whether its weights are others than before."""
    checkpoint: Checkpoint
    """To be cleared once all is written."""


def tune(
    block: TransformerTeacher,
    params: TeacherFinetune,
    runtime: Runtime,
    triplets: Path,
    finetune_texts: Path,
    dev: Path,
) -> TunedTeacher:
    """Fine-tune the teacher in float32 weights, whatever precision it encodes in.

    Args:
        block: the teacher's.
        params: how it is trained.
        runtime: where, and how often its state is kept.
        triplets: as `prepare` writes them; no negatives are mined, for that takes the teacher's vectors.
        finetune_texts: their texts.
        dev: the tasks that select weights.

    Raises:
        UserError: an input or the model is at fault.
    """
    settings = Finetune(**params.model_dump())
    table = read_table(triplets, pairs.PAIRS_SCHEMA, "prepare").filter(pairs.IS_TRIPLET)
    chosen = chosen_triplets(table, settings, triplets, KEY)
    dev_tasks = dev_file.read(dev)
    if not dev_tasks.pairs:
        raise UserError(
            f"{dev} has no dev task to select weights by; give a task under evaluate.tasks `split: dev`, or "
            f"set {KEY} to null"
        )
    untuned = block.model_copy(update={"precision": "float32", "finetune": None})
    loaded = transformer.load(untuned, runtime)
    identity: dict[str, Any] = {
        "block": params.model_dump(mode="json"),
        "teacher": fingerprint.of_json(loaded.recipes),
        "dev": fingerprint.of_folder(dev),
        "inputs": {path.name: fingerprint.of_file(path) for path in (triplets, finetune_texts)},
    }
    checkpoint = Checkpoint.of(Path(runtime.cache), "finetune-teacher", **identity)
    checkpoint.hold()
    teacher = TeacherInTraining(loaded.module, loaded.max_length, runtime.tokens_per_batch, block.model)
    world = World.join(runtime.device)
    bfloat16 = takes_bfloat16(settings.precision, teacher.module, world, checkpoint, f"{KEY}.precision")
    prompts: dict[str, str] = {str(role): prompt for role, prompt in loaded.prompts.items()}
    labelled = texts.labelled(finetune_texts, prompts)
    finetuning = Finetuning(teacher, chosen, labelled, settings, triplets)
    dev_score = DevScore(teacher, dev_tasks, prompts, loaded.similarity, bfloat16=bfloat16)
    seconds = runtime.checkpoint_seconds
    with under("teacher"):
        points = finetuning.run("teacher", dev_score, checkpoint, seconds, bfloat16=bfloat16)
    best = min(points, key=lambda point: point.dev_value)
    summary = summary_of(points, best, None, settings, "teacher", "original")
    return TunedTeacher(teacher, points, {"triplets": len(chosen), **summary}, best.step > 0, checkpoint)
