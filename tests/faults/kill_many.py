"""Kill commands of vgi many times and count what fails: `python -m tests.faults.kill_many --kills 1000`.

Each trial kills a command at one of its file calls, chosen at random, or at a random moment; half of the former lose
what was not synced, as a power failure does. Then files must be whole or absent and the last checkpoint must open; a
third of the trials kill the command that goes on, too; in the end everything must be as if nothing had happened.
"""

from __future__ import annotations

import argparse
import errno
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.faults.program import Action, Fault, Program
from tests.faults.scenarios import SCENARIOS, Trial, prepare

MOST_KILLS = 4
"""Of one trial."""
WEIGHTS = {"fit em": 3, "fit vgi": 4, "fit flow": 4, "finetune": 2}
"""How often a scenario is tried; others once."""


def kill(trial: Trial, choose: random.Random, seconds: float) -> tuple[int, list[str]]:
    """One trial: how many kills, and what was wrong."""
    trial.begin()
    kills, again = 0, False
    while kills < MOST_KILLS and (kills == 0 or choose.random() < 1 / 3):
        if choose.random() < 0.75:
            action = choose.choice([Action.KILL, Action.POWER])
            fault = Fault(choose.randint(1, trial.calls), action)
        else:
            fault = Fault(seconds=choose.uniform(0.0, seconds))
        done = trial.run(fault, again)
        if done.code != -9:
            if done.code != 0:
                return kills, [f"exit code {done.code} with {fault}: {done.err[-500:]}"]
            break
        kills, again = kills + 1, True
        if wrong := trial.between():
            return kills, [f"{line} after {fault}" for line in wrong]
    done = trial.run(again=True)
    if done.code != 0:
        return kills, [f"said again, it ends with {done.code}: {done.err[-500:]}"]
    return kills, trial.at_the_end()


ERRORS = {
    "EIO once": (Action.FAIL, errno.EIO),
    "a full disk once": (Action.FAIL, errno.ENOSPC),
    "a full disk": (Action.LASTING, errno.ENOSPC),
    "a disk that turns read-only": (Action.LASTING, errno.EROFS),
    "a short write": (Action.SHORT, 0),
}


def starve(trial: Trial, fault: Fault) -> list[str]:
    """What is wrong after a command whose file call fails, and after it is said again without the fault: it ends well,
    or with exit code 1 and a message; files are whole or absent."""
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


def run(
    kills: int, seed: int, names: Sequence[str], work: Path, seconds: float = 3600.0, errors: bool = False
) -> tuple[Counter[str], list[str]]:
    """So many kills, or file calls that fail (`errors`), or as many as there is time for: how many of each scenario,
    and what was wrong."""
    choose = random.Random(seed)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    end = time.monotonic() + seconds
    (work / "own").mkdir(parents=True)
    with Program(work / "own") as program:
        prepare(program, work / "ready")
        trials: dict[str, tuple[Trial, float]] = {}
        for name in names:
            began = time.monotonic()
            trial = Trial(program, name, work / "ready", work / name.replace(" ", "-"))
            trials[name] = trial, time.monotonic() - began
        weights = [WEIGHTS.get(name, 1) for name in names]
        while counts.total() < kills and time.monotonic() < end:
            [name] = choose.choices(names, weights)
            trial, seconds = trials[name]
            if errors:
                what = choose.choice(list(ERRORS))
                done, key = 1, f"{name}: {what}"
                wrong = starve(trial, Fault(choose.randint(1, trial.calls), *ERRORS[what]))
            else:
                done, wrong = kill(trial, choose, seconds)
                key = name
            counts[key] += done
            failures += [f"{key}: {line}" for line in wrong]
    return counts, failures


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop then, however many kills there were")
    parser.add_argument("--only", action="append", choices=sorted(SCENARIOS), help="these scenarios (repeatable)")
    parser.add_argument("--errors", action="store_true", help="let file calls fail, instead of kills")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as work:
        names = args.only or list(SCENARIOS)
        counts, failures = run(args.kills, args.seed, names, Path(work) / "work", args.seconds, args.errors)
    for name, count in counts.items():
        print(f"{count:6} of {name}")
    print(f"{counts.total():6} {'errors' if args.errors else 'kills'}, {len(failures)} failures")
    for line in failures:
        print(line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
