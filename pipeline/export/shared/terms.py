"""The licences of all that a model is made from, as its card and LICENSE.md say them."""

from collections.abc import Sequence

from pipeline.export.shared.ledger.licences import OTHER, strictest
from pipeline.export.shared.ledger.origins import Origin
from pipeline.export.shared.markdown import code, plain


def licence_file(name: str, made_of: Sequence[Origin]) -> str | None:
    """LICENSE.md, to which the head of the card links; None where the head names a licence of the hub."""
    if strictest(one.licence for one in made_of).identifier != OTHER:
        return None
    rows = [f"- {one.what}: {named(one)}: {plain(one.licence.said)}" for one in made_of]
    return "\n".join([f"# The licence of {name}\n", said(made_of), "It is made of:\n", *rows, ""])


def said(made_of: Sequence[Origin]) -> str:
    """What the licences of all that a model is made from come to."""
    found = strictest(one.licence for one in made_of)
    unknown = [named(one) for one in made_of if one.licence.unknown]
    if found.identifier is None:
        return "Nothing that it is made of has a licence.\n"
    licence = code(found.name or found.identifier)
    told = f"The head of this card names {licence}: the strictest licence of all that it is made of"
    if unknown:
        told += (
            f", and that some is unknown. **Unknown: {', '.join(unknown)}.** Find out before you pass it on"
        )
    return f"{told}. The terms of all of them hold.\n"


def named(origin: Origin) -> str:
    """What something is made from, as Markdown."""
    known = origin.licence.nothing or origin.wordnet
    revision = f" at {code(origin.revision)}" if origin.revision else ""
    return (origin.name if known else code(origin.name)) + revision
