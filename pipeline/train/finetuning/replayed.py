"""What fine-tuning replays: the texts and targets that a student was distilled on, by its own loss."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.core import fingerprint
from pipeline.core.errors import UserError, under
from pipeline.params.finetune import Finetune
from pipeline.params.students import StudentBlock
from pipeline.train.finetuning.shared.replay import Replay
from pipeline.train.loop.data import Corpus, materialise, open_corpus
from pipeline.train.loop.loss import LossContext
from pipeline.train.loop.mixture import Batches
from pipeline.train.loop.objective import Step
from pipeline.train.loop.world import World
from pipeline.train.losses.building.objective import build_objective, import_losses
from pipeline.train.students.shared.base.interface import Student


class Reread(NamedTuple):
    """What distillation has read."""

    corpus: Path
    gated: Path
    vectors: Path
    pca: Path


@dataclass(frozen=True)
class Replayed:
    """One student's distillation, opened again.

    Args:
        name: of the student, for messages.
        block: its params, which `student_faults` has let pass.
        settings: its fine-tuning.
        corpus: of the texts that are replayed, with the prompts that the student ships.
        pca: the PCA that the targets come of.
    """

    name: str
    block: StudentBlock
    settings: Finetune
    corpus: Corpus
    pca: Path

    @classmethod
    def of(
        cls, name: str, block: StudentBlock, settings: Finetune, prompts: Mapping[str, str], places: Reread
    ) -> "Replayed | None":
        """What a student replays; None where that is nothing.

        Raises:
            UserError: an artifact is missing or does not fit.
        """
        if settings.replay is None:
            return None
        key, train = "train.texts", block.training
        if settings.replay.texts:
            key, train = "finetune.replay.texts", train.model_copy(update={"texts": settings.replay.texts})
        found = open_corpus(name, block.model_copy(update={"train": train}), *places, key=key)
        corpus = replace(found, prompts=dict(prompts))
        return cls(name, block, settings, corpus, places.pca / f"{block.view}.safetensors")

    def identity(self) -> dict[str, Any]:
        """What a checkpoint is told apart by; the code of the losses is part of it, once imported."""
        assert self.block.loss is not None
        import_losses(self.block.loss)
        return {
            "block": self.block.model_dump(mode="json", exclude={"finetune", "whitening"}),
            "texts": [fingerprint.of_file(source.texts) for source in self.corpus.train],
            "vectors": [source.vectors.manifests for source in self.corpus.train],
            "pca": fingerprint.of_file(self.pca),
        }

    def replay(self, learner: Student, inputs: Path, device: str, *, bfloat16: bool) -> Replay:
        """The texts' tokens and targets in files under `inputs`, and the loss of the student on them.

        Raises:
            UserError: the loss has something of its own that distillation has not kept, or the disk is full.
        """
        asked = self.settings.replay
        assert asked is not None
        examples = materialise(self.corpus.train, self.corpus, learner.tokenise, inputs / "replay")
        longest = int(examples.tokens.lengths.max(initial=0))
        # No loss that is replayed reads the teacher's parts.
        context = LossContext(
            self.block.width, self.corpus.target_dim, len(examples), longest, Path(), self.block.seed
        )
        with under(f"students.{self.name}"):
            objective = build_objective(self.block, context, asked.weight).to(device)
            if kept := next(iter(objective.state_dict()), None):
                raise UserError(
                    f"finetune.replay: the loss has weights or a memory of its own ({kept}), dropped "
                    "after distillation; set replay to null, or change loss"
                )
        micro_batch = self.settings.micro_batch
        step = Step(learner, objective, examples, World(), micro_batch, bfloat16=bfloat16)
        portions = tuple(source.portion() for source in self.corpus.train)
        size = asked.batch_size or self.settings.batch_size
        return Replay(step, asked.weight, Batches(portions, size, self.settings.seed))
