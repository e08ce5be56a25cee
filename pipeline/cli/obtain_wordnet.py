"""Put WordNet 3.0 where NLTK can read it, without root: `python -m pipeline.cli.obtain_wordnet FOLDER`."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import typer

from pipeline.augment.wordnet.words.senses import read_senses
from pipeline.core import seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.prepare.shared.wordnet_files import LEXNAMES, WORDNET_FILES, fault, wordnet_folder

DEBIAN_PACKAGES = ("wordnet-base", "wordnet-sense-index")
SECONDS = 180
"""Longest that one download may take."""
NLTK_DOWNLOAD = """
import socket, sys, nltk
socket.setdefaulttimeout(10)
sys.exit(0 if nltk.download("wordnet", download_dir=sys.argv[1], quiet=True) else 1)
"""
APT_TIMEOUTS = ("-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1")


def obtain(folder: Path) -> str:
    """Make `folder`/corpora/wordnet complete; return one line on what was done and from where.

    What is damaged is replaced.

    Raises:
        UserError: neither NLTK's server nor Debian's packages can be had.
    """
    target = wordnet_folder(folder)
    wrong = fault(folder)
    if wrong is None:
        return f"WordNet is already complete in {target}"
    if target.is_dir():
        say(f"{wrong}; it is got again")
    _private_folders(folder, target.parent)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        for name, fetch in (("NLTK's server", _from_nltk), ("Debian's packages", _from_debian)):
            source = fetch(Path(temporary))
            if source is not None:
                _install(source, target)
                if (wrong := fault(folder) and _unreadable(folder)) is None:
                    return f"WordNet 3.0 from {name} is in {target}"
                say(f"{name}: {wrong}")
    raise UserError(
        "WordNet cannot be had: neither `nltk.download('wordnet')` nor `apt-get download "
        f"{' '.join(DEBIAN_PACKAGES)}` worked; copy a WordNet 3.0 `dict` folder to {target}"
    )


def _private_folders(*folders: Path) -> None:
    """Create folders that NLTK trusts: it refuses those that a group may write to, whatever the umask."""
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def _install(source: Path, target: Path) -> None:
    """Copy the files that NLTK reads; both origins leave the same ones."""
    with atomic_folder(target, sealed=False) as temporary:
        for name in WORDNET_FILES:
            copied = temporary / name
            if name == "lexnames":
                copied.write_text(LEXNAMES, encoding="ascii")
            else:
                shutil.copyfile(source / name, copied)
            copied.chmod(0o644)


def _unreadable(folder: Path) -> str | None:
    """What is wrong with files that are not Debian's; None, and a seal, where they are another edition's."""
    target = wordnet_folder(folder)
    seal.write_folder(target)
    try:
        read_senses(folder)
    except UserError as error:
        (target / seal.NAME).unlink()
        return str(error)
    say("its files are not those of Debian's packages: what is made of them may be other texts")
    return None


def _from_nltk(temporary: Path) -> Path | None:
    """The folder of NLTK's package. In a process of its own, which a silent network cannot hang."""
    if not _run([sys.executable, "-c", NLTK_DOWNLOAD, str(temporary)], temporary):
        return None
    package = temporary / "corpora" / "wordnet"
    if not package.is_dir():
        with zipfile.ZipFile(package.with_suffix(".zip")) as archive:
            archive.extractall(package.parent)
    return package


def _from_debian(temporary: Path) -> Path | None:
    """The folder of Debian's packages, unpacked without installing them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None
    if not _apt_download(temporary):
        return None
    unpacked = temporary / "unpacked"
    for package in sorted(temporary.glob("*.deb")):
        if not _run(["dpkg-deb", "-x", str(package), str(unpacked)], temporary):
            return None
    return unpacked / "usr" / "share" / "wordnet"


def _apt_download(temporary: Path) -> bool:
    """Download the packages; with package lists of our own where the system's are empty or not readable."""
    if _run(["apt-get", *APT_TIMEOUTS, "download", *DEBIAN_PACKAGES], temporary):
        return True
    state = temporary / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True)
    own = [f"Dir::State={state}", f"Dir::State::Lists={state / 'lists'}", f"Dir::Cache={state / 'cache'}"]
    options = [*APT_TIMEOUTS, *(part for option in own for part in ("-o", option))]
    return _run(["apt-get", *options, "update"], temporary) and _run(
        ["apt-get", *options, "download", *DEBIAN_PACKAGES], temporary
    )


def _run(command: list[str], folder: Path) -> bool:
    """Whether the command succeeds in time. Its output would not help: the user is told what was tried."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main(folder: Path) -> None:
    """Make FOLDER/corpora/wordnet readable by NLTK."""
    say(obtain(folder.resolve()).replace(f"{folder.resolve()}", str(folder)))


if __name__ == "__main__":
    typer.run(report_user_errors(main))
