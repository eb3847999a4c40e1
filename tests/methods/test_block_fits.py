"""Fits with block conditionals: they reach the model's own conditionals, and the tallies are those of the blocks."""

import pytest
import torch

from tests.conditionals.test_blocks import block_conditionals
from tests.oracles import random_covariance
from vgi_cli.data import make_table
from vgi_cli.errors import UsageError
from vgi_cli.layout import Blocks, Layout
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import Estimate, draw_noise, vgi_objective
from vgi_cli.models.gaussian.fa import FactorAnalysis

D, STEPS = 4, 250
PARTITION = Blocks.grouped(D, [(0, 1, 3)])
LAYOUT = Layout.plain(D).grouped(["013"])


def test_a_gaussian_block_reaches_the_conditional_of_a_gaussian_model():
    """Climbing the objective with the model fixed, in rows that miss all of a block or part of it."""
    g = torch.Generator().manual_seed(0)
    covariance = random_covariance(D, g, factors=2)
    law = torch.distributions.MultivariateNormal(torch.zeros(D, dtype=torch.float64), covariance)
    q = block_conditionals(layout="independent", partition=PARTITION)
    q.initialise(g)
    optimiser = torch.optim.Adam(q.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        x = torch.randn(64, D, generator=g, dtype=torch.float64) @ law.scale_tril.T
        missing = torch.ones(64, D, dtype=torch.bool)
        missing[:, 2] = False
        missing[32:, 1] = False  # part of the block is given
        weight = x.new_full((64,), 1 / 64)
        noise = draw_noise(q, 64, Estimate(1), x, g)
        objective = vgi_objective(lambda x, missing: law.log_prob(x), q, x, missing, weight, 1, noise, Estimate(1))
        optimiser.zero_grad()
        (-objective).backward()
        optimiser.step()
        schedule.step()
    x = torch.randn(300, D, generator=g, dtype=torch.float64) @ law.scale_tril.T
    j = torch.zeros(300, dtype=torch.int64)
    for given in ([2], [1, 2]):
        wanted = torch.ones(300, D, dtype=torch.bool)
        wanted[:, given] = False
        marginal = torch.distributions.MultivariateNormal(x.new_zeros(len(given)), covariance[given][:, given])
        with torch.no_grad():
            log_q = q.law(x, wanted, j).log_prob(q.at(x, j))
        divergence = (law.log_prob(x) - marginal.log_prob(x[:, given]) - log_q).mean()  # KL(p || q) of the block
        assert abs(divergence.item()) < 0.02, given


def test_scans_of_single_columns_are_refused_where_columns_share_a_conditional():
    missing = torch.rand(20, D, generator=torch.Generator().manual_seed(0)) < 0.4
    table = make_table(torch.zeros(20, D, dtype=torch.float64), missing, LAYOUT)
    model = FactorAnalysis.build(FactorAnalysis.Config(factors=1), Layout.plain(D)).double()
    for settings in ({"scan": "block"}, {"block_columns": 3}):
        with pytest.raises(UsageError, match=f"method.{next(iter(settings))}=.* moves single columns") as caught:
            vgi.METHOD.init(model, table, VgiConfig(**settings), torch.Generator().manual_seed(0))
        assert caught.value.hint == f"leave out method.{next(iter(settings))}, or the blocks"


def test_a_fit_with_blocks_counts_and_names_them_by_column():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(60, D, generator=g, dtype=torch.float64) @ torch.randn(D, D, generator=g, dtype=torch.float64)
    missing = torch.rand(60, D, generator=g) < 0.4
    missing[:, 3] = missing[:, 1] = missing[:, 0]
    missing[missing.all(1), 2] = False
    table = make_table(x, missing, LAYOUT)
    model = FactorAnalysis.build(FactorAnalysis.Config(factors=1), Layout.plain(D)).double()
    optim = {"warmup_conditionals": 1, "warmup_model": 1}
    config = VgiConfig(epochs=1, imputations=2, trunk=(8,), hidden=(8,), optim=optim)
    state = vgi.METHOD.init(model, table, config, torch.Generator().manual_seed(0))
    assert (state.q.S, state.q.W) == (2, 3)
    ends = [event.metrics for event in vgi.run(state) if isinstance(event, EpochEnd)]
    rates = ends[-1]["acceptance"]
    assert rates[0] == rates[1] == rates[3] is not None and rates[2] != rates[0]
    assert torch.isfinite(state.chains.tensors()["values"]).all()
