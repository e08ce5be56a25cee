"""Texts of others, such as paths and licences, in a Markdown page: what they hold is shown, not obeyed."""

import html
import re

MARKS = re.compile(r"([\\`*_\[\]~${}#])")
PIPE = "&#124;"
"""Pages disagree on a backslash before a pipe in a table's cell."""
UNSEEN = "\N{REPLACEMENT CHARACTER}"


def code(text: str) -> str:
    """A text as code, on one line; it may stand in a table's cell."""
    if "|" in text:
        return f"<code>{plain(text)}</code>"
    shown = one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    inner = f" {shown} " if not shown or shown[0] in "` " or shown[-1] in "` " else shown
    return f"{fence}{inner}{fence}"


def plain(text: str) -> str:
    """A text as a sentence's words, on one line."""
    return html.escape(MARKS.sub(r"\\\1", one_line(text)), quote=False).replace("|", PIPE)


def one_line(text: str) -> str:
    """A text without line breaks, and without characters that nobody sees or that turn it round."""
    return "".join(sign if sign.isprintable() else UNSEEN for sign in " ".join(text.split()))
