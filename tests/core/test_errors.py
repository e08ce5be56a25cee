import errno
import inspect
import os
import sys
import tempfile

import pytest

from pipeline.core.errors import QUIET, UserError, report_user_errors


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in QUIET:
        monkeypatch.setenv(name, "0")


def fail(path: str, times: int = 1) -> None:
    """Fail."""
    raise UserError(f"{path} is missing, tried {times} times; make it")


def test_a_users_mistake_is_one_line_and_exit_code_1(capsys):
    with pytest.raises(SystemExit) as stopped:
        report_user_errors(fail)("a.txt", times=3)
    assert stopped.value.code == 1
    assert capsys.readouterr() == ("", "error: a.txt is missing, tried 3 times; make it\n")


def test_a_file_that_is_closed_to_the_user_is_named(capsys):
    def closed() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "vectors")

    with pytest.raises(SystemExit) as stopped:
        report_user_errors(closed)()
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "error: vectors cannot be read or written (Permission denied)\n"


@pytest.mark.parametrize(
    "error", [ValueError(), KeyboardInterrupt(), OSError(errno.EPIPE, ""), OSError(errno.ENOENT, "")]
)
def test_every_other_error_stays_what_it_is(capsys, error):
    def broken() -> None:
        raise error

    with pytest.raises(type(error)):
        report_user_errors(broken)()
    assert capsys.readouterr().err == ""


def test_a_command_that_succeeds_just_ends(capsys):
    report_user_errors(lambda: sys.stdout.write("done"))()
    assert capsys.readouterr() == ("done", "")


def test_the_command_keeps_its_signature_for_typer():
    wrapped = report_user_errors(fail)
    assert inspect.signature(wrapped) == inspect.signature(fail)
    assert (wrapped.__name__, wrapped.__doc__) == ("fail", "Fail.")


def test_libraries_are_quiet_unless_the_user_wants_them_loud(monkeypatch):
    loud, *others = QUIET
    for name in others:
        monkeypatch.delenv(name)
    seen = {}
    report_user_errors(lambda: seen.update(os.environ))()
    assert seen[loud] == "0"
    assert {name: seen[name] for name in others} == {name: QUIET[name] for name in others}


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
        OSError(errno.ENOSPC, "No space left on device", "/tmp/x"),
        Exception("I/O error: No space left on device (os error 28)"),  # of safetensors and tokenizers
    ],
)
def test_a_full_temporary_folder_is_told(capsys, error):
    def full() -> None:
        raise error

    with pytest.raises(SystemExit):
        report_user_errors(full)()
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert "TMPDIR" in told


def test_no_temporary_folder_at_all_is_told(capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])

    with pytest.raises(SystemExit):
        report_user_errors(lambda: tempfile.TemporaryDirectory().cleanup())()
    assert "TMPDIR" in capsys.readouterr().err
