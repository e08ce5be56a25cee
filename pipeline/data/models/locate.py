"""Where a model's files are: a folder, an installed package, or the hub."""

import importlib.util
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from pipeline.core import fingerprint, hub, json_text, seal
from pipeline.core.errors import UserError

PACKAGE = "package:"
TEMPLATE = ".jinja"
"""How a chat template's file ends."""
USED = (".safetensors", ".json", ".txt", ".model", ".spm", TEMPLATE, ".py")
"""Files that decide what a model gives, Python files where they may run; no pickled weights."""
UNUSED = ("onnx", "openvino", "checkpoint-*")
"""Folders of the same model in formats that are not read, or as it was during its training."""
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "vocab-src.json", "*.model")
"""transformers makes up a tokenizer of five tokens where none of these is there."""
PICKLED = "pytorch_model.bin"
"""sentence-transformers reads a module's weights from it where there are no others."""


def find_model(model: str, key: str, *, revision: str | None = None, code: bool = False) -> Path:
    """The local folder of a model; one of the hub is downloaded to the hub's own cache, unless it is there.

    Args:
        model: a folder, `package:NAME/PATH` or a hub id.
        key: where params.yaml names it, for messages.
        revision: commit, branch or tag on the hub.
        code: download Python files too.

    Raises:
        UserError: it is not there, holds no safetensors weights or no tokenizer, or is a folder and has a
            revision.
    """
    local = model.startswith(PACKAGE) or Path(model).is_dir()
    if revision and local:
        where = f"{key.removesuffix('model')}revision"
        raise UserError(f"{where} is {revision!r}, but {model} is no model of the hub; remove the revision")
    if model.startswith(PACKAGE):
        folder = _in_package(model.removeprefix(PACKAGE), key)
    elif Path(model).is_dir():
        folder = Path(model)
        seal.check(folder, f"{key}: make {model} again; if you have changed it yourself, remove {seal.NAME}")
    elif model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise _no_folder(model, key)
    else:
        folder = _from_hub(model, key, revision, code=code)
    if not any(folder.rglob("*.safetensors")):
        raise UserError(f"{key}: {model} holds no .safetensors weights; pickled ones are not read")
    if not any(next(folder.rglob(name), None) for name in TOKENIZERS):
        raise UserError(f"{key}: {model} holds no tokenizer ({', '.join(TOKENIZERS)})")
    return folder


def check_modules(folder: Path, model: str, key: str) -> None:
    """Fail where a module of a sentence-transformers model has no weights but pickled ones.

    Raises:
        UserError: naming the module; `model` and `key` are for messages.
    """
    try:
        listed = json_text.parse((folder / "modules.json").read_text(encoding="utf-8"))
        places = [folder / module["path"] for module in listed]
    except (OSError, ValueError, KeyError, TypeError):
        return  # a plain transformers model, or what is wrong is told when it is loaded
    for place in places:
        if (place / PICKLED).exists() and not any(place.glob("*.safetensors")):
            raise UserError(
                f"{key}: {model} has only pickled weights in {place.name}, which are not read; load it with "
                "SentenceTransformer and save it, which writes .safetensors"
            )


def weights_hash(folder: Path, *, code: bool = False) -> str:
    """SHA-256 over the files that decide what a model gives, whatever else was downloaded beside them.

    Args:
        folder: the model's.
        code: its Python files may run.
    """
    suffixes = {*used(code=code)}
    if not (folder / "modules.json").exists():
        suffixes -= {TEMPLATE}  # a plain transformers model is read without it
    names = {file.relative_to(folder): file for file in folder.rglob("*") if file.suffix in suffixes}
    read = sorted(name for name, file in names.items() if file.is_file() and not _is_unused(name))
    return fingerprint.of_json({name.as_posix(): fingerprint.of_file(names[name]) for name in read})


def _is_unused(file: Path) -> bool:
    return len(file.parts) > 1 and any(fnmatch(file.parts[0], folder) for folder in UNUSED)


def used(*, code: bool) -> tuple[str, ...]:
    """Suffixes of the files that decide what a model gives."""
    return tuple(suffix for suffix in USED if code or suffix != ".py")


def _in_package(name: str, key: str) -> Path:
    package, _, inner = name.partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            f"{key}: no Python package {package!r} is installed; "
            f"`pip install {package.replace('_', '-')}` or name another model"
        )
    folder = Path(spec.submodule_search_locations[0]) / inner
    if not folder.is_dir():
        raise UserError(
            f"{key}: the package {package!r} has no folder {inner!r}; correct what follows the first /"
        )
    return folder


def _no_folder(model: str, key: str) -> UserError:
    return UserError(
        f"{key}: there is no folder {model!r}; name a folder, or a model of the hub by OWNER/NAME"
    )


def _from_hub(model: str, key: str, revision: str | None, *, code: bool) -> Path:
    import httpx
    from huggingface_hub import HfApi, get_cached_repo_tree, snapshot_download
    from huggingface_hub.errors import (
        CachedRepoTreeNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    def snapshot(*, local_files_only: bool = False) -> Path:
        return Path(
            snapshot_download(
                model,
                revision=revision,
                allow_patterns=[*(f"*{suffix}" for suffix in used(code=code)), "README.md"],  # its licence
                ignore_patterns=[f"{name}/*" for name in UNUSED],
                local_files_only=local_files_only,
            )
        )

    try:
        # The list of a commit's files tells whether all of them are here. Then the hub is not asked.
        with suppress(CachedRepoTreeNotFoundError, LocalEntryNotFoundError):
            get_cached_repo_tree(model, revision=revision)
            return snapshot(local_files_only=True)
        hub.ask(lambda: HfApi().model_info(model, revision=revision, timeout=hub.SILENT_SECONDS))
        return snapshot()
    except HFValidationError:
        raise _no_folder(model, key) from None
    except (LocalEntryNotFoundError, ConnectionError, httpx.TransportError, hub.OutOfReach) as error:
        # For a branch the hub's cache stands in by itself, for a commit it has to be asked to.
        with suppress(LocalEntryNotFoundError):
            return snapshot(local_files_only=True)
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"{key}: {model} is no folder here, and the hub is out of reach ({reason}); "
            "name a folder, or run again with a network"
        ) from None
    except GatedRepoError:
        raise UserError(
            f"{key}: {model} is given to those alone who accept its terms: do so on the hub, then run "
            "`hf auth login`"
        ) from None
    except RepositoryNotFoundError:
        raise UserError(
            f"{key}: the hub has no model {model!r} that you may read; "
            "correct its name, or run `hf auth login`"
        ) from None
    except HfHubHTTPError as error:
        raise UserError(f"{key}: {model}: {str(error).splitlines()[0]}") from None
