"""Compare what a stage finds with the facts that an earlier one wrote: a check, which changes no result."""

from collections.abc import Mapping
from pathlib import Path

from pipeline.core import seal
from pipeline.core.errors import UserError


def check_facts(path: Path, found: Mapping[str, object], stage: str) -> None:
    """Fail where a JSON object says otherwise; what it does not say is not compared.

    Args:
        path: the object, written by `stage`.
        found: of its keys, what is found now; mappings are compared key by key.
        stage: what to run again.

    Raises:
        UserError: naming the key and both values.
    """
    _compare(path, seal.read_json(path, stage), found, stage)


def _compare(path: Path, known: object, found: object, stage: str, key: str = "") -> None:
    if isinstance(known, dict) and isinstance(found, Mapping):
        for name in known.keys() & found.keys():
            _compare(path, known[name], found[name], stage, f"{key}.{name}" if key else name)
    elif known != found:
        raise UserError(
            f"{path} says that {key} is {known}, and it is {found}: files have changed that DVC does not "
            f"see; run `dvc repro -f {stage}`"
        )
