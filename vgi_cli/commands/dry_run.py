"""What a command would do, as text: `--dry-run`."""

from __future__ import annotations

from typing import Any, NamedTuple

from vgi_cli.encoding.kinds import Taken, column_lines, flags
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


def _comments(lines: list[str]) -> str:
    return "\n".join(f"# {line}".rstrip() for line in lines)
