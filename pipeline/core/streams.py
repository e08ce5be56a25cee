"""Standard input, output and error as a command or a stage needs them, however it is started."""

import io
import os
import signal
import sys


def mend() -> None:
    r"""Let the standard streams be open, and stdout and stderr take any text.

    A closed one (`2>&-`) becomes the null device. Its number is filled too: else the next file that is
    opened gets it, and holds what libraries write to stderr. A character that the encoding lacks is spelled,
    as `\u65e5`.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def let_ctrl_c_interrupt() -> None:
    """Let Ctrl-C end a system call that waits: of standard input, or for a lock.

    polars, once it is imported, has such calls go on after a signal, and Python never gets to its handler.
    """
    signal.siginterrupt(signal.SIGINT, True)
