"""Texts of others as a terminal may show them: it obeys control characters, wherever they come from."""

import re

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Those of C0 and C1 but tabs and line feeds, and those that turn the direction of writing."""


def printable(text: str) -> str:
    r"""The text, each control character spelled as Python does: `\x1b`."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
