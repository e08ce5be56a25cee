"""What the report reads: types of the other stages' metrics and timings."""

from pydantic import BaseModel, ConfigDict

from pipeline.data.common.files.metrics import AVERAGE as AVERAGE
from pipeline.data.common.files.metrics import FINETUNED as FINETUNED
from pipeline.data.common.files.metrics import KEPT as KEPT
from pipeline.data.common.files.metrics import TEACHER as TEACHER

TEACHER_PCA = "teacher_pca"
UNTRAINED = "untrained"
DISTILLED = "distilled"


Interval = tuple[float, float]
"""Low and high end."""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Budget(_Read):
    """A student's scores with its vectors cut to `dim` dimensions and stored as `type`."""

    dim: int
    type: str
    trained: bool
    """Whether the student was trained for this prefix (Matryoshka), or has this many dimensions."""
    megabytes_per_million: float
    average: float
    kept: float | None
    """The share of the score with the student's own whole float32 vectors."""


class Group(_Read):
    """Texts of a length or a role, and how far a student agrees with the teacher on them."""

    group: str
    scores: dict[str, float]
    """overlap@10, spearman, texts."""


class AgreementMetrics(_Read):
    """Agreement with the teacher on groups of texts."""

    left_out: str | None = None
    """Why it was not measured."""
    groups: tuple[Group, ...] = ()


class StudentMetrics(_Read):
    """One student's scores, its teacher's beside them; `scores` is variant -> task -> metric -> value."""

    student: str
    kind: str
    ships: str = "finetuned"
    """Whose files they are that ship: `distilled` where fine-tuning has left them as they were."""
    dim: int
    dims: dict[str, int]
    views: dict[str, str] = {}
    """Which of the teacher's vectors `teacher` and `teacher_pca` are."""
    similarity: dict[str, str] = {}
    """How `teacher` and `finetuned` compare vectors; empty where both do by the cosine."""
    builtin: tuple[str, ...]
    """Tasks that are proxies made from WordNet."""
    main: dict[str, str]
    """The headline metric of each test task."""
    scores: dict[str, dict[str, dict[str, float | None]]]
    average: dict[str, float]
    """Mean of the headline metrics, by variant."""
    retention: dict[str, float | None] = {}
    """Mean over the tasks of score / teacher's score, by variant."""
    geometry: dict[str, dict[str, float | None]] = {}
    agreement: AgreementMetrics = AgreementMetrics()
    budget: tuple[Budget, ...] = ()
    budget_left_out: tuple[str, ...] = ()
    """Tasks that are left out of the budget's scores."""
    indexes: tuple[dict[str, str | int | float | None], ...] = ()
    """What search indexes find: task, model, index, its settings, bytes, metrics."""
    asymmetric: dict[str, dict[str, float | None]] = {}
    """Retrieval of the teacher's documents with the student's queries: task -> metric -> value."""

    def score(self, variant: str, task: str) -> float | None:
        """The headline score; None where the variant or the task was not scored."""
        return self.scores.get(variant, {}).get(task, {}).get(self.main.get(task, ""))

    def kept(self, variant: str) -> float | None:
        """The share of the teacher's scores that a variant keeps; None where one of those is not positive."""
        teacher = [self.score(TEACHER, task) for task in self.main]
        if any(score is None or score <= 0 for score in teacher):
            return None
        return 1.0 if variant == TEACHER else self.retention.get(variant)


class Size(_Read):
    """What it costs to store and to run one model."""

    parameters: int
    embedding_parameters: int
    megabytes: float
    sentences_per_second: float
    latency_ms_p50: float
    latency_ms_p95: float
    batch_spread: float | None = None
    """By how much a round's time differs from the median round's, as a share; None with a single round."""
    latency_spread: float | None = None
    """The same for a round's median latency."""
    pair_ms: float | None = None
    """Of a pair of `footprint.pairs`, both texts alone; None where none is named, or for an API."""
    pair_spread: float | None = None
    """As batch_spread, of a pass over the pairs."""
    speedup: float
    dim: int


class FinetuneMetrics(_Read):
    """Which weights a student ships, why, and the dev tasks' score before and after fine-tuning."""

    kept: str
    reason: str
    dev_before: float | None = None
    dev_after: float | None = None
    whitened_dim: int | None = None
    """Dimensions that whitening has kept; None: there is none."""
    saturated_kernels: str | None = None


class ClassifierMetrics(_Read):
    """A classifier: how it was trained, and what it scores on the test rows."""

    task: str
    metric: str
    """The task's headline."""
    student: str
    start: str
    kd: bool
    alpha: float | None = None
    """Share of the labels beside the task teacher; None without one."""
    transfer_rows: int = 0
    scores: dict[str, float]
    seeds: int = 1
    task_teacher: dict[str, float] | None = None
    untuned: dict[str, float] | None = None
    """Of pairs, by a threshold on the similarity of the student's vectors before training."""
    untuned_teacher: dict[str, float] | None = None
    """The same by the teacher's vectors."""
    settings: dict[str, object] = {}
    """How it was trained, and its head."""
    parameters_without_embeddings: int


class EncodeMetrics(_Read):
    """How many texts of a set the teacher's window cuts, and how much of them."""

    texts: int
    texts_cut: int | None = None
    """None where the teacher does not say."""
    tokens_of_cut: int = 0
    """All tokens of the texts that are cut."""
    tokens_lost: int = 0
    """Those behind the window."""


class AugmentMetrics(_Read):
    """What a method of augmentation made, and what the checks of its texts dropped, by reason."""

    texts_in: int
    left_alone: dict[str, int] = {}
    """Source texts of which it made nothing, by reason."""
    made: int
    dropped: dict[str, int] = {}
    novelty: float | None = None
    """Mean share of the source text's words that the new text lacks."""


class TransferMetrics(_Read):
    """The rows made of a labelled task, those dropped by reason, and how often each rule was applied."""

    rows_in: int
    made: int
    rows_out: int
    dropped: dict[str, int] = {}
    words: int = 0
    masked: int = 0
    replaced: int = 0
    texts: int = 0
    """Texts that were made anew: of a pair, one or both."""
    ngrams: int = 0


class GateMetrics(_Read):
    """What the teacher's gate dropped, by reason; without a gate there is no similarity."""

    rows_out: int
    dropped: dict[str, int] = {}
    similarity: dict[str, float | None] = {}
    """Mean and quantiles of the cosines to the source texts; `mean_kept` is that of the texts that passed."""


class Comparison(_Read):
    """A paired test of what a student ships against another model: the student's score minus the other's."""

    student: str
    other: str
    task: str
    """Or "average"."""
    difference: float
    low: float
    high: float
    p: float

    @property
    def real(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


class Significance(_Read):
    """Bootstrap intervals and paired tests of the teacher and of what ships."""

    samples: int
    confidence: float
    intervals: dict[str, dict[str, Interval | None]]
    """Model -> task, "average" or "kept" -> interval."""
    metrics: dict[str, dict[str, dict[str, Interval]]]
    """Model -> task -> metric -> interval, of every score."""
    paired: tuple[Comparison, ...]

    def interval(self, model: str, measure: str) -> Interval | None:
        """None where it is not known."""
        return self.intervals.get(model, {}).get(measure)

    @property
    def tells_shares(self) -> bool:
        """Whether all of the teacher's scores can be told from zero; else a share of them means nothing."""
        teacher = self.intervals.get(TEACHER, {})
        tasks = (found for name, found in teacher.items() if name not in (AVERAGE, KEPT))
        return all(found is None or found[0] > 0 for found in tasks)

    def between(self, one: str, other: str, task: str) -> Comparison | None:
        """The test of two models, whichever of them is its student: `real` is the same in both directions."""
        sides = {one, other}
        found = (c for c in self.paired if {c.student, c.other} == sides and c.task == task)
        return next(found, None)


class Searches(_Read):
    """How long search takes by index: rows of task, model, index, its settings and times."""

    searches: tuple[dict[str, str | int | float | None], ...]


class Timing(_Read):
    """What a stage took: wall-clock time, and the most memory that one of its processes held."""

    seconds: float
    peak_megabytes: float
    machine: str = ""
    """The processor."""
    precision: str = ""
    """In which it ran students; empty if it ran none."""
