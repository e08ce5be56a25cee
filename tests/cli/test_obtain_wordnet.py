import os
import shutil
from pathlib import Path

import pytest
from flipped import flip
from refusals import refuses

from pipeline.augment.wordnet.words.senses import read_senses
from pipeline.cli import obtain_wordnet
from pipeline.core import fingerprint
from pipeline.core.errors import UserError
from pipeline.prepare.shared.wordnet_files import (
    LEXNAMES,
    WORDNET_FILES,
    is_complete,
    open_wordnet,
    wordnet_folder,
)


@pytest.fixture
def no_tools(monkeypatch, tmp_path):
    """A machine without apt-get and without a network: NLTK finds no route, PATH has no tools."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(obtain_wordnet, "NLTK_DOWNLOAD", "raise SystemExit(1)")


def fake_download(content: str) -> str:
    """A program in place of NLTK's downloader that leaves a zip, as the real one does."""
    names = [name for name in WORDNET_FILES if name != "lexnames"]
    return (
        "import sys, zipfile, pathlib\n"
        "folder = pathlib.Path(sys.argv[1], 'corpora'); folder.mkdir(parents=True)\n"
        "with zipfile.ZipFile(folder / 'wordnet.zip', 'w') as archive:\n"
        f"    [archive.writestr('wordnet/' + name, {content!r}) for name in {names!r}]\n"
    )


@pytest.fixture
def of_an_x(monkeypatch):
    """A WordNet in which every file holds an x."""
    for name in WORDNET_FILES:
        if name != "lexnames":
            monkeypatch.setitem(WORDNET_FILES, name, fingerprint.of_bytes(b"x"))


def test_a_zip_is_unpacked_into_private_folders(tmp_path, monkeypatch, of_an_x):
    monkeypatch.setattr(obtain_wordnet, "NLTK_DOWNLOAD", fake_download("x"))
    previous = os.umask(0o002)
    try:
        line = obtain_wordnet.obtain(tmp_path / "nltk_data")
    finally:
        os.umask(previous)
    folder = wordnet_folder(tmp_path / "nltk_data")
    assert "NLTK's server" in line
    assert sorted(path.name for path in folder.iterdir()) == sorted(WORDNET_FILES)
    assert (folder / "lexnames").read_text() == LEXNAMES
    for path in (tmp_path / "nltk_data").rglob("*"):
        assert not path.stat().st_mode & 0o022, path
    assert [path.name for path in (tmp_path / "nltk_data").iterdir()] == ["corpora"]


def test_what_is_complete_is_left_alone(nltk_data, no_tools):
    assert "already complete" in obtain_wordnet.obtain(nltk_data)


def test_without_any_way_the_error_says_what_was_tried(tmp_path, no_tools):
    with refuses("nltk.download", "apt-get download wordnet-base", tmp_path / "nltk_data/corpora/wordnet"):
        obtain_wordnet.obtain(tmp_path / "nltk_data")
    assert not is_complete(tmp_path / "nltk_data")
    assert list((tmp_path / "nltk_data").iterdir()) == [Path(tmp_path / "nltk_data" / "corpora")]


def test_a_hanging_download_is_given_up(tmp_path, monkeypatch, no_tools):
    monkeypatch.setattr(obtain_wordnet, "NLTK_DOWNLOAD", "import time; time.sleep(60)")
    monkeypatch.setattr(obtain_wordnet, "SECONDS", 0.5)
    with pytest.raises(UserError):
        obtain_wordnet.obtain(tmp_path / "nltk_data")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES = {
    "half an index": ("index.sense", cut),
    "a bit of a text": ("data.noun", lambda path: flip(path, 8 * 9_000_000)),
    "a bit that is no UTF-8": ("noun.exc", lambda path: flip(path, 8 * 100 + 7)),
    "an empty file": ("cntlist.rev", lambda path: path.write_bytes(b"")),
    "no file": ("verb.exc", lambda path: path.unlink()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_setup_gets_it_again(nltk_data, tmp_path, monkeypatch, no_tools, damage):
    name, spoil = DAMAGES[damage]
    folder = shutil.copytree(nltk_data, tmp_path / "nltk_data")
    path = wordnet_folder(folder) / name
    wanted = path.read_bytes()
    spoil(path)
    for read in (open_wordnet, read_senses):
        with refuses(path, "`make setup`"):
            read(folder)
    with refuses("WordNet cannot be had"):
        obtain_wordnet.obtain(folder)
    origin = f"shutil.copytree({str(nltk_data)!r}, sys.argv[1], dirs_exist_ok=True)"
    monkeypatch.setattr(obtain_wordnet, "NLTK_DOWNLOAD", f"import shutil, sys; {origin}")
    assert "from NLTK's server" in obtain_wordnet.obtain(folder)
    assert path.read_bytes() == wanted


def test_what_is_no_wordnet_is_refused(tmp_path, monkeypatch, no_tools, capsys):
    monkeypatch.setattr(obtain_wordnet, "NLTK_DOWNLOAD", fake_download("y"))
    with refuses("WordNet cannot be had"):
        obtain_wordnet.obtain(tmp_path / "nltk_data")
    assert "data.noun, line 1" in capsys.readouterr().err
    assert not is_complete(tmp_path / "nltk_data")


def test_another_edition_is_sealed(nltk_data, tmp_path, monkeypatch, no_tools, capsys):
    other = shutil.copytree(nltk_data, tmp_path / "other")
    nouns = wordnet_folder(other) / "data.noun"
    nouns.write_bytes(nouns.read_bytes().replace(b"that which is perceived", b"that which is perceivex"))
    origin = f"shutil.copytree({str(other)!r}, sys.argv[1], dirs_exist_ok=True)"
    monkeypatch.setattr(obtain_wordnet, "NLTK_DOWNLOAD", f"import shutil, sys; {origin}")
    folder = tmp_path / "nltk_data"
    assert "from NLTK's server" in obtain_wordnet.obtain(folder)
    assert "not those of Debian's packages" in capsys.readouterr().err
    assert is_complete(folder)
    flip(wordnet_folder(folder) / "verb.exc", 8 * 100)
    with refuses(wordnet_folder(folder) / "verb.exc", "`make setup`"):
        read_senses(folder)
