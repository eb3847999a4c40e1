"""Columns that no row has both of, as in two files one under the other: independent given the others in every fit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.resamples import refits
from tests.selection import some
from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.methods.em.em import METHOD, EmConfig
from vgi_cli.methods.start import gaussian_draws
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

Y, Z = 3, 1


def files(layout: Layout, rows: int = 400) -> TensorTable:
    """A number, z, a level where there is one, and y: half of the rows lack z, the others y."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 1, dtype=torch.float64, generator=generator)
    level = torch.randint(2, (rows, 1), generator=generator).double()
    noise = torch.randn(rows, 2, dtype=torch.float64, generator=generator)
    table = torch.cat([x, 0.7 * x + 0.7 * noise[:, :1], level, 0.8 * x + 0.6 * noise[:, 1:] + 0.5 * level], 1)
    missing = torch.zeros(rows, 4, dtype=torch.bool)
    missing[: rows // 2, Z] = missing[rows // 2 :, Y] = True
    return make_table(torch.where(missing, 0.0, table), missing, layout=layout)


def partial(covariance: Tensor, i: int, j: int) -> Tensor:
    """[K] correlations given all others."""
    precision = torch.linalg.inv(covariance)
    return -precision[:, i, j] / (precision[:, i, i] * precision[:, j, j]).sqrt()


MIXED = Layout.of(["x", "z", "level", "y"], levels=[0, 0, 2, 0])
SETTINGS = {
    "one": (Layout.plain(4), {"components": 1}),
    "two": (Layout.plain(4), {"components": 2}),
    "shrunk to pairs": (Layout.plain(4), {"components": 1, "shrink_to": "pairs"}),
    "with outliers": (Layout.plain(4), {"components": 2, "outliers": True}),
    "beside levels": (MIXED, {"components": 2}),
    "shifted by levels": (MIXED, {"components": 1, "dependence": "linear"}),
}


@pytest.mark.parametrize("name", some(["with outliers", "shrunk to pairs", "shifted by levels"], SETTINGS))
def test_they_are_independent_given_the_others_in_fits_and_refits(name: str) -> None:
    layout, settings = SETTINGS[name]
    table, config = files(layout), EmConfig(epochs=20)
    model = GaussianMixture.build(MixtureConfig.model_validate({"covariance": "full", **settings}), layout)
    state = METHOD.init(model, table, config, torch.Generator().manual_seed(1))
    for _ in METHOD.run(state):
        pass
    places = [list(layout.continuous).index(j) for j in (Y, Z)]

    def found(of: GaussianFamily) -> Tensor:
        moments = of.gaussians.moments()
        return partial(moments.covariance[: of.gaussians.K].detach(), places[0], places[1])

    torch.testing.assert_close(found(state.model), torch.zeros(model.gaussians.K).double(), atol=1e-8, rtol=0)
    for refit in refits(state.model, table, config, range(2), lambda n: torch.Generator().manual_seed(n)):
        other = GaussianMixture.build(MixtureConfig.model_validate({"covariance": "full", **settings}), layout).double()
        other.load_state_dict(refit.parameters)
        torch.testing.assert_close(found(other), torch.zeros(model.gaussians.K).double(), atol=1e-8, rtol=0)


def test_the_likelihood_of_the_rows_stays() -> None:
    table = files(Layout.plain(4))
    model = GaussianMixture.build(MixtureConfig(components=2, covariance="full"), table.layout).double()
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(100, 4, dtype=torch.float64, generator=generator)
    rows[:, Y] += rows[:, Z]
    model.initialise(rows, generator)
    before = model.marginal_log_prob(table.x, table.missing).detach()
    apart = partial(model.gaussians.moments().covariance.detach(), Y, Z)
    model.separate(torch.tensor([[Z, Y]]))
    after = model.marginal_log_prob(table.x, table.missing).detach()
    torch.testing.assert_close(after, before)
    assert bool((apart > 0.3).all())  # it is not that nothing was done


def test_first_draws_of_missing_cells_take_them_for_independent() -> None:
    """Beside means, where they started before, their partial correlation was -0.4."""
    table = files(Layout.plain(4), rows=4000)
    x = table.x.clone()
    x[table.missing] = gaussian_draws(table, 1, torch.Generator().manual_seed(0))[:, 0]
    assert abs(float(partial(torch.cov(x.T)[None], Y, Z))) < 0.05


def levels_apart(rows: int = 600) -> TensorTable:
    """x, y beside it, and levels v and z that hang on x: half of the rows lack z, the others y and v."""
    generator = torch.Generator().manual_seed(3)
    x, noise = (torch.randn(rows, n, dtype=torch.float64, generator=generator) for n in (1, 3))
    y = 0.8 * x + 0.6 * noise[:, :1]
    v = (x + noise[:, 1:2] > 0).double()
    z = torch.bucketize(x + 0.7 * noise[:, 2:], torch.tensor([-0.6, 0.6]).double()).double()
    missing = torch.zeros(rows, 4, dtype=torch.bool)
    missing[: rows // 2, 3] = missing[rows // 2 :, 1] = missing[rows // 2 :, 2] = True
    table = torch.cat([x, y, v, z], 1)
    layout = Layout.of(["x", "y", "v", "z"], levels=[0, 0, 2, 3])
    return make_table(torch.where(missing, 0.0, table), missing, layout=layout)


@pytest.mark.parametrize("kind", ["fit", "refit"])
def test_numbers_and_levels_that_are_never_together_are_independent_given_the_others(kind: str) -> None:
    """The law of y is the same for every level of z, and that of v, where these are no others' doing."""
    table = levels_apart()
    settings = MixtureConfig(components=1, covariance="full", dependence="linear", outliers=False)
    model = GaussianMixture.build(settings, table.layout)
    state = METHOD.init(model, table, EmConfig(epochs=40), torch.Generator().manual_seed(1))
    for _ in METHOD.run(state):
        pass
    model = GaussianMixture.build(settings, table.layout).double()
    model.load_state_dict(state.model.state_dict())
    if kind == "refit":
        (refit,) = refits(model, table, EmConfig(epochs=40), range(1), lambda n: torch.Generator().manual_seed(n))
        model.load_state_dict(refit.parameters)
    laws = model.cell_laws()
    grid = torch.cartesian_prod(torch.linspace(-2, 2, 5).double(), torch.zeros(1).double(), torch.arange(2.0).double())
    at = [torch.cat([grid, torch.full((len(grid), 1), float(level)).double()], 1) for level in range(3)]
    means = torch.stack([laws.number(x, 1).centre() for x in at])
    torch.testing.assert_close(means, means[:1].expand_as(means), atol=1e-6, rtol=0)
    probabilities = torch.stack([laws.probabilities(x, 2)[:, 1] for x in at]).detach()
    torch.testing.assert_close(probabilities, probabilities[:1].expand_as(probabilities), atol=1e-6, rtol=0)
    assert float(probabilities[0].max() - probabilities[0].min()) > 0.5  # it does hang on x
