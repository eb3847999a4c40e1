"""The time that a command may take, all of it: `--time-limit`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from vgi_cli.errors import VgiError
from vgi_cli.settings.gather import parse_duration
from vgi_cli.settings.problems import Settings

KEPT_SHARE, KEPT_LEAST, KEPT_MOST = 0.05, 0.8, 3.0
"""Kept for what comes last, writing the result and leaving: a share of the limit, within these ends in seconds."""


class TimeUp(VgiError):
    """The time limit was over before there was anything to keep (exit code 1)."""


class OutOfTime(Exception):
    """A piece of work was given up because the time for it was over; its caller goes on without it."""


class TimeLimit:
    """Wall time that a command may take, counted from its start; or none.

    seconds  what was said; none: no limit
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
        """When work must have ended, so that its result is there in time; none: never."""
        return None if self.seconds is None else self._end

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self._end - self._clock()

    def until(self, share: float) -> float | None:
        """When this share of the time that is left now will be over; none: never."""
        return None if self.seconds is None else self._clock() + share * max(self.left, 0.0)

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
        """What a manifest or a report says of the limit; none: there was none."""
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
