"""Damage to a file as a disk does it."""

from pathlib import Path


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file; counted from the end where it is negative."""
    content = bytearray(path.read_bytes())
    place, within = divmod(bit, 8)
    content[place] ^= 1 << within
    path.write_bytes(content)
