"""Drives a method's generator: logs, checkpoints, validates, watches the clock and the signals.

The method yields between whole steps, and between pieces of very long ones; only there is anything saved. Interrupted
and resumed equals uninterrupted bit for bit: everything the driver itself decides from (validation history, counters)
is in the checkpoint, and nothing that it decides about the numbers depends on time.
"""

from __future__ import annotations

import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable
from vgi_cli.errors import FitError
from vgi_cli.fitting.plateau import Plateau
from vgi_cli.machine.work import OutOfTime, Stop
from vgi_cli.methods.base import EpochEnd, Events, Parts, PieceEnd, State
from vgi_cli.methods.em.em import EmState
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.optimisation import StepFailed, prefixed
from vgi_cli.ranks import ALONE, Ranks
from vgi_cli.reporting import TRAINING, Measured, Reporter, Stage, gpu_bytes
from vgi_cli.runs.files import REMEDIES, ROOM
from vgi_cli.runs.store import RunStore

CHECKPOINT_SECONDS = 20.0
CLOCKED = ("seconds", "rows_per_second", "gpu_bytes")
"""Metrics of an epoch that depend on the machine: all others are the same however often a fit was interrupted."""
SCORES = ("val_loglik", "val_objective", "held_out_loglik")
"""Metrics that are scores of held-out rows."""
PUBLISHED = ("model", "conditionals")
"""Files that hold the selected parameters; those in training then lie in `state` under `current/`."""


class Validator(ABC):
    """Scores a fit on held-out rows; larger is better. Its random streams are its own."""

    name: str
    words: str  # the criterion in words, with a place for the score
    every: int  # epochs between validations

    @abstractmethod
    def score(self, state: State, over: Callable[[], bool] = never) -> float:
        """The criterion at the published model. Must not change the state. `over`: whether the time for the fit is
        over: then the score may be given up by OutOfTime."""

    def tensors(self) -> dict[str, Tensor]:
        """What the validator keeps between validations (its chains)."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:  # noqa: B027 (most validators keep nothing)
        """Take up what `tensors` gave."""


class Outcome(NamedTuple):
    """How a fit ended: `epochs`, `converged`, `early_stopping`, `stop_after` or `time_limit`."""

    stopped_by: str
    epochs: int
    steps: int


def due_to_save(since: float, saving: float) -> bool:
    """Whether another checkpoint is due, so many seconds after the last one, which took `saving` seconds."""
    return since >= max(CHECKPOINT_SECONDS, 10 * saving)


def how_it_ended(epochs: int | None, stopped_by: str | None) -> str:
    """The end of a fit in words. `stopped_by`: see Outcome."""
    count = _epochs(epochs or 0)
    ends = {
        "converged": f"the fit has converged, after {count}",
        "early_stopping": f"the fit has ended after {count}: held-out rows gained no more",
        "time_limit": f"the time limit ended the fit after {count}",
    }
    return ends.get(str(stopped_by), f"the fit has done its {count}")


@dataclass
class _Pace:
    """The clock of a drive, monotonic seconds.

    started     when it began
    last_saved  when the last checkpoint had been saved
    saving      how long that took
    late        whether the method was told that the time is over
    asked       whether it has asked for that since the last step
    """

    started: float
    last_saved: float
    saving: float = 0.0
    late: bool = False
    asked: bool = False

    def due_to_save(self, now: float) -> bool:
        """Whether another checkpoint is due."""
        return due_to_save(now - self.last_saved, self.saving)

    def ahead(self, step: float) -> float:
        """The room that the next step needs after one of so many seconds: none where its method asks on the way."""
        asked, self.asked = self.asked, False
        return 0.0 if asked else step


@dataclass
class Drive:
    """One fit, kept in a run.

    deadline    monotonic time at which to stop, or none
    stop_after  whole steps after which to stop, or none
    advance     the method's `run`
    table       what is fitted: for messages
    constant    tensors that every checkpoint carries along
    resume_with the command that continues this fit
    ranks       the processes that share it: each drives its own part, and all take the same turns
    """

    advance: Callable[[Any, Callable[[], bool]], Events]
    state: State
    run: RunStore
    table: TensorTable
    reporter: Reporter
    stop: Stop
    deadline: float | None = None
    stop_after: int | None = None
    validator: Validator | None = None
    plateau: Plateau | None = None
    patience: int = 10
    constant: Parts = field(default_factory=dict)
    resume_with: str = ""
    ranks: Ranks = ALONE
    seconds_before: float = 0.0
    steps: int = 0
    best_score: float = -math.inf
    best_epoch: int = 0
    validated: int = 0  # epoch of the last validation
    bad: int = 0
    best: Parts = field(default_factory=dict)
    note: str = ""  # the metrics of the last epoch, for those who want to see them
    measured: Measured = field(default_factory=Measured)
    last_metrics: dict[str, Any] = field(default_factory=dict)
    _epoch_began: float | None = field(default=None, init=False)  # None: in another process
    _agreed_signal: int = field(default=0, init=False)  # 0: none

    def restore(self, parts: Parts, progress: Mapping[str, Any]) -> None:
        """Go back to a checkpoint: the state, the best parameters so far, the counters."""
        state = parts["state"]
        published = {stem: parts.get(stem, {}) for stem in PUBLISHED}
        current = {stem: prefixed(state, f"current/{stem}/") for stem in PUBLISHED}
        if any(current.values()):
            self.best = published
        if self.validator is not None:
            self.validator.restore(prefixed(state, "validation/"))
        if self.plateau is not None:
            self.plateau.restore(prefixed(state, "plateau/"))
        own = {k: v for k, v in state.items() if not k.startswith(("current/", "validation/", "plateau/"))}
        self.state.restore(
            {**parts, **{s: current[s] or published[s] for s in PUBLISHED}, "state": own},
        )
        self.steps = progress["steps"]
        self.seconds_before = progress["seconds"]
        self.validated = progress.get("validated", 0)
        if progress.get("best_score") is not None and self.validated:
            self.best_score, self.best_epoch, self.bad = (progress[k] for k in ("best_score", "best_epoch", "bad"))

    def go(self) -> Outcome:
        """Run to the end. Raises Interrupted after saving, FitError when a number is no longer finite."""
        started = time.monotonic()
        pace = _Pace(started, started)
        self._epoch_began = started if self.steps == 0 else None
        self.run.start_metrics()
        outcome = "early_stopping" if self.exhausted else self._limit_reached(started, pace.saving)
        outcome, _ = self._turn(outcome, False)
        stages = self.reporter.stage(TRAINING, until=self.deadline)
        try:
            with self.stop.deferred(), stages as stage:
                if outcome is None:
                    outcome = self._take_steps(stage, pace)
                outcome, _ = self._turn(outcome, False)
                if outcome is None and self._signal is None:
                    outcome = self._end_of_steps(pace)
                self._checkpoint(time.monotonic() - started, outcome)
                self._turn(outcome, False)
        except torch.linalg.LinAlgError:
            raise self._diverged("a covariance is no longer positive definite") from None
        except StepFailed as error:
            raise self._diverged(str(error)) from None
        if self._signal is not None:  # also while the last checkpoint was written: no refits after it
            saved = "" if self.run.address is None else f", saved in {self.run.name},"
            raise self.stop.interrupted(
                f"stopped after epoch {self.state.epoch}{saved}",
                self._signal,
                hint=f"continue with: {self.resume_with}" if self.resume_with else None,
            )
        assert outcome is not None
        return Outcome(outcome, self.state.epoch, self.steps)

    def _take_steps(self, stage: Stage, pace: _Pace) -> str | None:
        """Take steps, with checkpoints between them, until something ends the fit: what that is; None for a signal, and
        where the method has no steps left."""

        def stop_now() -> bool:
            pace.asked = True
            now = time.monotonic()
            self._tell(stage, pace.started, now)
            pace.late = pace.late or self._limit_reached(now, pace.saving) == "time_limit"
            return pace.late or self.stop.signal is not None

        outcome: str | None = None
        steps = self.advance(self.state, stop_now)
        begun = time.monotonic()
        for event in steps:
            now = time.monotonic()
            if isinstance(event, PieceEnd):
                self._tell(stage, pace.started, now)
                if self._signal is not None:
                    break
                if pace.due_to_save(now):
                    self._save(pace, now, now)
                continue
            self.steps += 1
            ahead = pace.ahead(now - begun)
            if isinstance(event, EpochEnd):
                self._log(event, now - pace.started)
                if self.exhausted:
                    outcome = "early_stopping"
            self._tell(stage, pace.started, now)
            outcome = outcome or self._limit_reached(time.monotonic(), pace.saving + ahead)
            outcome, due = self._turn(outcome, pace.due_to_save(now))
            if self._signal is not None or outcome:
                break
            if due:
                self._save(pace, now, time.monotonic())
            begun = time.monotonic()
        return outcome

    def _save(self, pace: _Pace, now: float, since: float) -> None:
        """Save a checkpoint of the moment `now`, which takes from `since` on."""
        self._checkpoint(now - pace.started)
        pace.last_saved = time.monotonic()
        pace.saving = pace.last_saved - since

    def _end_of_steps(self, pace: _Pace) -> str | None:
        """How a fit ended whose method has no steps left; the last parameters of one that has converged are scored.
        None where a signal came meanwhile."""
        if pace.late:
            return "time_limit"
        if self.state.epoch >= self.state.epochs:
            return "epochs"
        if self.validator is not None and self.state.epoch > self.validated:
            scored = {"epoch": self.state.epoch, "step": self.steps, **self._scored(self.validator)}
            self._write(scored, time.monotonic() - pace.started)
            return None if self._signal is not None else "converged"
        return "converged"

    def _turn(self, outcome: str | None, due: bool) -> tuple[str | None, bool]:
        """How the fit ends here, if it does, and whether a checkpoint is due, agreed among all ranks: each has a clock
        of its own, and a signal may reach one alone."""
        if self.ranks.alone:
            return outcome, due
        number = 0 if self.stop.signal is None else int(self.stop.signal)
        self._agreed_signal, late, saving = self.ranks.most(number, int(outcome == "time_limit"), int(due))
        return (outcome or "time_limit") if late else outcome, bool(saving)

    @property
    def _signal(self) -> int | None:
        """The signal that stops the fit: of several ranks the one that all know of."""
        return self.stop.signal if self.ranks.alone else self._agreed_signal or None

    def _limit_reached(self, now: float, ahead: float) -> str | None:
        """Which limit is reached; `ahead`: seconds that the next step and the saving after it will take."""
        if self.stop_after is not None and self.steps >= self.stop_after:
            return "stop_after"
        if self.deadline is not None and now + ahead >= self.deadline:
            return "time_limit"
        return None

    def _tell(self, stage: Stage, started: float, now: float) -> None:
        """How far the fit is: of its epochs or of its time, whichever is further."""
        share, done, total, unit = self.state.standing()
        if self.deadline is not None:
            share = max(share, (now - started) / max(self.deadline - started, 1e-9))
        stage(share, done, total, note=self.note, unit=unit, measured=self.measured)

    def _log(self, event: EpochEnd, seconds: float) -> None:
        self._refuse_non_finite(event.metrics)
        if healed := event.metrics.get("healed"):
            factor = event.metrics["rate_factor"]
            most = f"; the most extreme column is '{most_extreme(self.table)[0]}'"
            what = f"{healed} step{'s' * (healed > 1)} of epoch {event.epoch} had numbers that are not finite"
            if still := event.metrics.get("still"):
                what, most = f"all moves of '{still}' in epoch {event.epoch} were refused", ""
            self.reporter.warn(
                f"{what}: training went back to where it was good, and the learning rate is {factor:g} of the planned "
                f"one from here{most}"
            )
        line: dict[str, Any] = {"epoch": event.epoch, "step": self.steps, **event.metrics}
        if self.validator is not None and self.state.epoch >= 1 and self._due():
            line |= self._scored(self.validator)
        if self.plateau is not None and self.state.epoch >= 1:
            line |= self._watched(self.plateau)
        now, began = time.monotonic(), self._epoch_began
        if began is not None and now > began:
            line["rows_per_second"] = round(self.table.N / (now - began), 1)
        self._epoch_began = now
        self._write(line, seconds)
        self.note = ", ".join(f"{k} {v:.6g}" for k, v in line.items() if isinstance(v, float) and k not in CLOCKED)

    def _write(self, line: dict[str, Any], seconds: float) -> None:
        self.last_metrics = line
        if (held := gpu_bytes()) is not None:
            line["gpu_bytes"] = held
        line["seconds"] = round(self.seconds_before + seconds, 3)
        self.measured = _measured(line, self.measured)
        self.run.add_metrics(line)

    def _due(self) -> bool:
        assert self.validator is not None
        last = self.state.epoch >= self.state.epochs
        return last or self.state.epoch % self.validator.every == 0

    def _scored(self, validator: Validator) -> dict[str, float | None]:
        """The score of the present state, by the criterion's name; the best state so far is kept. Nothing where the
        time was over before it was known."""
        try:
            score = self.ranks.score(lambda: validator.score(self.state, self._over), OutOfTime)
        except OutOfTime:
            return {}
        self.validated = self.state.epoch
        if math.isnan(score):
            raise FitError(
                f"the held-out rows' {validator.name} is not a number after epoch {self.state.epoch}; "
                "the last good checkpoint is kept",
                "look at the held-out rows for values far from all others, or take a smaller --set optim.lr",
            )
        if score > self.best_score:
            self.best_score, self.best_epoch, self.bad = score, self.state.epoch, 0
            parts = self.state.parts()
            self.best = {stem: _copy(parts.get(stem, {})) for stem in PUBLISHED}
        else:
            self.bad += 1
        return {validator.name: score if math.isfinite(score) else None}

    def _watched(self, plateau: Plateau) -> dict[str, float | None]:
        """The score of the rows that say when the learning rate falls, where it is time for one."""
        assert isinstance(self.state, LoopState)
        try:
            score = plateau.after_epoch(self.state, self._over)
        except OutOfTime:
            return {}
        if self.state.turn == self.state.epoch:
            more = self.state.epochs - self.state.turn
            ended = plateau.satisfied
            gained = f"gained no more after {_epochs(plateau.best_epoch)}" if ended else "may gain still"
            self.reporter.say(f"held-out rows {gained}; now all rows, for {_epochs(more)} at a falling learning rate")
            self.reporter.detail(f"the held-out rows' log-likelihood by then: {plateau.best:.3f} nats a row")
        return {} if score is None else {"held_out_loglik": score if math.isfinite(score) else None}

    def _over(self) -> bool:
        """Whether the time for the fit is over."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def exhausted(self) -> bool:
        """Whether the score of held-out rows has not risen for as long as patience lasts."""
        return self.validator is not None and self.bad >= self.patience

    def _checkpoint(self, seconds: float, outcome: str | None = None) -> None:
        parts = {stem: dict(tensors) for stem, tensors in self.state.parts().items()}
        self._refuse_non_finite({f"{s}/{k}": v for s, tensors in parts.items() for k, v in tensors.items()})
        if self.best:
            for stem in PUBLISHED:
                for name, value in parts.get(stem, {}).items():
                    parts["state"][f"current/{stem}/{name}"] = value
                if self.best[stem]:
                    parts[stem] = self.best[stem]
        if self.validator is not None:
            parts["state"] |= {f"validation/{k}": v for k, v in self.validator.tensors().items()}
        if self.plateau is not None:
            parts["state"] |= {f"plateau/{k}": v for k, v in self.plateau.tensors().items()}
        for stem, tensors in self.constant.items():
            parts[stem] = {**parts.get(stem, {}), **tensors}
        progress = {
            "steps": self.steps,
            "seconds": round(self.seconds_before + seconds, 3),
            "best_score": None if self.best_score == -math.inf else self.best_score,
            "best_epoch": self.best_epoch,
            "validated": self.validated,
            "bad": self.bad,
        }
        entries = {
            "status": "running",
            "stopped_by": outcome,
            "epochs": self.state.epoch,
            "epochs_planned": self.state.epochs,
            "progress": progress,
        }
        try:
            self.run.save(parts, entries)
        except OSError as error:
            kept = "; the last good checkpoint is kept" if self.run.fitted else ""
            remedy = REMEDIES.get(error.errno or 0, ROOM)
            raise FitError(
                f"cannot save in '{self.run.name}': {error.strerror}{kept}",
                f"{remedy}, then: {self.resume_with}" if self.resume_with else remedy,
            ) from None

    def _refuse_non_finite(self, values: Mapping[str, Any]) -> None:
        """FitError where a metric or a parameter is NaN (state may hold infinities: a best value so far)."""
        for name, value in values.items():
            if isinstance(value, Tensor):
                floating = value.is_floating_point() and value.numel() > 0
                bad = floating and bool(value.min().isnan())  # of all, without a mask as large as the chains
            else:
                bad = isinstance(value, float) and not math.isfinite(value)
            if bad:
                raise self._diverged(f"{name} is no longer finite")

    def _diverged(self, what: str) -> FitError:
        column, size = most_extreme(self.table)
        other = "raise --set method.floor" if isinstance(self.state, EmState) else "take a smaller --set optim.lr"
        return FitError(
            f"{what} in epoch {self.state.epoch + 1}; the last good checkpoint is kept. "
            f"The most extreme column is '{column}': a value {size:.3g} standard deviations from its centre",
            f"look at column '{column}', or {other}",
        )


def _measured(line: Mapping[str, Any], before: Measured) -> Measured:
    """What was measured by a line of metrics and, where it says nothing of it, by those before it."""
    found = before._replace(epoch=line["epoch"], rows_per_second=line.get("rows_per_second", before.rows_per_second))
    for name in SCORES:
        if line.get(name) is not None:
            found = found._replace(score=line[name], score_epoch=line["epoch"], score_name=name)
    rates = line.get("acceptance")
    known = [rate for rate in (rates if isinstance(rates, list) else [rates]) if rate is not None]
    return found._replace(acceptance=statistics.fmean(known)) if known else found


def _epochs(count: int) -> str:
    return f"{count:,} epoch{'s' * (count != 1)}"


def _copy(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in tensors.items()}


def most_extreme(table: TensorTable) -> tuple[str, float]:
    """The column whose observed cells reach farthest from 0 in encoded space, and how far: where to look first."""
    reach = table.x.abs().amax(0)
    farthest = int(reach.argmax())
    return table.layout.label(farthest), float(reach[farthest])
