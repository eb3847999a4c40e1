"""Try many inputs, and count how they end.

    python -m tests.fuzz.run 100000               as many of all kinds, each as often as its share says
    python -m tests.fuzz.run 500 --kind options   of one kind
    python -m tests.fuzz.run 1 --kind mask --first 1234   one again

The kinds take turns, so that a run that is ended early (`--seconds`) has tried all of them; the numbers of the
inputs of a kind follow one another from `--first` on. What ends badly is printed with its kind and its number. Mended,
it belongs into `corpus/`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import runs
from tests.fuzz.inputs import Hang, Input, folder, limited
from tests.fuzz.lines import line_input
from tests.fuzz.masks import mask_input
from tests.fuzz.tables import csv_case, parquet_case
from tests.fuzz.trial import Wrong, attempt, call, read_and_fill
from vgi_cli.errors import UsageError
from vgi_cli.fitting.plan import make_plan
from vgi_cli.settings.gather import gather

RECIPES = Path(__file__).parents[2] / "recipes"
MEMORY = 6 << 30
"""Bytes that the process may map: what asks for more ends as a failure, not as a stop of the machine."""


TURNS = 100


class Kind(NamedTuple):
    """A kind of input.

    attempt  tries the one of a number; how far it came (`done`, or a reason). Raises Wrong, or anything else
    share    of all inputs
    about    in a line
    """

    attempt: Callable[[int], str]
    share: float
    about: str


def recipe(seed: int) -> str:
    """Settings as texts of `--set`, or as a file."""
    rng = random.Random(f"recipe {seed}")
    path, items = None, [runs.item(rng) for _ in range(rng.randint(1, 3))]
    with folder(base=False):
        if rng.random() < 0.6:
            path, items = Path("r.yaml"), []
            path.write_bytes(runs.recipe(rng, [one.read_bytes() for one in sorted(RECIPES.rglob("*.yaml"))]))
        try:
            make_plan(gather({"data": (["none.csv"], "DATA")}, items, recipe=path))
        except UsageError as error:
            return error.message
    return "done"


COMMANDS = (
    ["impute", "--checkpoint", "run", "t.csv", "--m", "1", "--format", "single", "-o", "-"],
    ["impute", "--checkpoint", "run", "t.csv", "--m", "1", "-o", "o.parquet"],
    ["impute", "--checkpoint", "run", "--dry-run"],
    ["evaluate", "--checkpoint", "run", "t.csv", "--json"],
    ["score", "run", "t.csv"],
    ["sample", "run", "-n", "3"],
    ["finetune", "--checkpoint", "run", "t.csv", "--epochs", "1", "--out", "tuned"],
    ["fit", "--resume", "--epochs", "2", "--out", "run"],
    ["recipe", "validate", "run/recipe.yaml"],
)


def run_folder(seed: int) -> str:
    """A run one file of which was damaged, or was changed by somebody who then sealed the run again."""
    rng = random.Random(f"run {seed}")
    with folder(base=True) as here:
        if rng.random() < 0.4:
            (here / "run").rename("other")
            (here / "deep").rename("run")
        name = runs.hostile(rng, here / "run") if rng.random() < 0.75 else runs.damage(rng, here / "run")
        done = call(rng.choice(COMMANDS))
        if done.code and "hint: " not in done.err:
            raise Wrong(f"{name}: no way out is named: {done.err}")
        return "done" if done.code == 0 else done.err


def _input(make: Callable[[int], Input]) -> Callable[[int], str]:
    return lambda seed: make(seed).attempt()


KINDS = {
    "csv": Kind(lambda seed: read_and_fill(csv_case(seed), seed), 0.3, "CSV read, encoded, filled, written"),
    "parquet": Kind(lambda seed: read_and_fill(parquet_case(seed), seed), 0.2, "Parquet likewise"),
    "csv-fit": Kind(lambda seed: attempt(csv_case(seed)), 0.02, "CSV fitted, imputed, evaluated"),
    "parquet-fit": Kind(lambda seed: attempt(parquet_case(seed)), 0.02, "Parquet likewise"),
    "mask": Kind(_input(mask_input), 0.1, "masks beside a table"),
    "recipe": Kind(recipe, 0.16, "recipes and texts of --set"),
    "options": Kind(_input(line_input), 0.1, "command lines"),
    "run": Kind(run_folder, 0.1, "run folders"),
}


def hunt(kind: str, first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Try `count` inputs of a kind: how many were done, refused and wrong, and what was wrong."""
    ends: Counter[str] = Counter()
    wrong = []
    for seed in range(first, first + count):
        try:
            with limited():
                ends["done" if KINDS[kind].attempt(seed) == "done" else "refused"] += 1
        except (Exception, Hang) as error:
            ends["wrong"] += 1
            said = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
            wrong.append(f"{kind} {seed}: {said}")
            print(wrong[-1], "\n", flush=True)
    return ends, wrong


def take_turns(counts: Mapping[str, int], first: int, seconds: float) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """Try so many of each kind, TURNS times a part of them, until so many seconds have passed: how those of each kind
    ended, and the CPU seconds that they took."""
    ends: dict[str, Counter[str]] = {kind: Counter() for kind in counts}
    took: Counter[str] = Counter()
    until = time.monotonic() + seconds
    for turn in range(TURNS):
        for kind, count in counts.items():
            for seed in range(count * turn // TURNS, count * (turn + 1) // TURNS):
                if time.monotonic() > until:
                    return ends, took
                began = time.process_time()
                ends[kind] += hunt(kind, first + seed, 1)[0]
                took[kind] += time.process_time() - began
    return ends, took


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop then, however many were tried")
    said = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=ResourceWarning)
    counts = {kind: round(said.count * about.share) for kind, about in KINDS.items()}
    ends, took = take_turns({said.kind: said.count} if said.kind else counts, said.first, said.seconds)
    for kind, found in ends.items():
        print(
            f"{kind:12} {found.total():6} inputs: {found['done']} done, {found['refused']} refused, {found['wrong']} "
            f"wrong; {took[kind]:.0f} CPU s ({KINDS[kind].about})"
        )
    total = sum(ends.values(), Counter())
    print(f"{total.total()} inputs: {total['done']} done, {total['refused']} refused, {total['wrong']} wrong")
    return min(total["wrong"], 1)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
