import io
import re
import sys

import pytest

from pipeline.core import progress as module
from pipeline.core.progress import progress, say


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_said_goes_to_stderr(capsys):
    say("three rows")
    assert capsys.readouterr() == ("", "three rows\n")


def test_without_a_terminal_one_plain_line_ends_the_work(capsys):
    with progress("encode corpus", 2500, "texts") as advance:
        advance(1500)
        advance(1000)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"encode corpus: 2,500 of 2,500 texts in \d+\.\d s, [\d,.]+/s\n", err)


def test_long_work_is_told_in_plain_lines(capsys, monkeypatch):
    monkeypatch.setattr(module, "PLAIN_SECONDS", 0.0)
    with progress("encode", 4, "texts") as advance:
        advance(0)
        advance(3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0] == "encode: 0 of 4 texts, 0.0/s, inf s left"
    assert re.fullmatch(r"encode: 3 of 4 texts, [\d,.]+/s, [\d,]+ s left", lines[1])
    assert not any("\x1b" in line or "\r" in line for line in lines)


def test_work_that_fails_is_not_told_as_done(capsys):
    with pytest.raises(KeyboardInterrupt), progress("encode", 4, "texts"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("encode", 4, "texts") as advance:
        advance(4)
    assert "\x1b" in terminal.getvalue()
    assert "encode" in terminal.getvalue()
    assert "4/4" in terminal.getvalue()


def test_work_may_be_told_more_often(capsys):
    with progress("embed", None, "texts", plain_seconds=0.0) as advance:
        advance(3)
        advance(1)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines[:-1]] == ["embed: 3 texts", "embed: 4 texts"]


def test_what_an_earlier_run_has_done_is_in_no_rate(capsys, monkeypatch):
    now = clock(monkeypatch)
    with progress("train tiny", 1100, "steps", plain_seconds=0.0, done=1000) as advance:
        now[0] += 10
        advance(50)
        now[0] += 10
        advance(50)
    assert capsys.readouterr().err.splitlines() == [
        "train tiny: 1,050 of 1,100 steps, 5.0/s, 10 s left",
        "train tiny: 1,100 of 1,100 steps, 5.0/s, 0 s left",
        "train tiny: 1,100 of 1,100 steps in 20.0 s, 5.0/s",
    ]


def test_the_time_left_is_that_of_the_pace_of_late(capsys, monkeypatch):
    """A store gives 10,000 vectors at once; the teacher makes 20 a second of the others."""
    now = clock(monkeypatch)
    with progress("encode corpus", 20_000, "texts", plain_seconds=15.0) as advance:
        advance(10_000)
        for _ in range(20):
            now[0] += 15
            advance(300)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("10,300 of 20,000 texts, 687/s, 14 s left")
    assert lines[10:20] == [
        f"encode corpus: {10_000 + 300 * done:,} of 20,000 texts, 20/s, {500 - 15 * done} s left"
        for done in range(11, 21)
    ]


def clock(monkeypatch):
    """A clock that stands still but for what is added to its one entry."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now
