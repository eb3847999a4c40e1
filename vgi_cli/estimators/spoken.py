"""What messages say to somebody who typed a command, said to who calls an estimator."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import get_args, get_origin

from vgi_cli.columns.schema import split_kind
from vgi_cli.reporting import Heard
from vgi_cli.settings.options import Field, FitOptions, fields_of

FLAG = re.compile(r"(?P<flag>--[a-z][a-z-]*)(?: (?P<word>(?:'[^']*'|\"[^\"]*\"|[^\s'\"`])+))?")
OWN = {"seed": "random_state"}
"""Options that an estimator has under another name."""
NAMES = frozenset({"model", "method", "device", "unseen"})
"""Options whose value is one word, which always follows the flag."""
OTHERWISE = {
    " (a name from a plugin needs --plugin FILE.py)": "",
    "--resume with a larger --epochs goes on": "a larger --epochs lets it go on",
    ", which -v lists": "",
    "-v lists the limits, ": "",
}
"""What is said otherwise, or not at all, since no parameter does the like: a fit in memory is not resumed, and an
estimator hears no details."""
COMMAND = re.compile(r" \(`vgi [^`]*`[^()]*\)")
"""An aside on another command, which takes a run folder."""


def in_python(text: str, parameters: Collection[str]) -> str:
    """A message, a hint or a line with parameters in the place of flags: `columns={'age': 'integer'}`, not `--column
    age=integer`. What is no parameter of the estimator is a setting, `set={'table.exclude': ['age']}`; a flag that is
    neither stays."""
    fields = {flag: field for field in fields_of(FitOptions).values() for flag in field.flags}

    def said(found: re.Match[str]) -> str:
        field = fields.get(found["flag"])
        if field is None:
            return found[0]
        word = found["word"] or ""
        rest = word.rstrip(":,;")
        value = rest if _is_value(field, word, text[found.end() :]) else None
        name = OWN.get(field.name, field.name)
        after = found[0].removeprefix(found["flag"]) if value is None else word[len(rest) :]
        if name in parameters:
            return f"{name}={_literal(field, value)}{after}"
        if field.option.key is None:
            return found[0]
        return f"set={{'{field.option.key}': {_literal(field, value)}}}{after}"

    for typed, otherwise in OTHERWISE.items():
        text = text.replace(typed, otherwise)
    text = COMMAND.sub("", text)
    return FLAG.sub(said, text)


class Spoken(Heard):
    """Hands on what the commands say in words that name parameters of an estimator."""

    def __init__(self, say: Callable[[str], None] | None, parameters: Collection[str]) -> None:
        super().__init__(say)
        self._parameters = parameters

    def say(self, line: str) -> None:
        super().say(in_python(line, self._parameters))

    def warn(self, line: str) -> None:
        super().warn(in_python(line, self._parameters))


def _is_value(field: Field, word: str, after: str) -> bool:
    """Whether the word that follows a flag is its value, and not the next one of a sentence."""
    if not word or field.kind is bool:
        return False
    ends = not after or after.startswith(("`", " disagrees"))
    return ends or field.name in NAMES or "=" in word or word[-1] in ":,;"


def _literal(field: Field, word: str | None) -> str:
    """What a flag was said with as Python has it; `…` for what was not said."""
    if field.kind is bool:
        return "True"
    value = None if word is None else "".join(shlex.split(word))
    kinds = (field.kind, *get_args(field.kind))
    if field.name == "set" or any(get_origin(kind) is Mapping for kind in kinds):
        name, said = (value or "…", None) if "=" not in (value or "") else _pair(field, str(value))
        return f"{{{name!r}: {'…' if said is None else _plain(said) if field.name == 'set' else repr(said)}}}"
    if value is None:
        return "…"
    return f"[{value!r}]" if field.repeated else _plain(value)


def _pair(field: Field, value: str) -> tuple[str, str]:
    name, _, said = value.rpartition("=") if field.name == "bounds" else value.partition("=")
    return (split_kind(value) or (name, said)) if field.name == "columns" else (name, said)


def _plain(value: str) -> str:
    """A number as it is, anything else as a text."""
    return value if re.fullmatch(r"-?\d+(\.\d+)?", value) else repr(value)
