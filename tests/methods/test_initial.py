"""f0: draws of the right columns, in pieces that change nothing."""

from dataclasses import replace

import pytest
import torch

from vgi_cli.chains.store.packed import Chains
from vgi_cli.data import make_table
from vgi_cli.layout import Layout
from vgi_cli.methods import start
from vgi_cli.methods.start import empirical
from vgi_cli.methods.vgi import vgi
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.registry.names import METHODS


def table(N, D=5, dtype=torch.float64, share=0.4):
    g = torch.Generator().manual_seed(3)
    missing = torch.rand(N, D, generator=g) < share
    missing[:, -1] = True
    return torch.where(missing, 0.0, torch.randn(N, D, generator=g, dtype=dtype)), missing


def draws(x, missing, K):
    chains = Chains(make_table(x, missing), K)
    empirical(chains, torch.Generator().manual_seed(0))
    return chains.tensors()["values"]


def test_draws_are_observed_values_of_the_same_column():
    x, missing = table(200)
    filled = draws(x, missing, 3)
    columns = missing.nonzero()[:, 1]
    for column in range(4):
        seen = set(x[~missing[:, column], column].tolist())
        mine = filled[columns == column]
        assert set(mine.flatten().tolist()) <= seen
        assert len(mine.unique()) > 20
    unseen = filled[columns == 4]
    assert abs(unseen.mean().item()) < 0.15 and abs(unseen.std().item() - 1) < 0.15


def dense(x, missing, K, generator):
    """The definition: every column drawn whole, for every row."""
    out = x.new_zeros(*x.shape, K)
    for column in range(x.shape[1]):
        seen = x[~missing[:, column], column]
        if len(seen):
            out[:, column] = seen[torch.randint(len(seen), (len(x), K), generator=generator)]
        else:
            out[:, column] = torch.randn(len(x), K, generator=generator, dtype=x.dtype)
    return out[missing]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("N", "K"), [(1, 1), (15, 2), (31, 3), (133, 5), (160, 1)])
def test_pieces_are_drawn_as_the_whole(monkeypatch, N, K, dtype):
    monkeypatch.setattr(start, "PIECE", 16)
    x, missing = table(N, dtype=dtype)
    assert torch.equal(draws(x, missing, K), dense(x, missing, K, torch.Generator().manual_seed(0)))


COVARIANCE = torch.full((4, 4), 0.8, dtype=torch.float64).fill_diagonal_(1.0)


def correlated(N, share):
    """Rows of a normal law with correlations of 0.8, with holes."""
    g = torch.Generator().manual_seed(5)
    x = torch.randn(N, 4, generator=g, dtype=torch.float64) @ torch.linalg.cholesky(COVARIANCE).T
    missing = torch.rand(N, 4, generator=g) < share
    return make_table(torch.where(missing, 0.0, x), missing)


def started(table, config, method=vgi.METHOD):
    """The model of a fit before its first step."""
    flow = Flow.build(FlowConfig(steps=2, hidden=8), table.layout).double()
    return method.init(flow, table, method.Config.model_validate(config), torch.Generator().manual_seed(1)).model


def away(model):
    """KL(truth || model) in nats a row, roughly."""
    truth = torch.distributions.MultivariateNormal(torch.zeros(4, dtype=torch.float64), COVARIANCE)
    x = truth.sample((4000,))
    return float((truth.log_prob(x) - model.log_prob(x)).detach().mean())


@pytest.mark.full_fits
@pytest.mark.parametrize("initial", ["empirical", "em"])
def test_in_few_rows_a_flow_starts_at_the_normal_law_of_incomplete_rows(initial):
    torch.manual_seed(0)
    assert away(started(correlated(400, 0.4), {"initial": initial})) < 0.1
    assert away(started(correlated(440, 0.4), {"initial": initial})) > 0.8  # of independent columns it is 1.1


def test_rows_without_a_weight_do_not_say_how_a_flow_starts():
    torch.manual_seed(0)
    table = correlated(400, 0.4)
    alone = torch.randn(400, 4, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    both = torch.cat([table.x, torch.where(table.missing, 0.0, alone)])
    weight = torch.cat([torch.ones(400), torch.zeros(400)]).double()
    joined = make_table(both, torch.cat([table.missing] * 2))._replace(weight=weight)
    assert away(started(joined, {})) < 0.15
    assert away(started(joined._replace(weight=weight.flip(0)), {})) > 0.8


@pytest.mark.parametrize("method", ["vgi", "impute-then-fit"])
def test_few_rows_of_levels_alone_are_fitted_by_a_flow(method):
    g = torch.Generator().manual_seed(2)
    missing = torch.rand(40, 2, generator=g) < 0.2
    layout = replace(Layout.plain(2), levels=(2, 3))
    table = make_table(torch.where(missing, 0, torch.randint(2, (40, 2), generator=g)).double(), missing, layout)
    made = METHODS.load(method)
    flow = Flow.build(FlowConfig(steps=1, hidden=4), layout).double()
    config = made.Config.model_validate({"epochs": 1, **({"imputer": "mice"} if "then" in method else {})})
    state = made.init(flow, table, config, torch.Generator().manual_seed(1))
    for _ in made.run(state):
        pass
    assert all(bool(torch.isfinite(p).all()) for p in state.model.parameters())


@pytest.mark.parametrize("method", ["complete", "plmcmc", "impute-then-fit"])
def test_other_methods_start_a_flow_there_too(method):
    torch.manual_seed(0)
    made = METHODS.load(method)
    table = correlated(400, 0.0 if method == "complete" else 0.3)
    flow = Flow.build(FlowConfig(steps=2, hidden=8), table.layout).double()
    config = made.Config.model_validate({"epochs": 1, **({"imputer": "mice"} if "then" in method else {})})
    state = made.init(flow, table, config, torch.Generator().manual_seed(1))
    if "then" in method:  # its imputations come first
        run = made.run(state)
        while state.refreshed < -1:
            next(run)
    assert away(state.model) < 0.15
