"""`students.NAME.train.texts`: the text sets that a student is trained on, and their proportions."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

TextSet = Literal["corpus", "wordnet", "back_translation"]


def _once_each(texts: object) -> object:
    """A list of text sets as a map to the proportion 1."""
    if not isinstance(texts, list | tuple) or not all(isinstance(name, str) for name in texts):
        return texts
    if twice := [name for name in texts if texts.count(name) > 1]:
        raise ValueError(f"names {twice[0]} twice; for two readings an epoch write a map: {{{twice[0]}: 2}}")
    return dict.fromkeys(texts, 1.0)


Proportion = Annotated[float, Field(gt=0.0, le=100.0)]
Texts = Annotated[
    dict[TextSet, Proportion],
    BeforeValidator(_once_each, json_schema_input_type=tuple[TextSet, ...] | dict[TextSet, Proportion]),
]


def said(name: str, proportion: float) -> str:
    """A text set, and how often an epoch reads it where that is not once."""
    return name if proportion == 1 else f"{name} (each {proportion:g} times an epoch)"
