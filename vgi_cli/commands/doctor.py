"""`vgi doctor`: what this machine offers, and where settings come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vgi_cli.machine.doctor import Findings, examine
from vgi_cli.reporting import Reporter


@dataclass(frozen=True, kw_only=True)
class DoctorRequest:
    """What `vgi doctor` is asked for; `device` and `threads`: what a fit would be told, `recipe`: with which file."""

    device: str | None = None
    threads: int | None = None
    recipe: str | None = None
    json: bool = False

    def carry_out(self, reporter: Reporter) -> Findings:
        """Look, and return what was found."""
        return examine(
            {"device": self.device, "threads": self.threads}, None if self.recipe is None else Path(self.recipe)
        )
