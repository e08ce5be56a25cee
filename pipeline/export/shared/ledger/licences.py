"""Which of several licences is the strictest, in the words of the hub."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

WORDNET = "wordnet-3.0"
FROM_FREE_TO_STRICT = (
    # Anything goes.
    *("cc0-1.0", "unlicense", "wtfpl", "pddl"),
    # Keep the notice.
    *(
        "zlib",
        "isc",
        "postgresql",
        "ncsa",
        "bsd",
        "bsd-2-clause",
        "bsd-3-clause",
        "bsd-3-clause-clear",
        "mit",
    ),
    WORDNET,
    *("bsl-1.0", "afl-3.0", "ecl-2.0", "ms-pl", "artistic-2.0", "apache-2.0"),
    # Name the authors.
    *("cdla-permissive-1.0", "cdla-permissive-2.0", "etalab-2.0", "odc-by", "c-uda"),
    *("cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc"),
    # Pass changes on under the same terms.
    *("cdla-sharing-1.0", "mpl-2.0", "epl-1.0", "epl-2.0", "lgpl", "lgpl-2.1", "lgpl-3.0", "osl-3.0"),
    *("eupl-1.1", "eupl-1.2", "odbl", "gfdl", "cc-by-sa-3.0", "cc-by-sa-4.0", "gpl", "gpl-2.0", "gpl-3.0"),
    "agpl-3.0",
    # Some uses are forbidden.
    *("openrail", "bigscience-openrail-m", "creativeml-openrail-m", "openrail++", "bigcode-openrail-m"),
    *("bigscience-bloom-rail-1.0", "gemma", "llama4", "llama3.3", "llama3.2", "llama3.1", "llama3", "llama2"),
    # No business, then no changes.
    *("cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0"),
    *("cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0"),
    *("intel-research", "h-research", "fair-noncommercial-research-license"),
    *("cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0"),
)
"""Identifiers of the hub, and WordNet's, for which the hub has none. Names of none of these come last: nobody
has read them here."""
OTHER, UNKNOWN = "other", "unknown"
LONGEST = 60
"""Characters of a name that somebody made up."""


@dataclass(frozen=True)
class Licence:
    """Of one thing that a student is made from."""

    names: tuple[str, ...]
    """As `canonical` writes them; (): unknown, or there is nothing to license."""
    said: str
    """What is known, in words."""
    nothing: bool = False
    """There is nothing that could have a licence."""

    @property
    def unknown(self) -> bool:
        """Whether there may be terms that nobody has told."""
        return not self.names and not self.nothing


OF_WORDNET = Licence((WORDNET,), "WordNet 3.0 licence of Princeton University: keep its notice")
UNDECLARED = Licence((), "unknown: params.yaml names no licence")


@dataclass(frozen=True)
class Strictest:
    """`license` and `license_name` of a model card; the name goes with `other`."""

    identifier: str | None
    """None: nothing has a licence."""
    name: str | None = None


def canonical(name: str) -> str:
    """An SPDX or hub identifier, or any words, as the hub would write it: `CC BY-SA 4.0` -> cc-by-sa-4.0."""
    words = re.sub(r"[^a-z0-9.+]+", "-", name.strip().lower()).strip("-")
    for known in (words, words.removesuffix("-only"), words.removesuffix("-or-later")):
        if known in FROM_FREE_TO_STRICT:
            return known
    return words[:LONGEST].strip("-") or "custom"


def strictest(licences: Iterable[Licence]) -> Strictest:
    """What a model made from things of these licences has at its head.

    The strictest of the known ones; `other` with a name where the hub has no identifier for it, or where one
    is unknown.
    """
    found = list(licences)
    names = sorted({name for licence in found for name in licence.names}, key=_rank)
    foreign = [name for name in names if name not in FROM_FREE_TO_STRICT]
    named = foreign or names[-1:]
    if any(licence.unknown for licence in found):
        return Strictest(OTHER, "-and-".join([*named, UNKNOWN]))
    if not named:
        return Strictest(None)
    if foreign or named == [WORDNET]:
        return Strictest(OTHER, "-and-".join(named))
    return Strictest(named[0])


def _rank(name: str) -> tuple[int, str]:
    if name in FROM_FREE_TO_STRICT:
        return FROM_FREE_TO_STRICT.index(name), ""
    return len(FROM_FREE_TO_STRICT), name
