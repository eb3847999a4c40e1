"""Which blocks a chain redraws: distinct holes, in the orders that are promised."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.chains.scans import FEWEST_PARTS, block_scan, holes_scan, random_scan, repeated, whole_sweep


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6), st.integers(1, 7))
def test_holes_scan_visits_distinct_holes(holes, G):
    holes = torch.tensor(holes)
    scan = holes_scan(holes, 2, torch.rand(2 * len(holes), G))
    both = holes.repeat_interleave(2, 0)
    for j, active, row in zip(scan.j, scan.active, both, strict=True):
        assert int(active.sum()) == min(G, 5, int(row.sum()))
        visited = j[active]
        assert len(set(visited.tolist())) == len(visited) and bool(row[visited].all())


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=6), st.integers(1, 8))
def test_a_row_with_fewer_holes_than_steps_begins_again(holes, G):
    """G steps of every row with a hole, each hole as often as any other up to one; none of a row without."""
    holes = torch.tensor(holes)
    first = holes_scan(holes, 1, torch.rand(len(holes), min(G, 3)))
    scan = repeated(first, G)
    assert scan.j.shape == scan.active.shape == (len(holes), G)
    for j, active, row, once in zip(scan.j, scan.active, holes, first.j, strict=True):
        count = int(row.sum())
        assert bool(active.all() if count else ~active.any())
        if count:
            assert bool(row[j].all()) and torch.equal(j[: min(G, count)], once[: min(G, count)])
            times = torch.bincount(j, minlength=3)[row]
            assert int(times.max() - times.min()) <= 1


@pytest.mark.parametrize("S", [4, 20])
def test_holes_scan_has_the_law_of_random_scan(S):
    """Every order of the three holes is as likely as any other, whichever way a hole is found by its rank."""
    g = torch.Generator().manual_seed(0)
    holes = torch.zeros(1, S, dtype=torch.bool)
    holes[0, [0, 2, 3]] = True
    scan = holes_scan(holes, 60_000, torch.rand(60_000, 3, generator=g))
    code = scan.j @ torch.tensor([100, 10, 1])
    orders, counts = torch.unique(code, return_counts=True)
    assert sorted(orders.tolist()) == [23, 32, 203, 230, 302, 320]
    expected = torch.full((6,), 1 / 6)
    torch.testing.assert_close(counts / 60_000, expected, atol=4.5 * (5 / 36 / 60_000) ** 0.5, rtol=0)


def test_scan_is_without_replacement_over_missing_blocks_and_uniform():
    g = torch.Generator().manual_seed(0)
    allowed = torch.tensor([[True, False, True, True]]).repeat(30_000, 1)
    scan = random_scan(allowed, torch.rand(30_000, 4, generator=g), 2)
    assert bool((scan.j[:, 0] != scan.j[:, 1]).all()) and bool(scan.active.all())
    first = torch.bincount(scan.j[:, 0], minlength=4) / 30_000
    torch.testing.assert_close(first, torch.tensor([1 / 3, 0, 1 / 3, 1 / 3]), atol=0.012, rtol=0)


@given(
    st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=1, max_size=4),
    st.integers(1, 14),
    st.integers(1, 14),
)
def test_block_scan_visits_distinct_holes(holes, G, B):
    holes = torch.tensor(holes)
    scan = block_scan(holes, torch.rand(holes.shape), G, B)
    assert scan.j.shape == (len(holes), G, min(B, 12))
    for j, active, row in zip(scan.j, scan.active, holes, strict=True):
        count = int(row.sum())
        size = min(B, -(-count // FEWEST_PARTS))
        visited = j[active]
        assert len(visited) == min(count, G * size)
        assert len(set(visited.tolist())) == len(visited) and bool(row[visited].all())
        assert bool((active.sum(1) <= size).all())
        assert all(len(set(step.tolist())) == len(step) for step in j)  # written in one go: no column twice


def test_a_whole_sweep_visits_every_hole():
    g = torch.Generator().manual_seed(0)
    for S, B in ((5, 2), (12, 3), (100, 7), (100, 1)):
        holes = torch.rand(50, S, generator=g) < torch.rand(50, 1, generator=g)
        scan = block_scan(holes, torch.rand(50, S, generator=g), whole_sweep(S, B), B)
        assert torch.equal(scan.active.sum((1, 2)), holes.sum(1))
