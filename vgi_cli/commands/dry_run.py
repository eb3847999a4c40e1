"""What a command would do, as text: `--dry-run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from vgi_cli.encoding.check import Holes
from vgi_cli.encoding.kinds import Taken, column_lines, flags
from vgi_cli.registry import names as registry
from vgi_cli.settings.yaml_strict import dump


class DryRun(NamedTuple):
    """What a fit would take the columns for.

    columns   a line for each
    settings  the part `table` of a recipe that fixes it
    """

    columns: list[Taken]
    settings: dict[str, Any]

    def text(self) -> str:
        """A recipe, with the table of the columns and the flags as comments."""
        return f"{_comments([*column_lines(self.columns), ''])}\n{self.fixing()}"

    def fixing(self) -> str:
        """The recipe, with the flags as comments."""
        return f"{_comments(['the same as flags:', flags(self.settings), ''])}\n{dump({'table': self.settings})}"


@dataclass(frozen=True, kw_only=True)
class ImputePlan:
    """What an imputation would do.

    table, run   their names
    rows         of the table; `incomplete`: those with a hole in a modelled column
    holes        those that would be filled, and those that would stay
    sampler      by which the holes would be drawn
    uncertainty  what carries the uncertainty of the fit into the draws, in words; None: nothing
    draws        of each hole; `point`: which estimate would be made of them (None: none)
    layout       of the output: files, long or single
    paths        the files that would be written; none: it goes to stdout
    """

    table: str
    run: str
    rows: int
    incomplete: int
    holes: Holes
    sampler: str
    uncertainty: str | None
    draws: int
    point: str | None
    layout: str
    paths: list[Path]

    def text(self) -> str:
        """Lines with a heading each."""
        holes = self.holes
        filled = f"{holes.filled:,} of {holes.total:,} holes, in {self.incomplete:,} of {self.rows:,} rows"
        draws = f"{self.draws:,} of each hole"
        if self.point is not None:
            draws += f", of which the {self.point} is kept"
        lines = [
            ("table", self.table),
            ("run", self.run),
            ("would be filled", filled),
            ("would stay", f"{holes.left:,}: {holes.where()}" if holes.left else "none"),
            ("draws", draws),
            ("sampler", f"{self.sampler}: {registry.SAMPLERS[self.sampler].about}"),
            (
                "uncertainty of the fit",
                "not in the draws" if self.uncertainty is None else f"in the draws: {self.uncertainty}",
            ),
            ("layout", self.layout),
            ("would be written", "to standard output" if not self.paths else str(self.paths[0])),
            *(("", str(path)) for path in self.paths[1:]),
        ]
        width = max(len(heading) for heading, _ in lines)
        return "".join(f"{heading:<{width}}  {what}\n" for heading, what in lines)


def _comments(lines: list[str]) -> str:
    return "\n".join(f"# {line}".rstrip() for line in lines)
