"""A small cut of MS MARCO's official files."""

import gzip
from pathlib import Path

RAW = Path("collectionandqueries")
PASSAGES, TRAIN, DEV = 1300, 30, 20
WORDS = "red green blue small large old new dog cat bird car tree house river sings runs sleeps".split()
MINE = {"top_k": 60, "negatives": 5, "margin": None, "percentile": None, "max_similarity": None}
MARCO = {"kind": "retrieval", "path": str(RAW), "layout": "msmarco"}
TASK = {**MARCO, "qrels": "dev.small", "depth": 1000, "documents": "shared"}


def passage(number: int) -> str:
    """The text of a passage."""
    return " ".join(WORDS[number // 17**place % 17] for place in range(3)) + f" number {number}"


def query(name: str, relevant: int) -> str:
    """A query that has this passage's first words."""
    return f"{name} {passage(relevant).split(' number')[0]}"


def relevant(number: int, part: str) -> int:
    """The passage that answers a query; dev's are none of train's."""
    return 13 * number + (0 if part == "train" else 7)


def write(name: str, rows: list[tuple], *, packed: bool = False) -> None:
    """A file without a header."""
    content = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    if packed:
        (RAW / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    else:
        (RAW / name).write_text(content)


def write_cut() -> None:
    """The files, and what else a run needs, in the working folder."""
    RAW.mkdir()
    write("collection.tsv", [(number, passage(number)) for number in range(PASSAGES)])
    asked = {"train": range(TRAIN), "dev.small": range(1000, 1000 + DEV)}
    answers = {}
    for part, ids in asked.items():
        answers[part] = {one: relevant(place, part) for place, one in enumerate(ids)}
        write(f"queries.{part}.tsv", [(one, query(f"{part} {one}", answers[part][one])) for one in ids])
        write(f"qrels.{part}.tsv", [(one, 0, found, 1) for one, found in answers[part].items()])
    triples = [
        (one, found, other % PASSAGES)
        for one, found in answers["train"].items()
        for other in (found + 1, found + 100, found + 1, found + 200)
    ]
    triples += [(99_999, 1, 2), (0, 99_999, 2), (0, 0, 99_999)]
    write("qidpidtriples.train.full.2.tsv", triples, packed=True)
    named = [
        (query(f"train {one}", answers["train"][one]), *map(passage, rest)) for one, *rest in triples[:120]
    ]
    write("triples.train.small.tsv", named)
    Path("texts.csv").write_text("\n".join(["text", *(passage(7 + 13 * one) for one in range(90))]))
