"""Settings of a fit: flags, `--set`, environment and recipe merged into one strict, resolved `Recipe`.

Precedence: flags and `--set`, then VGI_DEVICE and VGI_THREADS, then the recipe, then defaults. A flag and a `--set`
that disagree are an error. All problems are reported at once, each with where it stands and the nearest valid name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from vgi_cli.columns.limits import parse_limits
from vgi_cli.errors import UsageError, nearest
from vgi_cli.ranges import LONGEST, Epochs, Patience, Refits, Seed, StopAfter, Threads
from vgi_cli.registry import names as registry
from vgi_cli.registry.entries import Entry, MethodTraits, ModelTraits
from vgi_cli.settings import shipped, yaml_strict
from vgi_cli.settings.problems import Problem, Setting, Settings, describe, from_plain, raise_problems, shown, validate

if TYPE_CHECKING:
    from vgi_cli.methods.base import Method, MethodConfig
    from vgi_cli.models.base import Model, ModelConfig


class TableSettings(BaseModel):
    """How the table is read: the keys `table.*`. `transform` none: what suits the model (see registry). `blocks`:
    columns that are redrawn together, `auto`: those that are missing together, none: what the method does by itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    columns: dict[str, Literal["integer", "numeric", "carry"]] = Field(default_factory=dict)
    bounds: dict[str, str] = Field(default_factory=dict)
    unbounded: tuple[str, ...] = ()
    na_values: tuple[str, ...] = ()
    delimiter: str | None = None
    transform: Literal["linear", "normal", "none"] | None = None
    blocks: tuple[tuple[str, ...], ...] | Literal["auto"] | None = None


@dataclass(frozen=True)
class ModelChoice:
    """A model by name (`auto`: the table decides), and what was said of its settings: the keys `model.*`."""

    name: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def entry(self) -> Entry[ModelTraits]:
        """What the registry says of it. UsageError where there is no such model."""
        return registry.MODELS.entry(self.name)

    @property
    def family(self) -> type[Model]:
        """Its class (imports torch)."""
        family: type[Model] = registry.MODELS.load(self.name)
        return family


@dataclass(frozen=True)
class MethodChoice:
    """A method by name (None: the model's own), and what was said of its settings: the keys `method.*`."""

    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def named(self) -> str:
        """The name, where one has been chosen."""
        if self.name is None:
            raise ValueError("no method has been chosen yet")
        return self.name

    @property
    def entry(self) -> Entry[MethodTraits]:
        """What the registry says of it. UsageError where there is no such method."""
        return registry.METHODS.entry(self.named)

    @property
    def algorithm(self) -> Method:
        """What runs it (imports torch)."""
        method: Method = registry.METHODS.load(self.named)
        return method


def _choice(kind: type[ModelChoice] | type[MethodChoice]) -> BeforeValidator:
    """Reads a choice as it stands in YAML: the name beside the settings."""

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        named = {"name": value["name"]} if "name" in value else {}
        return kind(**named, settings={key: item for key, item in value.items() if key != "name"})

    return BeforeValidator(read)


def _plain(choice: ModelChoice | MethodChoice) -> dict[str, Any]:
    return {**({} if choice.name is None else {"name": choice.name}), **choice.settings}


class Recipe(BaseModel):
    """Everything that decides a fit.

    model, method  by name, each with its settings
    optim, epochs  settings of the method too, which stand by themselves
    plugins        a record, file name -> SHA-256 of the plugins that a fit used: nothing imports them from here
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: tuple[str, ...] = ()
    mask: str | None = None
    table: TableSettings = TableSettings()
    model: Annotated[ModelChoice, _choice(ModelChoice), PlainSerializer(_plain)] = ModelChoice()
    method: Annotated[MethodChoice, _choice(MethodChoice), PlainSerializer(_plain)] = MethodChoice()
    optim: dict[str, Any] = Field(default_factory=dict)
    epochs: Epochs | None = None
    seed: Seed = 0
    device: str = "auto"
    threads: Threads | None = None
    compile: Literal["auto", "off", "on"] = "auto"
    val: float | str | None = None
    select: Literal["loglik", "objective"] = "loglik"
    patience: Patience = 10
    time_limit: float | str | None = None
    stop_after: StopAfter | None = None
    bootstrap: Literal["auto", "none"] | Refits = "auto"
    plugins: dict[str, str] = Field(default_factory=dict)

    def text(self) -> str:
        """YAML of this recipe: `vgi fit --recipe` on it runs the same fit."""
        return yaml_strict.dump(self.model_dump(mode="json"))

    @cached_property
    def model_settings(self) -> ModelConfig:
        """All settings of the named model."""
        return from_plain(self.model.family.Config, self.model.settings)

    @property
    def method_values(self) -> dict[str, Any]:
        """What the recipe says of the settings of its method: `method.*`, `optim.*` nested, and `epochs`."""
        values = dict(self.method.settings)
        if self.optim:
            values["optim"] = self.optim
        if self.epochs is not None:
            values["epochs"] = self.epochs
        return values

    @cached_property
    def method_settings(self) -> MethodConfig:
        """All settings of the named method."""
        return from_plain(self.method.algorithm.Config, self.method_values)

    def value(self, key: str) -> Any:
        """A setting by its dotted key, as it stands in YAML; None where nothing is said of it."""
        value: Any = self.model_dump(mode="json")
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def replace(self, **fields: Any) -> Recipe:
        """A copy with other values of some fields, which are not checked."""
        if unknown := fields.keys() - Recipe.model_fields.keys():
            raise TypeError(f"a recipe has no {', '.join(sorted(unknown))}")
        return Recipe.model_construct(**{name: getattr(self, name) for name in Recipe.model_fields} | fields)

    def with_model(self, name: str | None = None, **settings: Any) -> Recipe:
        """With another model (None: the same), and some of its settings changed."""
        return self.replace(model=ModelChoice(name or self.model.name, {**self.model.settings, **settings}))

    def with_method(self, name: str | None = None, **settings: Any) -> Recipe:
        """With another method (None: the same), and some of its settings changed."""
        return self.replace(method=MethodChoice(name or self.method.name, {**self.method.settings, **settings}))

    def with_optim(self, **settings: Any) -> Recipe:
        """With some settings of the optimisation changed."""
        return self.replace(optim={**self.optim, **settings})

    def with_values(self, values: Mapping[str, Any]) -> Recipe:
        """With some settings of the model, the method and the optimisation changed, by dotted key."""
        recipe = self
        for key, value in values.items():
            section, name = key.split(".")
            change = {"model": recipe.with_model, "method": recipe.with_method, "optim": recipe.with_optim}[section]
            recipe = change(**{name: value})
        return recipe

    def with_table(self, **settings: Any) -> Recipe:
        """With some settings of reading the table changed, which are not checked."""
        return self.replace(table=self.table.model_copy(update=settings))


MOST_BYTES = 4_000_000
"""Of a recipe."""

MOST_IN_BLOCK = 64
"""Columns of a block at most: its conditional has about half the square of them as parameters."""

FREE = ("model", "method", "optim")
"""Sections whose keys depend on the named model and method."""

_NESTED = (*FREE, "table")


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


def known_keys() -> list[str]:
    """Every fixed dotted key of a recipe."""
    keys = [f"table.{name}" for name in TableSettings.model_fields]
    return [*keys, *(name for name in Recipe.model_fields if name not in _NESTED), "model.name", "method.name"]


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
        settings.update(_from_recipe(recipe, problems))
    settings.update(_from_environment(environ or {}, problems))
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
    for key, setting in list(settings.items()):
        if (expected := _not_plain(setting.value)) is not None:
            named = key if setting.origin in ("--set", "set") else ""
            problems.append(Problem(setting.origin, f"{named}: {expected}".removeprefix(": ")))
            del settings[key]
    for key, method in registry.NAMES_METHOD.items():
        if key in settings:
            settings.setdefault("method.name", Setting(method, settings[key].origin))
    problems += check_fixed(settings)
    raise_problems(problems)
    return settings


def require_data(settings: Settings) -> None:
    """UsageError unless a table is named."""
    if "data" not in settings or not settings["data"].value:
        raise UsageError("fit needs DATA", "for example: vgi fit data.csv")


def _not_plain(value: Any) -> str | None:
    """What was expected of a value that no recipe can hold; none of numbers of a sane size, texts, lists, mappings."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return f"expected text in UTF-8, got {shown(value)}"
    except (TypeError, ValueError, RecursionError):
        return f"expected plain numbers, texts, lists or mappings, got {type(value).__name__}"
    return None


def _read_recipe(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(
                f"--recipe: '{path}' is larger than {MOST_BYTES // 1_000_000} MB", "give the path of a YAML recipe"
            )
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--recipe: cannot read '{path}': {error}", "give the path of a YAML recipe") from None


def _from_recipe(path: Path, problems: list[Problem]) -> Settings:
    text = _read_recipe(shipped.find(path))
    document = yaml_strict.parse(text)
    problems += [Problem(path.name, problem) for problem in document.problems]
    settings: Settings = {}
    for section, value in document.values.items():
        where = f"{path.name}, line {document.lines[section]}"
        if section not in _NESTED:
            settings[section] = Setting(value, where)
        elif isinstance(value, dict):
            for key, inner in value.items():
                dotted = f"{section}.{key}"
                settings[dotted] = Setting(inner, f"{path.name}, line {document.lines[dotted]}")
        elif section in ("model", "method") and isinstance(value, str):
            settings[f"{section}.name"] = Setting(value, where)
        elif value is not None:
            problems.append(Problem(where, f"{section}: expected a mapping of settings, got {shown(value)}"))
    return {key: setting for key, setting in settings.items() if setting.value is not None or _may_be_none(key)}


def _may_be_none(key: str) -> bool:
    """Whether null says something: settings of families (`optim.clip: null`) may be switched off by it."""
    return key.startswith(tuple(f"{section}." for section in FREE)) and not key.endswith(".name")


def _from_environment(environ: Mapping[str, str], problems: list[Problem]) -> Settings:
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


def check_fixed(settings: Settings) -> list[Problem]:
    """Problems of the keys that do not depend on the model or method."""
    problems = []
    plain: Settings = {}
    for key, setting in settings.items():
        section, dot, name = key.partition(".")
        free = section in FREE and dot and not key.endswith(".name")
        if key == "table.blocks" and (wrong := _check_blocks(setting)):
            problems.append(wrong)
        elif key == "plugins" and not isinstance(setting.value, dict):
            problems.append(
                Problem(
                    setting.origin,
                    f"plugins: a recipe runs no code, so it loads no plugin; got {shown(setting.value)}",
                    "say --plugin FILE.py, or plugins=['FILE.py'] in Python",
                )
            )
        elif key in known_keys():
            plain[key] = setting
            if key.endswith(".name") and not isinstance(setting.value, str):
                problems.append(Problem(setting.origin, f"{key}: expected a name, got {shown(setting.value)}"))
        elif not free or key == "optim.name" or "." in name:
            problems.append(Problem(setting.origin, f"unknown key '{key}'", nearest(key, [*known_keys(), *FREE])))
    nested = _nest({key: setting for key, setting in plain.items() if not key.endswith(".name")})
    problems += [describe(error, "", settings, known_keys()) for error in validate(Recipe, nested)]
    problems += _check_values(settings)
    return problems


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


def _nest(settings: Settings) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, setting in settings.items():
        section, dot, name = key.partition(".")
        if dot:
            nested.setdefault(section, {})[name] = setting.value
        else:
            nested[key] = setting.value
    return nested


def as_settings(recipe: Recipe) -> Settings:
    """The settings that a recipe stands for."""
    settings: Settings = {}
    for key, value in recipe.model_dump(mode="json").items():
        inner = {f"{key}.{name}": v for name, v in value.items()} if key in _NESTED else {key: value}
        settings |= {k: Setting(v, "recipe.yaml") for k, v in inner.items() if v is not None or _may_be_none(k)}
    return settings


def to_recipe(settings: Settings) -> Recipe:
    """The recipe of checked settings."""
    nested = _nest(settings)
    return from_plain(Recipe, nested)


def load_recipe(path: Path) -> Recipe:
    """The recipe in a file (that of a run folder)."""
    return to_recipe(gather({}, recipe=path))
