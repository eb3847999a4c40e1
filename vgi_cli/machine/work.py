"""What a long piece of work is given beside its inputs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from vgi_cli.machine.clock import TimeLimit
from vgi_cli.machine.signals import Stop
from vgi_cli.reporting import Reporter, Silent


@dataclass(frozen=True)
class Work:
    """Who is told of a piece of work, how long it may take, and what may stop it.

    started  monotonic time at which its command began
    folder   where imputations lie that are too large for the memory; None: they must fit
    """

    reporter: Reporter = field(default_factory=Silent)
    limit: TimeLimit = field(default_factory=TimeLimit)
    stop: Stop = field(default_factory=Stop)
    started: float = field(default_factory=time.monotonic)
    folder: Path | None = None

    @property
    def seconds(self) -> float:
        """Since its command began."""
        return round(time.monotonic() - self.started, 3)
