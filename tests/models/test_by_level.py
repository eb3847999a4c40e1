"""Mixtures of which each component has one level of a column: their law, what EM learns, and what they refuse."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from scipy.stats import chisquare
from torch import Tensor

import vgi_cli
from tests.selection import first
from vgi_cli.data import TensorTable
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.methods.em.em import EmConfig
from vgi_cli.methods.em.sizing import ComparedRows, choose_size, plain
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.gaussian.family import FilledRows, em_table
from vgi_cli.models.gaussian.mixture import POOLED_LEVELS, GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.shifted import Shifted

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance", "models.gaussian.mixture.GaussianMixture.tolerance"
)

LAYOUT = Layout.of("xayb", levels=(0, 3, 0, 2))
A, B = 1, 3


def rows_of(N: int, seed: int = 0) -> Tensor:
    """Two numbers, whose covariance depends on three levels, and a column of two levels that shifts them; [N, 4]."""
    g = torch.Generator().manual_seed(seed)
    a = torch.multinomial(torch.tensor([0.5, 0.3, 0.2]), N, replacement=True, generator=g)
    b = (torch.rand(N, generator=g) < torch.tensor([0.3, 0.6, 0.5])[a]).long()
    slope = torch.tensor([0.9, 0.0, -0.9]).double()[a]
    x = torch.randn(N, generator=g, dtype=torch.float64)
    y = slope * x + 0.5 * torch.randn(N, generator=g, dtype=torch.float64) + b
    return torch.stack([x, a.double(), y, b.double()], 1)


def with_holes(x: Tensor, share: float = 0.3) -> Tensor:
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < share
    missing[missing.all(1), 0] = False
    return missing


def fitted(x: Tensor, missing: Tensor, dependence: str = "linear", pooling: float | None = None) -> GaussianMixture:
    settings = {"by": "a", "covariance": "full", "outliers": True, "dependence": dependence}
    model = GaussianMixture.build(MixtureConfig.model_validate(settings), LAYOUT).double()
    model.initialise_filled(FilledRows(x, missing), torch.Generator().manual_seed(2))
    climb(model, em_table(x, missing), model.penalty(pooling, 1e-9), epochs=200, tolerance=1e-9)
    return model


@pytest.mark.parametrize("dependence", ["none", "linear"])
def test_each_component_has_the_rows_of_one_level(dependence: str) -> None:
    x = rows_of(400)
    model = fitted(x, torch.zeros_like(x, dtype=torch.bool), dependence)
    share = torch.softmax(model.gaussians.log_prob(x) + model.log_weights(), -1)
    broad = share[:, 3:].sum(1)
    own = share[torch.arange(len(x)), x[:, A].long()]
    assert torch.allclose(own + broad, torch.ones(len(x)).double(), atol=1e-12)  # nothing of the other levels
    assert model.gaussians.K == 3 and len(model.log_weights()) == 4


def test_without_a_prior_complete_rows_give_the_means_and_covariances_of_each_level() -> None:
    x = rows_of(600)
    settings = {"by": "a", "covariance": "full", "outliers": False}
    model = GaussianMixture.build(MixtureConfig.model_validate(settings), LAYOUT).double()
    absent = torch.zeros_like(x, dtype=torch.bool)
    model.initialise_filled(FilledRows(x, absent), torch.Generator().manual_seed(2))
    penalty = model.penalty(0.0, 0.0)._replace(common=0.0, mean=0.0, tables=0.0)
    climb(model, em_table(x, absent), penalty, epochs=50, tolerance=1e-12)
    precision = model.gaussians.precision()[0]
    for level in range(3):
        own = x[x[:, A] == level][:, [0, 2]]
        assert torch.allclose(model.gaussians.means()[level], own.mean(0), atol=1e-6)
        assert torch.allclose(torch.linalg.inv(precision[level]), own.mT.cov(correction=0), atol=1e-5)
        assert abs(float(model.log_weights()[level].detach().exp()) - len(own) / len(x)) < 1e-6


@pytest.mark.parametrize("dependence", first(1, ["linear", "none"]))
def test_em_climbs_with_holes_and_the_density_sums_and_integrates_to_one(dependence: str) -> None:
    x = rows_of(300)
    missing = with_holes(x)
    settings = {"by": "a", "covariance": "full", "outliers": True, "dependence": dependence}
    model = GaussianMixture.build(MixtureConfig.model_validate(settings), LAYOUT).double()
    model.initialise_filled(FilledRows(x, missing), torch.Generator().manual_seed(2))
    table, penalty = em_table(x, missing), model.penalty(None, 1e-9)
    values = [float(model.em_step(table, penalty).objective) for _ in range(12)]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(values))
    grid = torch.linspace(-30, 30, 301, dtype=torch.float64)
    total = 0.0
    for a, b in itertools.product(range(3), range(2)):
        rows = torch.cartesian_prod(grid, torch.tensor([float(a)]).double(), grid, torch.tensor([float(b)]).double())
        total += float(model.log_prob(rows).detach().exp().sum()) * 0.2**2
    assert abs(total - 1) < 1e-3


def test_a_missing_level_is_drawn_by_bayes_rule_and_a_number_by_the_slope_of_its_level() -> None:
    x = rows_of(2000)
    model = fitted(x, with_holes(x)).for_fills()
    row = torch.tensor([[1.5, 0.0, 1.2, 1.0]]).double()
    levels = torch.tensor([[1.5, float(a), 1.2, 1.0] for a in range(3)]).double()
    expected = torch.softmax(model.log_prob(levels), 0).detach()
    n = 4000
    missing = torch.tensor([[False, True, False, False]]).expand(n, -1)
    noise = KeyedNoise(1, numbered("c", 4), torch.arange(n), torch.arange(1))
    drawn = model.conditional(row.expand(n, -1), missing).sample(noise)[0]
    counts = np.bincount(drawn[:, A].long().numpy(), minlength=3)
    assert chisquare(counts, n * expected.numpy()).pvalue > 0.001
    for level, slope in enumerate((0.9, 0.0, -0.9)):
        rows = torch.tensor([[v, float(level), 0.0, 0.0] for v in (-1.0, 1.0)]).double()
        mean = model.conditional(rows, torch.tensor([[False, False, True, False]]).expand(2, -1)).mean()[:, 2]
        assert abs(float(mean[1] - mean[0]) / 2 - slope) < 0.12


def two_humps(N: int) -> Tensor:
    """Rows of `rows_of` whose first number has two humps at each level, elsewhere at the levels of a; [N, 4]."""
    x = rows_of(N, 3)
    far = torch.rand(N, generator=torch.Generator().manual_seed(4)) < 0.4
    x[:, 0] = 0.3 * x[:, 0] + torch.where(far, 2.0, -2.0) + x[:, A]
    return x


@pytest.mark.parametrize("dependence", ["none", "linear"])
def test_each_level_may_have_several_components(dependence: str) -> None:
    x = two_humps(600)
    missing = with_holes(x, 0.15)
    settings = {"by": "a", "components": 2, "covariance": "full", "outliers": True, "dependence": dependence}
    model = GaussianMixture.build(MixtureConfig.model_validate(settings), LAYOUT).double()
    assert model.gaussians.K == 6 and len(model.log_weights()) == 7
    model.initialise_filled(FilledRows(x, missing), torch.Generator().manual_seed(2))
    table, penalty = em_table(x, missing), model.penalty(None, 1e-9)
    values = [float(model.em_step(table, penalty).objective) for _ in range(40)]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(values))
    share = torch.softmax(model.gaussians.log_prob(x) + model.log_weights(), -1)
    own = share[:, :6].unflatten(1, (2, 3))[torch.arange(len(x)), :, x[:, A].long()].sum(1)
    assert torch.allclose(own + share[:, 6], torch.ones(len(x)).double(), atol=1e-12)  # nothing of the other levels
    humps = model.gaussians.means()[:6, 0].unflatten(0, (2, 3)).sort(0).values.detach()
    for level in range(3):
        assert torch.allclose(humps[:, level], torch.tensor([level - 2.0, level + 2.0]).double(), atol=0.35)


@pytest.mark.full_fits("methods.em.sizing.EPOCHS", "methods.em.sizing.FOLDS", "methods.start.ITERATIONS")
def test_held_out_rows_choose_how_many_components_each_level_has() -> None:
    config = MixtureConfig.model_validate({"by": "a", "covariance": "full", "dependence": "linear"})
    chosen = {}
    for name, x in (("one", rows_of(250)), ("two", two_humps(250))):
        table = TensorTable(x, torch.zeros_like(x, dtype=torch.bool), LAYOUT)
        sizing = choose_size(GaussianMixture, config, ComparedRows(table, torch.Generator().manual_seed(0)), EmConfig())
        chosen[name] = sizing.config.components
        assert "for each level of 'a', shrunk by" in sizing.reason and "(tried 1 to 3, by 2 to 8 rows" in sizing.reason
    assert chosen == {"one": 1, "two": 2}


def test_parameters_come_back_as_they_were_saved() -> None:
    x = rows_of(300)
    model = fitted(x, with_holes(x))
    other = GaussianMixture.build(
        MixtureConfig.model_validate({"by": "a", "covariance": "full", "outliers": True, "dependence": "linear"}),
        LAYOUT,
    ).double()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.log_prob(x), model.log_prob(x))
    assert isinstance(other.gaussians, Shifted) and other.gaussians.categories.by == 0


def test_free_parameters_do_not_count_levels_that_a_component_never_has() -> None:
    count = {}
    for by in ("a", None):
        settings = {"by": by, "components": 2 if by else 6, "covariance": "full", "outliers": False}
        count[by] = GaussianMixture.build(MixtureConfig.model_validate(settings), LAYOUT).free_parameters()
    assert count["a"] == count[None] - 6 * 2


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 120)
    x = rng.normal(size=120)
    frame = pd.DataFrame({"x": x, "y": np.where(sex == "f", 1, -1) * x + rng.normal(size=120), "sex": sex})
    return frame.mask(rng.random(frame.shape) < 0.15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.by": "age"}, "model.by=age: no modelled column of levels has that name"),
        ({"model.by": "x"}, "model.by=x: no modelled column of levels has that name"),
    ],
)
def test_what_no_column_of_levels_can_be_is_refused(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        vgi_cli.fit(table(), out=tmp_path / "run", model="mixture", set=settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.full_fits("methods.em.sizing.EPOCHS", "methods.start.ITERATIONS")
@pytest.mark.parametrize("method", first(1, ["em", "vgi"]))
def test_a_fit_by_levels_fills_and_says_what_it_is(tmp_path: Path, method: str) -> None:
    own = {"model.by": "sex", "bootstrap": "none"}
    run = vgi_cli.fit(table(), out=tmp_path / "run", model="mixture", method=method, epochs=3, set=own)
    settings = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["model"]
    assert settings["by"] == "sex" and settings["components"] == 1
    config = MixtureConfig.model_validate({k: v for k, v in settings.items() if k != "name"})
    assert config.shrinkage in [share * (2 + 2) for share in POOLED_LEVELS]
    assert plain(config) == f"1 cluster for each level of 'sex', shrunk by {config.shrinkage:g} rows"
    filled = vgi_cli.impute(run, m=2)
    assert all(not one.isna().any().any() for one in filled)
