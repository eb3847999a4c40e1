"""What was said, from everywhere: flags or keywords, `--set`, the environment and a recipe, merged and checked.

Precedence: flags and `--set`, then VGI_DEVICE and VGI_THREADS, then the recipe, then defaults. A flag and a `--set`
that disagree are an error. All problems are reported at once, each with where it stands and the nearest valid name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vgi_cli.columns.bounds import parse_limits
from vgi_cli.columns.schema import kind_words, parse_kind
from vgi_cli.errors import UsageError, nearest
from vgi_cli.fast import SWITCH
from vgi_cli.ranges import LONGEST
from vgi_cli.registry.names import NAMES_METHOD
from vgi_cli.settings import yaml_strict
from vgi_cli.settings.problems import Problem, Setting, Settings, describe, raise_problems, shown, validate
from vgi_cli.settings.recipe import FREE, NESTED, Recipe, known_keys, may_be_none, nest, to_recipe

MOST_BYTES = 4_000_000
"""Of a recipe."""

YAML_HINT = "correct it there; `vgi recipe show toy-fa` prints a recipe that can be read"
"""Of a file that is no YAML of settings."""

MOST_IN_BLOCK = 64
"""Columns of a block at most: its conditional has about half the square of them as parameters."""

PACKAGE = Path(__file__).parents[1]


def parse_duration(text: str | float, where: str = "--time-limit") -> float:
    """Seconds from `90`, `40s`, `30m`, `2h`, `1.5h`; a bare number is seconds. UsageError otherwise, and beyond a
    year."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([smh]?)\s*", str(text))
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if seconds <= 0:
        raise UsageError(
            f"{where}: expected a time such as 90, 40s, 30m or 2h, got {shown(str(text))}", "for example 30m"
        )
    if seconds > LONGEST:
        most = f"{LONGEST / 3600:.0f}h"
        raise UsageError(f"{where}: expected a time above 0, at most {most}, got {shown(str(text))}", "for example 30m")
    return seconds


def parse_value(text: str) -> Any:
    """The value of `--set key=text`: a YAML scalar, or a `[list]`."""
    if text[:1] in "[{":
        document = yaml_strict.parse(f"value: {text}")
        if document.problems:
            raise UsageError(f"--set: cannot read {shown(text)}: {document.problems[0]}", "write a list as [a, b]")
        return document.values["value"]
    return yaml_strict.scalar(text)


def gather(
    flags: Mapping[str, tuple[Any, str]],
    sets: Sequence[str] | Mapping[str, Any] = (),
    environ: Mapping[str, str] | None = None,
    recipe: Path | None = None,
) -> Settings:
    """Merge what was said.

    flags  dotted key -> (value, name of the flag or keyword); None and empty lists were not said
    sets   texts KEY=VALUE of `--set`, or the mapping `set` of Python

    Raises UsageError with every problem of recipe, `--set` and environment at once.
    """
    problems: list[Problem] = []
    settings: Settings = {}
    if recipe is not None:
        settings, problems = read_settings(recipe)
    settings.update(_from_environment(environ or {}))
    if (switch := (environ or {}).get(SWITCH, "")) not in ("", "0", "1"):
        problems.append(Problem(SWITCH, f"expected 0 or 1, got {shown(switch)}"))
    said: Settings = {}
    if isinstance(sets, Mapping):
        flags, sets = _with_set(flags, sets), ()
    for key, (value, flag) in flags.items():
        if value is None or (isinstance(value, tuple | list | dict) and not value):
            continue
        said[key] = Setting(list(value) if isinstance(value, tuple) else value, flag)
    for item in sets:
        _add_set(item, said, problems)
    settings.update(said)
    problems += settle(settings)
    raise_problems(problems)
    return settings


def settle(settings: Settings) -> list[Problem]:
    """What is wrong with settings that were said, as far as no model or method has to be known for that. What cannot
    even be written down is taken out of them, and the method that a key names is put in."""
    problems = []
    for key, setting in list(settings.items()):
        if (expected := _not_plain(setting.value)) is not None:
            named = key if setting.origin in ("--set", "set") else ""
            problems.append(Problem(setting.origin, f"{named}: {expected}".removeprefix(": ")))
            del settings[key]
    for key, method in NAMES_METHOD.items():
        if key in settings:
            settings.setdefault("method.name", Setting(method, settings[key].origin))
    return problems + check_keys(settings)


def require_data(settings: Settings, command: str = "fit") -> None:
    """UsageError unless a table is named."""
    if "data" not in settings or not settings["data"].value:
        raise UsageError(f"{command} needs DATA", f"for example: vgi {command} data.csv")


def _not_plain(value: Any) -> str | None:
    """What was expected of a value that no recipe can hold; None of numbers of a sane size, texts, lists, mappings."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return f"expected text in UTF-8, got {shown(value)}"
    except (TypeError, ValueError, RecursionError):
        return f"expected plain numbers, texts, lists or mappings, got {type(value).__name__}"
    return None


def recipe_folder() -> Path:
    """Where the recipes lie that come with the program: `recipes/` of an installed package, or of the clone that the
    package is run from."""
    inside = PACKAGE / "recipes"
    return inside if inside.is_dir() else PACKAGE.parent / "recipes"


def recipe_names() -> list[str]:
    """Their names: paths below the folder."""
    folder = recipe_folder()
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml"))


def find_recipe(path: Path, where: str = "--recipe") -> Path:
    """The file that `--recipe` means: the path itself where something is there, else the shipped recipe of that name
    (with or without `recipes/` before it and `.yaml` after it). UsageError that names them where there is none."""
    if path.exists():
        return path
    name = path.as_posix().removeprefix("recipes/").removesuffix(".yaml") + ".yaml"
    known = recipe_names()
    if name in known:
        return recipe_folder() / name
    raise UsageError(
        f"{where}: no file '{path}'",
        f"give the path of a YAML recipe, or the name of one that comes with vgi: {', '.join(known)}",
    )


def recipe_text(path: Path, where: str = "--recipe") -> str:
    """The text of the recipe that `find_recipe` finds. UsageError where it cannot be read, or is none."""
    path = find_recipe(path, where)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(
                f"{where}: '{path}' is larger than {MOST_BYTES // 1_000_000} MB", "give the path of a YAML recipe"
            )
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{where}: cannot read '{path}': line {line} is not UTF-8 (byte 0x{data[error.start]:02x})",
            "save the recipe as UTF-8",
        ) from None
    except OSError as error:
        raise UsageError(f"{where}: cannot read '{path}': {error}", "give the path of a YAML recipe") from None


def read_settings(path: Path, where: str = "--recipe") -> tuple[Settings, list[Problem]]:
    """What a recipe says, and what is wrong with how it is written. UsageError where it cannot be read."""
    problems: list[Problem] = []
    return _from_text(recipe_text(path, where), path.name, problems), problems


def _from_text(text: str, name: str, problems: list[Problem]) -> Settings:
    """The settings in a recipe; `name`: what messages call it."""
    document = yaml_strict.parse(text)
    hint = "correct that line" if document.values else YAML_HINT
    problems += [Problem(name, problem, hint) for problem in document.problems]
    settings: Settings = {}
    for section, value in document.values.items():
        where = f"{name}, line {document.lines[section]}"
        if section not in NESTED:
            settings[section] = Setting(value, where)
        elif isinstance(value, dict):
            for key, inner in value.items():
                dotted = f"{section}.{key}"
                settings[dotted] = Setting(inner, f"{name}, line {document.lines[dotted]}")
        elif section in ("model", "method") and isinstance(value, str):
            settings[f"{section}.name"] = Setting(value, where)
        elif value is not None:
            problems.append(Problem(where, f"{section}: expected a mapping of settings, got {shown(value)}"))
    return {key: setting for key, setting in settings.items() if setting.value is not None or may_be_none(key)}


def _from_environment(environ: Mapping[str, str]) -> Settings:
    settings: Settings = {}
    if environ.get("VGI_DEVICE"):
        settings["device"] = Setting(environ["VGI_DEVICE"], "VGI_DEVICE")
    if environ.get("VGI_THREADS"):
        value = yaml_strict.scalar(environ["VGI_THREADS"])
        settings["threads"] = Setting(value, "VGI_THREADS")
    return settings


def _with_set(flags: Mapping[str, tuple[Any, str]], given: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """The keywords of Python and the mapping `set`. UsageError where they disagree."""
    both = dict(flags)
    for key, value in given.items():
        if both.get(key, (None, ""))[0] not in (None, [], {}, value):
            raise UsageError(f"{both[key][1]} {both[key][0]} disagrees with set[{key!r}] {value!r}", "say it once")
        both[key] = (value, "set")
    return both


def _add_set(item: str, said: Settings, problems: list[Problem]) -> None:
    key, equals, text = item.partition("=")
    key = key.strip()
    if not equals or not key:
        problems.append(Problem("--set", f"expected KEY=VALUE, got {shown(item)}", "for example --set model.factors=3"))
        return
    value = parse_value(text.strip())
    if key in ("model", "method"):
        key = f"{key}.name"
    if key in said and said[key].value != value:
        other = said[key]
        words = " ".join(map(str, other.value)) if isinstance(other.value, list) else other.value
        first = f"--set {key}={words}" if other.origin == "--set" else f"{other.origin} {words}"
        problems.append(Problem(first, f"disagrees with --set {item}", "say it once"))
        return
    said.setdefault(key, Setting(value, "--set"))


def check_keys(settings: Settings) -> list[Problem]:
    """Problems of the keys that do not depend on the model or method."""
    found = {key: _check_key(key, setting) for key, setting in settings.items()}
    known = known_keys()
    plain = {k: s for k, s in settings.items() if found[k] is None and k in known and not k.endswith(".name")}
    return [
        *(problem for problem in found.values() if problem is not None),
        *(_with_form(error, describe(error, "", settings, known)) for error in validate(Recipe, nest(plain))),
        *_check_values(settings),
    ]


def _with_form(error: Any, problem: Problem) -> Problem:
    """The problem, of limits that are no text with how they are written."""
    if error["loc"][:2] != ("table", "bounds") or len(error["loc"]) < 3:
        return problem
    ends = error["input"] if isinstance(error["input"], list) else []
    pair = len(ends) == 2 and all(type(end) in (int, float) for end in ends)
    hint = f"write '{ends[0]}:{ends[1]}'" if pair else "limits are written as 'LOW:HIGH', such as '-5:5'"
    return problem._replace(hint=hint)


def _check_key(key: str, setting: Setting) -> Problem | None:
    """What is wrong with a key, or with a value that only this program can judge."""
    value, where = setting
    section, dot, name = key.partition(".")
    if key == "table.blocks":
        return _check_blocks(setting)
    if key == "plugins" and not isinstance(value, dict):
        message = f"plugins: a recipe runs no code, so it loads no plugin; got {shown(value)}"
        return Problem(where, message, "say --plugin FILE.py, or plugins=['FILE.py'] in Python")
    if key in ("model.name", "method.name") and not isinstance(value, str):
        return Problem(where, f"{key}: expected a name, got {shown(value)}")
    of_family = section in FREE and dot and name != "name" and "." not in name
    if key in known_keys() or of_family:
        return None
    return Problem(where, f"unknown key '{key}'", nearest(key, [*known_keys(), *FREE]))


def _check_blocks(setting: Setting) -> Problem | None:
    """What is wrong with `table.blocks`."""
    value, where = setting
    hint = "for example --block height,weight"
    if value in (None, "auto"):
        return None
    groups = value if isinstance(value, list | tuple) else [value]
    names = [name for group in groups if isinstance(group, list | tuple) for name in group]
    if any(not isinstance(g, list | tuple) for g in groups) or any(not isinstance(n, str) for n in names):
        return Problem(where, f"expected 'auto' or lists of column names, got {shown(value)}", hint)
    for group in groups:
        if len(group) < 2:
            return Problem(where, f"a block needs two columns or more, got {', '.join(group) or 'none'}", hint)
        if len(group) > MOST_IN_BLOCK:
            return Problem(where, f"a block has {len(group)} columns, at most {MOST_IN_BLOCK} can be redrawn together")
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    return Problem(where, f"column '{twice}' stands in blocks twice", "a column is in one block") if twice else None


def _check_values(settings: Settings) -> list[Problem]:
    problems = []
    if "time_limit" in settings:
        setting = settings["time_limit"]
        try:
            parse_duration(setting.value, setting.origin if setting.origin.startswith("--t") else "time_limit")
        except UsageError as error:
            where = "" if setting.origin.startswith("--t") else setting.origin
            problems.append(Problem(where, error.message, error.hint))
    kinds = settings["table.columns"].value if "table.columns" in settings else None
    for name, text in kinds.items() if isinstance(kinds, dict) and "plugins" not in settings else ():
        word = text.partition(":")[0] if isinstance(text, str) else text
        if isinstance(word, str) and word not in kind_words():  # a recipe with plugins may have words of theirs
            *others, last = map(repr, kind_words())
            expected = f"{', '.join(others)} or {last}"
            message = f"table.columns.{name}: expected {expected}, got {shown(word)}"
            hint = nearest(word, kind_words())
            hint = hint if hint.startswith("did") else f"give {expected}"
            problems.append(Problem(settings["table.columns"].origin, message, hint))
        elif isinstance(text, str):
            try:
                parse_kind(name, text)
            except UsageError as error:
                where = settings["table.columns"].origin
                problems.append(Problem("" if where.startswith("--c") else where, error.message, error.hint))
    bounds = settings["table.bounds"].value if "table.bounds" in settings else None
    for name, text in bounds.items() if isinstance(bounds, dict) else ():
        if isinstance(text, str):
            try:
                parse_limits(name, text)
            except UsageError as error:
                where = settings["table.bounds"].origin
                problems.append(Problem("" if where.startswith("--b") else where, error.message, error.hint))
    if "val" in settings:
        value, origin = settings["val"]
        if isinstance(value, int | float) and not 0 < value < 1:
            key = "" if origin == "--val" else "val: "
            expected = "a file or a fraction between 0 and 1"
            problems.append(Problem(origin, f"{key}expected {expected}, got {value}", "for example 0.1"))
    return problems


def load_recipe(path: Path) -> Recipe:
    """The recipe in a file."""
    return to_recipe(gather({}, recipe=path))


def read_recipe(text: str, name: str) -> Recipe:
    """The recipe that a text says (that of a run); `name`: what messages call it."""
    problems: list[Problem] = []
    settings = _from_text(text, name, problems)
    raise_problems([*problems, *check_keys(settings)])
    return to_recipe(settings)
