"""Keyed noise: of some columns of each row alone it is what it is of all, and so it is of pairs."""

from __future__ import annotations

import torch

from vgi_cli.maths.noise import KeyedNoise, _in_unit, _shift_right, mix64, numbered


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


def test_strata_divide_the_unit_interval_among_the_draws_of_a_cell() -> None:
    """Each draw by itself is uniform; together they leave no part of the interval out, in another order everywhere."""
    m = 10
    noise = KeyedNoise(3, numbered("x", 4), mix64(torch.arange(3000)), torch.arange(m), "there", strata=m)
    u = noise.uniform()
    parts = (u * m).long()
    assert torch.equal(parts.sort(0).values, torch.arange(m)[:, None, None].expand_as(parts))
    assert u.min() > 0 and u.max() < 1
    for draw in range(0, m, 3):  # chi-square of twenty bins, 19 degrees of freedom
        count = torch.histc(u[draw], 20, 0, 1)
        assert float(((count - 600) ** 2 / 600).sum()) < 45
    order = parts.permute(1, 2, 0).reshape(-1, m)
    assert len(torch.unique(order, dim=0)) > 0.99 * len(order)
    of_two = torch.corrcoef(torch.stack([u[..., 0].flatten(), u[..., 1].flatten()]))
    assert abs(float(of_two[0, 1])) < 0.02


def test_strata_are_the_same_of_some_draws_rows_and_pairs() -> None:
    noise = KeyedNoise(3, numbered("x", 4), mix64(torch.arange(5)), torch.arange(7), strata=7)
    u = noise.at("there").uniform()
    draws, rows = torch.tensor([2, 0, 2, 6]), torch.tensor([1, 1, 3, 0])
    assert torch.equal(noise.paired(draws, rows).at("there").uniform()[0], u[draws, rows])
    assert torch.equal(noise.select(draws=draws).select(rows=rows).at("there").uniform(), u[draws][:, rows])
    columns = torch.tensor([[0, 3]] * 5)
    assert torch.equal(noise.at("there").uniform_at(columns), u[..., [0, 3]])


def test_more_draws_than_strata_are_even_in_groups() -> None:
    noise = KeyedNoise(3, numbered("x", 3), mix64(torch.arange(40)), torch.arange(13), strata=5)
    u = noise.uniform()
    for first in (0, 5):
        parts = (u[first : first + 5] * 5).long().sort(0).values
        assert torch.equal(parts, torch.arange(5)[:, None, None].expand_as(parts))
    assert not torch.equal((u[:3] * 5).long(), (u[5:8] * 5).long())
    assert torch.equal(noise.select(draws=torch.tensor([11, 2])).uniform(), u[[11, 2]])
    draws, rows = torch.tensor([12, 0, 6]), torch.tensor([1, 30, 1])
    assert torch.equal(noise.paired(draws, rows).uniform()[0], u[draws, rows])


def test_numbers_become_uniform_as_torch_computes_them_on_other_devices() -> None:
    z = mix64(torch.arange(1000))
    z[:3] = torch.tensor([0, -1, -(2**63)])
    expected = _shift_right(z, 11).to(torch.float64).add_(0.5).mul_(2.0**-53)
    assert torch.equal(_in_unit(z), expected) and torch.equal(_in_unit(z[7]), expected[7])
