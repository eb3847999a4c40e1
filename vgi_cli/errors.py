"""The exception tree: every message says what was expected, what was found and where, and the hint says what to do.

Only `cli/` turns these into text on stderr and an exit code; everything below raises them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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


class RunError(VgiError):
    """A run folder that is damaged, newer than this program, or not one at all (exit code 2)."""

    exit_code = 2


class FitError(VgiError):
    """Training failed; the last good checkpoint is kept (exit code 1)."""


class HolesLeft(VgiError):
    """`--strict`: a table has holes that no fill reaches; nothing was written (exit code 1)."""


class FailIfMissed(VgiError):
    """A `--fail-if` condition holds (exit code 3)."""

    exit_code = 3


class Interrupted(VgiError):
    """Stopped by a signal after saving (exit code 130 for SIGINT, 143 for SIGTERM)."""

    def __init__(self, message: str, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the nearest valid name, else the list of them: the text of a hint."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "expected one of: " + ", ".join(names)
