"""What the commands tell their caller while they work. `cli/` shows it; the Python API may ignore it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class Reporter(ABC):
    """Lines and progress of a command. Nothing below `cli/` prints."""

    @abstractmethod
    def say(self, line: str) -> None:
        """A line that a user wants to read once (what was chosen, what is unusual)."""

    @abstractmethod
    def warn(self, line: str) -> None:
        """A line that a user must read, also with `-q`."""

    @abstractmethod
    def detail(self, line: str) -> None:
        """A line for `-v`."""

    @abstractmethod
    def progress(self, text: str, done: float) -> None:
        """Where the work stands: `done` from 0 to 1. Called often; the reporter decides what is shown."""

    @abstractmethod
    def finish_progress(self) -> None:
        """The work that `progress` described has ended."""


class Silent(Reporter):
    """Says nothing: the default of the Python API."""

    def say(self, line: str) -> None:
        """See Reporter."""

    def warn(self, line: str) -> None:
        """See Reporter."""

    def detail(self, line: str) -> None:
        """See Reporter."""

    def progress(self, text: str, done: float) -> None:
        """See Reporter."""

    def finish_progress(self) -> None:
        """See Reporter."""


class Lines(Silent):
    """Hands the lines of `say` and `warn` to a function."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def say(self, line: str) -> None:
        """See Reporter."""
        self._say(line)

    def warn(self, line: str) -> None:
        """See Reporter."""
        self._say(f"warning: {line}")
