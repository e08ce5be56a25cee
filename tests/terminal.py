"""A terminal for tests of what a command shows on one."""

import errno
import os
import pty


class Terminal:
    """A pseudo-terminal; nobody reads meanwhile, so what is shown must fit into a buffer (4 KiB)."""

    def __init__(self) -> None:
        self._reader, self.writer = pty.openpty()

    def shown(self) -> str:
        """All that was written; closes both ends."""
        os.close(self.writer)
        parts = []
        with os.fdopen(self._reader, "rb", buffering=0) as reader:
            try:
                while part := reader.read(1 << 16):  # one read may return less than is there
                    parts.append(part)
            except OSError as error:
                if error.errno != errno.EIO:  # the end: Linux' answer when no writer is left
                    raise
        return b"".join(parts).decode()
