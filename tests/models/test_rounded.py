"""Places of rounded cells within their rounding, and probabilities of such cells, against quadrature; and what fits and
imputations make of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.test_mixed import LEVELS, built
from tests.models.test_mixture import model_and_rows
from tests.resamples import refits
from tests.selection import first
from vgi_cli.data import TensorTable, make_table
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.em import em
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.rounded import log_cells, redrawn, redrawn_rows
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.exact import ExactImputer

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance",
    "models.gaussian.mixture.GaussianMixture.tolerance",
    "methods.em.em.REDRAWS",
    "models.gaussian.rounded.SWEEPS",
)

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


class Steps:
    """Cells of one width in some dimensions: [k width, (k + 1) width)."""

    def __init__(self, dims: Sequence[int], width: float) -> None:
        self.dims, self.width = list(dims), width

    def ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        low = (x[:, self.dims].double() / self.width).floor() * self.width
        return low, low + self.width


def noise_of(R: int, D: int, draws: int = 1) -> KeyedNoise:
    return KeyedNoise(3, numbered("column", D), torch.arange(R), torch.arange(draws), "test")


def in_box(model: GaussianFamily, x: Tensor, missing: Tensor, steps: Steps) -> tuple[Tensor, Tensor, list[int]]:
    """Of one row: the places [n, D] of a quadrature over its rounded cells that are there, and the weight times the
    density of each [n]; and which cells these are."""
    low, high = (side[0] for side in steps.ends(x[None]))
    seen = [(i, j) for i, j in enumerate(steps.dims) if not missing[j]]
    axes = [torch.from_numpy(0.5 * (high[i] + low[i]).item() + 0.5 * steps.width * NODES) for i, _ in seen]
    rows, weight = x.expand(len(NODES) ** len(seen), -1).clone(), torch.ones(len(NODES) ** len(seen)).double()
    for place, index in enumerate(itertools.product(range(len(NODES)), repeat=len(seen))):
        for (_, j), axis, at in zip(seen, axes, index, strict=True):
            rows[place, j] = axis[at]
            weight[place] *= 0.5 * steps.width * WEIGHTS[at]
    with torch.no_grad():
        return rows, weight * model.marginal_log_prob(rows, missing.expand(len(rows), -1)).exp(), [j for _, j in seen]


def cases() -> list[tuple[str, GaussianFamily, Tensor, Steps]]:
    plain, x, _ = model_and_rows("full with outliers")
    mixed, rows = built("full with outliers")
    numbers = [i for i, n in enumerate(LEVELS) if n == 0]
    shifted, others = built("full with outliers shifted")
    return [
        ("plain", plain, x, Steps([1, 2], 0.9)),
        ("levels", mixed, rows, Steps(numbers, 0.9)),
        ("shifted", shifted, others, Steps(numbers, 0.9)),
    ]


HOLES: list[tuple[int, ...]] = [(), (0,), (2,), (0, 3)]


@pytest.mark.parametrize(
    ("which", "holes"),
    [
        pytest.param(which, holes, id=f"{name}-{holes}", marks=[pytest.mark.slow] * (holes not in few))
        for which, (name, few) in enumerate([("plain", [()]), ("levels", [(0,)]), ("shifted", [(2,), (0, 3)])])
        for holes in HOLES
    ],
)
def test_probabilities_of_cells_are_those_of_quadrature(which: int, holes: tuple[int, ...]) -> None:
    _, model, x, steps = cases()[which]
    missing = torch.zeros(x.shape[1], dtype=torch.bool)
    missing[list(holes)] = True
    for row in x[:3]:
        _, mass, _ = in_box(model, row, missing, steps)
        n = 4000
        log_p = log_cells(model, row.expand(n, -1), missing.expand(n, -1), steps, noise_of(n, len(row)))
        p = log_p.exp()
        assert p.mean().item() == pytest.approx(mass.sum().item(), abs=4 * p.std().item() / n**0.5 + 1e-9)
        assert p.std() < 1.5 * p.mean()


def test_without_rounded_cells_it_is_the_density() -> None:
    model, x, missing = model_and_rows("factor with outliers")
    got = log_cells(model, x, missing, Steps([], 1.0), noise_of(*x.shape))
    torch.testing.assert_close(got, model.marginal_log_prob(x, missing).detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["plain", "full with outliers", "full with outliers shifted"])
@pytest.mark.parametrize("holes", [(), (0,), (3,)])
def test_places_have_the_law_of_the_row(form: str, holes: tuple[int, ...]) -> None:
    """Means and second moments of many draws against quadrature; holes among numbers and levels."""
    if form == "plain":
        model, x, _ = model_and_rows("full with outliers")
        steps = Steps([1, 2], 1.2)
    else:
        model, x = built(form)
        steps = Steps([i for i, n in enumerate(LEVELS) if n == 0], 1.2)
    missing = torch.zeros(x.shape[1], dtype=torch.bool)
    missing[list(holes)] = True
    row, n = x[4], 4000
    places, mass, dims = in_box(model, row, missing, steps)
    law = mass / mass.sum()
    drawn = redrawn(model, row.expand(n, -1), missing.expand(n, -1), steps, noise_of(n, len(row)), sweeps=12)
    fixed = [j for j in range(len(row)) if j not in dims]
    assert torch.equal(drawn[:, fixed], row.expand(n, -1)[:, fixed])
    for i, j in itertools.combinations_with_replacement(dims, 2):
        for got, at in ((drawn[:, i], places[:, i]), (drawn[:, i] * drawn[:, j], places[:, i] * places[:, j])):
            error = 4.5 * got.std().item() / n**0.5
            assert got.mean().item() == pytest.approx((law @ at).item(), abs=error)


def test_a_row_does_not_depend_on_the_others() -> None:
    model, x, missing = model_and_rows("full")
    steps = Steps([0, 3], 0.7)
    every = redrawn_rows(model, x.repeat(30, 1), missing.repeat(30, 1), steps, 5)
    few = redrawn_rows(model, x, missing, steps, 5)
    torch.testing.assert_close(every[: len(x)], few, rtol=1e-9, atol=1e-9)
    low, high = steps.ends(x)
    known = ~missing[:, [0, 3]]
    inside = (few[:, [0, 3]] >= low) & (few[:, [0, 3]] <= high)
    assert inside[known].all() and not torch.equal(few, x)


class Points:
    """A scale of five points whose cells are told by their ends."""

    dims = (0, 1)
    cuts = torch.tensor([-9.0, -1.2, -0.4, 0.4, 1.2, 9.0], dtype=torch.float64)

    def ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        cell = torch.searchsorted(self.cuts, x[:, :2].double().contiguous()).clamp(1, 5)
        ends = self.cuts.clamp(-2.2, 2.2)
        return ends[cell - 1], ends[cell]


def scales(N: int, seed: int = 0, share: float = 0.3) -> TensorTable:
    """Two scales of correlation 0.7 before they are cut, spread evenly, and a number that goes with both; holes."""
    g = torch.Generator().manual_seed(seed)
    common = torch.randn(N, 1, generator=g, dtype=torch.float64)
    z = 0.7**0.5 * common + 0.3**0.5 * torch.randn(N, 2, generator=g, dtype=torch.float64)
    low, high = Points().ends(z)
    spread = low + (high - low) * torch.rand(N, 2, generator=g, dtype=torch.float64)
    x = torch.cat([spread, 0.8 * common + 0.6 * torch.randn(N, 1, generator=g, dtype=torch.float64)], 1)
    return make_table(x, torch.rand(N, 3, generator=g) < share)._replace(rounding=Points())


def correlation(model: GaussianFamily) -> float:
    """Of the two scales, under one component."""
    covariance = torch.linalg.inv(model.gaussians.precision()[0])[0].detach()
    return float(covariance[0, 1] / (covariance[0, 0] * covariance[1, 1]).sqrt())


def fitted(table: TensorTable, family: str = "mixture", **settings: int) -> em.EmState:
    model: GaussianFamily
    if family == "fa":
        model = FactorAnalysis.build(FaConfig(factors=1), table.layout)
    else:
        model = GaussianMixture.build(MixtureConfig(components=1, covariance="full", outliers=False), table.layout)
    config = em.EmConfig(**settings)  # type: ignore[arg-type]
    return em.init(model, table, config, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", first(1, ["mixture", "fa"]))
def test_a_fit_finds_how_scales_hang_together(family: str) -> None:
    table = scales(6000)
    found = {}
    for redraws in (0, 8):
        state = fitted(table, family, redraws=redraws)
        list(em.run(state))
        assert state.converged and state.rounds == redraws
        found[redraws] = correlation(state.model)
    assert found[0] < 0.62 and found[8] == pytest.approx(0.7, abs=0.025)


def test_redraws_are_chosen_by_sizes() -> None:
    table = scales(200)
    assert fitted(table).chosen()["method.redraws"] == em.REDRAWS
    assert fitted(table, redraws=2).chosen()["method.redraws"] == 2
    assert fitted(table._replace(rounding=None), redraws=2).chosen()["method.redraws"] == 0
    model = fitted(table).model
    many = TensorTable(torch.empty(1, 3).expand(10**9, 3), table.missing, table.layout, rounding=Points())
    assert em.redraws_of(em.EmConfig(), model, many) == 0


@pytest.mark.parametrize("stop", [1, 10])
def test_resuming_is_exact_between_redraws(stop: int) -> None:
    table = scales(300)
    whole = fitted(table)
    states = [event.metrics["objective"] for event in em.run(whole) if isinstance(event, EpochEnd)]
    half, resumed = fitted(table), fitted(table)
    for _ in zip(range(stop), em.run(half), strict=False):
        pass
    resumed.restore(half.parts())
    rest = [event.metrics["objective"] for event in em.run(resumed) if isinstance(event, EpochEnd)]
    assert len(states) > stop + 2 and rest == states[half.epoch :]
    assert resumed.rounds == em.REDRAWS and (half.rounds > 0) == (stop == 10)
    for name, value in whole.parts()["model"].items():
        assert torch.equal(value, resumed.parts()["model"][name])


def test_refits_see_cells_drawn_from_the_fit() -> None:
    table = scales(3000)
    state = fitted(table, redraws=6)
    list(em.run(state))
    plain = fitted(table, redraws=0)
    list(em.run(plain))
    means = {}
    for redraws, one in ((6, state), (0, plain)):
        found = []
        for refit in refits(one.model, table, em.EmConfig(redraws=redraws), range(4), torch.Generator().manual_seed):
            one.model.load_state_dict(refit.parameters)
            found.append(correlation(one.model))
        means[redraws] = np.mean(found)
    assert means[0] < 0.62 and means[6] == pytest.approx(0.7, abs=0.03)


def test_fills_go_with_the_cells_as_they_are_rounded() -> None:
    """Correlation of the cells of two scales among rows where one of them is filled: with places drawn as of complete
    rows, and too small with cells spread evenly and a fit to these."""
    table = scales(4000)
    complete = scales(4000, share=0.0)
    x, missing = table.x, table.missing

    def cells(rows: Tensor) -> Tensor:
        return torch.searchsorted(Points.cuts, rows[:, :2].contiguous()).clamp(1, 5).double()

    true = torch.corrcoef(cells(complete.x).T)[0, 1].item()
    far = torch.full((3,), torch.inf, dtype=torch.float64)
    off = {}
    for redraws, rounding in ((6, Points()), (0, None)):
        state = fitted(table, redraws=redraws)
        list(em.run(state))
        imputer = ExactImputer([state.model], rounding=rounding)
        drawn = impute(imputer, x, missing, noise_of(len(x), 3, draws=2), Box(-far, far))
        assert torch.equal(torch.where(missing, 0.0, drawn), x.expand_as(drawn))
        one = missing[:, 0] != missing[:, 1]
        off[redraws] = torch.corrcoef(cells(drawn[:, one].flatten(0, 1)).T)[0, 1].item() - true
    assert off[0] < -0.06 and abs(off[6]) < 0.03


def test_every_draw_of_a_level_beside_rounded_cells_is_a_new_one() -> None:
    """Rows that are all alike, of which a level is missing that shifts the numbers: each has it as often, and as often
    as by quadrature. Levels that were drawn once, with the cells spread as the row has them, differed from row to row
    eight times more than by chance."""
    model, x = built("full with outliers shifted", K=1)
    steps = Steps([i for i, n in enumerate(LEVELS) if n == 0], 2.5)
    R, m, shifting = 64, 50, 2
    assert shifting in model.shifting
    row, missing = x[11].clone(), torch.zeros(x.shape[1], dtype=torch.bool)
    missing[shifting] = True
    low, high = steps.ends(row[None])
    u = torch.rand(R, len(steps.dims), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    spread = row.expand(R, -1).clone()
    spread[:, steps.dims] = low + u * (high - low)
    far = torch.full((x.shape[1],), torch.inf, dtype=torch.float64)
    imputer = ExactImputer([model], rounding=steps)
    drawn = impute(imputer, spread, missing.expand(R, -1), noise_of(R, len(row), draws=m), Box(-far, far))
    share = (drawn[..., shifting] == 0).double().mean(0)
    p = share.mean().item()
    assert share.var().item() < 1.6 * p * (1 - p) / m  # a chi-squared on 63 degrees of freedom: beyond in 1 of 1,000
    masses = []
    for level in range(LEVELS[shifting]):
        row[shifting] = level
        masses.append(in_box(model, row, torch.zeros_like(missing), steps)[1].sum().item())
    assert p == pytest.approx(masses[0] / sum(masses), abs=4 * (p * (1 - p) / (R * m)) ** 0.5)


@pytest.mark.parametrize("hole", [1, 0])
def test_numbers_given_levels_are_asked_once_for_the_same_levels(hole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels that are missing are drawn anew before each sweep; those that are there stay."""
    model, x = built("full with outliers shifted")
    given, asked = model.given_levels, []
    monkeypatch.setattr(model, "given_levels", lambda *rows: asked.append(1) or given(*rows))
    missing = torch.zeros(x.shape, dtype=torch.bool)
    missing[:, hole] = True
    redrawn(model, x, missing, Steps([1, 3], 1.2), noise_of(len(x), x.shape[1]), sweeps=3)
    assert len(asked) == (1 if LEVELS[hole] == 0 else 3)
