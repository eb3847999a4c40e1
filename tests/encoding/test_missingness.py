"""Shares, patterns and pairs of columns never observed together, against counts by hand and by brute force."""

from __future__ import annotations

from collections import Counter

import numpy as np

from vgi_cli.encoding.missingness import missingness

NAMES = ("a", "b", "c")


def test_of_a_small_mask() -> None:
    missing = np.array([[0, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]], bool)
    found = missingness(missing, NAMES)
    assert found.absent.tolist() == [2, 3, 2] and found.by_row.tolist() == [1, 2, 1, 1]
    assert (found.complete, found.nothing, found.share) == (1, 1, 7 / 15)
    assert [(p.missing, p.rows) for p in found.patterns] == [
        (("b",), 2),
        ((), 1),
        (("a", "c"), 1),
        (("a", "b", "c"), 1),
    ]
    assert found.apart == ()  # every pair is seen in the first row


def test_of_a_large_mask_as_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    missing = rng.random((500, 11)) < 0.5
    names = [f"x{i}" for i in range(11)]
    missing[:, 3] |= ~missing[:, 7]  # so that these two are never seen together
    missing[:, 9] = True  # and this one is never seen at all: no pair
    found = missingness(missing, names)
    counts = Counter(tuple(n for n, gone in zip(names, row, strict=True) if gone) for row in missing)
    assert {p.missing: p.rows for p in found.patterns} == dict(counts)
    assert [p.rows for p in found.patterns] == sorted(counts.values(), reverse=True)
    assert found.apart == (("x3", "x7"),)


def test_without_a_column_or_a_hole() -> None:
    nothing = missingness(np.zeros((4, 0), bool), ())
    assert (nothing.complete, nothing.nothing, nothing.share, nothing.apart) == (4, 0, 0.0, ())
    assert nothing.patterns == (((), 4),)
    assert missingness(np.zeros((4, 2), bool), ("a", "b")).patterns == (((), 4),)
