"""The model card of a student's exports: what it is worth, where it comes from, how each format is loaded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.export.shared import terms
from pipeline.export.shared.header import header
from pipeline.export.shared.ledger.origins import Origin
from pipeline.export.shared.markdown import code, plain
from pipeline.export.shared.onnx_folder import GRAPHS
from pipeline.export.snippets import how_to_load, in_a_browser
from pipeline.params import mixture, start
from pipeline.params.base import without_folders
from pipeline.params.evaluate import AGREEMENT
from pipeline.params.export import Format
from pipeline.params.load import Params
from pipeline.params.mixture import TextSet
from pipeline.params.students import StudentBlock
from pipeline.params.teacher import HashingTeacher, Similarity, single_teachers

KEPT = 0.995
"""Share of the score that int8 is expected to keep; below it, the card says so first."""


@dataclass(frozen=True)
class Exported:
    """One format, as it was measured."""

    megabytes: float
    max_distance: float
    """Largest 1 - cosine to the trained student's vector of a text."""
    mean_distance: float
    overlaps: dict[Similarity, float]
    """The share of the ten nearest texts that searches by a measure find as with the trained student."""
    score: float
    share: float
    """Score / the trained student's score."""


def card(
    name: str,
    params: Params,
    exports: dict[Format, Exported],
    measure: dict[str, Any],
    metrics: dict[str, Any],
    made_of: Sequence[Origin],
    prompts: Mapping[str, str],
) -> str:
    """README.md of a student's exports.

    Args:
        name: the student's.
        params: of the run that made it, with `evaluate.tasks` one by one.
        exports: by format, each a folder beside the card.
        measure: what the score is, as `parity.Measure` says it.
        metrics: of `evaluate`.
        made_of: all that the student is made from.
        prompts: what it has before the texts of each role.
    """
    from huggingface_hub import ModelCard

    block = params.student(name)
    teachers = " and ".join(
        "a hashing teacher" if isinstance(one, HashingTeacher) else code(without_folders(one.model))
        for one in single_teachers(params.teacher).values()
    )
    data = header(name, params, exports, metrics, made_of)
    graphs = [format_name for format_name in exports if format_name in GRAPHS]
    parts = [
        f"---\n{data.to_yaml()}\n---\n",
        f"# {name}\n",
        f"A {block.kind} student of {metrics['dim']} dimensions, {_made(block, teachers)}. "
        f"{_spoken(data.language)}\n",
        "## Formats\n",
        _formats(exports, measure),
        *(_int8(exports["onnx-int8"]) if "onnx-int8" in exports else []),
        "## Quality\n",
        _quality(metrics),
        "## What it is made of\n",
        _made_of(made_of, block.train.texts if block.train else {}),
        "## Licence\n",
        terms.said(made_of),
        *(["## Prompts\n", _prompts(prompts, graphs)] if prompts else []),
        "## How to load it\n",
        "Each program is complete and runs in the folder of this card.\n",
        *(how_to_load(format_name) for format_name in exports),
        *([in_a_browser(graphs)] if graphs else []),
    ]
    return str(ModelCard("\n".join(parts)))  # which reads the head as the hub does


def _made(block: StudentBlock, teachers: str) -> str:
    white = "; its last layer whitens its vectors" if block.whitening else ""
    if block.train:
        return f"distilled from {teachers} (its `{block.view}` vectors){white}"
    source = start.place(block)
    begun = start.said(block, code(source) if source else teachers, teachers)
    return f"not distilled: {begun}; scored beside {teachers}{white}"


def _formats(exports: dict[Format, Exported], measure: dict[str, Any]) -> str:
    rows = [
        "| format | MB | largest 1 - cosine to the trained student | ten nearest | score | kept |",
        "|---|--:|--:|--:|--:|--:|",
        *(
            f"| {name} | {found.megabytes:.1f} | {found.max_distance:.1e} "
            f"| {min(found.overlaps.values()):.1%} | {found.score:.4f} | {found.share:.2%} |"
            for name, found in exports.items()
        ),
    ]
    if measure["measure"] == "agreement":
        said = "Spearman correlation of the cosines of all pairs of texts with the trained student's"
    else:
        tasks = ", ".join(measure["tasks"])
        said = f"mean Spearman correlation over the {measure['split']} pairs of {tasks}"
    return "\n".join(rows) + (
        "\n\nTen nearest: the share of a text's ten nearest texts that are so with the trained student, by "
        "cosine, inner product or Euclidean distance, whichever finds least. "
        f"Score: {said}. Kept: its share of the trained student's score.\n"
    )


def _int8(found: Exported) -> list[str]:
    if found.share < KEPT:
        return [
            f"**int8 loses {1 - found.share:.2%} of the score**, more than the {1 - KEPT:.1%} that it is "
            "expected to; take the float32 graph where that matters.\n"
        ]
    return [
        f"int8 keeps {found.share:.2%} of the score; 1 - cosine is {found.mean_distance:.1e} on average. "
        "A text's vector does not depend on the texts beside it.\n"
    ]


def _quality(metrics: dict[str, Any]) -> str:
    """Headline scores beside the teacher's."""
    rows = ["| task | metric | teacher | this student |", "|---|---|--:|--:|"]
    for task, metric in metrics["main"].items():
        teacher, own = (metrics["scores"][model][task][metric] for model in ("teacher", "finetuned"))
        rows.append(f"| {task} | {metric} | {teacher:.4f} | {own:.4f} |")
    kept = metrics["retention"]["finetuned"] if {*metrics["main"]} != {AGREEMENT} else None
    said = "" if kept is None else f"\nIt keeps {kept:.1%} of the teacher's scores on average."
    proxies = ", ".join(task for task in metrics["main"] if task in metrics["builtin"])
    note = f"\n{proxies}: built-in proxies, made from WordNet." if proxies else ""
    if AGREEMENT in metrics["main"]:
        note += (
            f"\n{AGREEMENT}: the share of the ten texts that the teacher finds nearest to a held-out text of "
            "the corpus that this student finds too. No average counts it."
        )
    return "\n".join(rows) + "\n" + said + note + "\n"


def _spoken(language: str | list[str] | None) -> str:
    if not language:
        return "Its language is not named: not all that it is made of says its own."
    return f"Language: {', '.join([language] if isinstance(language, str) else language)}."


def _made_of(made_of: Sequence[Origin], read: Mapping[TextSet, float]) -> str:
    rows = ["| what | of | rows | licence |", "|---|---|--:|---|"]
    for one in made_of:
        proportion = next((read[name] for name in read if one.key.startswith(f"augment.{name}")), 1.0)
        what = mixture.said(one.what, proportion)
        count, of = one.rows, one.prepared.get("rows_in")
        counted = "" if count is None else f"{count:,}" + ("" if of is None else f" of {of:,}")
        rows.append(f"| {what} | {terms.named(one)} | {counted} | {plain(one.licence.said)} |")
    return "\n".join(rows) + "\n"


def _prompts(prompts: Mapping[str, str], graphs: Sequence[Format]) -> str:
    rows = [
        f"- {role}: {code(json.dumps(prompt, ensure_ascii=False))}"
        for role, prompt in prompts.items()
        if prompt
    ]
    by_hand = " An ONNX graph takes texts that have it already." if graphs else ""
    return "\n".join([f"sentence-transformers puts these before a text.{by_hand}\n", *rows, ""])
