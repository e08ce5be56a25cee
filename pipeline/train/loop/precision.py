"""The precision that a training's products are computed in: chosen once, and kept by a resumed run."""

from torch import nn

from pipeline.core import machine
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.world import World


def takes_bfloat16(
    wanted: machine.Precision, module: nn.Module, world: World, checkpoint: Checkpoint, key: str
) -> bool:
    """Whether a student is trained in bfloat16.

    Another precision gives other weights: a resumed run takes that of the interrupted one, unless torch has
    none such here, and all processes of a run take the leading one's.

    Args:
        wanted: what the params say.
        module: the student, on its device.
        world: the processes that train it.
        checkpoint: where an interrupted run's state lies.
        key: where the params say so, for messages.
    """
    found = False
    if world.leads:
        interrupted = checkpoint.state()
        if interrupted is not None:  # by another machine, it may be
            wanted = "bfloat16" if interrupted["bfloat16"] else "float32"
        found = machine.precision(wanted, module, world.device, key) == "bfloat16"
    return bool(world.of_the_leader(found))
