"""Texts that are longer than the teacher's window: how many are cut, and how much of them is lost."""

from collections.abc import Mapping

from pipeline.report.inputs import EncodeMetrics
from pipeline.report.numbers import NOTHING, percent
from pipeline.report.sections import Measures

TITLE = "Texts longer than the teacher's window"
NONE_CUT = "The teacher reads every text whole."
UNKNOWN = "The teacher does not say where it cuts texts."
FIX = (
    "`split: passages` under `corpus.sources` makes of a long document passages that the teacher reads whole."
)


def summary(sets: Mapping[str, EncodeMetrics]) -> str:
    """One sentence on the texts of all sets, by name."""
    known = [found for found in sets.values() if found.texts_cut is not None]
    if len(known) < len(sets):
        return UNKNOWN
    texts, count = (sum(getattr(found, name) for found in known) for name in ("texts", "texts_cut"))
    if not count:
        return NONE_CUT
    lost = sum(found.tokens_lost for found in known) / sum(found.tokens_of_cut for found in known)
    return (
        f"The teacher's window cuts {count:,} of {texts:,} texts ({percent(count / texts)}), "
        f"and {percent(lost)} of their tokens. {FIX}"
    )


def measures(sets: Mapping[str, EncodeMetrics]) -> Measures:
    """A column for each set of which a text is cut."""
    cut = {name: found for name, found in sets.items() if found.texts_cut}
    rows: list[tuple[str, str, list[str]]] = [
        ("texts", "", [f"{found.texts:,}" for found in cut.values()]),
        (
            "cut",
            "texts that the teacher does not read to the end",
            [f"{m.texts_cut:,}" for m in cut.values()],
        ),
        ("share cut", "", [_share(m.texts_cut or 0, m.texts) for m in cut.values()]),
        ("lost", "share of their tokens", [_share(m.tokens_lost, m.tokens_of_cut) for m in cut.values()]),
    ]
    return Measures(tuple(cut), tuple((name, meaning, tuple(values)) for name, meaning, values in rows))


def _share(part: int, whole: int) -> str:
    return percent(part / whole) if whole else NOTHING
