"""The sampler `plmcmc`: draws of a flow given a row, inside the box, keyed."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.chains.test_projected import BentFlow, quadrature
from tests.samplers.chains_setup import noise_for, unbounded
from tests.selection import first
from vgi_cli.errors import FitError
from vgi_cli.layout import Layout
from vgi_cli.models.base import Bijective, ModelConfig
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.samplers.base import impute
from vgi_cli.samplers.plmcmc import ModelStart, ProjectedImputer


class Bent(Bijective):
    """BentFlow as a model."""

    Config = ModelConfig

    @classmethod
    def build(cls, config: ModelConfig, D: int) -> Bent:
        return cls()

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Nothing is fitted."""

    def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return BentFlow().to_base(x)

    def from_base(self, u: Tensor) -> Tensor:
        return BentFlow().from_base(u)

    def log_prob(self, x: Tensor) -> Tensor:
        raise AssertionError("the sampler asks for the map alone")

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.from_base(torch.randn(n, 2, generator=generator, dtype=torch.float64))


def flow(dtype: torch.dtype = torch.float32) -> Flow:
    model = Flow.build(FlowConfig(steps=2, hidden=8), Layout.plain(3)).to(dtype)
    g = torch.Generator().manual_seed(0)
    model.initialise(torch.randn(50, 3, generator=g), g)
    return model


@pytest.mark.parametrize("bounded", first(1, [True, False]))
def test_draws_follow_the_law_by_quadrature(bounded: bool) -> None:
    """Two modes; 2,000 draws, distance of Kolmogorov and Smirnov, p = 0.001; or the law cut off by the box."""
    x, n = torch.tensor([[0.7, 1.5]], dtype=torch.float64), 2000
    holes = torch.tensor([[True, False]])
    grid, law, _ = quadrature(x[0], 0)
    box = unbounded(2)
    if bounded:
        box.low[0], box.high[0] = -0.8, 1.0
    imputer = ProjectedImputer(Bent(), ModelStart(Bent()), steps=150)
    out = impute(imputer, x.masked_fill(holes, 0.0), holes, noise_for(1, n, columns=2), box)[:, 0]
    assert (out[:, 1] == 1.5).all() and box.contains(out).all()

    def at(values: Tensor) -> Tensor:
        return law[torch.searchsorted(grid, values).clamp(max=len(law) - 1)]

    low, high = at(box.low[:1]), at(box.high[:1])
    there = (at(out[:, 0].sort().values) - low) / (high - low)
    assert (there - torch.arange(n) / n).abs().max() < 1.95 / math.sqrt(n)
    said = imputer.diagnostics()
    assert said["chains"] == n and said["steps"] == 150 and said["stuck"] == 0
    assert 0.1 < said["acceptance"] < 0.9 and abs(said["memory"]) < 0.2


def test_draws_do_not_depend_on_batch_rows_or_number_of_draws() -> None:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(300, 3, generator=g)
    missing = torch.rand(300, 3, generator=g) < 0.5
    noise, box = noise_for(300, 3, columns=3), unbounded(3)

    def draws(rows: Tensor, count: int) -> Tensor:
        imputer = ProjectedImputer(flow(), ModelStart(flow()), steps=6)
        some = noise.select(rows=rows, draws=torch.arange(count))
        return impute(imputer, x[rows].masked_fill(missing[rows], 0.0), missing[rows], some, box)

    every = draws(torch.arange(300), 3)
    assert torch.equal(draws(torch.arange(300), 2), every[:2])
    pick = torch.tensor([299, 4, 17])
    assert torch.equal(draws(pick, 3), every[:, pick])
    assert torch.equal(every[:, ~missing], x[~missing].expand(3, -1))
    assert (every[0] != every[1])[missing].all()


def test_a_chain_that_finds_no_state_keeps_its_start_and_is_counted() -> None:
    class Nowhere(Bent):
        def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
            u, log_det = super().to_base(x)
            return u, log_det * torch.nan

    x, holes = torch.zeros(4, 2, dtype=torch.float64), torch.tensor([True, False]).expand(4, -1)
    box = unbounded(2)
    box.low[0], box.high[0] = -0.1, 0.1
    imputer = ProjectedImputer(Nowhere(), ModelStart(Nowhere()), steps=5)
    noise = noise_for(4, 2, columns=2)
    out = impute(imputer, x, holes, noise, box)
    assert torch.equal(out, ModelStart(Nowhere()).states(x, holes, noise, box))
    assert box.contains(out).all() and out[:, :, 0].abs().max() == 0.1
    assert imputer.diagnostics()["stuck"] == 8 and imputer.diagnostics()["acceptance"] == 0.0


def test_complete_rows_come_back_and_a_diverged_flow_is_refused() -> None:
    x, holes = torch.ones(3, 3), torch.zeros(3, 3, dtype=torch.bool)
    imputer = ProjectedImputer(flow(), ModelStart(flow()), steps=2)
    assert torch.equal(impute(imputer, x, holes, noise_for(3, 2, columns=3), unbounded(3)), x.expand(2, -1, -1))
    assert imputer.diagnostics() == {}
    broken = flow()
    with torch.no_grad():
        broken.linear.bias.fill_(torch.nan)
    with pytest.raises(FitError, match="not finite") as caught:
        impute(ProjectedImputer(broken, ModelStart(broken), 2), x, ~holes, noise_for(3, 1, columns=3), unbounded(3))
    assert "optim.lr" in str(caught.value.hint)
