"""Run a stage and write down what it took: `python -m pipeline.core.timed OUT pipeline.ROOM.STAGE ...`.

It stands in a file of its own, so that equal inputs give equal results; DVC restores it along with them.
"""

import gc
import resource
import runpy
import sys
from pathlib import Path

from pipeline.core import memory, parent, quick_imports, resumable, seal, streams, took
from pipeline.core.atomic import write_text
from pipeline.core.errors import Refused, UserError, report_user_errors
from pipeline.core.machine import chosen, cpu, cpus, let_the_cpu_help

USAGE = "usage: python -m pipeline.core.timed OUT MODULE [ARGUMENT ...]"
STATUS = Path("/proc/self/status")
MEGABYTE = 1e6


def main() -> None:
    """Run a module as `python -m` does, in this process; write OUT where it succeeds, and only there.

    OUT is {"seconds", "peak_megabytes", "machine", "precision"}: wall-clock time, the most memory that one
    process held, the processor, and what students were computed in, if any were. Of the processes that
    torchrun starts each writes it, whole, and the slowest has the last word. Where this run goes on from the
    end of one that DVC did not commit, or with a training that was killed, what that took is counted too.

    Raises:
        UserError: OUT cannot be written.
        SystemExit: the module's own, where it did not succeed.
    """
    if len(sys.argv) < 3:
        sys.exit(USAGE)
    out, module = Path(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    streams.mend()
    parent.watch()
    quick_imports.install()
    let_the_cpu_help()
    gc.disable()  # until the stage's work begins: nothing that its imports make is garbage
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            if isinstance(ended.__context__, UserError) and not isinstance(ended.__context__, Refused):
                resumable.remove_waiting()
            raise
    peak = _peak()
    memory.say_if_held(module, peak)
    seconds = took.seconds(resumable.earlier("seconds"))
    peak = max(peak, resumable.earlier("peak"))
    told = {
        "seconds": round(seconds, 2),
        "peak_megabytes": round(peak / MEGABYTE),
        "machine": f"{cpu()}, {cpus()} cores",
        "precision": ", ".join(sorted(set(chosen.values()))),
        **({seal.DIGESTS: seal.kept} if seal.kept else {}),
    }
    text = seal.to_json(told)
    resumable.wait_for_commit(out, text, {"seconds": seconds, "peak": peak})
    write_text(out, text)


def _peak() -> float:
    """Bytes that the largest process held: this one, or one that it has started and waited for."""
    unit = 1 if sys.platform == "darwin" else 1024
    own, started = (
        unit * resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    if STATUS.exists():
        # Linux also counts in `ru_maxrss` what this process held before `exec`: DVC, under some shells.
        lines = STATUS.read_text(encoding="utf-8").splitlines()
        own = next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), own)
    return max(own, started)


if __name__ == "__main__":
    report_user_errors(main)()
