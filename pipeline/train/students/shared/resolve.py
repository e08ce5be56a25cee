"""What params leave to the pipeline (`auto`, shares, {last: 3}) as the numbers that fit the teacher."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.core.errors import UserError
from pipeline.data import teacher_parts
from pipeline.data.models import teacher_facts
from pipeline.data.models.locate import find_model
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.hidden import Hidden
from pipeline.params.layers import CutInit, LastLayers, LayeredInit, Layers, SpreadLayers
from pipeline.params.losses import HiddenStatesLoss, hidden_states_of
from pipeline.params.students import CompactInit, StaticStudent, Student, TransformerInit
from pipeline.train.students.shared.given_words import file_dimensions, list_rows

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

LEAST = 3
"""Layers that `auto` keeps at least: what the papers' students have."""
WITH_A_FIRST_LAYER_APART = ("modernbert",)
"""Types of models whose layer 0 has no norm before its attention: no other layer fits into its place."""
UNKNOWN_WINDOW = 512
"""Tokens of a text that a student reads whose teacher does not say how many it reads itself."""
PART = 3
"""`auto` keeps one layer of so many."""


def resolved(student: Student, teacher: TeacherFacts) -> Student:
    """A student's block with numbers for `dim`, `init.table_dim`, `init.layers` and `init.max_length`.

    Raises:
        UserError: the encoder has fewer layers, or the teacher's width is not known yet.
    """
    init, changes = student.init, cast("dict[str, Any]", {})
    config = _config(student, teacher) if isinstance(init, LayeredInit) else None
    if config is not None:
        asked = cast("LayeredInit", init).layers
        layers = numbered(asked, config.num_hidden_layers)
        if asked == "auto" and layers and config.model_type in WITH_A_FIRST_LAYER_APART:
            layers = (0, *layers[1:])
        changes["layers"] = layers
    if config is not None and isinstance(init, CompactInit) and isinstance(init.table_dim, float):
        embedded = getattr(config, "embedding_size", None) or config.hidden_size
        changes["table_dim"] = max(1, round(init.table_dim * embedded))
    if isinstance(init, CutInit) and init.max_length == "auto":
        changes["max_length"] = _longest(init, teacher)
    dim = student.dim if student.dim != "auto" else _dim(student, teacher, config)
    return student.model_copy(update={"dim": dim, "init": cast("Any", init).model_copy(update=changes)})


def numbered(layers: Layers, count: int) -> tuple[int, ...] | None:
    """The layers of an encoder of `count` layers that are kept, in order; None: all.

    Raises:
        UserError: more are asked for than there are.
    """
    if layers is None or isinstance(layers, tuple):
        return layers
    if layers == "auto":
        return spread(min(count, max(LEAST, count // PART)), count)
    wanted = layers.last if isinstance(layers, LastLayers) else layers.spread
    if wanted > count:
        raise UserError(
            f"init.layers asks for {wanted} layers, the encoder has {count}; ask for {count} or less"
        )
    return spread(wanted, count) if isinstance(layers, SpreadLayers) else tuple(range(count))[-wanted:]


def spread(wanted: int, count: int) -> tuple[int, ...]:
    """So many of `count` layers at equal distances, the last among them: 3 of 6 are 1, 3 and 5."""
    return tuple((place + 1) * count // wanted - 1 for place in range(wanted))


def hidden_pairs(
    loss: HiddenStatesLoss, layers: int, kept: Sequence[int], width: int, teacher_width: int
) -> list[tuple[int, int]]:
    """Pairs of a student's layer and a teacher's whose states a loss compares.

    Args:
        loss: its params.
        layers: how many the student has.
        kept: the teacher's whose states are kept, ascending.
        width: of the student's states.
        teacher_width: of the teacher's.

    Raises:
        UserError: a layer is not there, or the widths differ and nothing brings one to the other.
    """
    if loss.projection == "none" and width != teacher_width:
        raise UserError(
            f"loss: hidden_states compares states of {width} and {teacher_width} dimensions; set its "
            "projection to learned"
        )
    if loss.layers is None:
        both = min(layers, len(kept))
        return list(zip(spread(both, layers), (kept[one] for one in spread(both, len(kept))), strict=True))
    for own, theirs in loss.layers:
        if own >= layers:
            raise UserError(
                f"loss: hidden_states names layer {own} of the student, which has {layers} (0 to "
                f"{layers - 1}); correct its layers"
            )
        if theirs not in kept:
            raise UserError(
                f"loss: hidden_states names layer {theirs} of the teacher, and encode.hidden keeps "
                f"{', '.join(map(str, kept))}; add it there, or name one of these"
            )
    return list(loss.layers)


def check_hidden_states(student: Student, teacher: TeacherFacts, hidden: Hidden) -> None:
    """Fail where a student, whose layers are resolved, has no states to compare with those that are kept.

    Raises:
        UserError: as `hidden_pairs`, or the teacher lacks a layer that is to be kept.
    """
    for loss in hidden_states_of(student.loss):
        config = _config(student, teacher)
        kept = hidden.numbered(int(config.num_hidden_layers))
        layers, width = layers_and_width(student, teacher)
        hidden_pairs(loss, layers, kept, width, int(config.hidden_size))


def layers_and_width(student: Student, teacher: TeacherFacts) -> tuple[int, int]:
    """How many layers an encoder student has whose layers are resolved, and the width of their states."""
    config, init = _config(student, teacher), cast("LayeredInit", student.init)
    layers = len(init.kept) if init.kept else int(config.num_hidden_layers)
    return layers, getattr(init, "hidden", None) or int(config.hidden_size)


def _dim(student: Student, teacher: TeacherFacts, config: "PreTrainedConfig | None") -> int:
    width = teacher.dims.get(student.view)
    if config is not None and getattr(student.init, "projection", None) == "none":
        hidden = getattr(student.init, "hidden", None) or int(config.hidden_size)
        compared = student.train is not None and student.train.target != "full"
        if compared and width is not None and hidden > width:
            raise UserError(
                f"init.projection is none, which gives the encoder's {hidden} dimensions, above the {width} "
                f"of the teacher's {student.view!r} view; set it to ridge"
            )
        return hidden
    if isinstance(student, StaticStudent) and student.init.path:
        dim, most = file_dimensions(student.init)
        wanted = min(width or dim, dim) if student.meets_targets else dim
        return wanted if wanted == dim and not student.rotates else min(wanted, most)
    if width is None:
        raise UserError(
            f"dim is auto, and the dimension of the teacher's {student.view!r} vectors is not known before "
            "texts are encoded; set dim to a number (or teacher.dimensions of an API)"
        )
    if isinstance(student, StaticStudent):
        used = list_rows(student.init, teacher)[1] if student.init.word_list else teacher.used
        return min(width, teacher_facts.most_dimensions(teacher.token_dim, used))
    return width


def _longest(init: CutInit, teacher: TeacherFacts) -> int:
    """The teacher's window, as far as the student's encoder has positions for it."""
    window = teacher.window or UNKNOWN_WINDOW
    if not isinstance(init, CompactInit | TransformerInit) or (teacher.window and not init.model):
        return window
    import torch

    from pipeline.encoders.packing.packing import positions_of
    from pipeline.train.students.shared.teacher_layers import empty_start

    with torch.device("meta"):
        positions = positions_of(empty_start(init, teacher))
    return min(window, positions or window)


def _config(student: Student, teacher: TeacherFacts) -> "PreTrainedConfig":
    """The config of the encoder that a student starts from: the teacher's, or that of `init.model`."""
    init: Any = student.init
    if getattr(init, "model", None):
        return teacher_parts.read_config(find_model(init.model, "init.model", revision=init.revision))
    return teacher_parts.read_config(teacher.config)


def check_places(student: Student) -> None:
    """Fail where a model or file that a student starts from is not there.

    Raises:
        UserError: a mistake in params, whatever the teacher is.
    """
    init: Any = student.init
    if getattr(init, "model", None):
        find_model(init.model, "init.model", revision=init.revision)
    for key in ("path", "pieces", "word_list"):
        if (path := getattr(init, key, None)) and not Path(path).is_file():
            raise UserError(f"init.{key}: there is no file {path}; correct it in params.yaml")
