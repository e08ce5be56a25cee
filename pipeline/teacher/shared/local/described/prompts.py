"""What a sentence-transformers model puts before texts, by their role."""

from collections.abc import Mapping

from pipeline.params.base import Role
from pipeline.params.teacher import Prompts

DOCUMENT = ("document", "passage", "corpus")
"""Names that models give to their prompt for documents."""


def by_role(own: Mapping[str, str | None], default: str | None, given: Prompts) -> dict[Role, str]:
    """What params say, else the model's own: as its `encode`, `encode_query` and `encode_document` do.

    For documents the first of `DOCUMENT` counts that says something; sentence-transformers 6 looks at the
    first alone.

    Args:
        own: the model's prompts, by their names.
        default: the name of the one that `encode` takes.
        given: params.
    """
    found: dict[Role, str | None] = {
        "text": own.get(default) if default else "",
        "query": own.get("query"),
        "document": next((own[name] for name in DOCUMENT if own.get(name)), ""),
    }
    stated = {role: given.given(role) for role in found}
    return {role: (prompt if stated[role] is None else stated[role]) or "" for role, prompt in found.items()}
