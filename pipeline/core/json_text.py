"""JSON of files and servers: what cannot be read is a ValueError, also what nests too deep for Python."""

import json
from typing import Any

Json = Any
"""Whatever it holds."""


def parse(text: str | bytes | bytearray) -> Json:
    """Read JSON.

    Raises:
        ValueError: it is no JSON, no UTF-8, or nests too deep.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets nest too deep") from None
