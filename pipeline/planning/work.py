"""What a plan is made of: params, sizes, what was measured, and what is left to encode."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.data import teacher_parts
from pipeline.data.models.locate import PACKAGE, find_model
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.load import Params
from pipeline.planning.probe import Probe
from pipeline.planning.sizes import Sizes, Texts
from pipeline.planning.student_probe import StudentSpeed
from pipeline.train.students.shared.resolve import numbered
from pipeline.train.students.shared.verdict import Possible

if TYPE_CHECKING:
    from pipeline.params.classifiers import TunedTeacher
    from pipeline.params.layers import StudentInit
    from pipeline.params.students import Student

LIGHT = 0.6
"""Seconds of a stage that finds nothing to do."""
TRAIN_TO_FORWARD = 3.2
"""How many times a forward pass a training step takes."""
START = 2.4
"""Seconds that a stage's imports took where the constants of these modules were measured."""
ON_FLOAT32_BYTES = 4
FEWEST_NUMBERS = 100_000


@dataclass(frozen=True)
class Work:
    """Of a run that is planned."""

    params: Params
    facts: TeacherFacts
    students: dict[str, Possible]
    """Those that the teacher can give."""
    sizes: Sizes
    probe: Probe
    workers: int = 1
    engine: str = "local"
    cores: int = 1
    missing: dict[str, Texts] = field(default_factory=dict)
    """By text set: the texts that the store lacks."""

    def block(self, name: str) -> "Student":
        """A student's block, without `auto`."""
        return self.students[name].block

    def speed(self, name: str) -> StudentSpeed:
        """What was measured of a student, else what its size and the teacher's speed say."""
        if (measured := self.probe.students.get(name)) is not None:
            return measured
        if self.students[name].block.kind == "static":
            return StudentSpeed(1.0, 1e-6, 5e-7)
        own = max(FEWEST_NUMBERS, self.students[name].parameters - self._table(self.block(name).init))
        share = own / max(FEWEST_NUMBERS, self.probe.parameters - self.facts.tokens * self.facts.token_dim)
        forward = share * max(self.probe.encode.values(), default=0.0)
        return StudentSpeed(1.0, TRAIN_TO_FORWARD * forward, forward)

    def _table(self, init: "StudentInit") -> int:
        """Numbers of the token table of a student: of its own encoder's where that is at hand."""
        rows, width = self.facts.tokens, self.facts.token_dim
        model = getattr(init, "model", None)
        if model and _is_here(model):
            encoder = teacher_parts.empty_encoder(find_model(model, "init.model"))
            rows, width = cast("Any", encoder.get_input_embeddings()).weight.shape
        return min(getattr(init, "tokens", None) or rows, rows) * getattr(init, "table_width", width)

    def numbers_of(self, model: "TunedTeacher") -> int:
        """Numbers of the layers of a model that is fine-tuned on a task; of one of the hub, the teacher's."""
        own = max(FEWEST_NUMBERS, self.probe.parameters - self.facts.tokens * self.facts.token_dim)
        if not _is_here(model.model):
            return own
        encoder = teacher_parts.empty_encoder(find_model(model.model, "kd.teacher.model"))
        table = cast("Any", encoder.get_input_embeddings()).weight.numel()
        count = encoder.config.num_hidden_layers
        layers_kept = numbered(model.layers, count)
        kept = count if layers_kept is None else len(layers_kept)
        layers = sum(one.numel() for one in encoder.parameters()) - table
        return max(FEWEST_NUMBERS, layers * kept // count)

    def share_of(self, model: "TunedTeacher") -> float:
        """How many times the teacher's time a text takes with such a model, by their numbers."""
        own = max(FEWEST_NUMBERS, self.probe.parameters - self.facts.tokens * self.facts.token_dim)
        return self.numbers_of(model) / own

    @property
    def slower(self) -> float:
        """How many times as long as there this machine takes for what no probe measures, by its imports."""
        return self.probe.start / START if self.probe.start else 1.0

    @property
    def dims(self) -> dict[str, int]:
        """Of the views that are encoded."""
        known = {**self.facts.dims, **self.probe.dims}
        most = max(known.values(), default=self.facts.token_dim)
        return {view: known.get(view, most) for view in self.params.encode.views}

    def megabytes(self, name: str) -> float:
        """A student's weights."""
        return self.students[name].parameters * ON_FLOAT32_BYTES / 1e6

    @property
    def teacher_megabytes(self) -> float:
        """Its weights as they are loaded."""
        return self.probe.parameters * ON_FLOAT32_BYTES / 1e6

    @property
    def reads_vocabulary(self) -> bool:
        """Whether somebody reads the vectors of the teacher's tokens."""
        readers = [possible.block.reads_vocabulary for possible in self.students.values()]
        return any(readers) or self.params.augment.wordnet.reads_vocabulary

    @property
    def reads_wordnet(self) -> tuple[bool, bool]:
        """Whether `prepare` opens WordNet, and whether it makes triplets of it."""
        params = self.params
        triplets = any(block.kind == "wordnet_triplets" for block in params.finetune.data.values())
        blocks = (*params.corpus.sources, *params.evaluate.tasks.values())
        return triplets or any(block.kind.startswith("wordnet") for block in blocks), triplets

    def is_read(self, text_set: str) -> bool:
        """Whether somebody reads the vectors of a text set."""
        return text_set != "finetune" or self.params.finetune.mine is not None


def _is_here(model: str) -> bool:
    """Whether a model's files are on this machine: a package, or a folder."""
    return model.startswith(PACKAGE) or Path(model).is_dir()
