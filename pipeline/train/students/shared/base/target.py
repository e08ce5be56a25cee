"""Whether a student's dimension goes with that of its teacher's vectors."""

from pipeline.core.errors import UserError
from pipeline.params.losses import terms_of
from pipeline.params.students import FITTED, StaticStudent, StudentBlock


def check_target(student: StudentBlock, dim: int) -> None:
    """Fail where a student cannot learn vectors of `dim` dimensions, those of its view.

    Raises:
        UserError: it has more dimensions, or something compares its vectors with targets of others.
    """
    if not student.meets_targets:
        return
    if student.train and student.train.target == "full":
        if student.width != dim:
            _check_maps_dimensions(student, dim)
        return
    if student.width > dim:
        other = "train.target: full with a loss that maps one to the other"
        if not student.train:
            other = f"an init.projection that is not fitted, as {' and '.join(FITTED)} are"
        raise UserError(
            f"dim is {student.width}, above the {dim} dimensions of the teacher's {student.view!r} view; "
            f"choose {dim} or less, or {other}"
        )


def _check_maps_dimensions(student: StudentBlock, dim: int) -> None:
    both = f"train.target full has {dim} dimensions, the student {student.width}"
    projection = getattr(student.init, "projection", None)
    if projection in FITTED:
        raise UserError(
            f"init.projection: {both}, and {projection} brings none to the other; "
            f"set it to {'none' if isinstance(student, StaticStudent) else 'random'}"
        )
    for loss in terms_of(student.loss) if student.loss else ():
        if loss.compares:
            raise UserError(
                f"loss: {both}, and {loss.kind} compares them; use infonce with `projection: "
                "learned`, crd, relational, or train.target: pca"
            )
