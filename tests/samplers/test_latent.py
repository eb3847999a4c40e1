"""Imputing from a model with latents: the draws have the closed-form law of the linear autoencoder, whatever the
encoder is, inside the box, and keyed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.linear_vae import linear_vae
from tests.oracles import GaussianModel, gaussian_conditional
from tests.selection import first, some
from vgi_cli.errors import FitError
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.latent import LatentImputer

pytestmark = pytest.mark.full_fits("samplers.latent.SWEEPS")

D = 5
COLUMNS = tuple("abcde")


def unbounded(D: int = D) -> Box:
    return Box(torch.full((D,), -math.inf, dtype=torch.float64), torch.full((D,), math.inf, dtype=torch.float64))


def noise_for(rows: int, draws: int = 1, seed: int = 0) -> KeyedNoise:
    return KeyedNoise(seed, COLUMNS, torch.arange(rows), torch.arange(draws))


def case(exact_encoder: bool) -> tuple[VariationalAutoencoder, GaussianModel, Tensor]:
    """A linear autoencoder, its law, and one row of it."""
    g = torch.Generator().manual_seed(3)
    vae, law = linear_vae(D, 2, g, exact_encoder=exact_encoder)
    model = GaussianModel(law.loc, law.covariance_matrix)
    return vae, model, model.sample(1, g)[0]


HOLES = {"two": [1, 3], "all but one": [0, 1, 3, 4], "all": [0, 1, 2, 3, 4]}
FEW = {("two", "exact"), ("all but one", "spoilt")}


@pytest.mark.parametrize(
    ("holes", "exact_encoder"),
    [
        pytest.param(holes, exact, id=f"{name}-{kind}", marks=[pytest.mark.slow] * ((name, kind) not in FEW))
        for name, holes in HOLES.items()
        for exact, kind in ((True, "exact"), (False, "spoilt"))
    ],
)
def test_draws_have_the_closed_form_law(holes: list[int], exact_encoder: bool) -> None:
    vae, model, row = case(exact_encoder)
    N = 2048
    missing = torch.zeros(D, dtype=torch.bool)
    missing[holes] = True
    x = row.masked_fill(missing, 0.0).expand(N, -1)
    out = impute(LatentImputer(vae, sweeps=25), x, missing.expand(N, -1), noise_for(N), unbounded())[0]
    assert torch.equal(out[:, ~missing], x[:, ~missing])
    mean, covariance = gaussian_conditional(model, row, missing)
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), (out[:, missing] - mean).mT, upper=False)
    # means and second moments of N(0, I), each within 4.5 standard errors
    assert float(white.mean(1).abs().max()) < 4.5 / math.sqrt(N)
    second = white @ white.mT / N - torch.eye(len(holes))
    assert bool((second.abs() < 4.5 * (1 + torch.eye(len(holes)) * (math.sqrt(2) - 1)) / math.sqrt(N)).all())


@pytest.mark.parametrize("holes", first(1, [[0, 1, 2, 3, 4], [1, 3]]))
def test_limits_give_the_truncated_law(holes: list[int]) -> None:
    """Against rejection: draws of the closed-form conditional that lie in the box."""
    vae, model, row = case(False)
    N = 2560
    missing = torch.zeros(D, dtype=torch.bool)
    missing[holes] = True
    mean, covariance = gaussian_conditional(model, row, missing)
    box = unbounded()
    sd = covariance.diagonal().sqrt()
    box.low[holes[0]] = mean[0] - 0.3 * sd[0]
    box.high[holes[1]] = mean[1] - 0.5 * sd[1]
    x = row.masked_fill(missing, 0.0).expand(N, -1)
    out = impute(LatentImputer(vae, sweeps=30), x, missing.expand(N, -1), noise_for(N), box)[0]
    assert bool(box.contains(out)[:, missing].all())
    law = torch.distributions.MultivariateNormal(mean, covariance)
    torch.manual_seed(0)
    exact = law.sample((60_000,))
    exact = exact[(exact >= box.low[missing]).all(1) & (exact <= box.high[missing]).all(1)]
    drawn = out[:, missing]
    scale = exact.std(0)
    error = math.sqrt(1 / N + 1 / len(exact))
    assert float(((drawn.mean(0) - exact.mean(0)) / scale).abs().max()) < 4.5 * error
    gap = (torch.cov(drawn.mT) - torch.cov(exact.mT)) / (scale[:, None] * scale)
    assert float(gap.abs().max()) < 4.5 * 1.6 * error  # a generous standard error of a second moment


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    some([{"prior": "mixture", "components": 3}], [{}, {"encoding": "set"}, {"prior": "mixture", "components": 3}]),
    ids=str,
)
def test_rows_of_the_model_stay_rows_of_the_model(setting: dict[str, Any]) -> None:
    """A nonlinear model, rows of it masked at random: after the sweeps still distributed as it is."""
    g = torch.Generator().manual_seed(0)
    config = VaeConfig(latents=1, encoder=(4,), decoder=(6,), activation="tanh", cell=(6, 6), embedding=4, **setting)
    vae = VariationalAutoencoder.build(config, Layout.plain(D)).double()
    vae.initialise(torch.randn(50, D, generator=g, dtype=torch.float64), g)
    with torch.no_grad():
        for name, parameter in vae.named_parameters():
            size = 0.1 if "encoding" in setting and name.startswith("encoder") else 0.8  # sums over cells are large
            parameter.add_(size * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
        vae.log_variance.fill_(-1.5)
    N = 2048
    full, reference = vae.sample(N, g), vae.sample(20_000, g)
    missing = torch.rand(N, D, generator=g) < 0.5
    out = impute(LatentImputer(vae, sweeps=40), full.masked_fill(missing, 0.0), missing, noise_for(N), unbounded())[0]

    def features(x: Tensor) -> Tensor:
        pairs = [x[:, i] * x[:, j] for i in range(D) for j in range(i, D)]
        return torch.cat([x, torch.stack(pairs, 1), torch.tanh(3 * x)], 1)

    a, b = features(out), features(reference)
    z = (a.mean(0) - b.mean(0)) / (a.var(0) / N + b.var(0) / 20_000).sqrt()
    assert float(z.abs().max()) < 4.5


def test_exact_encoder_is_always_accepted_and_the_report_says_so() -> None:
    vae, _, row = case(True)
    missing = torch.tensor([False, True, False, True, False]).expand(40, -1)
    imputer = LatentImputer(vae, sweeps=20)
    assert imputer.diagnostics() == {}
    impute(imputer, row.expand(40, -1), missing, noise_for(40, 3), unbounded())
    report = imputer.diagnostics()
    assert report["chains"] == 120 and report["sweeps"] == 20
    assert report["acceptance_encoder"] == 1.0
    walk, memory = report["acceptance_walk"], report["memory"]
    assert isinstance(walk, float) and 0.1 < walk < 0.95
    assert isinstance(memory, float) and abs(memory) < 0.5
    spoilt = LatentImputer(case(False)[0], sweeps=20)
    impute(spoilt, row.expand(40, -1), missing, noise_for(40, 3), unbounded())
    rate = spoilt.diagnostics()["acceptance_encoder"]
    assert isinstance(rate, float) and 0.2 < rate < 0.95


def test_more_draws_and_other_rows_change_nothing() -> None:
    vae, _, _ = case(False)
    vae = vae.float()
    g = torch.Generator().manual_seed(1)
    x = torch.randn(300, D, generator=g)
    missing = torch.rand(300, D, generator=g) < 0.4
    x = x.masked_fill(missing, 0.0)
    box = unbounded()
    box.high[2] = 0.7
    two = impute(LatentImputer(vae, sweeps=6), x, missing, noise_for(300, 2), box)
    five = impute(LatentImputer(vae, sweeps=6), x, missing, noise_for(300, 5), box)
    assert torch.equal(five[:2], two)
    some = torch.tensor([7, 3, 299])
    few = impute(LatentImputer(vae, sweeps=6), x[some], missing[some], noise_for(300, 2).select(rows=some), box)
    assert torch.equal(few, two[:, some])
    assert torch.equal(two[:, ~missing], x.expand(2, -1, -1)[:, ~missing])
    assert not torch.equal(two[0], two[1])


def test_a_model_that_has_diverged_is_refused() -> None:
    vae, _, row = case(True)
    with torch.no_grad():
        vae.decoder.outlet.bias[0] = math.nan
    missing = torch.tensor([[True, False, False, False, False]])
    with pytest.raises(FitError, match="no law of a missing cell"):
        impute(LatentImputer(vae, sweeps=2), row[None], missing, noise_for(1), unbounded())
