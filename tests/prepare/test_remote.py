"""Corpora at an address: from a bucket of a local S3 server, and what is refused."""

import sys
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest
from refusals import refuses
from small_params import small_params

from pipeline.core.atomic import write_text
from pipeline.params.corpus import FileSource
from pipeline.params.load import check
from pipeline.prepare.readers import remote
from pipeline.prepare.sources import read_sources

KEY = "corpus.sources.0.path"


@pytest.fixture
def s3(monkeypatch):
    """A server on this machine."""
    pytest.importorskip("s3fs", reason="s3:// needs `pip install s3fs`")
    server = pytest.importorskip("moto.server", reason="the S3 server needs `pip install 'moto[server]'`")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*running.get_host_and_port()))
    yield running
    running.stop()


@pytest.fixture
def bucket(s3):
    """An empty bucket `texts` of the server, as its file system."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir("texts")
    yield files
    files.rm("texts", recursive=True)


@contextmanager
def refusing(s3, how):
    """The server says no to whoever reads two.txt, at once or in the middle of it."""
    answers = s3._server.app

    def refuse(environ, start_response):
        if environ["REQUEST_METHOD"] != "GET" or not environ["PATH_INFO"].endswith("two.txt"):
            yield from answers(environ, start_response)
        elif how == "half way":
            start_response("200 OK", [("Content-Length", "200000")])
            yield b"second\n" * 1000
            raise ConnectionAbortedError
        else:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            yield b"<Error><Code>AccessDenied</Code><Message>not for you</Message></Error>"

    s3._server.app = refuse
    yield
    s3._server.app = answers


def read(path, cache):
    source = FileSource(kind="files", path=path)
    (found,) = read_sources([source], None, None, cache)
    return [text for part in found.rows for text in part.texts]


def test_files_of_a_bucket_are_read_and_fetched_once_a_version(bucket, tmp_path, capsys):
    bucket.pipe("texts/a/one.txt", b"first\nsecond\n")
    bucket.pipe("texts/b/two.txt", b"third\n")
    address = "s3://texts/**/*.txt"
    assert read(address, tmp_path) == ["first", "second", "third"]
    assert capsys.readouterr().err.count("fetched") == 2
    assert read(address, tmp_path) == ["first", "second", "third"]
    assert "fetched" not in capsys.readouterr().err
    bucket.pipe("texts/b/two.txt", b"another\n")
    bucket.invalidate_cache()
    assert read(address, tmp_path) == ["first", "second", "another"]
    assert capsys.readouterr().err.count("fetched") == 1
    names = [name for name, _ in remote.named_files(address, KEY, tmp_path)]
    assert names == ["s3://texts/a/one.txt", "s3://texts/b/two.txt"]


@pytest.mark.parametrize("how", ["half way", "at once"])
def test_what_was_fetched_before_a_refusal_is_kept_and_the_same_run_goes_on(
    s3, bucket, tmp_path, capsys, how
):
    whole = {
        "one": [f"first {line}" for line in range(5000)],
        "two": [f"second {line}" for line in range(5000)],
    }
    for name, lines in whole.items():
        bucket.pipe(f"texts/{name}.txt", "\n".join(lines).encode())
    address = "s3://texts/*.txt"
    with (
        refusing(s3, how),
        refuses(KEY, address, "cannot be read", "run the same command again", "credentials"),
    ):
        read(address, tmp_path)
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert left == ["one.txt"]
    assert capsys.readouterr().err.count("fetched") == 1
    assert read(address, tmp_path) == [*whole["one"], *whole["two"]]
    assert capsys.readouterr().err.count("fetched") == 1


@pytest.mark.parametrize("address", ["s3://texts/none.txt", "s3://texts/*.txt", "s3://no-such-bucket/x.txt"])
def test_a_file_that_is_not_in_the_bucket_is_named(bucket, tmp_path, address):
    with refuses(KEY, address, "address"):
        remote.named_files(address, KEY, tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("scheme", "library"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_a_library_that_is_missing_is_named(monkeypatch, tmp_path, scheme, library):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    with refuses(KEY, f"{scheme}://texts/x.txt", f"`pip install {library}`"):
        remote.named_files(f"{scheme}://texts/x.txt", KEY, tmp_path)


@pytest.mark.parametrize("scheme", ["file", "FILE"])
def test_an_address_of_this_machine_is_its_path(tmp_path, scheme):
    (tmp_path / "x y.txt").write_text("a text\n")
    assert read(f"{scheme}://{tmp_path}/*.txt", tmp_path / "cache") == ["a text"]
    assert read(f"{scheme}://{tmp_path}/x y.txt", tmp_path / "cache") == ["a text"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "error", [PermissionError("Forbidden"), ConnectionResetError("reset by peer"), KeyError("a")]
)
def test_a_file_that_cannot_be_fetched_is_told_by_its_address(monkeypatch, tmp_path, error):
    files = fsspec.filesystem("memory")
    files.pipe("/texts/x.txt", b"a text")
    monkeypatch.setattr(fsspec, "url_to_fs", lambda url: (files, "/texts/x.txt"))

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(files, "get_file", fail, raising=False)
    with refuses(KEY, "s3://texts/x.txt", type(error).__name__, str(error), "credentials"):
        remote.named_files("s3://texts/x.txt", KEY, tmp_path)
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]


@pytest.mark.parametrize(
    "path", ["ftp://texts/x.txt", "https://texts/x.txt", "S4://texts/x.txt", "ftp://texts/my x.txt"]
)
def test_an_unknown_scheme_is_refused(path):
    source = {"kind": "files", "path": path}
    with refuses(KEY, "s3://", "gs://", f"{path.partition('://')[0].lower()}:// is not read"):
        check(small_params(corpus={"sources": [source]}), Path("params.yaml"))


@pytest.mark.parametrize(
    ("block", "key"),
    [
        ({"runtime": {"cache": "s3://bucket/cache"}}, "runtime.cache"),
        ({"runtime": {"cache": "file:///tmp/cache"}}, "runtime.cache"),
        ({"teacher": {"kind": "transformer", "model": "s3://bucket/model"}}, "teacher.model"),
        (
            {"finetune": {"data": {"own": {"kind": "triplets", "path": "s3://b/x.csv"}}, "mine": None}},
            "finetune.data.own.path",
        ),
    ],
)
def test_an_address_where_none_is_read_is_refused(block, key):
    with refuses(key, "://", "address", "folder"):
        check(small_params(**block), Path("params.yaml"))


def test_nothing_is_written_to_a_folder_with_the_name_of_a_scheme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refuses("s3:/bucket/x", "address"):
        write_text(Path("s3://bucket/x"), "content")
    assert not [*tmp_path.iterdir()]
