"""stderr: lines, warnings, errors and progress. Plain text off a terminal, NO_COLOR and TERM=dumb are honoured; every
line goes to the file of `--log-file` too."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TextIO, cast

from vgi_cli.background import Background, Ended
from vgi_cli.cli.panel import Panel, duration, short, since
from vgi_cli.cli.visible import Unheard, visible
from vgi_cli.errors import UsageError, VgiError, nearest
from vgi_cli.reporting import Progress, Reporter

PLAIN_EVERY = 10.0
"""Seconds between two plain lines of progress where stderr is not a terminal."""
BEAT = 0.5
"""Seconds between two looks at the clock where the work itself does not report."""
COLOURS = ("auto", "always", "never")
"""What `--color` takes."""
STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d ")
"""What each line of a log begins with."""


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches this stream (a `dumb` terminal can neither move the cursor nor colour)."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO, wanted: str = "auto") -> bool:
    """Whether to colour. `auto`: on a terminal, unless NO_COLOR is set to anything but the empty text."""
    return wanted == "always" or (wanted == "auto" and is_terminal(stream) and not os.environ.get("NO_COLOR"))


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
            words.append(f"{short(progress.rate)} {progress.unit}/s")
    if progress.left is not None and progress.share < 1.0:
        words.append(f"{duration(progress.left)} left")
    if notes and progress.note:
        words.append(progress.note)
    return ", ".join(words)


class Log:
    """A file to which lines are appended, each with the time at which it was said."""

    def __init__(self, path: Path) -> None:
        """UsageError where no line can be appended: nothing is written yet."""
        self.path = path
        if path.is_dir() or not path.parent.is_dir():
            what = f"'{path}' is a folder" if path.is_dir() else f"no folder '{path.parent}'"
            raise UsageError(f"--log-file: {what}", "name a file in a folder that exists")
        try:
            with path.open("rb") as file:
                first = file.readline(80)
        except FileNotFoundError:
            first = b""
        except OSError as error:
            raise UsageError(f"--log-file: cannot read '{path}': {error.strerror}", "name another file") from None
        if first and not STAMP.match(first):
            raise UsageError(f"--log-file: '{path}' exists and is no log of vgi", "name another file")

    def add(self, text: str) -> None:
        """Append each line of a text. VgiError where that is not possible."""
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(f"{now} {line}\n" for line in text.splitlines())
        except OSError as error:
            raise VgiError(f"--log-file: cannot write '{self.path}': {error.strerror}", "name another file") from None


class Console(Reporter):
    """The reporter of the command line."""

    def __init__(
        self,
        quiet: bool = False,
        verbose: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        colour: str = "auto",
        log: Path | None = None,
        live: bool = True,
    ) -> None:
        """`colour`: one of COLOURS; `log`: a file that gets every line too; `live`: whether a terminal has a panel.

        UsageError for what cannot be.
        """
        if quiet and verbose:
            raise UsageError("-q (say less) and -v (say more) exclude each other", "leave one out")
        if colour not in COLOURS:
            raise UsageError(f"--color: expected auto, always or never, got '{colour}'", nearest(colour, COLOURS))
        self.quiet = quiet
        self.verbose = verbose
        self.stream = cast(TextIO, Unheard(sys.stderr)) if stream is None else stream
        self.clock = clock
        self._log = None if log is None else Log(log)
        self._colour = has_colour(self.stream, colour)
        self._live = live and is_terminal(self.stream)
        self._panel: Panel | None = None
        self._lock = threading.Lock()
        self._ended: Ended | None = None  # of the stage that is shown in plain lines
        self._shown: tuple[Progress, float] | None = None  # the last report of that stage, and when it came
        self._due = clock() + PLAIN_EVERY

    def say(self, line: str) -> None:
        """Not shown with -q."""
        if not self.quiet:
            self._print(line)

    def warn(self, line: str) -> None:
        """`warning: …`, shown with -q too."""
        self._print(line, "warning:", "33")

    def detail(self, line: str) -> None:
        """Shown with -v."""
        if self.verbose and not self.quiet:
            self._print(line)

    def error(self, message: str, hint: str | None = None) -> None:
        """`error: …` and, below it, `hint: …`."""
        self.close()
        with contextlib.suppress(VgiError):  # where the log cannot be written the terminal has said so
            self._print(message, "error:", "1;31")
        if hint:
            with contextlib.suppress(VgiError):
                self._print(hint, "hint:", "36")

    def trace(self) -> None:
        """The traceback of the exception at hand."""
        self.close()
        with contextlib.suppress(VgiError):
            self._print(traceback.format_exc().rstrip())

    def show(self, progress: Progress) -> None:
        """A panel on a terminal, else one plain line every ten seconds, which a log has in both cases."""
        if self.quiet:
            return
        if self._live:
            if self._panel is None:
                self._panel = Panel(self.stream, self._colour, self.verbose, self.clock)
            self._panel.update(progress)
            if self._log is None:
                return
        with self._lock:
            self._shown = progress, self.clock()
        self.tick()
        if self._ended is None:
            self._ended = ended = Ended()
            Background(lambda: self._beat(ended))

    def tick(self) -> None:
        """Print the plain line that is due, if there is one; a stage that does not report still has its line."""
        with self._lock:
            now = self.clock()
            if self._shown is None or now < self._due:
                return
            progress, at = self._shown
            self._due = now + PLAIN_EVERY
            progress = since(progress, now - at)
            line = f"{name_of(progress)}: {standing(progress, self.verbose)}"
            if not self._live:
                self._print(line)
            elif self._log is not None:
                self._log.add(line)

    def finish_progress(self) -> None:
        """The panel stays until the next stage has something to show in it, or until `close`."""
        with self._lock:
            self._shown = None
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    def close(self) -> None:
        """The command has ended: what comes next finds the terminal as it was."""
        self.finish_progress()
        if self._panel is not None:
            panel, self._panel = self._panel, None
            panel.close()

    def _beat(self, ended: Ended) -> None:
        while not ended.wait(BEAT):
            with contextlib.suppress(VgiError):  # of a log that cannot be written: the next line that is said has it
                self.tick()

    def _print(self, line: str, word: str = "", code: str = "") -> None:
        """A line on stderr and in the log, made visible, with long names cut; `word`: what it begins with, in
        the colour `code`."""
        from vgi_cli.columns.wording import cut_names  # loads numpy, which --help does without

        line = visible(cut_names(line))
        painted = f"\x1b[{code}m{word}\x1b[0m" if self._colour and word else word
        shown = f"{painted} {line}" if word else line
        if self._panel is not None:
            self._panel.print(shown)
        else:
            print(shown, file=self.stream, flush=True)
        if self._log is not None:
            self._log.add(f"{word} {line}" if word else line)
