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


def test_numbers_are_those_of_splitmix64() -> None:
    """The first three of the generator that starts at 0 (the reference code of Steele, Lea and Flood), as an array, as
    a number, and as torch computes them on other devices."""
    golden, first = 0x9E3779B97F4A7C15, (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
    states = torch.tensor([(i * golden + 2**63) % 2**64 - 2**63 for i in range(3)])
    for found in (mix64(states), mix64(states.view(3, 1).expand(3, 2))[:, 1], torch.stack([mix64(z) for z in states])):
        assert [int(z) % 2**64 for z in found] == list(first)
