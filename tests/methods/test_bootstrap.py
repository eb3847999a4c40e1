"""Bootstrap refits: their spread is that of the sampling distribution, and nothing else moves."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor

from vgi_cli.data import TensorTable, make_table
from vgi_cli.methods.bootstrap import refits, row_weights
from vgi_cli.methods.em import EmConfig
from vgi_cli.methods.em_steps import climb
from vgi_cli.models.gaussian_family import em_table
from vgi_cli.models.mixture import GaussianMixture, MixtureConfig

KINDS: list[Literal["multinomial", "bayesian"]] = ["multinomial", "bayesian"]


def fitted(N: int = 400) -> tuple[GaussianMixture, TensorTable]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 2, dtype=torch.float64, generator=generator)
    x[:, 1] += x[:, 0]
    missing = torch.rand(N, 2, generator=generator) < 0.2
    model = GaussianMixture.build(MixtureConfig(components=1), 2).double()
    model.initialise(x, generator)
    climb(model, em_table(x, missing), model.penalty(0.0, 1e-3), epochs=100, tolerance=1e-9)
    return model, make_table(x, missing)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_have_mean_one_and_unit_variance(kind: Literal["multinomial", "bayesian"]) -> None:
    weights = row_weights(20_000, kind, torch.Generator().manual_seed(0))
    assert weights.mean().item() == pytest.approx(1.0, abs=1e-12)
    assert weights.var().item() == pytest.approx(1.0, abs=0.05)
    assert bool((weights >= 0).all())


@pytest.mark.parametrize("kind", KINDS)
def test_the_spread_of_a_mean_is_its_standard_error(kind: Literal["multinomial", "bayesian"]) -> None:
    model, table = fitted()
    before = [p.detach().clone() for p in model.parameters()]
    config = EmConfig(pooling=0.0)
    found = list(refits(model, table, config, 150, torch.Generator().manual_seed(1), kind=kind))
    means: Tensor = torch.stack([refit["gaussians.mean"][0] for refit in found])
    observed = (~table.missing[:, 0]).sum().item()
    # the first column alone: variance 1 over its observed cells, a little less thanks to the second column
    assert means[:, 0].std().item() == pytest.approx(observed**-0.5, rel=0.2)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_seed_fixes_the_refits_and_fewer_are_the_first_of_more() -> None:
    model, table = fitted(100)
    few = list(refits(model, table, EmConfig(), 2, torch.Generator().manual_seed(3)))
    more = list(refits(model, table, EmConfig(), 4, torch.Generator().manual_seed(3)))
    assert len(more) == 4
    for a, b in zip(few, more, strict=False):
        assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(more[0]["gaussians.mean"], more[1]["gaussians.mean"])


def test_refits_of_a_mixture_explore_its_tops() -> None:
    """With two components and three clusters there are several tops: restarted refits do not all find the same one."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[8.0, 0], [0, 8.0], [-8.0, -8.0]], dtype=torch.float64)
    x = centres[torch.arange(150) % 3] + torch.randn(150, 2, dtype=torch.float64, generator=generator)
    missing = torch.rand(150, 2, generator=generator) < 0.2
    model = GaussianMixture.build(MixtureConfig(components=2), 2).double()
    model.initialise(x, generator)
    table = make_table(x, missing)
    climb(model, em_table(table.x, missing), model.penalty(None, 1e-3), epochs=50, tolerance=1e-6)
    alone = set()  # which cluster has a component of its own
    for refit in refits(model, table, EmConfig(), 12, torch.Generator().manual_seed(0), epochs=20):
        distance = torch.cdist(refit["gaussians.mean"], centres)
        alone.add(int(distance.min(0).values.argmin()))
    assert len(alone) > 1


def test_weights_follow_their_rows() -> None:
    """Rows are sorted by their holes inside; a weight must reach its own row."""
    x = torch.arange(6, dtype=torch.float64)[:, None].repeat(1, 2)
    missing = torch.zeros(6, 2, dtype=torch.bool)
    missing[[0, 2, 4], 1] = True
    table = em_table(x, missing).reweighted(torch.arange(6, dtype=torch.float64))
    assert torch.equal(table.weights, table.x[:, 0])
