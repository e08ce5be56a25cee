"""Compare what a stage finds with the facts that an earlier one wrote: a check, which changes no result."""

from collections.abc import Mapping
from pathlib import Path

from pipeline.core import json_text
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
    try:
        known = json_text.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; run `dvc repro {stage}`") from None
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); run `dvc repro -f {stage}`") from None
    _compare(path, known, found, stage)


def _compare(path: Path, known: object, found: object, stage: str, key: str = "") -> None:
    if isinstance(known, dict) and isinstance(found, Mapping):
        for name in known.keys() & found.keys():
            _compare(path, known[name], found[name], stage, f"{key}.{name}" if key else name)
    elif known != found:
        raise UserError(
            f"{path} says that {key} is {known}, and it is {found}: files have changed that DVC does not "
            f"see; run `dvc repro -f {stage}`"
        )
