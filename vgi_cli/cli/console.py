"""stderr: lines, warnings, errors and progress. Plain text off a terminal, NO_COLOR and TERM=dumb are honoured."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from vgi_cli.errors import UsageError
from vgi_cli.reporting import Progress, Reporter

if TYPE_CHECKING:
    from rich import progress as rich_progress

PLAIN_EVERY = 10.0
"""Seconds between two plain lines of progress where stderr is not a terminal."""
BEAT = 0.5
"""Seconds between two looks at the clock where the work itself does not report."""


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches this stream (a `dumb` terminal can neither move the cursor nor colour)."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set to anything but the empty text."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def name_of(progress: Progress) -> str:
    """`2/4 choosing the size`."""
    return f"{progress.stage}/{progress.stages} {progress.name}"


def standing(progress: Progress, notes: bool = False) -> str:
    """`37%, 120 of 300 epochs, 12 epochs/s, 15 s left`: what is known of it; `notes`: what experts want to see too."""
    words = [f"{progress.share:.0%}"]
    if progress.done is not None and progress.unit:
        of = "" if progress.total is None else f" of {progress.total:,.0f}"
        words.append(f"{progress.done:,.0f}{of} {progress.unit}")
        if progress.rate:
            words.append(f"{_short(progress.rate)} {progress.unit}/s")
    if progress.left is not None and progress.share < 1.0:
        words.append(f"{duration(progress.left)} left")
    if notes and progress.note:
        words.append(progress.note)
    return ", ".join(words)


def duration(seconds: float) -> str:
    """`45 s`, `3 min`, `2 h 5 min`."""
    minutes = round(seconds / 60)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 99.5 else f"{rate:.2g}"


class Console(Reporter):
    """The reporter of the command line."""

    def __init__(
        self,
        quiet: bool = False,
        verbose: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if quiet and verbose:
            raise UsageError("-q (say less) and -v (say more) exclude each other", "leave one out")
        self.quiet = quiet
        self.verbose = verbose
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self._bar: rich_progress.Progress | None = None
        self._task: rich_progress.TaskID | None = None
        self._lock = threading.Lock()
        self._ended: threading.Event | None = None  # of the stage that is shown in plain lines
        self._shown: tuple[Progress, float] | None = None  # the last report of that stage, and when it came
        self._due = clock() + PLAIN_EVERY

    def say(self, line: str) -> None:
        """Not shown with -q."""
        if not self.quiet:
            self._print(line)

    def warn(self, line: str) -> None:
        """`warning: …`, shown with -q too."""
        self._print(f"{self._paint('warning:', '33')} {line}")

    def detail(self, line: str) -> None:
        """Shown with -v."""
        if self.verbose and not self.quiet:
            self._print(line)

    def error(self, message: str, hint: str | None = None) -> None:
        """`error: …` and, below it, `hint: …`."""
        self.finish_progress()
        self._print(f"{self._paint('error:', '1;31')} {message}")
        if hint:
            self._print(f"{self._paint('hint:', '36')} {hint}")

    def show(self, progress: Progress) -> None:
        """A bar on a terminal, else one plain line every ten seconds."""
        if self.quiet:
            return
        if is_terminal(self.stream):
            self._advance_bar(progress)
            return
        with self._lock:
            self._shown = progress, self.clock()
        self.tick()
        if self._ended is None:
            self._ended = threading.Event()
            threading.Thread(target=self._beat, args=(self._ended,), daemon=True).start()

    def tick(self) -> None:
        """Print the plain line that is due, if there is one; a stage that does not report still has its line."""
        with self._lock:
            now = self.clock()
            if self._shown is None or now < self._due:
                return
            progress, at = self._shown
            self._due = now + PLAIN_EVERY
            if progress.left is not None:
                progress = progress._replace(left=max(progress.left - (now - at), 0.0))
            self._print(f"{name_of(progress)}: {standing(progress, self.verbose)}")

    def finish_progress(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        with self._lock:
            self._shown = None
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT):
            self.tick()

    def _advance_bar(self, progress: Progress) -> None:
        look: dict[str, Any] = {"description": name_of(progress), "completed": progress.share}
        look["rest"] = standing(progress, self.verbose)
        if self._bar is None:
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            rich = RichConsole(file=self.stream, no_color=not has_colour(self.stream), highlight=False)
            name, rest = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[rest]}"))
            self._bar = Bar(name, BarColumn(bar_width=24), rest, console=rich, transient=True)
            self._task = self._bar.add_task(total=1.0, **look)
            self._bar.start()
        assert self._task is not None
        self._bar.update(self._task, **look)

    def _print(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, soft_wrap=True)
        else:
            print(line, file=self.stream, flush=True)

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if has_colour(self.stream) else text
