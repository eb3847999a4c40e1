"""What every registered sampler promises, found through the registry: the law of the model, inside the box, keyed."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from tests.oracles import GaussianConditionals
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.base import Model
from vgi_cli.registry import names as registry
from vgi_cli.samplers import plmcmc
from vgi_cli.samplers.base import Box, Imputer, SamplerInput, impute

D, N, FEW = 3, 1024, 80
LEFT = frozenset({"conditionals", "imputations"})
SMALL = {"flow": {"steps": 1, "hidden": 6, "bins": 4, "blocks": 1}, "vae": {"encoder": (6,), "decoder": (6,)}}
every = pytest.mark.parametrize("name", list(registry.SAMPLERS))
SLOW = ("plmcmc",)
quick = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in registry.SAMPLERS]
)


class Case(NamedTuple):
    """Rows of a model, some of whose cells are hidden, and what a sampler of a run of it is built from."""

    fitted: SamplerInput
    full: Tensor
    missing: Tensor

    @property
    def x(self) -> Tensor:
        return self.full.masked_fill(self.missing, 0.0)


def case(name: str, rows: int = N) -> Case:
    """The first model of the registry with what the sampler needs; where it needs conditionals, the model's own."""
    needs = registry.SAMPLERS[name].needs
    chosen = next(model for model, entry in registry.MODELS.items() if needs <= entry.provides | LEFT)
    family = registry.MODELS.load(chosen)
    model: Model = family.build(family.Config(**SMALL.get(chosen, {})), Layout.plain(D)).double()
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, D, generator=g, dtype=torch.float64) @ torch.randn(D, D, generator=g, dtype=torch.float64)
    model.initialise(x, g)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
        full = model.eval().sample(rows, g)
    missing = torch.rand(rows, D, generator=g) < 0.5
    missing[0], missing[1] = True, False
    layout = Layout.plain(D)
    if not needs & LEFT:
        return Case(SamplerInput([model], layout), full, missing)
    held = {
        "values": torch.cat([full[missing], full.new_zeros(1)])[:, None].expand(-1, 3).contiguous(),
        "keys": torch.arange(rows),
        "missing": missing,
        "start": full[:100],
    }
    return Case(SamplerInput([model], layout, conditionals_of(model), held), full, missing)


def conditionals_of(model: Model) -> GaussianConditionals:
    """The exact conditionals of a Gaussian model, from the curvature of its log density."""
    origin = torch.zeros(D, dtype=torch.float64)
    covariance = -torch.linalg.inv(torch.autograd.functional.hessian(lambda x: model.log_prob(x[None])[0], origin))
    (gradient,) = torch.autograd.grad(model.log_prob(origin.requires_grad_()[None])[0], origin)
    return GaussianConditionals(covariance @ gradient, (covariance + covariance.T) / 2)


def built(name: str, fitted: SamplerInput) -> Imputer:
    imputer: Imputer = registry.SAMPLERS.load(name)(fitted)
    assert isinstance(imputer, Imputer)
    return imputer


def noise(rows: int, draws: int) -> KeyedNoise:
    return KeyedNoise(3, tuple("abc"), torch.arange(rows), torch.arange(draws))


def interval(low: float, high: float) -> Box:
    return Box(torch.full((D,), low, dtype=torch.float64), torch.full((D,), high, dtype=torch.float64))


@every
def test_what_it_needs_are_capabilities(name: str) -> None:
    entry = registry.SAMPLERS[name]
    assert entry.needs <= registry.CAPABILITIES.keys() and entry.about
    assert entry.traits.precision in (None, "float32", "float64")


@every
def test_observed_cells_stay_bit_equal_and_fills_lie_in_the_box(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plmcmc, "FEWEST_STEPS", 40)
    monkeypatch.setattr(plmcmc, "STEPS_PER_COLUMN", 10)
    made = case(name, FEW)
    inside = (made.full.abs() < 1.5) | made.missing  # what is observed lies in the box, as the encoder sees to
    missing = made.missing | ~inside
    fitted, x = made.fitted, made.full.masked_fill(missing, 0.0)
    if fitted.held:
        values = torch.cat([made.full[missing], x.new_zeros(1)])[:, None].expand(-1, 3).contiguous()
        fitted = fitted._replace(held={**fitted.held, "missing": missing, "values": values})
    box = interval(-1.5, 1.5)
    draws = impute(built(name, fitted), x, missing, noise(FEW, 3), box)
    assert draws.shape == (3, FEW, D)
    assert bool((draws == x)[:, ~missing].all())
    assert bool(box.contains(draws)[:, missing].all())


@quick
def test_a_draw_depends_on_its_keys_alone(name: str) -> None:
    """Not on how many others are drawn, nor on the other rows."""
    made = case(name, FEW)
    free = interval(-math.inf, math.inf)
    whole = impute(built(name, made.fitted), made.x, made.missing, noise(FEW, 3), free)
    some = torch.tensor([40, 0, 7])
    few = noise(FEW, 2).select(rows=some)
    assert torch.equal(impute(built(name, made.fitted), made.x[some], made.missing[some], few, free), whole[:2, some])


@quick
def test_rows_of_the_model_stay_rows_of_the_model(name: str) -> None:
    """Rows drawn from p whose hidden cells are drawn anew given the others have the law p again, whatever p is."""
    made = case(name)
    drawn = impute(built(name, made.fitted), made.x, made.missing, noise(N, 1), interval(-math.inf, math.inf))[
        0
    ].detach()
    with torch.no_grad():
        fresh = made.fitted.models[0].sample(20 * N, torch.Generator().manual_seed(1))
    scale = fresh.std(0)

    def moments(x: Tensor) -> Tensor:  # bounded, so that a heavy tail is no excuse
        z = ((x - fresh.mean(0)) / scale).tanh()
        return torch.cat([z, z.square(), z * z.roll(1, 1)], 1)

    ours, theirs = moments(drawn), moments(fresh)
    error = (theirs.var(0) * (1 / N + 1 / len(fresh))).sqrt()
    assert float(((ours.mean(0) - theirs.mean(0)) / error).abs().max()) < 4.5
