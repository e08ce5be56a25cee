"""Pages of mapped files that this process holds, as Linux tells them."""

from pathlib import Path

import pytest

SMAPS = Path("/proc/self/smaps")
told = pytest.mark.skipif(not SMAPS.exists(), reason="only Linux tells which pages of a file a process holds")


def resident(path: Path) -> int:
    """Kilobytes of a mapped file that this process holds."""
    here, found = False, 0
    for line in SMAPS.read_text().splitlines():
        if line.split(":")[0] == "Rss" and here:
            found += int(line.split()[1])
        elif "-" in line.split()[0]:
            here = line.endswith(str(path))
    return found
