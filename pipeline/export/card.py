"""The model card of a student's exports: what it is worth, where it comes from, how each format is loaded."""

from dataclasses import dataclass
from typing import Any

from pipeline.export.licence import Licence
from pipeline.export.onnx_folder import GRAPHS
from pipeline.export.snippets import how_to_load, in_a_browser
from pipeline.params import mixture
from pipeline.params.base import without_folders
from pipeline.params.corpus import Source
from pipeline.params.export import Format
from pipeline.params.load import Params
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
    licences: list[Licence],
) -> str:
    """README.md of a student's exports.

    Args:
        name: the student's.
        params: of the run that made it.
        exports: by format, each a folder beside the card.
        measure: what the score is, as `parity.Measure` says it.
        metrics: of `evaluate`.
        licences: of what it is made from.
    """
    from huggingface_hub import ModelCardData

    block, teacher = params.student(name), params.teacher
    origin = " and ".join(
        "a hashing teacher" if isinstance(one, HashingTeacher) else f"`{without_folders(one.model)}`"
        for one in single_teachers(teacher).values()
    )
    identifiers = {licence.identifier for licence in licences}
    known = identifiers.pop() if len(identifiers) == 1 else None
    data = ModelCardData(
        library_name="model2vec" if block.kind == "static" else "sentence-transformers",
        license=known,
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "distillation", *(["onnx"] if "onnx" in exports else [])],
    )
    graphs = [format_name for format_name in exports if format_name in GRAPHS]
    parts = [
        f"---\n{data.to_yaml()}\n---\n",
        f"# {name}\n",
        f"A {block.kind} student of {metrics['dim']} dimensions, distilled from {origin} "
        f"(its `{block.view}` vectors).\n",
        "## Formats\n",
        _formats(exports, measure),
        *(_int8(exports["onnx-int8"]) if "onnx-int8" in exports else []),
        "## Quality\n",
        _quality(metrics),
        "## Training data\n",
        _data(name, params, metrics["scores"]),
        "## Licence\n",
        "".join(f"- {licence.of[0].upper()}{licence.of[1:]}: {licence.said}\n" for licence in licences),
        "The training data may have terms of its own.\n",
        "## How to load it\n",
        "Each program is complete and runs in the folder of this card.\n",
        *(how_to_load(format_name) for format_name in exports),
        *([in_a_browser(graphs)] if graphs else []),
    ]
    return "\n".join(parts)


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
    kept = metrics["retention"]["finetuned"]
    said = "" if kept is None else f"\nIt keeps {kept:.1%} of the teacher's scores on average."
    proxies = ", ".join(task for task in metrics["main"] if task in metrics["builtin"])
    note = f"\n{proxies}: built-in proxies, made from WordNet." if proxies else ""
    return "\n".join(rows) + "\n" + said + note + "\n"


def _data(name: str, params: Params, scores: dict[str, Any]) -> str:
    block = params.student(name)
    read, translation = block.train.texts, params.augment.back_translation
    rows = [f"- {_source(source)}" for source in params.corpus.sources]
    if "wordnet" in read and params.augment.wordnet.enabled:
        rows.append("- " + mixture.said("the same texts with synonyms from WordNet", read["wordnet"]))
    if "back_translation" in read and translation.enabled:
        models = {step.model for pivot in translation.pivots for step in pivot}
        translated = (
            f"the same texts translated and back by {', '.join(map(without_folders, sorted(models)))}"
        )
        rows.append("- " + mixture.said(translated, read["back_translation"]))
    # Where no dev score rose, the student ships as distilled, and scores so, but for a projection, which is
    # fitted on these texts.
    if block.finetune and scores["finetuned"] != scores["distilled"]:
        rows.append(f"- fine-tuning: {', '.join(_triplets(data, params) for data in block.finetune.data)}")
    return "\n".join(rows) + "\n"


def _source(source: Source) -> str:
    most = f", {source.limit:,} texts at most" if source.limit else ""
    if source.kind == "wordnet":
        return f"glosses and examples of WordNet 3.0{most}"
    if source.kind == "files":
        where = without_folders(source.path)
    else:
        where = f"{without_folders(source.dataset)} (Hugging Face, {source.split})"
    return f"{where}{most}"


def _triplets(data: str, params: Params) -> str:
    found = params.finetune.data[data]
    return (
        "triplets from WordNet"
        if found.kind == "wordnet_triplets"
        else f"triplets of {without_folders(found.path)}"
    )
