"""Which columns in order in every row are of one kind, and which are so for their units alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vgi_cli.encoding.comparable import alike_names, chance_of_order
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.table.frames import from_frame


def pairs(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return [(one.low, one.high) for one in schema_alone(from_frame(frame)).orders]


def grown(seed: int, n: int = 600, noise: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of unlike units that grow together, over some decades."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    first = np.exp(2 + size + noise * rng.normal(size=n))
    second = np.exp(4 + size + noise * rng.normal(size=n))
    return first.round(2), second.round(2)


@pytest.mark.parametrize("seed", range(5))
def test_unlike_quantities_that_grow_together_are_in_no_order(seed: int) -> None:
    first, second = grown(seed)
    assert (first <= second).all()
    assert pairs(pd.DataFrame({"jobs": first, "roads": second})) == []
    named = pd.DataFrame({"jobs_urban": first, "jobs_all": second})  # parts of what their names say
    assert pairs(named) == [("jobs_urban", "jobs_all")]


@pytest.mark.parametrize("seed", range(5))
def test_what_would_cross_if_it_only_went_together_is_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    entry = rng.gamma(2, 20, 400).round(1)
    frame = pd.DataFrame({"a": entry, "b": (entry + rng.gamma(1.5, 20, 400)).round(1)})
    assert pairs(frame) == [("a", "b")]


def test_an_hour_is_in_no_order_with_what_is_counted_otherwise() -> None:
    rng = np.random.default_rng(0)
    hour = rng.integers(0, 24, 400)
    used = np.minimum(rng.gamma(2, 6, 400), hour).round(1)
    assert pairs(pd.DataFrame({"kwh": used, "limit": hour})) == [("kwh", "limit")]
    assert pairs(pd.DataFrame({"kwh": used, "hour": hour})) == []


def test_cells_that_are_as_good_as_equal_tell_columns_of_one_kind() -> None:
    rng = np.random.default_rng(2)
    tried = rng.integers(10, 60, 150)
    passed = rng.binomial(tried, 0.85)
    assert (passed == tried).sum() >= 3
    assert pairs(pd.DataFrame({"x": passed, "y": tried, "z": rng.normal(size=150).round(2)})) == [("x", "y")]
    less = passed < 0.97 * tried
    low = np.where(less, passed, np.floor(0.95 * tried)).astype(int)
    assert pairs(pd.DataFrame({"x": low, "y": tried, "z": rng.normal(size=150).round(2)})) == []


def test_rows_of_one_animal_are_one_piece_of_evidence() -> None:
    """Each pig has a litter and a weight at the start, in each of its rows."""
    rng = np.random.default_rng(0)
    pig, litter, first = np.repeat(np.arange(72), 12), rng.integers(1, 25, 72), rng.normal(25, 4, 72)
    first = np.maximum(first, litter + 1).round(2)
    frame = pd.DataFrame({"pig": 4601 + 3 * pig, "litter": litter[pig], "heavy": first[pig], "y": rng.random(864)})
    assert ("litter", "heavy") not in pairs(frame)
    frame = frame.assign(pig=rng.permutation(frame["pig"]))
    assert ("litter", "heavy") in pairs(frame)


def test_the_surest_orders_come_first() -> None:
    rng = np.random.default_rng(1)
    first, second = grown(1)
    entry = rng.gamma(2, 20, 600).round(1)
    frame = pd.DataFrame({"jobs_urban": first, "jobs_all": second, "entry": entry})
    frame["exit"] = (entry + rng.gamma(1.5, 20, 600)).round(1)
    assert pairs(frame) == [("entry", "exit"), ("jobs_urban", "jobs_all")]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("fatal1517", "nfatal", True),
        ("mean_radius", "worst_radius", True),
        ("YearsAtCompany", "TotalWorkingYears", True),
        ("tax", "taxs", True),
        ("hiredlabor", "totlabor", True),
        ("students", "allstudents", True),
        ("emp", "hwy", False),
        ("age", "wgt", False),
        ("x1", "x2", False),
        ("pc", "pcap", False),
        ("ad", "ef", False),
    ],
)
def test_names_of_one_kind(one: str, other: str, said: bool) -> None:
    assert alike_names(one, other) is alike_names(other, one) is said


def test_ends_and_totals_by_name() -> None:
    first, second = grown(3, 300)
    assert pairs(pd.DataFrame({"start": first, "stop": second})) == [("start", "stop")]
    assert pairs(pd.DataFrame({"stop": first, "start": second})) == []
    rng = np.random.default_rng(0)
    total = np.exp(4 + 0.7 * rng.normal(size=120))
    part = total * rng.beta(2, 2.5, 120)
    frame = pd.DataFrame({"part": part.round(2), "total": total.round(2)})
    assert pairs(frame) == [("part", "total")] and pairs(frame.rename(columns={"total": "y"})) == []


def test_the_chance_of_an_order_is_that_of_a_normal_law() -> None:
    """Of draws from a normal law of two variables the same share crosses."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2, 20_000))
    a, b = z[0], 1.5 + 0.6 * z[0] + 0.8 * z[1]
    nats = chance_of_order(a, b)
    assert nats == pytest.approx(-20_000 * np.log1p(-(a > b).mean()), rel=0.2)  # 2,000 of the rows are looked at
    groups = (np.zeros(50, int), np.zeros(50, int))
    assert chance_of_order(a, b, [groups]) == pytest.approx(nats * 50 / 20_000)
    assert chance_of_order(a, a + 10) == pytest.approx(0, abs=1e-6)
