"""Keyed noise: of some columns of each row alone it is what it is of all, and so it is of pairs."""

from __future__ import annotations

import torch

from vgi_cli.maths.noise import KeyedNoise, mix64, numbered


def test_noise_of_some_columns_of_each_row_is_that_of_all() -> None:
    noise = KeyedNoise(3, numbered("x", 7), mix64(torch.arange(50)), torch.arange(2), "there")
    columns = torch.randint(7, (50, 3), generator=torch.Generator().manual_seed(0))
    for every, some in ((noise.uniform(), noise.uniform_at(columns)), (noise.normal(), noise.normal_at(columns))):
        assert torch.equal(some, every.gather(2, columns.expand(2, -1, -1)))


def test_noise_of_pairs_of_a_draw_and_a_row_is_theirs() -> None:
    noise = KeyedNoise(3, numbered("x", 4), mix64(torch.arange(5)), torch.tensor([5, 0, 9]), "there")
    draws, rows = torch.tensor([2, 0, 2, 1]), torch.tensor([1, 1, 3, 0])
    own = noise.paired(draws, rows)
    assert torch.equal(own.at("again").uniform()[0], noise.at("again").uniform()[draws, rows])
    one = noise.select(draws=draws[:1]).select(rows=rows[:1])
    assert torch.equal(own.uniform()[:, :1], one.uniform())
