"""Whole percentages, each rounded by itself, add up to 100 or nearly: found where rounding explains what is left, and
kept by fills."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import hidden, holed, kept, schema_of
from tests.selection import covering, first
from vgi_cli.columns.relations import Relation

COVER = ["forest", "grass", "rock", "water"]


def covers(
    parts: int = 4, n: int = 400, *, seed: int = 0, none: float = 0.0, spread: float = 0.0, total: float = 100.0
) -> pd.DataFrame:
    """Parts of an area in whole per cent of a total, of which the last is 0 in a share of the rows (`none`), which by
    nature add up to that but for a `spread`; and other numbers from 0 to 100."""
    rng = np.random.default_rng(seed)
    area = rng.gamma(rng.uniform(0.7, 4, parts), 1, (n, parts))
    area[:, -1] *= rng.random(n) >= none
    share = 100 * area / area.sum(1, keepdims=True) + rng.normal(0, spread / np.sqrt(parts), (n, parts))
    frame = pd.DataFrame(np.maximum(np.round(share), 0) * total / 100, columns=COVER[:parts])
    frame["rare"] = rng.poisson(0.05, n)
    for i in range(4):
        frame[f"mark{i}"] = np.clip(np.round(40 + 0.4 * frame.forest * 100 / total + rng.normal(0, 12, n)), 0, 100)
    return frame


def sums(frame: pd.DataFrame) -> list[Relation]:
    return [one for one in schema_of(frame).relations if one.how == "sum"]


@covering(pytest.mark.parametrize("none", [0.0, 0.6]), pytest.mark.parametrize("parts", [3, 4]))
def test_whole_percentages_are_found(parts: int, none: float) -> None:
    for seed in range(3):
        frame = covers(parts, seed=seed, none=none)
        assert frame[COVER[:parts]].sum(axis=1).isin([99, 100, 101]).all()
        (relation,) = sums(holed(frame, share=0.1))
        assert relation == Relation(
            names=(COVER[parts - 1], *COVER[: parts - 1]),
            weights=(1.0,) * parts,
            constant=100.0,
            rounded=True,
            slack=1.0,
        )
    rest = "".join(f" - '{name}'" for name in COVER[: parts - 1])
    assert relation.words(whole=True) == f"'{COVER[parts - 1]}' = 100{rest}, as all are rounded"


def test_shares_of_one_in_hundredths_are_found() -> None:
    (relation,) = sums(covers(total=1.0).round(2))
    assert set(relation.names) == set(COVER) and relation.constant == 1.0


@pytest.mark.parametrize(("parts", "spread"), first(1, [(4, 0.6), (3, 0.6), (4, 1.0)]))
def test_parts_that_add_up_nearly_by_nature_are_not(parts: int, spread: float) -> None:
    for seed in range(3):
        assert sums(covers(parts, seed=seed, spread=spread)) == []


@pytest.mark.parametrize("seed", range(2))
def test_fills_keep_to_them_and_miss_the_total_as_often(seed: int) -> None:
    frame = covers(seed=seed, none=0.3, n=800)
    holes = hidden(frame)
    holes[COVER] = np.random.default_rng(1).random((len(frame), 4)) < 0.3
    for one in kept(frame, holes, schema_of(frame)):
        total = one[COVER].sum(axis=1)
        assert total.isin([99, 100, 101]).all() and one[COVER].min(axis=None) >= 0 and one[COVER].max(axis=None) <= 100
        some = holes[COVER].any(axis=1)
        assert 0.03 < (total[some] != 100).mean() < 0.6
