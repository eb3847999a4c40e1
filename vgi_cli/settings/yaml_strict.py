"""A strict reader of YAML settings: duplicate keys are errors, `1e-3` is a float, `no` is a word, lines are kept.

PyYAML follows YAML 1.1 (`1e-3` is a string, `no` is false, `010` is eight) and keeps the last of two equal keys without
a word. Here the scalars are those of the YAML 1.2 core schema and every problem is reported, with its line. Settings
need no anchors, aliases or deep nesting, by which a few hundred bytes can stand for more than fits into memory: they
are refused while the text is scanned, before anything is built from it.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import yaml


class Document(NamedTuple):
    """What a file says: nested values, the line (from 1) of each dotted key, and the problems found on the way."""

    values: dict[str, Any]
    lines: dict[str, int]
    problems: list[str]


MOST_LEVELS = 20
"""Nested lists and mappings at most."""
MOST_DIGITS = 300
"""Digits of a whole number at most; a longer one stays text, which no setting takes for a number."""

_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"^[-+]?[0-9]+$")
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_SPECIAL = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}


def scalar(text: str) -> Any:
    """The value of a plain scalar: null, true, false, a whole number, a number, else the text itself."""
    if _NULL.match(text):
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.match(text):
        return int(text) if len(text) <= MOST_DIGITS else text
    if _FLOAT.match(text):
        return float(text)
    return _SPECIAL.get(text.lower(), text)


class _Refused(Exception):
    """What settings never need: an anchor, an alias, or too many levels."""


class _Loader(yaml.SafeLoader):
    """Raises _Refused as soon as the scanned text has such a thing."""

    _levels = 0

    def get_event(self) -> Any:
        event = super().get_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            sign, kind = ("*", "aliases") if isinstance(event, yaml.AliasEvent) else ("&", "anchors")
            raise _Refused(f"line {line}: '{sign}{event.anchor}': {kind} are not read, write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            self._levels += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            self._levels -= 1
        if self._levels > MOST_LEVELS:
            raise _Refused(f"line {line}: lists and mappings nested more than {MOST_LEVELS} levels deep")
        return event


def parse(text: str) -> Document:
    """Read one YAML mapping. Syntax errors, duplicate keys and other oddities end up in `problems`."""
    problems: list[str] = []
    lines: dict[str, int] = {}
    try:
        node = yaml.compose(text, Loader=_Loader)
    except _Refused as refused:
        return Document({}, {}, [str(refused)])
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        return Document({}, {}, [f"{where}not valid YAML: {error.problem or error.context}"])
    except yaml.YAMLError as error:
        return Document({}, {}, [f"not valid YAML: {str(error).splitlines()[0]}"])
    if node is None:
        return Document({}, {}, [])
    if not isinstance(node, yaml.MappingNode):
        return Document({}, {}, [f"line {node.start_mark.line + 1}: expected a mapping (`key: value`)"])
    values = _mapping(node, "", lines, problems)
    return Document(values, lines, problems)


def _mapping(node: yaml.MappingNode, prefix: str, lines: dict[str, int], problems: list[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(f"line {line}: a key must be a word")
            continue
        key = key_node.value
        path = f"{prefix}{key}"
        if key in out:
            problems.append(f"line {line}: duplicate key '{path}' (first on line {lines[path]})")
            continue
        lines[path] = line
        out[key] = _value(value_node, f"{path}.", lines, problems)
    return out


def _value(node: yaml.Node, prefix: str, lines: dict[str, int], problems: list[str]) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, prefix, lines, problems)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, f"{prefix}{i}.", lines, problems) for i, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    return scalar(node.value) if node.style is None else node.value


class _Dumper(yaml.SafeDumper):
    """Writes what `parse` reads back: words that YAML 1.1 or 1.2 would take for something else are quoted."""


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if scalar(text) == text else "'"
    if not text.isprintable():
        style = '"'  # line breaks and control characters are escaped
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_float(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    text = repr(number)
    if math.isnan(number):
        text = ".nan"
    elif math.isinf(number):
        text = ".inf" if number > 0 else "-.inf"
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
_Dumper.add_representer(str, _represent_str)
_Dumper.add_representer(float, _represent_float)
_Dumper.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]


def dump(values: dict[str, Any]) -> str:
    """YAML text of nested settings, keys in the given order, exact floats."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000))
