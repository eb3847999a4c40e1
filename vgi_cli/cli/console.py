"""stderr: lines, warnings, errors and progress. Plain text off a terminal, NO_COLOR and TERM=dumb are honoured."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, TextIO

from vgi_cli.errors import UsageError
from vgi_cli.run.reporting import Reporter

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PLAIN_EVERY = 10.0
"""Seconds between two plain lines of progress where stderr is not a terminal."""


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches this stream (a `dumb` terminal can neither move the cursor nor colour)."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set to anything but the empty text."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


class Console(Reporter):
    """The reporter of the command line."""

    def __init__(self, quiet: bool = False, verbose: bool = False, stream: TextIO | None = None) -> None:
        if quiet and verbose:
            raise UsageError("-q (say less) and -v (say more) exclude each other", "leave one out")
        self.quiet = quiet
        self.verbose = verbose
        self.stream = sys.stderr if stream is None else stream
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._started = time.monotonic()
        self._last = self._started

    def say(self, line: str) -> None:
        """See Reporter: not shown with -q."""
        if not self.quiet:
            self._print(line)

    def warn(self, line: str) -> None:
        """See Reporter: `warning: …`, shown with -q too."""
        self._print(f"{self._paint('warning:', '33')} {line}")

    def detail(self, line: str) -> None:
        """See Reporter: shown with -v."""
        if self.verbose and not self.quiet:
            self._print(line)

    def error(self, message: str, hint: str | None = None) -> None:
        """`error: …` and, below it, `hint: …`."""
        self.finish_progress()
        self._print(f"{self._paint('error:', '1;31')} {message}")
        if hint:
            self._print(f"{self._paint('hint:', '36')} {hint}")

    def progress(self, text: str, done: float) -> None:
        """See Reporter: a bar on a terminal, else one plain line every ten seconds."""
        if self.quiet:
            return
        if is_terminal(self.stream):
            self._advance_bar(text, done)
            return
        now = time.monotonic()
        if now - self._last >= PLAIN_EVERY:
            self._last = now
            self._print(f"{text}  ({done:.0%}, {now - self._started:.0f} s)")

    def finish_progress(self) -> None:
        """See Reporter."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _advance_bar(self, text: str, done: float) -> None:
        if self._bar is None:
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            rich = RichConsole(file=self.stream, no_color=not has_colour(self.stream), highlight=False)
            columns = (BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
            self._bar = Progress(*columns, console=rich, transient=True)
            self._task = self._bar.add_task("", total=1.0)
            self._bar.start()
        assert self._task is not None
        self._bar.update(self._task, description=text, completed=done)

    def _print(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, soft_wrap=True)
        else:
            print(line, file=self.stream, flush=True)

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if has_colour(self.stream) else text
