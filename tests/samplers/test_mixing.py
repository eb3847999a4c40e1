"""What chains are said to remember, against states whose correlation is known."""

import pytest
import torch

from vgi_cli.samplers.mixing import Memory


def states(n, R, rho, seed=0):
    """Two states of n chains of R rows of one column, correlated by rho within a row, rows far apart."""
    g = torch.Generator().manual_seed(seed)
    row = 10 * torch.randn(1, R, 1, generator=g)
    first = torch.randn(n, R, 1, generator=g)
    second = rho * first + (1 - rho**2) ** 0.5 * torch.randn(n, R, 1, generator=g)
    return row + first, row + second


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_memory_is_the_correlation_within_a_row(rho):
    memory = Memory()
    for seed in range(4):
        memory.add(*states(5, 500, rho, seed), torch.ones(500, 1, dtype=torch.bool))
    said = memory.summary(("a",))
    assert said["memory"] == pytest.approx(rho, abs=0.04)  # 4 * 2000 degrees of freedom: four standard errors
    assert said["memory_by_column"] == {"a": said["memory"]}


def test_columns_with_few_chains_are_left_out():
    few, many = (torch.ones(rows, 1, dtype=torch.bool) for rows in (19, 20))
    memory = Memory()
    memory.add(*states(2, 19, 0.0), few)
    assert memory.summary(("a",)) == {}
    memory = Memory()
    memory.add(*states(2, 20, 0.0), many)
    assert set(memory.summary(("a",))["memory_by_column"]) == {"a"}


def test_one_draw_says_nothing():
    memory = Memory()
    memory.add(*states(1, 50, 0.0), torch.ones(50, 1, dtype=torch.bool))
    assert memory.summary(("a",)) == {}
