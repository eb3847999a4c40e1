"""SIGINT and SIGTERM: at once where nothing would be lost, between whole steps while a fit runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from vgi_cli.errors import Interrupted

WATCHED = (signal.SIGINT, signal.SIGTERM)


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
        """The exception for a signal: exit code 130 (SIGINT) or 143 (SIGTERM)."""
        number = self.signal if number is None else number
        assert number is not None
        return Interrupted(f"{message} by {signal.Signals(number).name}", 128 + number, hint)


@contextmanager
def watch_signals() -> Iterator[Stop]:
    """Handle the signals of this program while a command runs; other threads than the main one cannot."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.handle) for number in WATCHED}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
