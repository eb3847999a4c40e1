"""Commands that are killed at any file call, and file calls that fail: see kill_many.py."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import kill_many
from tests.faults.program import Action, Fault, Program, can_build
from tests.faults.scenarios import SCENARIOS, Trial, prepare
from tests.selection import first, some

pytestmark = pytest.mark.skipif(not can_build(), reason="needs Linux and a C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with Program(tmp_path_factory.mktemp("own")) as program:
        yield program


@pytest.fixture(scope="module")
def ready(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ready") / "ready"
    prepare(program, folder)
    return folder


@pytest.fixture(scope="module")
def trial(program: Program, ready: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(program, "fit em", ready, tmp_path_factory.mktemp("em") / "work")


@pytest.mark.parametrize("part", [0.1, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.45, 0.9))])
def test_a_fit_that_loses_power_goes_on_from_its_last_checkpoint(trial: Trial, part: float) -> None:
    trial.begin()
    done = trial.run(Fault(round(part * trial.calls), Action.POWER))
    assert done.code == -9 or done.calls < part * trial.calls  # how many checkpoints there are depends on the clock
    assert trial.between() == []
    done = trial.run(again=True)
    assert done.code == 0, done.err
    assert trial.at_the_end() == []


@pytest.mark.parametrize("what", some(["a full disk", "a short write"], kill_many.ERRORS))
def test_a_fit_whose_file_calls_fail_says_so_and_goes_on_later(trial: Trial, what: str) -> None:
    assert kill_many.starve(trial, Fault(round(0.6 * trial.calls), *kill_many.ERRORS[what])) == []


def test_a_table_is_whole_or_absent(program: Program, ready: Path, tmp_path: Path) -> None:
    """At every tenth file call of an imputation."""
    trial = Trial(program, "impute files", ready, tmp_path / "work")
    for at in range(1, trial.calls + 1, max(1, trial.calls // 3)):
        trial.begin()
        assert trial.run(Fault(at, Action.POWER)).code == -9
        assert trial.between() == []
    assert kill_many.starve(trial, Fault(1, Action.LASTING, errno.ENOSPC)) == []


@pytest.mark.parametrize("name", ["score", pytest.param("evaluate", marks=pytest.mark.slow)])
def test_a_kill_at_every_call_of_a_command(program: Program, ready: Path, tmp_path: Path, name: str) -> None:
    trial = Trial(program, name, ready, tmp_path / "work")
    step = 3 if name == "score" else 1
    assert kill_many.kill_at_every_call(trial, 1, step=step) == (len(range(0, trial.calls, step)), [])


@pytest.mark.parametrize("room", first(1, [4, 1, 16]))  # a slow test tries a hundred of them
def test_a_fit_whose_memory_is_short_says_so_and_goes_on_later(trial: Trial, room: int) -> None:
    assert kill_many.starve(trial, Fault(room=room << 20)) == []


@pytest.mark.slow
def test_no_amount_of_little_memory_ends_a_fit_without_a_word(trial: Trial) -> None:
    """Arrow's hash tables did, at amounts that differ from run to run: in one of eighty."""
    rooms = [(4 + 3 * k) << 16 for k in range(100)]  # 0.25 MiB to 19 MiB
    assert [line for room in rooms for line in kill_many.starve(trial, Fault(room=room))] == []


@pytest.mark.slow
def test_a_hundred_kills(tmp_path: Path) -> None:
    counts, failures = kill_many.run(100, 11, list(SCENARIOS), tmp_path / "work")
    assert counts.total() >= 100
    assert failures == []


@pytest.mark.slow
def test_a_hundred_file_calls_that_fail(tmp_path: Path) -> None:
    counts, failures = kill_many.run(100, 12, list(SCENARIOS), tmp_path / "work", how=kill_many.How.ERRORS)
    assert counts.total() == 100
    assert failures == []


def test_faults_are_made(trial: Trial) -> None:
    """A kill at the very first call, and an unsynced write that is half lost."""
    trial.begin()
    assert trial.run(Fault(1, Action.KILL)).code == -9
    trial.begin()
    done = trial.run(Fault(2, Action.LASTING, errno.EROFS))
    assert done.code == 1 and "Read-only file system" in done.err
