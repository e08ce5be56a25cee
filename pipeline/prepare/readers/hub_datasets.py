"""Datasets of Hugging Face's, on the hub or in a folder, by the library `datasets`: an optional extra."""

import zlib
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from pipeline.core import hub
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.params.base import HUB

if TYPE_CHECKING:
    from datasets import Dataset

OPTIONS = ("config", "split")
SPELLING = f"{HUB}OWNER/NAME@REVISION?config=CONFIG&split=SPLIT"


def is_hub(path: Path | str) -> bool:
    """Whether a path of params.yaml is a dataset."""
    return str(path).startswith(HUB)


def open_dataset(path: Path) -> "Dataset":
    """The dataset that a path `hub:OWNER/NAME@REVISION?config=CONFIG&split=SPLIT` names.

    Raises:
        UserError: the path is not spelled so, there is no such dataset or split, or there are several splits
            and the path names none.
    """
    address, _, query = str(path).removeprefix(HUB).partition("?")
    given = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)  # train+test is a split
    options = dict(given)
    if len(options) < len(given) or query.count("=") != len(given) or options.keys() - set(OPTIONS):
        raise UserError(f"{path}: after `?` there may be {' and '.join(OPTIONS)}, each once: {SPELLING}")
    name, _, revision = (address, "", "") if Path(address).is_dir() else address.partition("@")
    return load(str(path), name, {**options, "revision": revision})


def load(where: str, name: str, options: Mapping[str, str | None]) -> "Dataset":
    """Load one split.

    Args:
        where: for messages.
        name: the dataset's id on the hub, or a folder that `load_dataset` reads.
        options: config, split and revision; none or empty: the dataset's own.

    Raises:
        UserError: `datasets` is not installed, it cannot load that, or there are several splits and none is
            named.
    """
    try:
        from datasets import Dataset, load_dataset
        from datasets.exceptions import DatasetGenerationError, DatasetsError
        from yaml import YAMLError
    except ImportError:
        raise UserError(
            f"{where} is a Hugging Face dataset and `datasets` is not installed; "
            "run `pip install -e '.[datasets]'`"
        ) from None
    config, split, revision = (options.get(key) or None for key in ("config", "split", "revision"))
    try:
        with nullcontext() if Path(name).is_dir() or _answers(where, name, revision) else hub.offline():
            found = load_dataset(name, config, split=split, revision=revision)
    # Of a damaged file or a faulty card it lets the readers' own errors through, of a script a RuntimeError.
    except (DatasetsError, OSError, ValueError, RuntimeError, EOFError, zlib.error, YAMLError) as error:
        told = error.__cause__ if isinstance(error, DatasetGenerationError) else None
        reason = " ".join(str(told or error).split())
        fix = "check dataset, config, split and revision, or correct its files"
        if isinstance(error, RuntimeError):
            fix = "of a dataset with a script take the revision refs/convert/parquet"
        raise UserError(f"{where} cannot be loaded ({reason}); {fix}") from None
    if isinstance(found, Dataset):
        return found
    if len(found) != 1:
        raise UserError(f"{where} has several splits; name one with `split`: {', '.join(map(str, found))}")
    return next(iter(found.values()))


def _answers(where: str, name: str, revision: str | None) -> bool:
    """Whether the hub can be asked for a dataset; else the one in the cache will do."""
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        hub.ask(lambda: HfApi().dataset_info(name, revision=revision, timeout=hub.SILENT_SECONDS))
    except (HfHubHTTPError, ValueError):
        pass  # `load_dataset` tells it
    except (hub.OutOfReach, httpx.TransportError, OfflineModeIsEnabled) as error:
        say(f"{where}: the hub is out of reach ({error}); the dataset has to be in the cache")
        return False
    return True
