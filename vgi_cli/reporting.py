"""What the commands tell their caller while they work. `cli/` shows it; the Python API hands it on or ignores it."""

from __future__ import annotations

import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from vgi_cli.errors import VgiWarning

# the stages that commands go through, by the names under which progress is told
READING = "reading the table"
CHECKING = "looking at the cells"
TRYING = "trying the models"
SIZE = "choosing the size of the model"
CONTEST = "comparing models on hidden cells"
TRAINING = "training"
REFITS = "refitting to resampled rows"
POSTERIOR = "drawing from the posterior"
TREES = "learning trees"
PACING = "measuring imputing chains"
SAVING = "saving"
DRAWING = "filling the holes"
ROWS = "drawing rows"
WRITING = "writing the tables"
ENCODING = "preparing the rows"
ENCODER = "tuning the encoder to the rows"
LIKELIHOOD = "scoring the rows"
SCORING = "filling hidden cells to compare"
COMPARING = "comparing the conditionals"
TRACING = "running chains to look at"
OBJECTIVE = "tuning the conditionals"
KINDS = "looking for wrong kinds of columns"


GPU_EVERY = 1.0
"""Seconds between two looks at the memory of a GPU."""


KNOWN_AFTER, KNOWN_FROM, LONG = 2.0, 0.05, 30.0
"""Seconds of a stage, and share of it done, from which on the time left is estimated; and seconds from which on it is,
however little is done."""
SOON = 60.0
"""An end by a limit that is so many seconds away at most is the time left though nothing else is known."""


class Progress(NamedTuple):
    """Where a command stands.

    stage   number of the present stage, from 1
    stages  how many there will be, as far as that is decided
    name    of the stage: `training`
    share   of the stage that is done, from 0 to 1; never falls within a stage
    done    units done, where they are counted
    total   units to do, where that is known
    unit    what is counted: `epochs`, `rows`; empty: nothing is
    rate    units a second; None: not known yet
    left    seconds until the end of the stage; None: not known yet
    note    what an expert wants to see of the work (the objective); may be empty

    Of a fit, as soon as they are known, else None:

    epoch            whole epochs done (em: iterations)
    score            the last one of the held-out rows, larger is better
    score_epoch      the epoch after which they were scored
    score_name       which score: `held_out_loglik`, nats a row; its key in metrics.jsonl
    acceptance       share of the chains' proposals that were accepted in the last epoch, mean over the columns
    rows_per_second  rows that the last epoch passed through, a second
    gpu_bytes        memory that this process holds on the GPU in use; of any command
    """

    stage: int
    stages: int
    name: str
    share: float
    done: float | None = None
    total: float | None = None
    unit: str = ""
    rate: float | None = None
    left: float | None = None
    note: str = ""
    epoch: int | None = None
    score: float | None = None
    score_epoch: int | None = None
    score_name: str = ""
    acceptance: float | None = None
    rows_per_second: float | None = None
    gpu_bytes: int | None = None


class Measured(NamedTuple):
    """What a fit has measured by now, for its Progress, where each is explained."""

    epoch: int | None = None
    score: float | None = None
    score_epoch: int | None = None
    score_name: str = ""
    acceptance: float | None = None
    rows_per_second: float | None = None


NOTHING = Measured()


def gpu_bytes() -> int | None:
    """Bytes that this process holds on the GPU in use; None where it uses none. Loads nothing."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.memory_reserved())


class Stage:
    """A stage under way: call it with the share that is done."""

    def __init__(
        self,
        show: Callable[[Progress], None],
        place: Callable[[], tuple[int, int]],
        name: str,
        unit: str,
        until: float | None,
        clock: Callable[[], float],
    ) -> None:
        """`place`: number of the stage and of all; `until`: when it will be ended, if it has not come to its end."""
        self._show, self._place, self._clock = show, place, clock
        self._name, self._unit, self._until = name, unit, until
        self._share = 0.0
        self._first: tuple[float, float, float] | None = None  # time, share and units of the first report
        self._gpu: tuple[float, int | None] | None = None  # when it was looked at, and what was seen

    def __call__(
        self,
        share: float,
        done: float | None = None,
        total: float | None = None,
        note: str = "",
        unit: str = "",
        measured: Measured = NOTHING,
    ) -> None:
        """Report. A share below the last one, or outside [0, 1], is moved to the nearest that can be."""
        now = self._clock()
        self._share = min(max(share, self._share), 1.0)
        if self._first is None:
            self._first = now, self._share, done or 0.0
        before, share_before, done_before = self._first
        seconds, gained = now - before, self._share - share_before
        counted = done is not None and done > done_before and seconds > 0
        rate = (done - done_before) / seconds if counted and done is not None else None
        enough = self._share == 1.0 or seconds >= LONG or (seconds >= KNOWN_AFTER and gained >= KNOWN_FROM)
        left = seconds * (1.0 - self._share) / gained if enough and gained > 0 and seconds > 0 else None
        if self._until is not None and (enough or self._until - now <= SOON):
            left = min(max(self._until - now, 0.0), float("inf") if left is None else left)
        unit = unit or self._unit
        if self._gpu is None or now - self._gpu[0] >= GPU_EVERY:
            self._gpu = now, gpu_bytes()
        stands = (*self._place(), self._name, self._share, done, total, unit, rate, left, note)
        self._show(Progress(*stands, *measured, gpu_bytes=self._gpu[1]))


class Reporter(ABC):
    """Lines and progress of a command. Nothing below `cli/` prints."""

    clock: Callable[[], float] = staticmethod(time.monotonic)
    _ahead: tuple[str, ...] = ()
    _begun: int = 0

    @abstractmethod
    def say(self, line: str) -> None:
        """A line that a user wants to read once (what was chosen, what is unusual)."""

    @abstractmethod
    def warn(self, line: str) -> None:
        """A line that a user must read, also with `-q`."""

    @abstractmethod
    def detail(self, line: str) -> None:
        """A line for `-v`."""

    @abstractmethod
    def show(self, progress: Progress) -> None:
        """Where the work stands. Called often; the reporter decides what is shown."""

    @abstractmethod
    def finish_progress(self) -> None:
        """The stage that was shown has ended."""

    def plan(self, names: Sequence[str]) -> None:
        """The stages that are still to begin, in order, as far as that is decided."""
        self._ahead = tuple(names)

    @contextmanager
    def stage(self, name: str, unit: str = "", until: float | None = None) -> Iterator[Stage]:
        """A stage, from share 0 to share 1 (not where it ends by an exception). Stages that were planned before it have
        been left out; one that was not planned comes on top.

        unit   what is counted
        until  when it will be ended, if it has not come to its end (by `clock`)
        """
        if name in self._ahead:
            self._ahead = self._ahead[self._ahead.index(name) + 1 :]
        self._begun += 1
        number = self._begun
        stage = Stage(self.show, lambda: (number, number + len(self._ahead)), name, unit, until, self.clock)
        try:
            stage(0.0)
            yield stage
            stage(1.0)
        finally:
            self.finish_progress()


class Silent(Reporter):
    """Says nothing: the default of the Python API."""

    def say(self, line: str) -> None:
        pass

    def warn(self, line: str) -> None:
        pass

    def detail(self, line: str) -> None:
        pass

    def show(self, progress: Progress) -> None:
        pass

    def finish_progress(self) -> None:
        pass


class Lines(Silent):
    """Hands the lines of `say` and `warn` to a function, and the progress to another; None: nowhere."""

    def __init__(
        self, say: Callable[[str], None] | None = None, progress: Callable[[Progress], None] | None = None
    ) -> None:
        self._say, self._progress = say, progress

    def say(self, line: str) -> None:
        if self._say is not None:
            self._say(line)

    def warn(self, line: str) -> None:
        self.say(f"warning: {line}")

    def show(self, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(progress)


class Heard(Lines):
    """The same; what a user must read is a warning of Python too."""

    def warn(self, line: str) -> None:
        warnings.warn(line, VgiWarning, stacklevel=2)
        super().warn(line)
