"""f0: draws of the right columns, in pieces that change nothing."""

import pytest
import torch

from vgi_cli.chains.store.packed import Chains
from vgi_cli.data import make_table
from vgi_cli.methods import start
from vgi_cli.methods.start import empirical


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
