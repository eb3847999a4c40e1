"""How this process was started: alone, or as one of several that share a fit, by `torchrun` or what sets what it sets.

Read before torch is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from vgi_cli.errors import UsageError

NEEDED = ("MASTER_ADDR", "MASTER_PORT")
HINT = "start it by torchrun, which sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT"


class Launch(NamedTuple):
    """How a process was started.

    rank    its number among those that were started together
    world   how many these are
    local   its number on this machine
    beside  how many are on this machine
    """

    rank: int = 0
    world: int = 1
    local: int = 0
    beside: int = 1

    @property
    def alone(self) -> bool:
        """Whether it shares its work with no other process."""
        return self.world == 1

    def leaves_to_others(self, exit_code: int) -> bool:
        """Whether another process says how this one ended: what all that are on a machine are refused alike (exit code
        2) says the first of that machine, an end by a limit or a signal rank 0; a failure (1) says whom it befell."""
        return self.local > 0 if exit_code == 2 else self.rank > 0 and exit_code != 1


BY_ITSELF = Launch()


def launch_of(environ: Mapping[str, str]) -> Launch:
    """What an environment says; a process alone where it has no RANK, or a WORLD_SIZE of 1. UsageError where it makes
    no sense."""
    if "RANK" not in environ or environ.get("WORLD_SIZE", "1") == "1":
        return BY_ITSELF
    usual = {"RANK": "", "WORLD_SIZE": "", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    said = {name: environ.get(name, default) for name, default in usual.items()}
    for name, text in said.items():
        _require_number(name, text)
    rank, world, local, beside = (int(text) for text in said.values())
    if not rank < world:
        raise UsageError(f"environment variable RANK: expected a number below WORLD_SIZE={world}, got {rank}", HINT)
    lacking = [name for name in NEEDED if not environ.get(name)]
    if lacking:
        raise UsageError(f"WORLD_SIZE is {world}, and environment variable {lacking[0]} is not set", HINT)
    _require_number("MASTER_PORT", environ["MASTER_PORT"])
    return Launch(rank, world, local, max(beside, 1))


def _require_number(name: str, text: str) -> None:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"environment variable {name}: expected a whole number, got '{text[:20]}'", HINT)


def launched() -> Launch:
    """How this process was started."""
    return launch_of(os.environ)
