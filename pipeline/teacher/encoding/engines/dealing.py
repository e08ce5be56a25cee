"""Shards are dealt to workers that may die: one that kills its worker is retried, then named."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, Protocol

from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.teacher.encoding.engines.job import Filled, Job, total
from pipeline.teacher.encoding.store.filling import Advance

RETRIES = 2
"""How often a shard is dealt again after its worker has died."""
WAITING_SECONDS = 30.0
"""Seconds without any worker before it is said that they are waited for."""
AGAIN = "then run the same command again: what was encoded is kept"


class Hand(Protocol):
    """A worker in a process of its own. If that ends, its futures fail with an error of the engine."""

    def ready(self) -> Future[str]:
        """Done when the process runs and may be given shards; on which machine, if it is another."""
        ...

    def check(self, told: str) -> None:
        """Fail where the worker on that machine is of no use."""
        ...

    def fill(self, shard: str) -> Future[Filled]:
        """As `Worker.fill`."""
        ...

    def try_texts(self, shard: str, note: Path) -> Future[str]:
        """As `Worker.try_texts`."""
        ...

    def end(self) -> None:
        """End the process."""
        ...


Hire = Callable[[int], Hand]
"""The number of a worker, which its successor has too -> a worker that has just been started."""
Why = Callable[[BaseException], str | None]
"""An error of a future -> why the process ended; None where the error is another one."""


def deal(job: Job, shards: Sequence[str], workers: int, hire: Hire, why: Why, advance: Advance) -> Filled:
    """Fill shards, one at least; `advance` is told of rows as they are done.

    Raises:
        UserError: a worker's; or the worker of a shard died, and those of its retries too.
    """
    crew = _Crew(job, deque(shards), workers, hire, why)
    done: Filled | None = None
    try:
        for report in crew.reports():
            done = report if done is None else total((done, report))
            advance(report.rows)
    finally:
        crew.end()
    if done is None:
        raise ValueError("no shards")
    return done


class _Crew:
    """Workers, and what each is at: a shard, or "" while it starts.

    One with nothing left to do is ended at once, so that there is room for the successor of one that dies.
    """

    def __init__(self, job: Job, waiting: deque[str], workers: int, hire: Hire, why: Why) -> None:
        self._job, self._waiting, self._hire, self._why = job, waiting, hire, why
        # In a shard; or in the starts of a worker and its successors, since one of them was ready.
        self._deaths = Counter[str | int]()
        self._hands = [hire(number) for number in range(workers)]
        self._busy: dict[Future[Any], tuple[int, str]] = {
            hand.ready(): (number, "") for number, hand in enumerate(self._hands)
        }

    def reports(self) -> Iterator[Filled]:
        """Deal all shards; what is reported of each, as it is done."""
        while self._waiting or self._at_work():
            ended = wait(self._busy, WAITING_SECONDS, FIRST_COMPLETED).done
            if not ended and not self._at_work():
                say(f"encode: none of {len(self._hands)} workers has started yet; is there room for one?")
            for future in sorted(ended, key=self._deaths_last):
                number, shard = self._busy.pop(future)
                if error := future.exception():
                    self._bury(number, shard, error)
                    continue
                if shard:
                    yield future.result()
                else:
                    self._hands[number].check(future.result())
                    del self._deaths[number]
                if self._waiting:
                    following = self._waiting.popleft()
                    self._busy[self._hands[number].fill(following)] = number, following
                else:
                    self._hands[number].end()

    def end(self) -> None:
        """End all workers."""
        for hand in self._hands:
            hand.end()

    def _at_work(self) -> bool:
        return any(shard for _, shard in self._busy.values())

    def _deaths_last(self, ended: Future[Any]) -> tuple[bool, int]:
        """A key to sort by, so that a death finds those who are ready at work."""
        return ended.exception() is not None, self._busy[ended][0]

    def _bury(self, number: int, shard: str, error: BaseException) -> None:
        """Replace a worker that died, if there is work, and let its shard be dealt again.

        Raises:
            UserError: it died too often.
            BaseException: the error is no death.
        """
        if (reason := self._why(error)) is None:
            raise error
        self._hands[number].end()
        self._deaths[shard or number] += 1
        times = self._deaths[shard or number]
        told = f"a worker died in {f'shard {shard}' if shard else 'its start'}"
        if times > RETRIES:
            if not shard and self._at_work():
                say(f"encode: {told} {times} times ({reason}); the others go on without it")
                return
            fix = self._search(number, shard) if shard else f"mend that, {AGAIN}"
            raise UserError(f"{self._job.texts}: {told} {times} times ({reason}); {fix}")
        say(f"encode: {told} ({reason}); retry {times} of {RETRIES}")
        if shard:
            self._waiting.appendleft(shard)
        if self._waiting:
            self._hands[number] = self._hire(number)
            self._busy[self._hands[number].ready()] = number, ""

    def _search(self, number: int, shard: str) -> str:
        """As `_culprit`, when no other worker takes memory from the one that searches."""
        say(f"encode: texts of shard {shard} are tried one by one, once all other workers have ended")
        self.end()
        wait(self._busy, WAITING_SECONDS)
        return _culprit(self._job, shard, self._hire(number), self._why)


def _culprit(job: Job, shard: str, hand: Hand, why: Why) -> str:
    """What a worker dies of in a shard, and the fix: one more worker is given its texts one by one."""
    loading = (
        "it dies before any text, as it loads the teacher, maybe for want of memory; lower runtime.workers, "
        + AGAIN
    )
    try:
        with scratch_folder(job.folder / job.runtime.cache / "workers") as folder:
            note = folder / "tried"
            future = hand.try_texts(shard, note)
            error = future.exception()
            if error is None:
                return (
                    f"{future.result()}, but only together, maybe for want of memory; lower runtime.workers "
                    f"or runtime.tokens_per_batch, {AGAIN}"
                )
            if why(error) is None:
                raise error
            if not note.exists():
                return loading
            return f"it dies of the text {note.read_text(encoding='utf-8')}; remove that text, {AGAIN}"
    finally:
        hand.end()
