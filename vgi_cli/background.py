"""A thread beside a command, which cannot keep it waiting."""

from __future__ import annotations

import _thread
import contextlib
import time
from collections.abc import Callable

PAUSE = 0.002
"""Seconds between two looks at whether it has ended."""
LATE = 5.0
"""Seconds after which one that has not begun never will."""


class Background:
    """Something that runs in a thread of its own, which ends with the process at the latest.

    `threading.Thread` waits for its thread to begin, and for ever where that lacks the memory for its first steps.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        """Start. RuntimeError where the system lets no thread be started."""
        self._run, self._began, self._ended = run, False, False
        _thread.start_new_thread(self._go, ())

    def _go(self) -> None:
        self._began = True
        try:
            with contextlib.suppress(MemoryError):  # the command itself meets it, and says so
                self._run()
        finally:
            self._ended = True

    def join(self) -> None:
        """Wait until it has ended."""
        until = time.monotonic() + LATE
        while not self._ended and (self._began or time.monotonic() < until):
            time.sleep(PAUSE)


class Ended:
    """A word from one thread to another that something has ended. `threading.Event` may stay locked for ever where a
    thread that waits for it meets a lack of memory."""

    def __init__(self) -> None:
        self._lock, self._said = _thread.allocate_lock(), False
        self._lock.acquire()

    def set(self) -> None:
        """Say it; waits for nobody."""
        if not self._said:
            self._said = True
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait until it is said, so long at most: whether it was."""
        if self._said or not self._lock.acquire(timeout=seconds):
            return self._said
        self._lock.release()
        return True
