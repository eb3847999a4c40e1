"""The exception tree: every message says what was expected, what was found and where, and the hint says what to do.

Only `cli/` turns these into text on stderr and an exit code; everything below raises them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class VgiError(Exception):
    """A failure that the program foresees. Exit code 1: the run failed (disk full, non-finite loss)."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(VgiError):
    """Flags, `--set` keys or a recipe that cannot work (exit code 2)."""

    exit_code = 2


class InputError(VgiError):
    """A table, mask or truth file that cannot be used (exit code 2)."""

    exit_code = 2


class RefusedColumns(InputError):
    """Columns of a table that cannot be used; `columns`: why, by their names."""

    def __init__(self, message: str, hint: str | None, columns: Mapping[str, InputError]) -> None:
        super().__init__(message, hint)
        self.columns = columns


class TooLarge(InputError):
    """A file that would take far more memory than a table does: see docs/security.md."""


class RunError(VgiError):
    """A run folder that is damaged, newer than this program, or not one at all (exit code 2)."""

    exit_code = 2


class _Hinted(VgiError):
    """An error of an estimator, whose hint is part of its text: that is all that scikit-learn shows of a failed fit."""

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} ({self.hint})"


class InvalidInput(_Hinted, InputError, ValueError):
    """A table that an estimator (`vgi_cli.Imputer`, `vgi_cli.Density`) cannot take: also the ValueError that users of
    scikit-learn expect."""


class InvalidCells(_Hinted, InputError, TypeError):
    """Cells or column names of a type that an estimator cannot take: also the TypeError that users of scikit-learn
    expect."""


class InvalidParameter(_Hinted, UsageError, ValueError):
    """A parameter of an estimator that cannot be, found when it is fitted or used: also a ValueError."""


class NotFitted(_Hinted, UsageError, ValueError, AttributeError):
    """An estimator is used before it was fitted. Where scikit-learn is loaded it is its NotFittedError too."""


class VgiWarning(UserWarning):
    """A line of an estimator that a user must read."""


class FitError(VgiError):
    """Training failed; the last good checkpoint is kept (exit code 1)."""


class RanksLost(FitError):
    """Of the processes that share a fit one has ended or cannot be reached; the last good checkpoint is kept."""


class HolesLeft(VgiError):
    """`--strict`: a table has holes that no fill reaches; nothing was written (exit code 1)."""


class Unwritten(VgiError):
    """A report is made, and one of its files could not be written (exit code 1). `report`: its values."""

    def __init__(self, message: str, hint: str, report: dict[str, Any]) -> None:
        super().__init__(message, hint)
        self.report = report


class FailIfMissed(VgiError):
    """A `--fail-if` condition holds (exit code 3)."""

    exit_code = 3


class Interrupted(KeyboardInterrupt):
    """Stopped by a signal after saving (exit code 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP). As with any
    KeyboardInterrupt, `except Exception` does not catch it: neither a loop over fits nor a compiler goes on as if a
    step had failed."""

    def __init__(self, message: str, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.hint = hint


def closest(name: str, known: Iterable[str]) -> str | None:
    """The one of the known names that `name` may be meant for; none where none is near.

    Near is what at most one slip of the keyboard in three letters makes of it (a letter too many, too few or another,
    two neighbours swapped), what `name` begins, or what is `name` but for a section before a dot. Capitals, the dashes
    before an option, and sections that both begin with do not count.
    """
    near = []
    for other in sorted(known):
        said, real = _parted(name.lstrip("-").casefold(), other.lstrip("-").casefold())
        slips, longest = _slips(said, real), max(len(said), len(real))
        begins = len(said) > 2 and real.startswith(said)
        section = len(said) > 1 and (real.endswith(f".{said}") or said.endswith(f".{real}"))
        if slips <= longest // 3 or (slips, longest) == (1, 2):
            near.append((slips, other))
        elif begins or section:
            near.append((slips + longest, other))  # a slip is likelier
    return min(near)[1] if near else None


def begins_alike(name: str, known: Iterable[str]) -> str | None:
    """The one of the known options that begins with the same three letters as `name` and else needs the fewest slips
    of the keyboard, at most half as many as it has letters (`--true` for `--truth`); none where there is none."""
    near = []
    for other in sorted(known):
        said, real = name.lstrip("-").casefold(), other.lstrip("-").casefold()
        slips = _slips(said, real)
        if len(said) > 3 and said[:3] == real[:3] and 2 * slips <= max(len(said), len(real)):
            near.append((slips, other))
    return min(near)[1] if near else None


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the nearest valid name, else the list of them: the text of a hint."""
    names = sorted(known)
    close = closest(name, names)
    return "expected one of: " + ", ".join(names) if close is None else did_you_mean(close)


def did_you_mean(name: str) -> str:
    """The hint that one name may be meant."""
    return f"did you mean '{name}'?"


def nearest_file(path: Path) -> str:
    """The hint for a file that is not there: the one beside it with nearly its name, or nearly its extension."""
    stem, _, kind = path.name.partition(".")
    beside = [other.name.partition(".") for other in path.parent.iterdir()] if path.parent.is_dir() else []
    close = closest(stem, [other for other, _, its in beside if its == kind])
    if close is not None:
        return f"did you mean '{path.with_name(f'{close}.{kind}' if kind else close)}'?"
    slip = next((its for other, _, its in beside if other == stem and _slips(its, kind) == 1), None)
    return "check the path" if slip is None else f"did you mean '{path.with_name(f'{stem}.{slip}')}'?"


def _parted(first: str, second: str) -> tuple[str, str]:
    """Two names without the sections (`section.`) that both begin with."""
    while (section := first.partition(".")[0]) == second.partition(".")[0] and "." in first and "." in second:
        first, second = first[len(section) + 1 :], second[len(section) + 1 :]
    return first, second


def _slips(first: str, second: str) -> int:
    """Letters to insert, drop or replace and neighbours to swap that turn one text into another (Damerau, 1964; the
    restricted distance)."""
    above: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        before, above, row = above, row, [i]
        for j, other in enumerate(second, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other)))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                row[j] = min(row[j], before[j - 2] + 1)
    return row[-1]
