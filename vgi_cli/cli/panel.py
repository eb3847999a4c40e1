"""The live panel on a terminal: where the work stands, in a few lines that are drawn again in place."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import TextIO

from vgi_cli.background import Background, Ended
from vgi_cli.reporting import Progress

BEAT = 0.5
"""Seconds between two drawings at least."""
SHORTEST = 0.5
"""Seconds that are left at least where it is said how many."""
BAR, SPARKS = 24, 24
"""Characters of the bar, and of the curve of scores at most."""
LEVELS = {True: "▁▂▃▄▅▆▇█", False: "_.-=+*#"}
"""Heights of a curve, from low to high: in a terminal that takes Unicode, and in another."""
STROKES = {True: ("━", "─"), False: ("#", "-")}
"""Done and not done of the bar, likewise."""
SCORES = {
    "held_out_loglik": "held-out log-likelihood",
    "val_loglik": "held-out log-likelihood",
    "val_objective": "held-out objective",
}
"""Scores of held-out rows in words."""
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
"""The cursor."""
ERASE = "\r\x1b[J"
"""All from the line of the cursor on."""


def sparkline(values: Sequence[float], width: int = SPARKS, unicode: bool = True) -> str:
    """A curve of at most `width` characters: of each run of values the last one, between the least and the largest of
    them. Values that are not finite are left out."""
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return ""
    count = min(width, len(values))
    picked = [values[(i + 1) * len(values) // count - 1] for i in range(count)]
    low, high = min(picked), max(picked)
    levels = LEVELS[unicode]
    return "".join(levels[round((v - low) / (high - low) * (len(levels) - 1)) if high > low else 0] for v in picked)


def since(progress: Progress, seconds: float) -> Progress:
    """What was reported so many seconds ago: the time left has gone on running. Where it ran out before the work did,
    it was wrong, and is not known."""
    if progress.left is None:
        return progress
    left = progress.left - seconds
    return progress._replace(left=left if left >= SHORTEST else None)


def duration(seconds: float) -> str:
    """`45 s`, `3 min`, `2 h 5 min`."""
    minutes = round(seconds / 60)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def short(number: float) -> str:
    """`0.83`, `12`, `1,660`."""
    return f"{number:,.0f}" if number >= 99.5 else f"{number:.2g}"


class Scores:
    """The scores of held-out rows by epoch, as they come."""

    def __init__(self) -> None:
        self.name = ""
        self.seen: dict[int, float] = {}

    def add(self, progress: Progress) -> None:
        """Take up the score of a report, where it has one."""
        if progress.score is not None and progress.score_epoch is not None:
            self.name = progress.score_name
            self.seen[progress.score_epoch] = progress.score

    def line(self, unicode: bool = True) -> str:
        """`held-out log-likelihood -3.214 (best -3.210 at epoch 115)  ▁▂▄▅▆▇▇█`; empty where there is none yet."""
        if not self.seen:
            return ""
        best = max(self.seen, key=self.seen.__getitem__)
        *_, last = self.seen
        words = f"{SCORES.get(self.name, self.name)} {self.seen[last]:.5g}"
        if best != last:
            words += f" (best {self.seen[best]:.5g} at epoch {best})"
        return f"{words}  {sparkline(list(self.seen.values()), unicode=unicode)}"


def lines(progress: Progress, scores: Scores, notes: bool = False, unicode: bool = True) -> list[str]:
    """The panel in plain text: name and bar, what is counted, the score, the chains and the memory; lines of which
    nothing is known are left out. `notes`: what experts want to see too."""
    done, rest = STROKES[unicode]
    full = round(progress.share * BAR)
    head = (
        f"{progress.stage}/{progress.stages} {progress.name}  {done * full}{rest * (BAR - full)} {progress.share:4.0%}"
    )
    if progress.left is not None and progress.share < 1.0:
        head += f"  {duration(progress.left)} left"
    counted, more = [], []
    if progress.done is not None and progress.unit:
        of = "" if progress.total is None else f" of {progress.total:,.0f}"
        counted.append(f"{progress.done:,.0f}{of} {progress.unit}")
        if progress.rate:
            counted.append(f"{short(progress.rate)} {progress.unit}/s")
    if progress.rows_per_second is not None:
        counted.append(f"{short(progress.rows_per_second)} rows/s")
    if progress.acceptance is not None:
        more.append(f"acceptance {progress.acceptance:.0%}")
    if progress.gpu_bytes is not None:
        more.append(f"GPU memory {progress.gpu_bytes / 1e9:.3g} GB")
    if notes and progress.note:
        more.append(progress.note)
    below = [", ".join(counted), scores.line(unicode), ", ".join(more)]
    return [head, *(f"    {line}" for line in below if line)]


class Panel:
    """Draws the last report again whenever something has changed, at most every BEAT seconds. Once it is closed the
    terminal is as it was, but for the lines that were printed above it.

    The cursor waits where the panel begins: a terminal that breaks lines anew when its size changes takes the cursor
    along, so all that is below it is the panel, however many lines that has become.
    """

    def __init__(self, stream: TextIO, colour: bool, notes: bool, clock: Callable[[], float]) -> None:
        from rich.console import Console

        self._stream, self._notes, self._clock = stream, notes, clock
        self._scores = Scores()
        self._shown: tuple[Progress, float] | None = None
        self._drawn: tuple[list[str], os.terminal_size] | None = None
        self._lock = threading.Lock()
        self._writing = threading.RLock()
        self._closed = Ended()
        self._unicode = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")
        self._console = Console(
            file=stream,
            force_terminal=True,
            color_system="standard" if colour else None,
            no_color=not colour,
            highlight=False,
            emoji=False,
        )
        self._thread = Background(self._beat)

    def update(self, progress: Progress) -> None:
        """Something to draw, at the next beat."""
        with self._lock:
            if self._shown is not None and self._shown[0].stage != progress.stage:
                self._scores = Scores()
            self._shown = progress, self._clock()
            self._scores.add(progress)

    def print(self, line: str) -> None:
        """A line above the panel, which stays."""
        from rich.text import Text

        with self._writing:
            if self._drawn is not None:
                self._write(ERASE)
            self._console.print(Text.from_ansi(line), soft_wrap=True)
            if self._drawn is not None:
                self.draw()

    def draw(self) -> None:
        """Write the panel over itself, as wide and as high as the terminal is now."""
        from rich.cells import cell_len, set_cell_size

        with self._writing:
            now, size = self._now(), self._size()
            wide = size.columns - 1  # a terminal may go on to the next line once the last column is filled
            cut = [line if cell_len(line) <= wide else set_cell_size(line, wide).rstrip() for line in now][: size.lines]
            up = f"\x1b[{len(cut) - 1}A" if len(cut) > 1 else ""
            self._write(f"{HIDE if self._drawn is None else ''}{ERASE}" + "\n".join(cut) + f"\r{up}")
            self._drawn = now, size

    def close(self) -> None:
        """Take the panel away, and show the cursor again."""
        self._closed.set()
        try:
            self._thread.join()
        finally:  # whatever interrupts the waiting
            with self._writing:
                if self._drawn is not None:
                    self._drawn = None
                    self._write(f"{ERASE}{SHOW}")

    def _beat(self) -> None:
        while not self._closed.wait(BEAT):
            now = self._now()
            if now and self._drawn != (now, self._size()):
                self.draw()

    def _now(self) -> list[str]:
        """What is to be drawn; the time left goes on running where the work does not report."""
        with self._lock:
            if self._shown is None:
                return []
            progress, at = self._shown
            progress = since(progress, self._clock() - at)
            return lines(progress, self._scores, self._notes, self._unicode)

    def _size(self) -> os.terminal_size:
        """Of the terminal at this moment; one that does not know its size is taken to have 80 columns."""
        try:
            found = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            found = os.terminal_size((0, 0))
        return os.terminal_size((found.columns or 80, found.lines or 25))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
