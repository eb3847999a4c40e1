"""What a long piece of work is given beside its inputs: who is told of it, how long it may take, what may stop it.

The time limit (`--time-limit`) is that of the whole command. SIGINT, SIGTERM and SIGHUP act at once where nothing would
be lost, and between whole steps while a fit runs.
"""

from __future__ import annotations

import copy
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from vgi_cli.errors import Interrupted, VgiError
from vgi_cli.ranks import ALONE, Ranks
from vgi_cli.reporting import Reporter, Silent
from vgi_cli.settings.gather import parse_duration
from vgi_cli.settings.problems import Settings
from vgi_cli.workers import ONE_PROCESS, Workers

KEPT_SHARE, KEPT_LEAST, KEPT_MOST = 0.05, 0.8, 3.0
"""Kept for what comes last, writing the result and leaving: a share of the limit, within these ends in seconds."""


class TimeUp(VgiError):
    """The time limit was over before there was anything to keep (exit code 1)."""


class OutOfTime(Exception):
    """A piece of work was given up because the time for it was over; its caller goes on without it."""


class TimeLimit:
    """Wall time that a command may take, counted from its start; or none.

    seconds  what was said; None: no limit
    cut      what was ended early, in words: it goes into the manifest or the report
    """

    def __init__(
        self, seconds: float | None = None, started: float = 0.0, clock: Callable[[], float] | None = None
    ) -> None:
        self.seconds = seconds
        self.cut: list[str] = []
        self._clock = time.monotonic if clock is None else clock
        kept = 0.0 if seconds is None else min(max(KEPT_SHARE * seconds, KEPT_LEAST), KEPT_MOST, 0.5 * seconds)
        self._end = math.inf if seconds is None else started + seconds - kept

    def __bool__(self) -> bool:
        return self.seconds is not None

    @property
    def end(self) -> float | None:
        """When work must have ended, so that its result is there in time; None: never."""
        return None if self.seconds is None else self._end

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self._end - self._clock()

    def until(self, share: float) -> float | None:
        """When this share of the time that is left now will be over; None: never."""
        return None if self.seconds is None else self._clock() + share * max(self.left, 0.0)

    def part(self, share: float) -> TimeLimit:
        """A limit that ends after this share of the time that is left now, with a `cut` of its own."""
        part = copy.copy(self)
        part.cut = []
        until = self.until(share)
        part._end = math.inf if until is None else until
        return part

    def over(self) -> bool:
        """Whether the time is over."""
        return self.seconds is not None and self.left <= 0.0

    def passed(self, moment: float | None) -> bool:
        """Whether a moment that `until` or `end` gave is over."""
        return moment is not None and self._clock() >= moment

    def words(self) -> str:
        """`the time limit of 5 s`."""
        return f"the time limit of {self.seconds:g} s"

    def record(self) -> dict[str, object] | None:
        """What a manifest or a report says of the limit; None: there was none."""
        return None if self.seconds is None else {"seconds": self.seconds, "ended_early": list(self.cut)}


def limit_of(settings: Settings, started: float) -> TimeLimit:
    """The limit that was said, counted from the monotonic time `started`."""
    said = settings.get("time_limit")
    return TimeLimit(None if said is None or said.value is None else parse_duration(said.value), started)


def giving_up(over: Callable[[], bool], tell: Callable[[float], None] | None = None) -> Callable[[float], None]:
    """What a piece of work tells its progress to: it raises OutOfTime once the time is over."""

    def progress(share: float) -> None:
        if over():
            raise OutOfTime
        if tell is not None:
            tell(share)

    return progress


WATCHED = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__)
"""Ctrl-C, what a scheduler sends, and what a closed terminal does."""


class Stop:
    """Whether a signal arrived. While `deferred`, it is only noted (a second one stops at once)."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._deferred = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Within this context a signal is noted and the code stops at a moment of its choice."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self._deferred and self.signal is None:
            self.signal = number
            return
        raise self.interrupted("stopped", number)

    def interrupted(self, message: str, number: int | None = None, hint: str | None = None) -> Interrupted:
        """The exception for a signal: exit code 128 and its number: 130 (SIGINT), 143 (SIGTERM), 129 (SIGHUP)."""
        number = self.signal if number is None else number
        assert number is not None
        return Interrupted(f"{message} by {signal.Signals(number).name}", 128 + number, hint)


@contextmanager
def watch_signals() -> Iterator[Stop]:
    """Handle the signals of this program while a command runs, but for those that whoever started it has set to be
    ignored (`nohup`; Ctrl-C, of what a script put into the background); other threads than the main one cannot."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    taken = [number for number in WATCHED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop.handle) for number in taken}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Work:
    """Who is told of a piece of work, how long it may take, and what may stop it.

    started  monotonic time at which its command began
    folder   where imputations lie that are too large for the memory; None: they must fit
    memory   bytes that the process may have, where its table is kept in files for that; None: what there is
    ranks    the processes that share it
    workers  who carries out pieces of it of which none needs another
    """

    reporter: Reporter = field(default_factory=Silent)
    limit: TimeLimit = field(default_factory=TimeLimit)
    stop: Stop = field(default_factory=Stop)
    started: float = field(default_factory=time.monotonic)
    folder: Path | None = None
    memory: int | None = None
    ranks: Ranks = ALONE
    workers: Workers = ONE_PROCESS

    @property
    def seconds(self) -> float:
        """Since its command began."""
        return round(time.monotonic() - self.started, 3)
