"""Kill commands of vgi many times and count what fails.

    python -m tests.faults.kill_many --kills 1000   at random
    python -m tests.faults.kill_many --every        at each of their file calls in turn
    python -m tests.faults.kill_many --errors       no kills: file calls that fail, memory that is short

Each trial kills a command at one of its file calls, chosen at random, or at a random moment; half of the former lose
what was not synced, as a power failure does. Then files must be whole or absent and the last checkpoint must open; a
third of the trials kill the command that goes on, too; in the end everything must be as if nothing had happened.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from tests.faults.program import Action, Fault, Program
from tests.faults.scenarios import SCENARIOS, Trial, prepare

MOST_KILLS = 4
"""Of one trial."""
WEIGHTS = {"fit em": 3, "fit vgi": 4, "fit flow": 4, "fit em from files": 2, "fit vgi from files": 2, "finetune": 2}
"""How often a scenario is tried; others once."""


def at_random(choose: random.Random, calls: int, seconds: float) -> Iterator[Fault]:
    """The kills of a command that makes so many file calls and takes so many seconds."""
    for number in range(MOST_KILLS):
        if number and choose.random() >= 1 / 3:
            return
        if choose.random() < 0.75:
            action = choose.choice([Action.KILL, Action.POWER])
            yield Fault(choose.randint(1, calls), action)
        else:
            yield Fault(seconds=choose.uniform(0.0, seconds))


def kill(trial: Trial, faults: Iterable[Fault]) -> tuple[int, list[str]]:
    """One trial: how many kills, and what was wrong."""
    trial.begin()
    kills = 0
    for fault in faults:
        done = trial.run(fault, again=kills > 0)
        if done.code != -9:
            if done.code != 0:
                return kills, [f"exit code {done.code} with {fault}: {done.err[-500:]}"]
            break
        kills += 1
        if wrong := trial.between():
            return kills, [f"{line} after {fault}" for line in wrong]
    done = trial.run(again=True)
    if done.code != 0:
        return kills, [f"said again, it ends with {done.code}: {done.err[-500:]}"]
    return kills, trial.at_the_end()


def kill_at_every_call(trial: Trial, first: int, end: float = float("inf"), step: int = 1) -> tuple[int, list[str]]:
    """Trials that kill at the file calls 1, 1 + `step`, … until the command makes no more, or until this time
    (monotonic), every second one with a loss of what was not synced, from the first on where `first` is odd (and `step`
    too)."""
    total, failures = 0, []
    for at in itertools.count(1, step):
        fault = Fault(at, (Action.KILL, Action.POWER)[(at + first + 1) % 2])
        kills, wrong = kill(trial, [fault])
        total += kills
        failures += [f"{line} after {fault}" for line in wrong]
        if not kills or time.monotonic() > end:
            return total, failures
    raise AssertionError("a count has no end")


ERRORS = {
    "EIO once": (Action.FAIL, errno.EIO),
    "a full disk once": (Action.FAIL, errno.ENOSPC),
    "a full disk": (Action.LASTING, errno.ENOSPC),
    "a disk that turns read-only": (Action.LASTING, errno.EROFS),
    "a short write": (Action.SHORT, 0),
}
LITTLE_MEMORY = "little memory"
ROOM = (1 << 20, 32 << 20)
"""Bytes of memory beyond those of a process that has loaded everything: with less, threads of Python wait for ever."""


def failing(what: str, choose: random.Random, calls: int) -> Fault:
    """The fault of this name (of ERRORS, or LITTLE_MEMORY) in a command that makes so many file calls."""
    if what == LITTLE_MEMORY:
        return Fault(room=choose.randint(*ROOM))
    return Fault(choose.randint(1, calls), *ERRORS[what])


def starve(trial: Trial, fault: Fault) -> list[str]:
    """What is wrong after a command whose file call fails or whose memory is short, and after it is said again without
    the fault: it ends well, or with exit code 1 and a message; files are whole or absent."""
    trial.begin()
    done = trial.run(fault)
    wrong = trial.between()
    if done.code not in (0, 1) or "Traceback" in done.err or "unexpected" in done.err:
        wrong.append(f"exit code {done.code}: {done.err[-500:]}")
    elif done.code == 1 and "error: " not in done.err:
        wrong.append("it fails without a word")
    elif done.code == 0 and "warning: " not in done.err:  # else a part that may be missing was, and is said to be
        return [f"{line} ({fault})" for line in wrong + trial.at_the_end()]
    if fault.action == Action.SHORT and done.code != 0:
        wrong.append(f"it does not go on writing: {done.err[-500:]}")
    if not wrong and (done := trial.run(again=True)).code != 0:
        wrong.append(f"said again, it ends with {done.code}: {done.err[-500:]}")
    return [f"{line} ({fault})" for line in wrong or trial.at_the_end()]


class How(StrEnum):
    """What is done to commands: kills at random, at each file call in turn, or file calls that fail."""

    RANDOM = "kills"
    EVERY = "kills at every file call"
    ERRORS = "errors"


def run(
    count: int, seed: int, names: Sequence[str], work: Path, seconds: float = 3600.0, how: How = How.RANDOM
) -> tuple[Counter[str], list[str]]:
    """So many kills or errors (of EVERY: as many as there are calls), or as many as there is time for: how many of each
    scenario, and what was wrong, which is printed at once."""
    choose = random.Random(seed)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    end = time.monotonic() + seconds
    (work / "own").mkdir(parents=True)

    def note(key: str, done: int, wrong: list[str]) -> None:
        counts[key] += done
        for line in wrong:
            failures.append(f"{key}: {line}")
            print(failures[-1], flush=True)

    with Program(work / "own") as program:
        prepare(program, work / "ready")
        trials: dict[str, tuple[Trial, float]] = {}
        for name in names:
            began = time.monotonic()
            trial = Trial(program, name, work / "ready", work / name.replace(" ", "-"))
            trials[name] = trial, time.monotonic() - began
        if how == How.EVERY:
            for name in names:
                note(name, *kill_at_every_call(trials[name][0], seed, end))
            return counts, failures
        weights = [WEIGHTS.get(name, 1) for name in names]
        while counts.total() < count and time.monotonic() < end:
            [name] = choose.choices(names, weights)
            trial, took = trials[name]
            if how == How.ERRORS:
                what = choose.choice([*ERRORS, LITTLE_MEMORY])
                note(f"{name}: {what}", 1, starve(trial, failing(what, choose, trial.calls)))
            else:
                note(name, *kill(trial, at_random(choose, trial.calls, took)))
    return counts, failures


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop then, however many kills there were")
    parser.add_argument("--only", action="append", choices=sorted(SCENARIOS), help="these scenarios (repeatable)")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--every", dest="how", action="store_const", const=How.EVERY, help="kill at each file call")
    ways.add_argument("--errors", dest="how", action="store_const", const=How.ERRORS, help="no kills: let calls fail")
    args = parser.parse_args(argv)
    how = args.how or How.RANDOM
    with tempfile.TemporaryDirectory() as work:
        names = args.only or list(SCENARIOS)
        counts, failures = run(args.kills, args.seed, names, Path(work) / "work", args.seconds, how)
    for name, count in counts.items():
        print(f"{count:6} of {name}")
    print(f"{counts.total():6} {how}, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
