"""What a fit is going to do, decided and refused before any table is read: of a new one, and of one that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from vgi_cli.errors import UsageError
from vgi_cli.machine.device import resolve_device
from vgi_cli.maths.noise import hash64
from vgi_cli.reporting import POSTERIOR, REFITS, TREES
from vgi_cli.runs.files import COMMITTED, PREVIOUS
from vgi_cli.runs.folder import RunFolder, is_compared, vacant
from vgi_cli.runs.manifest import MANIFEST
from vgi_cli.runs.store import ANEW
from vgi_cli.settings import components
from vgi_cli.settings.gather import parse_duration, require_data
from vgi_cli.settings.problems import Problem, Settings, origin, raise_problems
from vgi_cli.settings.recipe import Recipe, to_recipe
from vgi_cli.table.addresses import is_address

DONE = ("epochs", "converged", "early_stopping", "stop_after")
"""Ends that a fit comes to by itself; `time_limit` and a signal leave more to do."""


def make_plan(settings: Settings, from_memory: bool = False, resumed: bool = False) -> Recipe:
    """The recipe of a fit that can work, as far as that can be told without the table; its model may still be `auto`.
    UsageError with all problems at once.

    resumed  the settings are those of a run: that some do nothing is no reason not to go on
    """
    recipe = to_recipe(settings)
    if not from_memory:
        require_data(settings)
    raise_problems(components.check(recipe, settings, resumed))
    resolve_device(recipe.device, origin(settings, "device", "--device"))
    return components.without_compared(recipe)


def stream(seed: int, purpose: str) -> torch.Generator:
    """An independent random stream of a run, on the CPU."""
    generator = torch.Generator()
    generator.manual_seed(hash64(f"{seed}/{purpose}") & ((1 << 63) - 1))
    return generator


def absolute(path: str) -> str:
    """An absolute path; `-` (stdin) and addresses stay."""
    return path if path == "-" or is_address(path) else str(Path(path).resolve())


def find_run(out: Path | None) -> RunFolder | None:
    """The run to continue; None where nothing was fitted there yet. UsageError without `--out`."""
    if out is None:
        raise UsageError("--resume needs the run to continue", "say --out RUN")
    if not out.exists() or (out.is_dir() and (vacant(out) or is_compared(out))):
        return None
    if out.is_dir() and not any((out / name).exists() for name in (MANIFEST, COMMITTED, PREVIOUS)):
        raise UsageError(f"--resume: '{out}' is not a run: it has no {MANIFEST}", "say --out RUN")
    run = RunFolder.open(out)
    if run.record.command != "fit":
        raise UsageError(
            f"--resume: '{out}' was made by `vgi {run.record.command}`, only fits are resumed",
            f"make it anew: {ANEW}",
        )
    return run


def finished(run: RunFolder, settings: Settings) -> bool:
    """Whether nothing is left to do: the fit and its refits came to their end and `--epochs` does not go further."""
    if not run.finished or run.record.stopped_by not in DONE or _refits_left(run):
        return False
    return "epochs" not in settings or settings["epochs"].value <= (run.record.epochs_planned or 0)


def _refits_left(run: RunFolder) -> bool:
    """Whether a time limit ended the refits of a run, or the trees that are learnt from them."""
    return not {REFITS, POSTERIOR, TREES}.isdisjoint(run.record.time_limit.get("ended_early", ()))


def merge(run: RunFolder, settings: Settings) -> Recipe:
    """The recipe to go on with: the run's own, with more epochs or time, or with the chains elsewhere (which changes no
    result). UsageError names every other difference."""
    recipe = run.recipe()
    requested = run.record.requested
    problems = []
    changes: dict[str, Any] = {"time_limit": None}
    if run.record.stopped_by == "time_limit":
        changes |= {"stop_after": requested.get("stop_after"), "bootstrap": requested.get("bootstrap", "auto")}
        without = run.record.time_limit.get("epochs_without")
        changes |= {} if without is None else {"epochs": without}
    if _refits_left(run):
        changes |= {key: requested.get(key, "auto") for key in ("bootstrap", "trees")}
    for key, setting in settings.items():
        value, where = setting
        before = recipe.value(key)
        if key == "epochs":
            if before is not None and value < before:
                problems.append(
                    Problem(where, f"epochs may grow but not shrink: {_epochs_of(run, before)}, got {value}")
                )
            changes["epochs"] = max(value, before or value)
        elif key == "time_limit":
            limit = requested.get("time_limit")
            if limit is not None and parse_duration(value) < parse_duration(limit):
                problems.append(Problem(where, f"time_limit may grow but not shrink: the run has {limit}, got {value}"))
        elif key == "method.chains":
            recipe = recipe.with_method(chains=value)
        elif not _equal(key, value, before, requested.get(key)):
            shown = requested.get(key, before)
            problems.append(Problem(where, f"{key} differs from the run's: it has {shown!r}, got {value!r}"))
    if problems:
        first = problems[0]
        hint = "leave the setting out, or start another run"
        raise_problems([first._replace(hint=hint)] if len(problems) == 1 else problems)
    return recipe.replace(**changes)


def _epochs_of(run: RunFolder, before: int) -> str:
    """How many epochs the recipe of a run has, and how many are left of them where held-out rows said so."""
    planned, plateau = run.record.epochs_planned, run.record.chosen.get("optim.schedule") == "plateau"
    fewer = plateau and planned is not None and planned < before
    return (
        f"the run has at most {before}, and held-out rows ended it after {planned}"
        if fewer
        else f"the run has {before}"
    )


def _equal(key: str, value: Any, before: Any, requested: Any) -> bool:
    if key == "data":
        return bool([absolute(path) for path in value] == before)
    if key in ("mask", "val") and isinstance(value, str):
        value = absolute(value)
    if key == "device" and value == "auto":
        return True
    return value in (before, requested)
