"""Fits of a linear autoencoder, whose law is Gaussian: by `complete` to the optimum of factor analysis, by `vgi` on a
table with holes near the truth, where maximum likelihood on plain imputations is far off."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.methods.linear_bounds import linear_bound_optimum
from vgi_cli.data import make_table
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.methods.gradient import COMPLETE
from vgi_cli.methods.vgi import vgi
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder
from vgi_cli.registry import names as registry

D = 4
LOADINGS = torch.tensor([[1.2], [1.0], [-0.9], [0.6]], dtype=torch.float64)
SIGMA = LOADINGS @ LOADINGS.mT + 0.3 * torch.eye(D, dtype=torch.float64)


def linear(latents: int = 1) -> VariationalAutoencoder:
    return VariationalAutoencoder.build(VaeConfig(latents=latents, encoder=(), decoder=()), Layout.plain(D)).double()


def law(vae: VariationalAutoencoder) -> torch.distributions.MultivariateNormal:
    with torch.no_grad():
        origin = vae.decode(torch.zeros(vae.latents, dtype=torch.float64))
        F = vae.decoder.outlet.weight
        return torch.distributions.MultivariateNormal(origin.mean, F @ F.mT + torch.diag(origin.scale.square()))


def rows(N: int) -> Tensor:
    g = torch.Generator().manual_seed(0)
    return torch.randn(N, D, generator=g, dtype=torch.float64) @ torch.linalg.cholesky(SIGMA).mT


def test_complete_reaches_the_optimum_of_factor_analysis() -> None:
    x = rows(600)
    table = make_table(x, torch.zeros(600, D, dtype=torch.bool))
    config = COMPLETE.Config.model_validate({"epochs": 200, "optim": {"lr": 0.05, "batch_size": 600}})
    state = COMPLETE.init(linear(), table, config, torch.Generator().manual_seed(0))
    for _ in COMPLETE.run(state):
        pass
    assert isinstance(state.model, VariationalAutoencoder)
    em = registry.METHODS.load("em")
    fa = em.init(
        FactorAnalysis.build(FaConfig(factors=1), Layout.plain(D)).double(), table, em.Config(), torch.Generator()
    )
    for _ in em.run(fa):
        pass
    best = float(fa.model.log_prob(x).detach().mean())
    assert best - 0.01 < float(law(state.model).log_prob(x).mean()) < best + 1e-3


@pytest.mark.slow
def test_vgi_comes_near_the_truth_where_plain_imputations_do_not() -> None:
    N = 1000
    x = rows(N)
    missing = torch.rand(N, D, generator=torch.Generator().manual_seed(1)) < 0.4
    table = make_table(x, missing)
    truth = torch.distributions.MultivariateNormal(torch.zeros(D, dtype=torch.float64), SIGMA)
    values = {
        **VariationalAutoencoder.method_defaults["vgi"],
        "epochs": 80,
        "gibbs_steps": 2,
        "trunk": (),
        "hidden": (8,),
        "optim": {
            "lr": 0.03,
            "lr_conditionals": 0.03,
            "batch_size": 250,
            "warmup_conditionals": 5,
            "warmup_model": 5,
        },
    }
    state = vgi.METHOD.init(linear(), table, vgi.VgiConfig.model_validate(values), torch.Generator().manual_seed(0))
    f0 = state.chains.completed(0, torch.arange(N))
    plain = torch.distributions.MultivariateNormal(f0.mean(0), torch.cov(f0.mT))
    for _ in vgi.METHOD.run(state):
        pass
    assert isinstance(state.model, VariationalAutoencoder)
    fitted = torch.distributions.kl_divergence(truth, law(state.model))
    assert float(fitted) < 0.03 < 0.3 < float(torch.distributions.kl_divergence(truth, plain))


def test_a_bound_in_an_acceptance_ratio_is_refused() -> None:
    """Where the model has no latents that a chain could carry."""
    bound = type("Bound", (Model,), {"exact": False})
    vgi.METHOD.check(bound, vgi.VgiConfig(accept="gibbs"))
    with pytest.raises(UsageError, match=r"method\.accept=metropolis needs a log density") as caught:
        vgi.METHOD.check(bound, vgi.VgiConfig())
    assert caught.value.hint == "take --set method.accept=gibbs"


def fitted(method: str, N: int, epochs: int = 120, **settings: object) -> Model:
    """A linear autoencoder fitted to N rows of the truth, 40 % of whose cells are missing."""
    x = rows(N)
    missing = torch.rand(N, D, generator=torch.Generator().manual_seed(1)) < 0.4
    made = registry.METHODS.load(method)
    values = {**VariationalAutoencoder.method_defaults.get(method, {}), **settings, "epochs": epochs}
    state = made.init(
        linear(), make_table(x, missing), made.Config.model_validate(values), torch.Generator().manual_seed(0)
    )
    for _ in made.run(state):
        pass
    return state.model


BLOCKS = {"lr": 0.03, "lr_conditionals": 0.03, "batch_size": 250, "warmup_conditionals": 0, "warmup_model": 20}


@pytest.mark.slow
def test_vbgi_comes_near_the_truth() -> None:
    truth = torch.distributions.MultivariateNormal(torch.zeros(D, dtype=torch.float64), SIGMA)
    model = fitted("vbgi", 1000, trunk=(8,), optim=BLOCKS)
    assert float(torch.distributions.kl_divergence(truth, law(model))) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "optim"), [("vbgi-m", BLOCKS), ("mvae", {"lr": BLOCKS["lr"], "batch_size": BLOCKS["batch_size"]})]
)
def test_what_an_encoder_cannot_know_keeps_a_fit_from_the_truth(method: str, optim: dict[str, object]) -> None:
    """A linear encoder does not know which cells are missing, and so gives no row its posterior: both methods go to
    the optimum of their own bound, in closed form here, which lies 0.12 and 0.13 nats from the truth."""
    truth = torch.distributions.MultivariateNormal(torch.zeros(D, dtype=torch.float64), SIGMA)
    optimum = linear_bound_optimum(SIGMA, 0.4, imputed=method == "vbgi-m")
    kl = torch.distributions.kl_divergence
    model = fitted(method, 2000, optim=optim)
    assert 0.11 < float(kl(truth, optimum)) < 0.14
    assert 0.11 < float(kl(truth, law(model))) < 0.17
    assert float(kl(optimum, law(model))) < 0.005
