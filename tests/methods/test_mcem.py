"""Monte-Carlo EM with exact draws: its fixed point is EM's, and without holes it is `complete`."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.contracts.test_methods import events
from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.em import em, mcem
from vgi_cli.methods.gradient import COMPLETE, GradientState
from vgi_cli.models.base import Marginal
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig


def table(N: int = 400, share: float = 0.4, seed: int = 0) -> TensorTable:
    g = torch.Generator().manual_seed(seed)
    loadings = torch.tensor([[1.0, -0.8, 0.5, 0.9, 0.0], [0.2, 0.7, -0.9, 0.4, 0.8]], dtype=torch.float64)
    x = torch.randn(N, 2, generator=g, dtype=torch.float64) @ loadings
    x = x + 0.5 * torch.randn(N, 5, generator=g, dtype=torch.float64)
    missing = torch.rand(N, 5, generator=g) < share
    missing[0] = share > 0
    return make_table(x, missing)


def fitted(model: Marginal, data: TensorTable, **settings: object) -> GradientState:
    config = mcem.McemConfig.model_validate(settings)
    state = mcem.init(model, data, config, torch.Generator().manual_seed(1))
    for _ in mcem.run(state):
        pass
    return state


def score(model: Marginal, data: TensorTable) -> float:
    used = ~data.missing.all(1)
    with torch.no_grad():
        return float(model.marginal_log_prob(data.x[used], data.missing[used]).mean())


@pytest.mark.parametrize("refresh", [pytest.param("step", marks=pytest.mark.slow), "epoch"])
def test_fixed_point_is_that_of_em(refresh: str) -> None:
    """Log-likelihood of the observed cells within 0.005 nats a row of EM's, with 40 % missing; f0 alone is 0.1 off."""
    data = table()
    state = em.init(
        FactorAnalysis.build(FaConfig(factors=2), Layout.plain(5)),
        data,
        em.EmConfig(floor=1e-6),
        torch.Generator().manual_seed(0),
    )
    events(em.METHOD, state)
    best = score(state.model, data)
    start = FactorAnalysis.build(FaConfig(factors=2), Layout.plain(5)).double()
    optim = {"batch_size": 100, "lr": 0.03, "average": 0.3}
    reached = fitted(start, data, epochs=60, imputations=5, refresh=refresh, optim=optim)
    assert best - 0.005 < score(reached.model, data) < best + 1e-3
    none = fitted(
        FactorAnalysis.build(FaConfig(factors=2), Layout.plain(5)).double(), data, epochs=1, optim={"lr": 1e-9}
    )
    assert score(none.model, data) < best - 0.1


@pytest.mark.parametrize("refresh", ["step", "epoch"])
def test_imputations_are_draws_given_the_row(refresh: str) -> None:
    """At a learning rate of nothing the chains hold draws of the conditional: means within 4.5 standard errors, row by
    row, and fully missing rows hold unconditional ones."""
    data = table(60)
    model = GaussianMixture.build(MixtureConfig(components=2, covariance="full"), Layout.plain(5)).double()
    state = fitted(model, data, epochs=1, imputations=400, refresh=refresh, optim={"lr": 1e-12})
    chains, missing = state.chains, data.missing
    law = model.conditional(data.x, missing)
    filled = torch.stack([chains.completed(k) for k in range(chains.K)])
    error = (filled.mean(0) - law.mean())[missing] / (filled.std(0)[missing] / chains.K**0.5)
    assert (error.abs() < 4.5).all() and 0.8 < error.std() < 1.2
    assert torch.equal(filled[:, ~missing], data.x[~missing].expand(chains.K, -1))


def test_without_holes_it_is_complete() -> None:
    data = table(share=0.0)
    settings = {"epochs": 3, "optim": {"batch_size": 64}}
    models = []
    for method in (mcem.METHOD, COMPLETE):
        model = FactorAnalysis.build(FaConfig(factors=2), Layout.plain(5)).double()
        state = method.init(model, data, method.Config.model_validate(settings), torch.Generator().manual_seed(3))
        events(method, state)
        models.append(state.model.state_dict())
    assert all(torch.equal(value, models[1][name]) for name, value in models[0].items())


def test_pieces_of_a_refresh_are_moments_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcem, "PIECE", 100)

    def fresh() -> GradientState:
        model = FactorAnalysis.build(FaConfig(factors=1), Layout.plain(5)).double()
        config = mcem.McemConfig.model_validate({"epochs": 2, "refresh": "epoch", "optim": {"batch_size": 200}})
        return mcem.init(model, table(), config, torch.Generator().manual_seed(0))

    whole, broken, resumed = fresh(), fresh(), fresh()
    seen = events(mcem.METHOD, whole)
    assert len(seen) == 2 * (3 + 2 + 1)  # pieces but the last, steps, the end
    assert sum(isinstance(event, EpochEnd) for event in seen) == 2
    assert len([*itertools.islice(mcem.METHOD.run(broken, never), 8)]) == 8
    assert broken.piece == 2 and broken.refreshed == 0
    resumed.restore(broken.parts())
    events(mcem.METHOD, resumed)
    for stem, tensors in whole.parts().items():
        assert all(torch.equal(value, resumed.parts()[stem][name]) for name, value in tensors.items())
