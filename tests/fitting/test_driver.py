"""The driver: exact resume from any whole step, selection, clock, signals, failures."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.clocks import ticking
from tests.fitting.fakes import METHOD, STEPS, FakeState, FakeValidator, new_drive, new_run, table
from tests.tensors import same_tensors
from vgi_cli.completers.base import never
from vgi_cli.errors import FitError, Interrupted
from vgi_cli.fitting import driver
from vgi_cli.machine.work import Stop
from vgi_cli.methods.base import EpochEnd, Events, PieceEnd, State, StepEnd
from vgi_cli.methods.em import em
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.reporting import Silent
from vgi_cli.runs.folder import RunFolder

TOTAL = 10 * (STEPS + 1)


def parts_of(path: Path) -> dict[str, dict[str, torch.Tensor]]:
    return RunFolder.open(path).parts()


def metrics_of(path: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in driver.CLOCKED} for line in lines]


def assert_same(a: Path, b: Path) -> None:
    first, second = parts_of(a), parts_of(b)
    assert all(same_tensors(first[stem], second[stem]) for stem in first)
    assert metrics_of(a) == metrics_of(b)


def resumed(path: Path, **changes: object) -> driver.Drive:
    run = RunFolder.open(path)
    drive = new_drive(run, **changes)
    run.truncate_metrics()
    drive.restore(run.parts(), run.manifest["progress"])
    return drive


def stopping(at: int, stop: Stop, number: int = signal.SIGTERM) -> Callable[[Any, Callable[[], bool]], Events]:
    """The fake method, with a signal after `at` whole steps."""

    def run(state: FakeState, stop_now: Callable[[], bool]) -> Events:
        for count, event in enumerate(METHOD.run(state, stop_now), 1):
            if count == at:
                stop.handle(number, None)
            yield event

    return run


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "whole"
    assert new_drive(new_run(path)).go() == ("epochs", 10, TOTAL)
    return path


@pytest.mark.parametrize("at", [1, STEPS, STEPS + 1, 17, TOTAL - 1])
def test_stopped_at_a_step_and_resumed_equals_not_stopped(tmp_path: Path, whole: Path, at: int) -> None:
    path, stop = tmp_path / "cut", Stop()
    drive = new_drive(new_run(path), stop=stop, resume_with="vgi fit --resume --out cut")
    drive.advance = stopping(at, stop)
    with pytest.raises(Interrupted) as caught:
        drive.go()
    assert caught.value.exit_code == 143
    assert "saved in" in caught.value.message and "SIGTERM" in caught.value.message
    assert caught.value.hint == "continue with: vgi fit --resume --out cut"
    assert RunFolder.open(path).manifest["progress"]["steps"] == at
    resumed(path).go()
    assert_same(path, whole)


def test_sigint_exits_130(tmp_path: Path) -> None:
    stop = Stop()
    drive = new_drive(new_run(tmp_path / "run"), stop=stop)
    drive.advance = stopping(3, stop, signal.SIGINT)
    with pytest.raises(Interrupted) as caught:
        drive.go()
    assert caught.value.exit_code == 130


def test_a_signal_is_heard_between_the_pieces_of_a_step(tmp_path: Path, whole: Path) -> None:
    """A piece is no step: none is counted, and no limit is looked at."""
    path, stop = tmp_path / "cut", Stop()
    drive = new_drive(new_run(path), stop=stop, deadline=None)

    def run(state: FakeState, stop_now: Callable[[], bool]) -> Events:
        for count, event in enumerate(METHOD.run(state, stop_now), 1):
            yield event
            if count == 6:
                drive.deadline = 0.0
                yield PieceEnd()
                drive.deadline = None
                stop.handle(signal.SIGTERM, None)
                yield PieceEnd()

    drive.advance = run
    with pytest.raises(Interrupted) as caught:
        drive.go()
    assert caught.value.exit_code == 143
    assert RunFolder.open(path).manifest["progress"]["steps"] == 6
    resumed(path).go()
    assert_same(path, whole)


def test_stop_after_stops_and_may_be_lifted(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "run"
    assert new_drive(new_run(path), stop_after=7).go() == ("stop_after", 1, 7)
    assert resumed(path).go() == ("epochs", 10, TOTAL)
    assert_same(path, whole)


def test_the_clock_stops_and_its_stop_can_be_repeated_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    outcome = new_drive(new_run(tmp_path / "clock"), epochs=10**6, deadline=0.15).go()
    assert outcome.stopped_by == "time_limit" and 0 < outcome.steps < 150
    assert RunFolder.open(tmp_path / "clock").manifest["stopped_by"] == "time_limit"
    again = new_drive(new_run(tmp_path / "again"), epochs=10**6, stop_after=outcome.steps)
    again.go()
    assert_same(tmp_path / "clock", tmp_path / "again")


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_the_clock_and_signals_reach_into_a_long_step(
    tmp_path: Path, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that asks and ends: at the deadline by the clock, after a signal with its exit code."""
    stop = Stop()
    ticking(monkeypatch)
    deadline = None if number is not None else 0.05
    drive = new_drive(new_run(tmp_path / "run"), stop=stop, deadline=deadline)

    def advance(state: Any, stop_now: Callable[[], bool]) -> Iterator[Any]:
        assert not stop_now()
        if number is not None:
            stop.handle(number, None)
        while not stop_now():
            pass
        yield from ()

    drive.advance = advance
    if number is None:
        assert drive.go() == ("time_limit", 0, 0)
    else:
        with pytest.raises(Interrupted) as caught:
            drive.go()
        assert caught.value.exit_code == 143
    assert RunFolder.open(tmp_path / "run").manifest["stopped_by"] == (None if number else "time_limit")


def test_a_deadline_in_the_past_still_leaves_a_model(tmp_path: Path) -> None:
    outcome = new_drive(new_run(tmp_path / "run"), deadline=0.0).go()
    assert outcome == ("time_limit", 0, 0)
    assert RunFolder.open(tmp_path / "run").fitted


def test_more_epochs_go_on_from_the_end(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "run"
    new_drive(new_run(path), epochs=4).go()
    assert resumed(path, epochs=10).go().epochs == 10
    assert_same(path, whole)


def test_the_best_parameters_are_published_and_the_current_ones_resume(tmp_path: Path) -> None:
    scores = [1.0, 3.0, 2.0, 2.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    path = tmp_path / "whole"
    outcome = new_drive(new_run(path), validator=FakeValidator(scores), patience=4).go()
    assert outcome.stopped_by == "early_stopping" and outcome.epochs == 6
    manifest = RunFolder.open(path).manifest["progress"]
    assert (manifest["best_score"], manifest["best_epoch"]) == (3.0, 2)
    early = tmp_path / "early"
    new_drive(new_run(early), epochs=2).go()
    assert same_tensors(parts_of(path)["model"], parts_of(early)["model"])
    cut, stop = tmp_path / "cut", Stop()
    drive = new_drive(new_run(cut), stop=stop, validator=FakeValidator(scores), patience=4)
    drive.advance = stopping(17, stop)
    with pytest.raises(Interrupted):
        drive.go()
    assert resumed(cut, validator=FakeValidator(scores), patience=4).go() == outcome
    assert_same(cut, path)
    assert resumed(cut, validator=FakeValidator(scores), patience=4).go() == outcome  # nothing more is run


def test_validation_every_few_epochs_and_at_the_end(tmp_path: Path) -> None:
    validator = FakeValidator([1.0, 2.0, 3.0, 4.0], every=4)
    new_drive(new_run(tmp_path / "run"), validator=validator).go()
    assert [line["epoch"] for line in metrics_of(tmp_path / "run") if "score" in line] == [4, 8, 10]


def test_a_fit_that_converges_between_two_validations_is_validated_at_its_end(tmp_path: Path) -> None:
    def converging(state: FakeState, stop_now: Callable[[], bool]) -> Events:
        for event in METHOD.run(state, stop_now):
            yield event
            if isinstance(event, EpochEnd) and event.epoch == 6:
                return

    for every, seen in ((4, [4, 6]), (20, [6]), (3, [3, 6])):
        path = tmp_path / str(every)
        drive = new_drive(new_run(path), validator=FakeValidator([1.0, 2.0], every=every))
        drive.advance = converging
        assert drive.go().stopped_by == "converged"
        assert [line["epoch"] for line in metrics_of(path) if "score" in line] == seen
        assert RunFolder.open(path).manifest["progress"]["best_epoch"] == 6
        before = parts_of(path), metrics_of(path), RunFolder.open(path).manifest["progress"]
        again = resumed(path, validator=FakeValidator([1.0, 2.0, 9.0], every=every))
        again.advance = lambda state, stop_now: iter(())
        assert again.go().stopped_by == "converged"
        assert metrics_of(path) == before[1] and RunFolder.open(path).manifest["progress"]["bad"] == before[2]["bad"]


def test_a_signal_during_the_last_validation_is_heard(tmp_path: Path) -> None:
    stop = Stop()

    class Slow(FakeValidator):
        def score(self, state: State, over: Callable[[], bool] = never) -> float:
            stop.handle(signal.SIGTERM, None)
            return super().score(state, over)

    drive = new_drive(new_run(tmp_path / "run"), stop=stop, validator=Slow([1.0], every=20))
    drive.advance = lambda state, stop_now: (event for event in [EpochEnd(1, {})] if not setattr(state, "epoch", 1))
    with pytest.raises(Interrupted):
        drive.go()
    assert RunFolder.open(tmp_path / "run").manifest["stopped_by"] is None


def test_a_signal_while_the_last_checkpoint_is_written_is_heard(tmp_path: Path, whole: Path) -> None:
    path, stop = tmp_path / "run", Stop()
    drive = new_drive(new_run(path), stop=stop)
    save = drive.run.save

    def slow(*arguments: Any) -> None:
        stop.handle(signal.SIGTERM, None)
        save(*arguments)

    drive.run.save = slow  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match="stopped after epoch 10, saved in"):
        drive.go()
    assert_same(path, whole)
    assert resumed(path).go() == ("epochs", 10, TOTAL)


def test_a_matrix_that_is_no_longer_positive_definite_fails_and_names_the_column(tmp_path: Path) -> None:
    drive = new_drive(new_run(tmp_path / "run"))

    def advance(state: Any, stop_now: Callable[[], bool]) -> Iterator[Any]:
        yield StepEnd()
        torch.linalg.cholesky(torch.tensor([[-1.0]]))

    drive.advance = advance
    with pytest.raises(FitError, match=r"a covariance is no longer positive definite in epoch 1; .* column is '[abc]'"):
        drive.go()


def test_a_parameter_that_is_not_finite_fails_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run"
    new_drive(new_run(path), epochs=3).go()
    good = parts_of(path)
    drive = resumed(path, epochs=10)
    drive.state.poison_at = 5
    with pytest.raises(FitError, match=r"objective is no longer finite in epoch 7; the last good .* column is '[abc]'"):
        drive.go()
    assert all(same_tensors(good[stem], parts_of(path)[stem]) for stem in good)


def test_em_whose_statistics_are_not_finite_names_the_column_and_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    model = FactorAnalysis.build(FaConfig(factors=1), table().layout)
    plain, calls = type(model.gaussians).maximise, 0

    def maximise(gaussians: Any, totals: tuple[Tensor, ...], *others: Any) -> None:
        nonlocal calls
        calls += 1
        plain(gaussians, tuple(one * math.nan if calls > 9 else one for one in totals), *others)

    monkeypatch.setattr(type(model.gaussians), "maximise", maximise)
    state = em.init(model, table(), em.EmConfig(tolerance=1e-12, accelerate=False), torch.Generator().manual_seed(1))
    path = tmp_path / "run"
    with pytest.raises(FitError, match=r"no longer (finite|positive definite) in epoch .* column is '[abc]'") as error:
        driver.Drive(em.run, state, new_run(path), table(), Silent(), Stop()).go()
    assert "the last good checkpoint is kept" in error.value.message
    assert error.value.hint is not None and "--set method.floor" in error.value.hint
    assert RunFolder.open(path).manifest["progress"]["steps"] > 0
    assert all(value.isfinite().all() for value in parts_of(path)["model"].values())


def test_parameters_are_checked_before_they_are_saved(tmp_path: Path) -> None:
    drive = new_drive(new_run(tmp_path / "run"), stop_after=2)
    drive.state.poison_at = 0
    with pytest.raises(FitError, match="model/mean is no longer finite in epoch 1"):
        drive.go()
    assert not RunFolder.open(tmp_path / "run").fitted


def test_a_full_disk_fails_and_keeps_the_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    new_drive(new_run(path), epochs=3).go()
    good = parts_of(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    drive = resumed(path, epochs=10, resume_with="vgi fit --resume --out run")
    monkeypatch.setattr("vgi_cli.runs.tensors.write_tensors", full)
    with pytest.raises(FitError, match=r"cannot save in .*: No space left on device; the last good") as caught:
        drive.go()
    assert caught.value.hint == "make room, then: vgi fit --resume --out run"
    monkeypatch.undo()
    assert all(same_tensors(good[stem], parts_of(path)[stem]) for stem in good)
    assert not (path / ".checkpoint.tmp").exists()


def test_a_full_disk_before_the_first_checkpoint_promises_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr("vgi_cli.runs.tensors.write_tensors", full)
    with pytest.raises(FitError, match=r"cannot save in .*: File too large$") as caught:
        new_drive(new_run(tmp_path / "run"), epochs=3).go()
    assert caught.value.hint == "raise the limit on the size of files (ulimit -f)"


def test_checkpoints_are_written_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", 0.0)
    saved = []
    run = new_run(tmp_path / "run")
    save = run.save
    monkeypatch.setattr(run, "save", lambda *a: (saved.append(1), save(*a)))
    new_drive(run, epochs=2).go()
    assert len(saved) >= 2


def test_a_score_of_minus_infinity_is_never_the_best(tmp_path: Path) -> None:
    validator = FakeValidator([-math.inf, 1.0, -math.inf])
    new_drive(new_run(tmp_path / "run"), epochs=3, validator=validator).go()
    assert [line["score"] for line in metrics_of(tmp_path / "run")] == [None, 1.0, None]
    assert RunFolder.open(tmp_path / "run").manifest["progress"]["best_epoch"] == 2


def test_a_score_that_is_not_a_number_ends_the_fit(tmp_path: Path) -> None:
    drive = new_drive(new_run(tmp_path / "run"), epochs=3, validator=FakeValidator([1.0, math.nan, 1.0]))
    with pytest.raises(FitError, match="held-out rows' score is not a number after epoch 2") as caught:
        drive.go()
    assert caught.value.hint is not None and "optim.lr" in caught.value.hint


KILLED = """
import sys, torch
from pathlib import Path
from tests.fitting.fakes import new_drive, new_run
from tests.fitting.test_driver import resumed
from vgi_cli.fitting import driver
from vgi_cli.runs.folder import RunFolder
torch.set_num_threads(1)
driver.CHECKPOINT_SECONDS = 0.0
path = Path(sys.argv[1])
if path.exists() and RunFolder.open(path).fitted:
    drive = resumed(path)
elif path.exists():
    drive = new_drive(RunFolder.open(path))
    (path / "metrics.jsonl").unlink(missing_ok=True)
else:
    drive = new_drive(new_run(path))
drive.state.delay = 0.004
print("ready", flush=True)
drive.go()
"""


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_equals_not_killed(tmp_path: Path, whole: Path) -> None:
    choose = random.Random(5)
    path = tmp_path / "killed"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    kills = 0
    while True:
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        process.stdout.readline()
        try:
            process.wait(choose.uniform(0.02, 0.25) if kills < 8 else 60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            continue
        finally:
            process.stdout.close()
        break
    assert process.returncode == 0
    assert kills >= 3
    assert_same(path, whole)


def test_what_was_measured_lasts_until_it_is_measured_again() -> None:
    first = driver._measured({"epoch": 3, "val_loglik": -2.0, "acceptance": [0.5, None, 1.0]}, driver.Measured())
    assert first == (3, -2.0, 3, "val_loglik", 0.75, None)
    line = {"epoch": 4, "val_loglik": None, "acceptance": 0.0, "rows_per_second": 5.0}
    assert driver._measured(line, first) == (4, -2.0, 3, "val_loglik", 0.0, 5.0)
    assert driver._measured({"epoch": 5, "acceptance": [None]}, first) == (5, -2.0, 3, "val_loglik", 0.75, None)


def test_an_epoch_that_began_in_another_process_has_no_rate(tmp_path: Path) -> None:
    new_drive(new_run(tmp_path / "run"), stop_after=STEPS + 3).go()
    drive = resumed(tmp_path / "run")
    drive.go()
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = ["rows_per_second" in line for line in lines]
    assert rates.count(False) == 1 and rates[0] and not rates[1] and len(rates) == 10
    assert all(line["rows_per_second"] > 0 for line, known in zip(lines, rates, strict=True) if known)
