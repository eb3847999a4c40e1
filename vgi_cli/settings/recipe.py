"""The recipe: everything that decides a fit, as one typed value and as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from vgi_cli.ranges import (
    Components,
    Epochs,
    HeldCells,
    NotNegative,
    Patience,
    PseudoRows,
    Refits,
    Seed,
    Share,
    StopAfter,
    Threads,
)
from vgi_cli.registry import names as registry
from vgi_cli.registry.entries import Entry, MethodTraits, ModelTraits
from vgi_cli.settings import yaml_strict
from vgi_cli.settings.problems import Setting, Settings, from_plain

if TYPE_CHECKING:
    from vgi_cli.methods.base import Method, MethodConfig
    from vgi_cli.models.base import Model, ModelConfig


FREE = ("model", "method", "optim")
"""Sections whose keys depend on the named model and method."""

NESTED = (*FREE, "table")
"""Sections whose keys are dotted."""


class TableSettings(BaseModel):
    """How the table is read: the keys `table.*`.

    weight     the column by which rows count in the likelihood; it is carried, never modelled
    unseen     what becomes of levels in other tables that the fitted one does not have: an error; they count as missing
               and are filled; they are carried and say nothing to the model
    transform  of the columns; None: the model's own (see registry)
    spikes     values that pile up at an end of a column: a level of its own, or room on the line of the others; None:
               as suits model and method
    carry_others  whether columns that the model cannot take are carried: those of levels, by a model of numbers
    relations  whether fills keep to sums, products and copies of columns that hold in every row
    blocks     columns that are redrawn together; `auto`: those that are missing together; None: what the method does by
               itself
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    columns: dict[str, str] = Field(default_factory=dict)
    carry_others: bool = False
    bounds: dict[str, str] = Field(default_factory=dict)
    unbounded: tuple[str, ...] = ()
    weight: str | None = None
    na_values: tuple[str, ...] = ()
    delimiter: str | None = None
    decimal: Literal[".", ","] | None = None
    unseen: Literal["error", "missing", "carry"] = "error"
    transform: Literal["linear", "normal", "none"] | None = None
    spikes: Literal["room", "split"] | None = None
    relations: Literal["keep", "ignore"] = "keep"
    blocks: tuple[tuple[str, ...], ...] | Literal["auto"] | None = None

    @property
    def beside_kinds(self) -> dict[str, Any]:
        """What was said of how cells are read, rows count and fills are limited: what a recipe that fixes the kinds of
        the columns must hold too, to be about the same fit."""
        return self.model_dump(include={"na_values", "delimiter", "decimal", "weight", "bounds", "unbounded"})


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


class Averaged(BaseModel):
    """One of the models that imputations are drawn from in turn, where a fit averages over several.

    transform  of the columns: this model's
    weight     its share of the bootstrap refits, up to a factor
    pooling, tolerance  as `method.pooling` and `method.tolerance`, of this model; None: its own
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[ModelChoice, _choice(ModelChoice), PlainSerializer(_plain)]
    transform: Literal["linear", "normal", "none"]
    weight: Share
    pooling: PseudoRows | None = None
    tolerance: NotNegative | None = None


class Recipe(BaseModel):
    """Everything that decides a fit.

    model, method  by name, each with its settings
    optim, epochs  settings of the method too, which stand by themselves
    compare        models that `--model auto` compares beside those that EM fits
    average        models that the bootstrap refits are of in turn; `auto`: those that a comparison of models cannot
                   tell apart; `none`: the fitted model alone
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
    holdout_cells: HeldCells | None = None
    select: Literal["loglik", "objective"] = "loglik"
    patience: Patience = 10
    time_limit: float | str | None = None
    stop_after: StopAfter | None = None
    bootstrap: Literal["auto", "none"] | Refits = "auto"
    uncertainty: Literal["auto", "bootstrap", "posterior"] = "auto"
    posterior_components: Components | None = None
    score: Literal["cells", "loglik"] = "cells"
    compare: tuple[str, ...] = ()
    average: Literal["auto", "none"] | tuple[Averaged, ...] = "auto"
    trees: Literal["auto", "none", "held-out"] = "auto"
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


def known_keys() -> list[str]:
    """Every fixed dotted key of a recipe."""
    keys = [f"table.{name}" for name in TableSettings.model_fields]
    return [*keys, *(name for name in Recipe.model_fields if name not in NESTED), "model.name", "method.name"]


def may_be_none(key: str) -> bool:
    """Whether null says something: settings of families (`optim.clip: null`) may be switched off by it."""
    return key.startswith(tuple(f"{section}." for section in FREE)) and not key.endswith(".name")


def nest(settings: Settings) -> dict[str, Any]:
    """Values of dotted keys as nested mappings."""
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
        inner = {f"{key}.{name}": v for name, v in value.items()} if key in NESTED else {key: value}
        settings |= {k: Setting(v, "recipe.yaml") for k, v in inner.items() if v is not None or may_be_none(k)}
    return settings


def to_recipe(settings: Settings) -> Recipe:
    """The recipe of checked settings."""
    return from_plain(Recipe, nest(settings))
