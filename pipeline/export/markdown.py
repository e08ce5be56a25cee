"""Texts of others, such as paths and licences, in a Markdown page: what they hold is shown, not obeyed."""

import html
import re

MARKS = re.compile(r"([\\`*_\[\]|~${}#])")
UNSEEN = "\N{REPLACEMENT CHARACTER}"


def code(text: str) -> str:
    """A text as code, on one line; it may stand in a table's cell."""
    shown = one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    inner = f" {shown} " if not shown or shown[0] in "` " or shown[-1] in "` " else shown
    return f"{fence}{inner}{fence}".replace("|", "\\|")


def plain(text: str) -> str:
    """A text as a sentence's words, on one line."""
    return MARKS.sub(r"\\\1", html.escape(one_line(text), quote=False))


def one_line(text: str) -> str:
    """A text without line breaks and without characters that nobody sees, such as those that turn it round."""
    return "".join(sign if sign.isprintable() else UNSEEN for sign in " ".join(text.split()))
