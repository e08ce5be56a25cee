"""Shards dealt to workers that die at their start, at the end or of memory, on machines with little room."""

from concurrent.futures import Future
from pathlib import Path

import pytest
from refusals import refuses

from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Encode, HashingTeacher
from pipeline.teacher.encoding.engines.dealing import deal
from pipeline.teacher.encoding.engines.job import Filled, Job

HERE = "this machine"
FILLED = Filled(1, [1], [{}], [{}], "cosine", None)


class DeathError(Exception):
    """Of a worker."""


class Machines:
    """Room for workers, and what is to come.

    Args:
        starts: of a worker, by number: whether each of its starts succeeds; later ones do.
        fills: of a shard: what comes of it each time that it is dealt, None while that is open; later, it
            is filled.
    """

    def __init__(self, room=9, starts=None, fills=None):
        self.room, self.starts, self.fills = room, starts or {}, fills or {}
        self.hired, self.alive, self.at = [], [], {}

    def hire(self, number):
        assert len(self.alive) < self.room, "it would wait for room that a worker with nothing to do takes"
        self.hired.append(number)
        return FakeHand(self, number)


class FakeHand:
    """A worker whose futures are done as soon as the machines know what they come to."""

    def __init__(self, machines, number):
        self.machines, self.number, self.futures = machines, number, []
        machines.alive.append(self)

    def ready(self):
        starts = self.machines.starts.get(self.number)
        return self.future(HERE if not starts or starts.pop(0) else DeathError())

    def check(self, told):
        assert told == HERE

    def fill(self, shard):
        fills = self.machines.fills.get(shard)
        self.machines.at[shard] = self.future(fills.pop(0) if fills else FILLED)
        return self.machines.at[shard]

    def try_texts(self, shard, note):
        if self.machines.alive == [self]:
            return self.future("it dies of 2 texts")
        note.write_text("an innocent text")
        return self.future(DeathError())

    def end(self):
        if self in self.machines.alive:
            self.machines.alive.remove(self)
        for future in self.futures:
            if not future.done():
                future.set_exception(DeathError())

    def future(self, outcome):
        future = Future()
        self.futures.append(future)
        if isinstance(outcome, DeathError):
            future.set_exception(outcome)
        elif outcome:
            future.set_result(outcome)
        return future


@pytest.fixture
def filled(tmp_path):
    """Rows that were filled, by so many workers; none is left at the end."""

    def filled(machines, shards, workers, advance=lambda _: None):
        job = Job(
            tmp_path,
            Path("corpus.parquet"),
            HashingTeacher(kind="hashing"),
            Encode(views=("sentence",)),
            Runtime(),
        )
        try:
            return deal(job, shards, workers, machines.hire, why, advance).rows
        finally:
            assert not machines.alive

    return filled


def why(error):
    return "lost" if isinstance(error, DeathError) else None


def test_the_last_shard_of_a_lost_machine_finds_room_where_a_worker_has_nothing_left(filled):
    machines = Machines(room=2, fills={"b": [None]})

    def lose_the_other(_):
        if not machines.at["b"].done():
            machines.room = 1
            machines.at["b"].set_exception(DeathError())

    assert filled(machines, "ab", 2, lose_the_other) == 2
    assert len(machines.hired) == 3


def test_a_lost_machine_may_take_several_workers_at_their_start(filled, capsys):
    machines = Machines(starts={0: [False], 1: [False], 2: [False]})
    assert filled(machines, "abcdefghi", 8) == 9
    assert machines.hired == [*range(8), 0, 1, 2]
    assert capsys.readouterr().err.count("died in its start (lost); retry 1 of 2") == 3


def test_deaths_at_a_start_are_counted_anew_after_one_that_succeeds(filled):
    machines = Machines(starts={0: [False, False, True, False, False]}, fills={"a": [DeathError()]})
    assert filled(machines, "a", 1) == 1
    assert machines.hired == [0] * 6


def test_workers_that_die_at_each_start_end_the_run(filled):
    machines = Machines(starts={0: [False] * 9, 1: [False] * 9})
    with refuses("corpus.parquet", "its start", "3 times", "lost", "same command again"):
        filled(machines, "ab", 2)
    assert machines.hired == [0, 1] * 3


def test_the_others_go_on_without_a_worker_that_dies_at_each_start(filled, capsys):
    machines = Machines(starts={1: [False] * 9})
    assert filled(machines, "abcdefgh", 2) == 8
    assert machines.hired == [0, 1, 1, 1]
    assert "died in its start 3 times (lost); the others go on without it" in capsys.readouterr().err


def test_no_other_worker_takes_memory_while_the_text_is_searched(filled):
    machines = Machines(fills={"a": [DeathError(), DeathError(), DeathError()], "b": [None], "c": [None]})
    with refuses("shard a 3 times", "only together", "want of memory"):
        filled(machines, "abc", 3)
