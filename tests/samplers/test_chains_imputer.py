"""`chains` returns exactly what the run holds, for its own table only."""

from __future__ import annotations

import pytest
import torch

from tests.samplers.chains_setup import held, make_setup, noise_for
from vgi_cli.chains.store.packed import Chains
from vgi_cli.data import make_table
from vgi_cli.errors import InputError, UsageError
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.chains import ChainsImputer


def test_returns_the_chains_in_any_order_of_rows() -> None:
    s = make_setup(300)
    chains = Chains(make_table(s.x, s.missing), 3)
    packed = chains.tensors()["values"]
    packed[:] = torch.randn(chains.C, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = noise_for(300, 3)
    imputer = ChainsImputer(held(noise.rows, s.missing, packed))
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    out = impute(imputer, s.x[order], s.missing[order], noise.select(rows=order), s.box)
    for k in range(3):
        assert torch.equal(out[k], chains.completed(k)[order])
    assert imputer.diagnostics() == {"replaced": 0, "bounded": 0}


def test_values_outside_the_box_come_from_another_chain_or_the_bound() -> None:
    x = torch.zeros(2, 1, dtype=torch.float64)
    missing = torch.ones(2, 1, dtype=torch.bool)
    noise = noise_for(2, 3, columns=1)
    packed = torch.tensor([[5.0, 0.1, 0.2], [5.0, 6.0, 7.0]], dtype=torch.float64)
    imputer = ChainsImputer(held(noise.rows, missing, packed))
    out = impute(imputer, x, missing, noise, Box(torch.tensor([-1.0]), torch.tensor([1.0])))
    assert out[:, 0, 0].tolist() == [0.1, 0.1, 0.2]
    assert out[:, 1, 0].tolist() == [1.0, 1.0, 1.0]
    assert imputer.diagnostics() == {"replaced": 1, "bounded": 3}


def test_refuses_more_draws_than_chains() -> None:
    s = make_setup(5)
    noise = noise_for(5, 3)
    imputer = ChainsImputer(held(noise.rows, s.missing, torch.zeros(int(s.missing.sum()), 2)))
    with pytest.raises(UsageError, match="has 2 draws of each cell, draw 3 was asked for") as caught:
        impute(imputer, s.x, s.missing, noise, s.box)
    assert "--m 2" in caught.value.hint


@pytest.mark.parametrize("change", ["row", "hole"])
def test_refuses_rows_that_the_run_does_not_hold(change: str) -> None:
    s = make_setup(5)
    noise = noise_for(5, 1)
    imputer = ChainsImputer(held(noise.rows, s.missing, torch.zeros(int(s.missing.sum()), 2)))
    missing = s.missing.clone()
    if change == "row":
        noise = KeyedNoise(0, noise.columns, noise.rows + 1, noise.draws)
    else:
        missing[0, 0] = True
    with pytest.raises(InputError, match="only for the table that the run holds") as caught:
        impute(imputer, s.x, missing, noise, s.box)
    assert "finetune" in caught.value.hint


def test_a_run_without_holes_holds_nothing() -> None:
    s = make_setup(3)
    noise = noise_for(3, 1)
    none = held(noise.rows, torch.zeros_like(s.missing), torch.zeros(0, 2))
    assert torch.equal(impute(ChainsImputer(none), s.full, torch.zeros_like(s.missing), noise, s.box)[0], s.full)
    assert held(noise.rows[:0], s.missing[:0], torch.zeros(0, 2)).find(noise.rows).tolist() == [-1, -1, -1]


def test_checks_its_parts() -> None:
    s = make_setup(3)
    with pytest.raises(ValueError, match="one key a row"):
        held(torch.arange(2), s.missing, torch.zeros(20, 1))
    with pytest.raises(ValueError, match="must differ"):
        held(torch.zeros(3, dtype=torch.int64), s.missing, torch.zeros(20, 1))
