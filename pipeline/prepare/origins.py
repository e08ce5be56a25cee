"""corpus/origins.json: rows and digests of all that the corpus, the tasks and the triplets are made of.

It holds no licence: DVC runs nothing after `prepare` where a licence alone is edited.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.core import fingerprint, seal
from pipeline.core.atomic import write_text
from pipeline.params.base import HUB, scheme_of, without_folders
from pipeline.params.corpus import HubSource
from pipeline.params.finetune_data import source_of
from pipeline.params.load import Params
from pipeline.prepare.corpus import Built
from pipeline.prepare.readers.named import named
from pipeline.prepare.readers.remote import named_files
from pipeline.prepare.shared.wordnet_files import WORDNET_FILES, is_complete, wordnet_folder
from pipeline.prepare.triplets import Report as TripletReport

READ_FROM = ("path", "train", "dev", "test", "candidates")
"""Keys of a block that name files."""
TEXT_COLUMNS = ("left_id", "right_id")


def of_corpus(built: Built, params: Params) -> dict[str, Any]:
    """What each source gave, by its key of params.yaml."""
    return {
        f"corpus.sources.{number}": {
            "rows_in": report.rows_in,
            "rows": report.rows_out,
            "texts_sha256": built.digests[report.source],
            **_places(source, f"corpus.sources.{number}.path", Path(params.runtime.cache)),
        }
        for number, (source, report) in enumerate(zip(params.corpus.sources, built.reports, strict=True))
    }


def of_triplets(
    triplets: pl.DataFrame, reports: Mapping[str, TripletReport], params: Params
) -> dict[str, Any]:
    """The same of each block of `finetune.data`."""
    return {
        f"finetune.data.{name}": {
            "rows_in": report.rows_in,
            "rows": report.rows_out,
            **_of_pairs(triplets, name),
            **_places(source_of(params.finetune.data[name], params.evaluate.tasks)),
        }
        for name, report in reports.items()
    }


def of_tasks(tasks: pl.DataFrame, params: Params) -> dict[str, Any]:
    """The same of each of `evaluate.tasks`."""
    return {
        f"evaluate.tasks.{name}": {
            "rows": tasks.filter(pl.col("task") == name).height,
            **_of_pairs(tasks, name),
            **_places(task),
        }
        for name, task in params.evaluate.tasks.items()
    }


def of_wordnet(nltk_data: Path) -> dict[str, Any]:
    """Digests of WordNet's files, whoever reads them; empty where WordNet is not there."""
    if not is_complete(nltk_data):
        return {}
    folder = wordnet_folder(nltk_data)
    return {"wordnet": {"files": [_file(folder / name, name) for name in sorted(WORDNET_FILES)]}}


def of_tables(rows: Mapping[Path, int]) -> dict[str, Any]:
    """Rows and digest of each table that is written, by its file's name."""
    return {path.name: {"rows": count, "sha256": fingerprint.of_file(path)} for path, count in rows.items()}


def of_texts(text_ids: pl.Series) -> str:
    """SHA-256 (hex) of a set of texts: of their ids, which are hashes of the texts, in ascending order."""
    return fingerprint.of_bytes(text_ids.drop_nulls().unique().sort().to_numpy().astype("<u8").tobytes())


def write(origins: Mapping[str, Any], tables: Mapping[str, Any], path: Path) -> None:
    """Write the file; equal facts give equal bytes."""
    write_text(path, seal.to_json({"origins": origins, "tables": tables}))


def _of_pairs(pairs: pl.DataFrame, name: str) -> dict[str, str]:
    own = pairs.filter(pl.col("task") == name)
    ids = [own[column] for column in TEXT_COLUMNS]
    return {"texts_sha256": of_texts(pl.concat([*ids, own["negative_ids"].explode()]))}


def _places(block: object, key: str = "", cache: Path = Path()) -> dict[str, Any]:
    """Name and digest of each file that a block reads, a folder being one, and ids of the hub's datasets."""
    paths = [path for key in READ_FROM if (path := getattr(block, key, None))]
    named = [path.removeprefix(HUB).partition("?")[0] for path in paths if path.startswith(HUB)]
    if isinstance(block, HubSource):
        named.append(block.dataset)
    fetched = [pair for path in paths if scheme_of(path) for pair in named_files(path, key, cache)]
    return {
        "files": [
            *_files(path for path in paths if not path.startswith(HUB) and not scheme_of(path)),
            *(_file(copy, name) for name, copy in fetched),
        ],
        "datasets": [name.partition("@")[0] for name in dict.fromkeys(named) if not Path(name).is_dir()],
    }


def _files(paths: Iterable[str]) -> list[dict[str, str]]:
    found = []
    for path in paths:
        places = [Path(path)] if Path(path).is_dir() else [one for one in named(path) if one.is_file()]
        found += [_file(one, without_folders(str(one))) for one in places]
    return found


def _file(path: Path, name: str) -> dict[str, str]:
    digest = fingerprint.of_folder(path) if path.is_dir() else fingerprint.of_file(path)
    return {"name": name, "sha256": digest}
