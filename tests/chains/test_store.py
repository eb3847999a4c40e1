"""Packed chains: what is stored comes back, observed cells never change, weights add up."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.chains.initial import empirical
from vgi_cli.chains.store import Chains


def table(seed, N=30, D=5, share=0.4):
    g = torch.Generator().manual_seed(seed)
    missing = torch.rand(N, D, generator=g) < share
    return torch.where(missing, 0.0, torch.randn(N, D, generator=g, dtype=torch.float64)), missing


@given(st.integers(0, 50), st.integers(1, 4), st.floats(0, 1))
def test_stored_values_come_back_and_observed_cells_stay(seed, K, share):
    x, missing = table(seed, share=share)
    chains = Chains(x, missing, K)
    assert int(missing.sum()) == chains.C
    rows = chains.incomplete[torch.randperm(len(chains.incomplete))[:7]]
    new = torch.randn(len(rows) * K, x.shape[1], dtype=torch.float64)
    chains.store(rows, new)
    back, holes = chains.load(rows)
    assert torch.equal(back[holes], new[holes])
    assert torch.equal(back[~holes], x[rows].repeat_interleave(K, 0)[~holes])
    others = torch.ones(len(x), dtype=torch.bool)
    others[rows] = False
    left = chains.incomplete[others[chains.incomplete]]
    assert bool((chains.load(left)[0][chains.load(left)[1]] == 0).all())


def test_batch_has_incomplete_rows_k_times_and_complete_rows_once():
    x, missing = table(1)
    missing[:4] = False
    chains = Chains(x, missing, 3)
    batch = chains.batch(chains.incomplete, chains.complete)
    assert batch.x.shape[0] == 3 * len(chains.incomplete) + len(chains.complete)
    torch.testing.assert_close(batch.weight.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(batch.weight[0] * 3, batch.weight[-1])
    assert not bool(batch.missing[-len(chains.complete) :].any())


def test_completed_tables_hold_one_chain_each():
    x, missing = table(2)
    chains = Chains(x, missing, 2)
    chains.values[:-1] = torch.arange(chains.C * 2, dtype=torch.float64).view(-1, 2)
    for k in range(2):
        filled = chains.completed(k)
        assert torch.equal(filled[missing], chains.values[:-1, k])
        assert torch.equal(filled[~missing], x[~missing])


def test_empirical_draws_are_observed_values_of_the_same_column():
    x, missing = table(3, N=200)
    missing[:, 4] = True
    x[:, 4] = 0
    draws = empirical(x, missing, 3, torch.Generator().manual_seed(0))
    columns = missing.nonzero()[:, 1]
    for column in range(4):
        seen = set(x[~missing[:, column], column].tolist())
        mine = draws[columns == column]
        assert set(mine.flatten().tolist()) <= seen
        assert len(mine.unique()) > 20
    unseen = draws[columns == 4]
    assert abs(unseen.mean().item()) < 0.15 and abs(unseen.std().item() - 1) < 0.15
