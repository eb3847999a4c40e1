"""What can be wrong with settings, in this program's words: where, what, and the nearest valid name; all at once."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeGuard, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from vgi_cli.errors import UsageError, nearest
from vgi_cli.settings.yaml_strict import scalar


class Setting(NamedTuple):
    """A value and where it was said (`--seed`, `recipe.yaml, line 3`, `VGI_DEVICE`)."""

    value: Any
    origin: str


Settings = dict[str, Setting]
"""Dotted key (`model.factors`) -> value and origin: only what somebody said, no defaults."""


def origin(settings: Settings, key: str, default: str) -> str:
    """Where a setting was said."""
    return settings[key].origin if key in settings else default


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
    "finite_number": "a finite number",
}
_NUMBERS = ("int_type", "float_type")
_ARMS = ("literal[", "constrained", "tuple[")
"""How pydantic begins the names of what a value may be one of: they are no part of a key."""
_BOUNDS = {"greater_than_equal": "ge", "greater_than": "gt", "less_than_equal": "le", "less_than": "lt"}
SHOWN = 60
"""Characters of a wrong value that a message shows."""


_Kind = TypeVar("_Kind", bound=BaseModel)


def from_plain(kind: type[_Kind], values: Mapping[str, Any]) -> _Kind:
    """The typed settings that plain values (of YAML or JSON) stand for: a list is a tuple, but `"3"` is no number.
    pydantic's ValidationError where they are malformed."""
    return kind.model_validate_json(json.dumps(values), strict=True)


def validate(model: type[BaseModel], values: Mapping[str, Any]) -> list[Any]:
    """The errors of pydantic, one for each setting, with the `range` of the setting where it has one."""
    try:
        from_plain(model, values)
    except ValidationError as error:
        seen: dict[Any, Any] = {}
        errors = error.errors(include_url=False)
        keys = [_key(model, item["loc"]) for item in errors]
        within = {key[:n] for key in keys for n in range(len(key))}
        for item, key in zip(errors, keys, strict=True):
            # pydantic counts malformed items as absent, and a list that is wrong inside as none of the names
            if item["type"] in ("too_short", "literal_error") and key in within:
                continue
            words, again = range_of(model, key), key[:2] in seen
            first = seen.setdefault(key[:2], {**item, "loc": key, "range": words})
            if first["type"] == "literal_error" != item["type"] and words is not None:  # names, or a number
                names = first["ctx"]["expected"].replace(" or ", ", ")
                first["ctx"] = {"expected": f"{names} or {words}"}
            elif again and first["loc"] == key and _expected(first) and _expected(item):
                first["either"] = f"{_expected(first)} or {_expected(item)}"
        return list(seen.values())
    return []


def _key(model: type[BaseModel], loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """The key of a setting, without the names of what its value may be one of."""
    kinds: list[tuple[Any, tuple[Any, ...]]] = [(model, ())]
    key: list[str | int] = []
    for part in loc:
        arm = len(kinds) > 1 and part in {getattr(kind, "__name__", None) for kind, _ in kinds}
        if not arm and not str(part).startswith(_ARMS):
            key.append(part)
            kinds = [inner for kind, _ in kinds for inner in _inside(kind, part)]
    return tuple(key)


def range_of(model: type[BaseModel], key: Sequence[str | int]) -> str | None:
    """The range of a setting in words (`a whole number from 1 to 1000`); None where it has no bound."""
    kinds: list[tuple[Any, tuple[Any, ...]]] = [(model, ())]
    for part in key:
        kinds = [inner for kind, _ in kinds for inner in _inside(kind, part)]
    for kind, metadata in kinds:
        pairs = ((name, getattr(m, name, None)) for m in metadata for name in _BOUNDS.values())
        bounds = {name: bound for name, bound in pairs if bound is not None}
        if bounds:
            return _in_words("a whole number" if kind is int else "a number", bounds)
    return None


def _inside(kind: Any, part: str | int) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """What stands at a key or index of a type, with its constraints."""
    arguments = get_args(kind)
    if isinstance(part, str) and inspect.isclass(kind) and issubclass(kind, BaseModel) and part in kind.model_fields:
        field = kind.model_fields[part]
        yield from _kinds(field.annotation, tuple(field.metadata))
    elif isinstance(part, int) and get_origin(kind) is tuple:
        yield from _kinds(arguments[0] if arguments[-1] is Ellipsis else arguments[part])


def _kinds(annotation: Any, metadata: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The types that an annotation allows, each with its constraints."""
    if get_origin(annotation) is Annotated:
        base, *more = get_args(annotation)
        found = (m for item in more for m in (item.metadata if isinstance(item, FieldInfo) else [item]))
        yield from _kinds(base, (*metadata, *found))
    elif get_origin(annotation) in (Union, UnionType):
        for arm in get_args(annotation):
            yield from _kinds(arm, metadata)
    else:
        yield annotation, metadata


def _in_words(what: str, bounds: Mapping[str, float]) -> str:
    """`a number from 0 to 5`, `a number above 0, at most 5`, `a number of at least 1`."""
    shown = {name: str(bound) if isinstance(bound, int) else f"{bound:g}" for name, bound in bounds.items()}
    low = f"from {shown['ge']}" if "ge" in shown else f"above {shown['gt']}" if "gt" in shown else None
    high = f"at most {shown['le']}" if "le" in shown else f"below {shown['lt']}" if "lt" in shown else None
    if low is not None and high is not None:
        return f"{what} {low} to {shown['le']}" if "ge" in shown and "le" in shown else f"{what} {low}, {high}"
    for name, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if name in shown:
            return f"a number of {words} {shown[name]}"
    raise AssertionError("a range without a bound")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number: neither a truth value nor 2.0."""
    return isinstance(value, int) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """A wrong value as a message shows it: the beginning of what is long."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def describe(error: Any, prefix: str, settings: Settings, known: Iterable[str]) -> Problem:
    """One pydantic error in this program's words."""
    key = prefix + ".".join(str(part) for part in error["loc"])
    parts = key.split(".")
    above = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    found = next((settings[k] for k in above if k in settings), None)
    origin = found.origin if found else "settings"
    if error["type"] == "extra_forbidden":
        return Problem(origin, f"unknown key '{key}'", nearest(key, known))
    got = shown(error["input"])
    named = "" if origin.startswith(("--", "VGI_")) and origin != "--set" else f"{key}: "
    if error["type"] == "literal_error":
        expected = error["ctx"]["expected"]
        hint = nearest(got.strip("'"), re.findall(r"'([^']+)'", expected))
        return Problem(
            origin, f"{named}expected {expected}, got {got}", hint if hint.startswith("did") else f"give {expected}"
        )
    expected = error.get("either", _expected(error))
    if expected is None:
        message = error["msg"][:1].lower() + error["msg"][1:]
        return Problem(origin, f"{named}{message}, got {got}")
    return Problem(origin, f"{named}expected {expected}, got {got}", f"give {expected}")


def _expected(error: Any) -> str | None:
    """What a value should have been, in words."""
    kind, got = _EXPECTED.get(error["type"]), error["input"]
    quoted = scalar(got) if isinstance(got, str) and error["type"] in _NUMBERS else None
    if is_whole(quoted) or (isinstance(quoted, float) and error["type"] == "float_type"):
        return f"{kind} without quotes"
    endless = isinstance(got, str) and got.lstrip("+-").isdecimal()  # a whole number too long to be read as one
    return error["range"] if error["type"] in _BOUNDS or endless else kind


def _text(problem: Problem) -> str:
    """Where and what; the name of a setting once, where it is also where it was said (`seed`, `--time-limit`)."""
    where, message, _ = problem
    key = message.partition(":")[0]
    if where in (key, f"--{key.replace('_', '-')}"):
        return where + message.removeprefix(key)
    if not where:
        return message
    return f"{where} {message}" if message.startswith("disagrees") else f"{where}: {message}"


def raise_problems(problems: Sequence[Problem]) -> None:
    """UsageError with all problems; nothing when there are none."""
    if not problems:
        return
    if len(problems) == 1:
        raise UsageError(_text(problems[0]), problems[0].hint)
    lines = []
    for problem in problems:
        hint = problem.hint
        lines.append(f"  {_text(problem)}" + (f" ({hint})" if hint and not hint.startswith("give ") else ""))
    raise UsageError(f"{len(problems)} settings cannot be used\n" + "\n".join(lines), "correct them and run it again")
