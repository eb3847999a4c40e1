"""What can be wrong with settings, in this program's words: where, what, and the nearest valid name; all at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from vgi_cli.errors import UsageError, nearest


class Setting(NamedTuple):
    """A value and where it was said (`--seed`, `recipe.yaml, line 3`, `VGI_DEVICE`)."""

    value: Any
    origin: str


Settings = dict[str, Setting]
"""Dotted key (`model.factors`) -> value and origin: only what somebody said, no defaults."""


class Problem(NamedTuple):
    """One thing that is wrong with the settings."""

    where: str
    message: str
    hint: str | None = None


_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


def validate(model: type[BaseModel], values: Mapping[str, Any]) -> list[Any]:
    """The errors of pydantic, one for each setting."""
    try:
        model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        seen: dict[Any, Any] = {}
        errors = error.errors(include_url=False)
        within = {item["loc"][:n] for item in errors for n in range(len(item["loc"]))}
        for item in errors:
            if item["type"] == "too_short" and item["loc"] in within:  # pydantic counts malformed items as absent
                continue
            seen.setdefault(item["loc"][:1] if len(item["loc"]) < 2 else item["loc"][:2], item)
        return list(seen.values())
    return []


def describe(error: Any, prefix: str, settings: Settings, known: Iterable[str]) -> Problem:
    """One pydantic error in this program's words."""
    key = prefix + ".".join(str(part) for part in error["loc"] if not str(part).startswith(("literal[", "constrained")))
    parts = key.split(".")
    above = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    found = next((settings[k] for k in above if k in settings), None)
    origin = found.origin if found else "settings"
    if error["type"] == "extra_forbidden":
        return Problem(origin, f"unknown key '{key}'", nearest(key, known))
    got = error["input"]
    shown = "" if origin.startswith(("--", "VGI_")) and origin != "--set" else f"{key}: "
    if error["type"] == "literal_error":
        expected = error["ctx"]["expected"]
        hint = nearest(str(got), re.findall(r"'([^']+)'", expected))
        return Problem(
            origin, f"{shown}expected {expected}, got {got!r}", hint if hint.startswith("did") else f"give {expected}"
        )
    expected = _expected(error)
    if expected is None:
        message = error["msg"][:1].lower() + error["msg"][1:]
        return Problem(origin, f"{shown}{message}, got {got!r}")
    return Problem(origin, f"{shown}expected {expected}, got {got!r}", f"give {expected}")


def _expected(error: Any) -> str | None:
    """What a value should have been, in words."""
    context = error.get("ctx", {})
    for bound, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if bound in context:
            return f"a number of {words} {context[bound]:g}"
    return _EXPECTED.get(error["type"])


def raise_problems(problems: Sequence[Problem]) -> None:
    """UsageError with all problems; nothing when there are none."""
    if not problems:
        return
    if len(problems) == 1:
        where, message, hint = problems[0]
        joint = f"{where} {message}" if message.startswith("disagrees") else f"{where}: {message}"
        raise UsageError(joint if where else message, hint)
    lines = []
    for where, message, hint in problems:
        text = f"{where}: {message}" if where else message
        lines.append(f"  {text}" + (f" ({hint})" if hint and not hint.startswith("give ") else ""))
    raise UsageError(f"{len(problems)} settings cannot be used\n" + "\n".join(lines), "correct them and run it again")
