"""The programs of docs/deploy.md, as `compat.py` runs them."""

import re
import sys
from pathlib import Path

START_JS = """
import fs from "fs";
const [ourFolder, , out] = process.argv.slice(2);
const ourTexts = JSON.parse(fs.readFileSync(0));
const save = (vectors) => fs.writeFileSync(out, JSON.stringify(vectors));
env.allowRemoteModels = false;
"""
POSTGRESQL = """
import pgserver, tempfile
address = pgserver.get_server(tempfile.mkdtemp()).get_uri()
"""
"""A server of its own; run by root, it adds a user `pgserver`, for PostgreSQL does not run as root."""
PAGE = Path(__file__).resolve().parent.parent / "docs/deploy.md"
STUDENT, SENTENCES = '"data/exported/hpd"', '["A sentence.", "Another one."]'
"""What the programs of that page embed."""
DIM = "128"


def of_page(heading: str, vectors: str, others: dict[str, str] | None = None) -> str:
    """A program of docs/deploy.md, with the folder and the texts that it is given.

    Args:
        heading: the program's section.
        vectors: an expression for what is compared, after the program ran.
        others: more words of the program, each with what takes its place.
    """
    section = PAGE.read_text(encoding="utf-8").split(f"\n### {heading}\n")[1]
    (code,) = re.findall(r"^```\w+.*?\n(.*?)^```$", section.split("\n##")[0], re.DOTALL | re.MULTILINE)
    for word, ours in ({STUDENT: "ourFolder", SENTENCES: "ourTexts"} | (others or {})).items():
        if word not in code:
            sys.exit(f"{PAGE}: the program of {heading!r} no longer says {word}")
        code = code.replace(word, ours)
    return f"{code}\nsave({vectors});\n"
