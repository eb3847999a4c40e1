"""What a command would do, as text: `--dry-run`."""

from __future__ import annotations

from collections.abc import Sequence
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
    plan      what would be fitted, how and where to, as headings with what they say
    """

    columns: list[Taken]
    settings: dict[str, Any]
    plan: Sequence[tuple[str, str]] = ()

    def text(self) -> str:
        """A recipe, with the plan, the table of the columns and the flags as comments."""
        plan = [*_lines(self.plan), ""] if self.plan else []
        return f"{_comments([*column_lines(self.columns), '', *plan])}\n{self.fixing()}"

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
    deltas       what would be done to the fills of which column, in words
    blanks       which holes would stay by request, as it was said
    stay         how many holes that is, at least and at most, by what the columns that decide are filled with
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
    deltas: list[str]
    blanks: list[str]
    stay: tuple[int, int]
    layout: str
    paths: list[Path]

    def text(self) -> str:
        """Lines with a heading each."""
        holes = self.holes
        least, most = self.stay
        filled = _between(holes.filled - most, holes.filled - least)
        filled += f" of {holes.total:,} holes, in {self.incomplete:,} of {self.rows:,} rows"
        draws = f"{self.draws:,} of each hole"
        if self.point is not None:
            draws += f", of which the {self.point} is kept"
        staying = [f"{holes.left:,}: {holes.where()}"] if holes.left else []
        if most:
            unsure = ", by what the columns that decide are filled with" if least < most else ""
            staying.append(f"{_between(least, most)} by --leave-blank{unsure}")
        lines = [
            ("table", self.table),
            ("run", self.run),
            ("would be filled", filled),
            ("would stay", "; ".join(staying) or "none"),
            ("draws", draws),
            ("sampler", f"{self.sampler}: {registry.SAMPLERS[self.sampler].about}"),
            (
                "uncertainty of the fit",
                "not in the draws" if self.uncertainty is None else f"in the draws: {self.uncertainty}",
            ),
            *(("shift" if number == 0 else "", delta) for number, delta in enumerate(self.deltas)),
            *(("left blank" if number == 0 else "", said) for number, said in enumerate(self.blanks)),
            ("layout", self.layout),
            ("would be written", "to standard output" if not self.paths else str(self.paths[0])),
            *(("", str(path)) for path in self.paths[1:]),
        ]
        return "".join(f"{line}\n" for line in _lines(lines))


def _between(least: int, most: int) -> str:
    """`12`, or `12 to 15`."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _lines(plan: Sequence[tuple[str, str]]) -> list[str]:
    """Headings and what they say, in two columns."""
    width = max(len(heading) for heading, _ in plan)
    return [f"{heading:<{width}}  {what}" for heading, what in plan]


def _comments(lines: list[str]) -> str:
    return "\n".join(f"# {line}".rstrip() for line in lines)


def about(seconds: float) -> str:
    """`7 s`, `3 min`, `1.5 h`: a time of which two digits at most are worth saying."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= 1.5 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return "1 s"
