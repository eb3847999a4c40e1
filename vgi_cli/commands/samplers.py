"""From the name of a sampler and a fitted run to the imputer that draws."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from vgi_cli.commands.requests import ImputeRequest
from vgi_cli.encoding import rounding
from vgi_cli.encoding.recode import Recoder
from vgi_cli.errors import UsageError
from vgi_cli.fitting.averaging import averaged, recipes
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.further import enough_refits, refitted_by
from vgi_cli.fitting.refits import em_settings, refitting, uncertainty_words
from vgi_cli.machine.work import Work
from vgi_cli.maths.compiled import unfused
from vgi_cli.maths.trees import Tree
from vgi_cli.registry import names as registry
from vgi_cli.reporting import Reporter
from vgi_cli.runs.store import CHAINS
from vgi_cli.samplers.base import Imputer, SamplerInput
from vgi_cli.samplers.recoded import Recoded
from vgi_cli.samplers.turns import InTurn

NOT_INCLUDED = (
    "the draws do not include the uncertainty of the fit: Rubin's rules would give standard errors that are too small"
)

KINDS = {"bootstrap": "bootstrap refits", "posterior": "posterior draws"}
"""What `--uncertainty` may name, in words."""

Capture: TypeAlias = Callable[[Any], Any]
"""Makes a step of a chain, a function of tensors, faster."""


def capture_on(device: torch.device, mode: str, reporter: Reporter) -> Capture | None:
    """How steps of chains are captured: as CUDA graphs on a GPU, unless `mode` is off; None elsewhere. A chain takes at
    least 20 sweeps and its step is recorded once for thousands of rows, so that `auto` and `on` are the same here."""
    if device.type != "cuda" or mode == "off":
        return None
    from vgi_cli.chains.captured import CapturedSteps

    said: list[str] = []

    def capture(step: Any) -> Any:
        if (line := unfused(device)) is not None and not said:
            said.append(line)
            reporter.say(line)
        return CapturedSteps(step, reporter.warn, device)

    return capture


def sampler_of(fitted: FittedTable, request: ImputeRequest) -> str:
    """The sampler that a request means: of runs with trees `auto` revises the exact draws by these. UsageError where
    the run cannot offer it."""
    sampler = fitted.sampler(request.sampler)
    if sampler == "trees" and request.uncertainty == "none":
        raise UsageError(
            "--sampler trees needs the bootstrap refits that its trees were learnt with, got --uncertainty none",
            "use --sampler exact",
        )
    if request.sampler == "auto" and sampler == "exact" and fitted.trees and request.uncertainty != "none":
        return "trees"
    return sampler


def checked_sampler(fitted: FittedTable, request: ImputeRequest) -> str:
    """As `sampler_of`, after what a run cannot offer with it was refused."""
    sampler, uncertainty = sampler_of(fitted, request), request.uncertainty
    traits = registry.SAMPLERS[sampler].traits
    if uncertainty in KINDS:
        _require(fitted, uncertainty)
        if not traits.refits:
            able = " or ".join(name for name, entry in registry.SAMPLERS.items() if entry.traits.refits)
            raise UsageError(
                f"--uncertainty {uncertainty} needs --sampler {able}, got '{sampler}'", "leave out --sampler"
            )
    held_out = fitted.run.record.data.rows_held_out
    if traits.stored and held_out:
        other = fitted.sampler("auto")
        raise UsageError(
            f"sampler 'chains' needs chains of every row, and run '{fitted.run.name}' held out {held_out} rows (--val)",
            f"use --sampler {other}" if other != sampler else "fit again without --val: this run has no other sampler",
        )
    return sampler


def make_imputer(
    fitted: FittedTable, request: ImputeRequest, device: torch.device, work: Work
) -> tuple[Imputer, torch.dtype]:
    """The imputer that is asked for, and the precision that it wants.

    request  with the number of draws
    work     of the refits that are made here; TimeUp where its limit is over first
    """
    sampler = checked_sampler(fitted, request)
    traits = registry.SAMPLERS[sampler].traits
    included = parameter_uncertainty(fitted, sampler, request.uncertainty)
    if included is not None:
        m = len(fitted.refits) if request.m is None else request.m
        if request.point is None:
            models, trees, more, numbers = enough_refits(fitted, m, request.table, work)
        else:  # what is averaged needs no refit for each draw
            models, trees, more, numbers = fitted.refits, fitted.trees, "", range(len(fitted.refits))
        maps = [fitted.recoders.get(str(one.table.transform)) for one in recipes(fitted.recipe, numbers)]
        work.reporter.say(f"the draws include the uncertainty of the fit: {included}{more}")
    else:
        imputer = fitted.recipe.method.settings.get("imputer")
        improper = imputer is not None and not registry.COMPLETERS[imputer].traits.proper
        if not traits.stored or fitted.recipe.method.entry.traits.likelihood or improper:
            several = request.point is None and request.m != 1
            tell = work.reporter.warn if several and request.uncertainty != "none" else work.reporter.say
            tell(NOT_INCLUDED)
        models, trees, maps = (fitted.model,), (), []
    capture = capture_on(device, request.said("compile") or fitted.recipe.compile, work.reporter)
    on_device = [model.to(device) for model in models]
    if not any(maps):
        return build_imputer(fitted, sampler, on_device, device, capture, trees)
    each: list[Imputer] = []
    for i, (model, map) in enumerate(zip(on_device, maps, strict=True)):
        imputer, dtype = build_imputer(fitted, sampler, [model], device, capture, trees[i : i + 1], map)
        each.append(imputer if map is None else Recoded(imputer, map, map.inverse))
    return InTurn(each), dtype


def parameter_uncertainty(fitted: FittedTable, sampler: str, uncertainty: str) -> str | None:
    """What carries the uncertainty of the parameters into the draws, in words; None: nothing does."""
    if not registry.SAMPLERS[sampler].traits.refits or not fitted.refits or uncertainty == "none":
        return None
    several = len(averaged(fitted.recipe))
    return uncertainty_words(len(fitted.refits), refitted_by(fitted)) + (f" of {several} models" if several > 1 else "")


def _require(fitted: FittedTable, uncertainty: str) -> None:
    """UsageError where a run does not hold what `--uncertainty` names."""
    holds = None
    if fitted.refits:
        holds = "posterior" if refitted_by(fitted) == "posterior" else "bootstrap"
    if holds == uncertainty:
        return
    what = f"--uncertainty {uncertainty}: run '{fitted.run.name}' holds"
    if holds is not None:
        raise UsageError(f"{what} {KINDS[holds]} instead", f"use --uncertainty {holds}, or leave it out")
    hint = _refit_hint(fitted) if uncertainty == "bootstrap" else "fit again with --set uncertainty=posterior"
    raise UsageError(f"{what} no {KINDS[uncertainty]}", hint)


def _refit_hint(fitted: FittedTable) -> str:
    """What to do about a run without refits: fit again, in a way that can have them."""
    if refitting(fitted.recipe) is not None:
        return "fit again with --set bootstrap=20"
    model = registry.MODELS[fitted.recipe.model.name]
    methods = [
        name
        for name, entry in registry.METHODS.items()
        if entry.needs <= model.provides and refitting(fitted.recipe.with_method(name)) is not None
    ]
    return f"leave it out: of {fitted.recipe.model.name} only fits by {', '.join(methods)} have refits"


def build_imputer(
    fitted: FittedTable,
    sampler: str,
    models: Sequence[Any],
    device: torch.device,
    capture: Capture | None = None,
    trees: Sequence[Sequence[Tree | None]] = (),
    map: Recoder | None = None,
    idle: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Imputer, torch.dtype]:
    """The imputer for models that are on the device; `capture`: see `capture_on`; trees: of each model, where they are
    used; `map`: to the rows that the models see, where it is not those of the fit; `idle`: as of `SamplerInput`."""
    entry = registry.SAMPLERS[sampler]
    precision = entry.traits.precision
    dtype: torch.dtype = next(fitted.model.parameters()).dtype if precision is None else getattr(torch, precision)
    # Refits by em are in double precision, whatever the fit is in.
    models = [model if next(model.parameters()).dtype == dtype else copy.deepcopy(model).to(dtype) for model in models]
    imputer = fitted.recipe.method.settings.get("imputer")
    chains = entry.needs & {"conditionals", "imputations"}
    model, method, levels = fitted.recipe.model.name, fitted.recipe.method.named, bool(fitted.layout.discrete)
    inputs = SamplerInput(
        models,
        fitted.layout,
        fitted.conditionals.to(device) if chains and fitted.conditionals is not None else None,
        {name: value.to(device) for name, value in fitted.held.items()} if chains else {},
        single=imputer is not None and registry.COMPLETERS[imputer].traits.single,
        trees=trees if sampler == "trees" else (),
        capture=capture,
        chains={name: value.to(device) for name, value in fitted.run.tensors(CHAINS).items()} if chains else {},
        rounding=rounding_in(fitted, map),
        others=registry.fills_new_rows(model, method, levels=levels),
        idle=idle,
    )
    return entry.load()(inputs), dtype


def rounding_in(fitted: FittedTable, map: Recoder | None) -> rounding.RoundedCells | None:
    """What cells of rounded columns stand for, where the fit has drawn them within that; `map`: see `build_imputer`."""
    if not em_settings(fitted.recipe).redraws:
        return None
    return rounding.rounding_in(fitted.schema) if map is None else map.rounding
