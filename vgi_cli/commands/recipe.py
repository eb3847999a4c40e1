"""`vgi recipe ls|show|cp|validate|schema`: the recipes that come with the program, and those of users."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from vgi_cli.errors import UsageError
from vgi_cli.registry.plugins import plugged
from vgi_cli.reporting import Reporter
from vgi_cli.runs.files import write_synced
from vgi_cli.settings.gather import find_recipe, recipe_folder, recipe_names, recipe_text
from vgi_cli.settings.problems import Problem, raise_problems

NAME, FILE = "NAME", "FILE"
"""What messages call the recipe that was named."""


class Shipped(NamedTuple):
    """A recipe that comes with the program: `about` is the first sentence of its comment."""

    name: str
    about: str
    path: Path


class Recipes(NamedTuple):
    """Those that come with the program."""

    found: list[Shipped]

    def text(self) -> str:
        """One a line: its name, as `--recipe` takes it, and what it is."""
        width = max(len(recipe.name) for recipe in self.found)
        return "".join(f"{recipe.name:<{width}}  {recipe.about}\n" for recipe in self.found)

    def json_text(self) -> str:
        """One JSON object (schemas/recipe-ls.json)."""
        recipes = [{"name": name, "about": about, "path": str(path)} for name, about, path in self.found]
        return _json({"format": 1, "recipes": recipes})


class Judged(NamedTuple):
    """A recipe and everything that is wrong with it."""

    file: str
    problems: list[Problem]

    def text(self) -> str:
        """A line where nothing is wrong; what is wrong is raised."""
        return "" if self.problems else f"{self.file}: no problem\n"

    def json_text(self) -> str:
        """One JSON object (schemas/recipe-validate.json)."""
        problems = [{"where": where, "message": message, "hint": hint} for where, message, hint in self.problems]
        return _json({"format": 1, "file": self.file, "valid": not problems, "problems": problems})

    def require(self) -> None:
        """UsageError with every problem, where there is one."""
        raise_problems(self.problems)


@dataclass(frozen=True, kw_only=True)
class ListRequest:
    """What `vgi recipe ls` is asked for."""

    json: bool = False

    def carry_out(self, reporter: Reporter) -> Recipes:
        """The recipes that come with the program."""
        found = [(name, recipe_folder() / name) for name in recipe_names()]
        return Recipes([Shipped(name, about(path.read_text(encoding="utf-8")), path) for name, path in found])


@dataclass(frozen=True, kw_only=True)
class ShowRequest:
    """What `vgi recipe show` is asked for: a recipe by name, or a file."""

    name: str

    def carry_out(self, reporter: Reporter) -> str:
        """Its text. UsageError where there is none."""
        return recipe_text(Path(self.name), NAME)


@dataclass(frozen=True, kw_only=True)
class CopyRequest:
    """What `vgi recipe cp` is asked for: a recipe by name, and the file or folder that it is copied to."""

    name: str
    file: str
    force: bool = False

    def carry_out(self, reporter: Reporter) -> Path:
        """Copy, and return the new file. UsageError, with nothing written, where it cannot be."""
        found = find_recipe(Path(self.name), NAME)
        text = recipe_text(found, NAME)
        path = Path(self.file)
        path = path / found.name if path.is_dir() else path
        if path.exists() and not self.force:
            raise UsageError(f"'{path}' exists", "--force replaces it, another FILE keeps both")
        if not path.parent.is_dir():
            raise UsageError(f"{FILE}: no folder '{path.parent}'", "create it first")
        aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            write_synced(aside, text.encode())
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
        return path


@dataclass(frozen=True, kw_only=True)
class ValidateRequest:
    """What `vgi recipe validate` is asked for; `plugins`: their models and methods count as known."""

    file: str
    plugins: Sequence[str | Path] = ()
    json: bool = False

    def carry_out(self, reporter: Reporter) -> Judged:
        """Everything that is wrong with the recipe."""
        path = find_recipe(Path(self.file), FILE)
        with plugged(self.plugins):
            from vgi_cli.settings.whole import problems_in  # loads torch

            return Judged(self.file, sorted(problems_in(path, FILE), key=_line))


@dataclass(frozen=True, kw_only=True)
class SchemaRequest:
    """What `vgi recipe schema` is asked for; `plugins`: their models and methods are in it."""

    plugins: Sequence[str | Path] = ()

    def carry_out(self, reporter: Reporter) -> str:
        """The JSON Schema of recipes."""
        with plugged(self.plugins):
            from vgi_cli.settings.whole import recipe_schema  # loads torch

            return _json(recipe_schema())


def _line(problem: Problem) -> int:
    """The line of a recipe in which something is wrong; what is wrong with no line in particular comes last."""
    found = re.search(r", line (\d+)$", problem.where)
    return int(found[1]) if found else sys.maxsize


def about(text: str) -> str:
    """The first sentence of what a recipe says of itself: of the comment below the command that it begins with."""
    lines = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    words = " ".join(lines[lines.index("") + 1 :] if "" in lines else lines)
    return words.partition(". ")[0].partition("; ")[0].removesuffix(".")


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
