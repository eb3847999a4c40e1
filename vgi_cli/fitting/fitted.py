"""A fitted run in memory: its recipe, schema, model and whatever else its method left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from vgi_cli.chains.store.formats import chain_count
from vgi_cli.columns.schema import Schema, kinds_in
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.encoding.recode import Recoder
from vgi_cli.errors import RunError, UsageError
from vgi_cli.fitting.averaged import kept_schemas
from vgi_cli.fitting.averaging import recipes, recoders
from vgi_cli.fitting.choosing import layout_of
from vgi_cli.fitting.refits import of_draws, split_bootstrap
from vgi_cli.fitting.rows import Rows, rows_of
from vgi_cli.fitting.trees import trees_in
from vgi_cli.layout import Layout
from vgi_cli.maths.trees import Tree
from vgi_cli.models.base import LARGEST, EmptyModel, Model, built
from vgi_cli.registry import names as registry
from vgi_cli.registry import plugins
from vgi_cli.registry.names import KINDS
from vgi_cli.reporting import Reporter
from vgi_cli.runs.folder import RunFolder
from vgi_cli.runs.store import ANEW, RECIPE, SCHEMA, RunStore
from vgi_cli.settings.recipe import Recipe
from vgi_cli.table.base import Table


@dataclass(frozen=True)
class Fitted:
    """A fit: what was fitted, and the run that keeps it. Everything is on the CPU in the precision of the run.

    recipe        its settings, all of them
    layout        columns, dimensions and blocks of the rows that the model sees
    model         the fitted density over encoded rows
    refits        models of the bootstrap or from the posterior, empty where none were made
    conditionals  None where the method fits none
    trees         of each refit, by which draws are revised (fitting/trees.py); empty where none were learnt
    """

    run: RunStore
    recipe: Recipe
    layout: Layout
    model: Model
    refits: tuple[Model, ...]
    conditionals: Conditionals | None
    trees: tuple[Sequence[Tree | None], ...]

    @cached_property
    def held(self) -> dict[str, Tensor]:
        """The imputations that the run stores: lines [C, K] by format (`Chains.tensors`), keys [N], missing [N, D], and
        values to start chains from, start [Q, d]; empty where it stores none."""
        return self.run.tensors("imputations")

    @property
    def chains(self) -> int:
        """How many imputations of a row the run stores."""
        return chain_count(self.held) if self.held else 0

    @property
    def empty(self) -> bool:
        """Whether no column is modelled."""
        return not self.layout.columns

    @property
    def marginal(self) -> bool:
        """Whether the model has exact marginals under any mask."""
        return not self.empty and "marginal" in self.recipe.model.entry.provides

    @property
    def latent(self) -> bool:
        """Whether the model has latents with an encoder."""
        return not self.empty and "latent" in self.recipe.model.entry.provides

    def say_unused_plugins(self, reporter: Reporter, sampler: str | None = None) -> None:
        """A line for every plugin that this run does not use, nor the sampler that was asked for."""
        if not self.empty:
            names = used_names(self.recipe, kinds_in(self.run.text(SCHEMA)))
            plugins.say_unused([*names, ("sampler", sampler)], reporter)

    def sampler(self, name: str) -> str:
        """The sampler to use; UsageError where the run cannot offer it."""
        if self.empty:
            return "exact"
        levels = bool(self.layout.discrete)
        model, method = self.recipe.model.name, self.recipe.method.named
        without = [
            key
            for key, entry in registry.SAMPLERS.items()
            if (key == "trees" and not self.trees) or (entry.traits.stored and not self.held)
        ]
        chosen = registry.choose_sampler(name, model, method, levels=levels, without=without)
        if registry.SAMPLERS[chosen].traits.stored and not self.held:
            other = registry.choose_sampler("auto", model, method, levels=levels)
            raise UsageError(
                f"sampler '{chosen}': run '{self.run.name}' stores no imputations of its table",
                f"use --sampler {other}",
            )
        if chosen == "trees" and not self.trees:
            raise UsageError(f"sampler 'trees': run '{self.run.name}' holds no trees", "use --sampler exact")
        return chosen


def used_names(recipe: Recipe, kinds: Iterable[str] = ()) -> list[tuple[str, str | None]]:
    """What a fit names that a plugin may give, by extension point; `kinds`: of its columns."""
    family = recipe.method.settings.get("conditional")
    named = [("model", recipe.model.name), ("method", recipe.method.name), ("family", family)]
    return [*named, *(("kind", kind) for kind in kinds)]


@dataclass(frozen=True)
class FittedTable(Fitted):
    """A fit of the rows of a table; `schema`: how these are encoded; `recoders`: by transform the maps to the rows of
    the models that it averages over."""

    schema: Schema
    recoders: Mapping[str, Recoder] = field(default_factory=dict)

    def rows(self, table: Table, keys: Tensor | None = None, progress: Callable[[float], None] | None = None) -> Rows:
        """The rows of a table, encoded as those that were fitted; `keys`, `progress`: as in `rows_of`."""
        return rows_of(table, self.schema, self.recipe.seed, keys=keys, progress=progress)


def load_run(path: Path, reporter: Reporter) -> FittedTable:
    """Open and load a run folder: see `load`. RunError where there is none, or it is damaged."""
    return load(RunFolder.open(path), reporter)


def load(run: RunStore, reporter: Reporter) -> FittedTable:
    """The fit of a table that a run keeps; a line is said when it has not come to its end. RunError when it cannot be
    used, also where its model or method comes from a plugin that was not said again."""
    run.require_model()
    recipe = run.recipe()
    text = run.text(SCHEMA)
    names = used_names(recipe, kinds_in(text))
    if recipe.plugins and any(kind not in KINDS for kind in kinds_in(text)):
        plugins.require(recipe.plugins, names, f"run '{run.name}'", reporter)
    schema = Schema.from_json(text)
    if schema.modelled and run.record.command == "fit" and run.record.epochs == 0:
        reporter.warn(f"{run.name} was stopped before training had done one epoch: do not use this run")
    if schema.modelled:
        used = plugins.require(recipe.plugins, names, f"run '{run.name}'", reporter)
        recipe = recipe.replace(plugins=used)
        check_settings(recipe, run.name)
    if schema.modelled and getattr(recipe.method_settings, "redraws", 0) is None:  # an earlier version fitted it
        recipe = recipe.with_values({"method.redraws": 0})
    maps = recoders(schema, kept_schemas(recipe, run))
    rows = fitted_of(run, recipe, layout_of(recipe, schema.layout))
    fitted = FittedTable(**vars(rows), schema=schema, recoders=maps)
    latest = run.latest()  # of a fit that goes on a checkpoint may have come while this one was read
    if latest is not run:
        return load(latest, reporter)
    if not run.finished:
        on = f"make it anew: {ANEW}" if run.resumed_by is None else f"{run.resumed_by} goes on"
        reporter.say(f"{run.name} is not finished: its model is that of epoch {run.record.epochs} ({on})")
    return fitted


def fitted_of(run: RunStore, recipe: Recipe, layout: Layout) -> Fitted:
    """The fit that a run keeps of rows of a layout (with its blocks), by a recipe that can work."""
    if not layout.columns:
        return Fitted(run, recipe, layout, EmptyModel(), (), None, ())
    kept = run.tensors("model")
    tensors, refits = split_bootstrap(kept)
    model = build_model(recipe, layout, tensors, run.name)
    conditionals = _conditionals(recipe, layout, model, run)
    drawn = recipe
    if run.record.bootstrap_by == "posterior":
        drawn = of_draws(recipe)
    own = recipes(drawn, range(len(refits)))
    models = tuple(build_model(one, layout, tensors, run.name) for one, tensors in zip(own, refits, strict=True))
    return Fitted(run, recipe, layout, model, models, conditionals, trees_in(kept))


def check_settings(recipe: Recipe, name: str) -> None:
    """RunError where the run's recipe leaves its model or method open, or has settings for them that this version does
    not take."""
    wrong = []
    for what, choice in (("model", recipe.model.name), ("method", recipe.method.name)):
        if choice in (None, "auto"):
            raise RunError(f"run '{name}' is damaged: {RECIPE} names no {what}", "restore the file, or fit again")
    typed: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("model.", lambda: recipe.model_settings),
        ("method.", lambda: recipe.method_settings),
    )
    for prefix, read in typed:
        try:
            read()
        except ValidationError as error:
            keys = (".".join(map(str, problem["loc"])) for problem in error.errors())
            wrong += [key if key.startswith("optim.") else prefix + key for key in keys]
    if wrong:
        raise RunError(
            f"run '{name}' has settings that this version of vgi does not take: {', '.join(wrong)}",
            "use the version that its manifest.json names, or fit again",
        )


def build_model(recipe: Recipe, layout: Layout, tensors: dict[str, Tensor], name: str) -> Model:
    """The model of a recipe with the parameters of a file."""
    model = built(recipe.model.family, recipe.model_settings, layout)
    _load(model, tensors, name)
    return model.eval()


def _conditionals(recipe: Recipe, layout: Layout, model: Model, run: RunStore) -> Conditionals | None:
    target, tensors = target_of(recipe), run.tensors("conditionals")
    if not tensors or target is None:
        return None
    conditionals: Conditionals = target.conditionals(model, recipe.method_settings, layout)
    _load(conditionals, tensors, run.name)
    of_model, own = (next(part.parameters()).dtype for part in (model, conditionals))
    if of_model != own:
        kinds = " and ".join(str(dtype).removeprefix("torch.") for dtype in (of_model, own))
        raise RunError(
            f"run '{run.name}' is damaged: its model and its conditionals are of different types ({kinds})", "fit again"
        )
    target.bind(conditionals, model)
    return conditionals.eval()


def target_of(recipe: Recipe) -> Any:
    """The Target (methods/vgi/targets.py) of a recipe; None where its method fits no conditionals."""
    method = recipe.method.algorithm
    return None if method.target is None else method.target(recipe.model.family, recipe.method_settings)


def check_numbers(tensors: Mapping[str, Tensor], name: str) -> None:
    """RunError where a parameter of a run is not finite, larger than any that a fit comes to, or of a precision that no
    fit has."""
    for key, tensor in tensors.items():
        if not tensor.is_floating_point():
            continue
        if tensor.itemsize < 4:
            what = f"is of a type that no fit has ({str(tensor.dtype).removeprefix('torch.')})"
        elif not bool((tensor.abs() <= LARGEST).all()):  # NaN neither
            what = "holds a number that no fit has"
        else:
            continue
        raise RunError(f"run '{name}' is damaged: its parameter '{key}' {what}", "fit again")


def _load(module: Any, tensors: dict[str, Tensor], name: str) -> None:
    check_numbers(tensors, name)
    dtype = next((t.dtype for t in tensors.values() if t.is_floating_point()), None)
    try:
        module.to(dtype)
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise RunError(
            f"run '{name}' is damaged: its parameters do not fit its recipe ({str(error).splitlines()[-1].strip()})",
            "fit again",
        ) from None
