"""`vgi completion bash|zsh|fish`, and what Tab offers: commands and flags by typer, and the names that flags take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import typer.completion

from vgi_cli.errors import UsageError, nearest
from vgi_cli.registry.names import COMPLETERS, METHODS, MODELS, SAMPLERS, comparable
from vgi_cli.reporting import Reporter

_TYPER: Any = typer.completion
"""What typer has for shells; it has no types."""
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_VGI_COMPLETE"
"""Environment variable by which the shell's function asks the program what could come next."""


def _recipes() -> Iterable[str]:
    from vgi_cli.settings.gather import recipe_names  # loads numpy, which help does without

    return recipe_names()


def _of_impute(name: str) -> Iterable[str]:
    from vgi_cli.commands import requests  # likewise

    names: Iterable[str] = getattr(requests, name)
    return names


VALUES: Mapping[str, Callable[[], Iterable[str]]] = {
    "model": lambda: ("auto", *MODELS),
    "compare": comparable,
    "method": lambda: METHODS,
    "imputer": lambda: COMPLETERS,
    "sampler": lambda: ("auto", *SAMPLERS),
    "recipe": _recipes,
    "device": lambda: ("auto", "cpu", "cuda"),
    "color": lambda: ("auto", "always", "never"),
    "compile": lambda: ("auto", "on", "off"),
    "format": lambda: _of_impute("LAYOUTS"),
    "point": lambda: _of_impute("POINTS"),
    "score": lambda: ("cells", "loglik"),
    "select": lambda: ("loglik", "objective"),
    "uncertainty": lambda: _of_impute("UNCERTAINTY"),
    "unseen": lambda: ("error", "missing", "carry"),
    "shell": lambda: SHELLS,
}
"""By option or argument the names that it takes; where none of them fits, the shell offers files."""


@dataclass(frozen=True, kw_only=True)
class CompletionRequest:
    """What `vgi completion` is asked for."""

    shell: str

    def carry_out(self, reporter: Reporter) -> str:
        """The script that a shell reads at its start. UsageError for a shell without one."""
        if self.shell not in SHELLS:
            raise UsageError(f"SHELL: expected {' or '.join(SHELLS)}, got '{self.shell}'", nearest(self.shell, SHELLS))
        script: str = _TYPER.get_completion_script(prog_name="vgi", complete_var=VARIABLE, shell=self.shell)
        return script + "\n"


def offered(name: str) -> Callable[[str], list[str]] | None:
    """What typer asks for the values of an option or argument; None: files, or anything."""
    values = VALUES.get(name)
    return None if values is None else lambda incomplete: [text for text in values() if text.startswith(incomplete)]


def get_ready() -> None:
    """Answer the shell, where it is the shell that asks."""
    if VARIABLE in os.environ:
        _TYPER.completion_init()
