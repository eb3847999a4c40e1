"""What a fit is going to do, decided and refused before any table is read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from vgi_cli.machine.device import resolve_device
from vgi_cli.maths.noise import hash64
from vgi_cli.settings import components
from vgi_cli.settings.gather import require_data
from vgi_cli.settings.problems import Settings, origin, raise_problems
from vgi_cli.settings.recipe import Recipe, to_recipe


class Plan(NamedTuple):
    """A fit that can work: its recipe so far, where it computes; its model may still be `auto`."""

    recipe: Recipe
    device: torch.device


def make_plan(settings: Settings, from_memory: bool = False, resumed: bool = False) -> Plan:
    """Check everything that can be checked without the table. UsageError with all problems at once.

    resumed  the settings are those of a run: that some do nothing is no reason not to go on
    """
    recipe = to_recipe(settings)
    if not from_memory:
        require_data(settings)
    raise_problems(components.check(recipe, settings, resumed))
    device = resolve_device(recipe.device, origin(settings, "device", "--device"))
    return Plan(recipe, device)


def stream(seed: int, purpose: str) -> torch.Generator:
    """An independent random stream of a run, on the CPU."""
    generator = torch.Generator()
    generator.manual_seed(hash64(f"{seed}/{purpose}") & ((1 << 63) - 1))
    return generator


def absolute(path: str) -> str:
    """An absolute path; `-` (stdin) stays."""
    return path if path == "-" else str(Path(path).resolve())
