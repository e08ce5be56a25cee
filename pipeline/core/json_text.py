"""JSON of files and servers: what cannot be read is a ValueError, also what nests too deep for Python."""

import json
from collections.abc import Callable
from typing import Any

Json = Any
"""Whatever it holds."""


def parse(
    text: str | bytes | bytearray, object_of: Callable[[list[tuple[str, Any]]], object] | None = None
) -> Json:
    """Read JSON.

    Args:
        text: the JSON.
        object_of: makes an object of its keys and values; None: a dict, the last of equal keys counts.

    Raises:
        ValueError: it is no JSON, no UTF-8, or nests too deep.
    """
    try:
        return json.loads(text, object_pairs_hook=object_of)
    except RecursionError:
        raise ValueError("brackets nest too deep") from None
