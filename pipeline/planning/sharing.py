"""Whether DVC's cache and the results share their bytes."""

import tempfile
from pathlib import Path

from pipeline.core import dvc_project


def shares_bytes(root: Path) -> bool:
    """Whether DVC links what it caches here, by its settings and by what the file system can."""
    with dvc_project.opened(root) as repository:
        if repository is None:
            return False
        kinds = repository.cache.local.cache_types
        cache = Path(repository.cache.local.path)
    return any(kind in ("hardlink", "symlink") for kind in kinds) or (
        "reflink" in kinds and _reflinks(cache.parent)
    )


def _reflinks(folder: Path) -> bool:
    """Whether the file system makes copies that share their bytes until one is changed."""
    from dvc_objects.fs.system import reflink

    while not folder.is_dir():
        folder = folder.parent
    try:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            first = Path(place) / "a"
            first.write_bytes(b"a")
            reflink(str(first), str(first.with_name("b")))
    except OSError:  # a disk that may only be read, too
        return False
    return True
