"""The numbers of a report against closed forms."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, spearmanr

from vgi_cli.encoding.infer import infer_schema
from vgi_cli.reports.cells import density, extrapolated, pair, picture, rank_correlation, shares
from vgi_cli.reports.mixing import effective_size, halves, split_rhat
from vgi_cli.reports.rows import chi_square_tail, lowest
from vgi_cli.reports.tipping import stands, tips
from vgi_cli.reports.training import curves, remaining, rise, told
from vgi_cli.reports.values import AtShift, plain, worst
from vgi_cli.table.frames import from_frame

RNG = np.random.default_rng(0)


def autoregressive(phi: float, chains: int, steps: int) -> np.ndarray:
    """[chains, steps] stationary, of variance 1."""
    noise = np.random.default_rng(1).normal(size=(chains, steps)) * math.sqrt(1 - phi**2)
    x = np.empty((chains, steps))
    x[:, 0] = np.random.default_rng(2).normal(size=chains)
    for t in range(1, steps):
        x[:, t] = phi * x[:, t - 1] + noise[:, t]
    return x


def test_rhat_of_independent_draws_is_one() -> None:
    assert split_rhat(RNG.normal(size=(4, 2000))) == pytest.approx(1, abs=0.005)


def test_rhat_by_its_formula() -> None:
    traces = RNG.normal(size=(3, 10)) + np.array([[0.0], [1.0], [5.0]])
    parts = [trace[a:b] for trace in traces for a, b in ((0, 5), (5, 10))]
    within = np.mean([part.var(ddof=1) for part in parts])
    between = 5 * np.var([part.mean() for part in parts], ddof=1)
    expected = math.sqrt(((5 - 1) / 5 * within + between / 5) / within)
    assert split_rhat(traces) == pytest.approx(expected, rel=1e-12)
    assert halves(traces).shape == (6, 5)


def test_rhat_where_nothing_moves() -> None:
    assert split_rhat(np.ones((4, 20))) == 1.0
    assert split_rhat(np.repeat([[1.0], [2.0]], 20, axis=1)) == math.inf
    assert math.isnan(split_rhat(np.ones((4, 6))))


def test_rhat_sees_a_drift_that_all_chains_share() -> None:
    assert split_rhat(np.linspace(0, 5, 100) + RNG.normal(size=(4, 100))) > 1.3


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_effective_size_of_an_autoregression(phi: float) -> None:
    chains, steps = 8, 8000
    expected = chains * steps * (1 - phi) / (1 + phi)
    assert effective_size(autoregressive(phi, chains, steps)) == pytest.approx(expected, rel=0.1)


def test_effective_size_of_chains_that_disagree_or_stand() -> None:
    apart = autoregressive(0.0, 4, 400) + 10 * np.arange(4)[:, None]
    assert effective_size(apart) < 20
    assert effective_size(np.ones((4, 40))) == 0.0
    assert math.isnan(effective_size(np.ones((4, 4))))


def test_density_of_a_normal() -> None:
    grid = np.linspace(-5, 5, 96)
    drawn = density(np.random.default_rng(3).normal(size=200_000), grid)
    assert np.abs(drawn - np.exp(-0.5 * grid**2) / math.sqrt(2 * math.pi)).max() < 0.01
    assert drawn.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=0.01)


def test_shares_of_levels() -> None:
    assert shares(np.array([[0.0, 2.0], [2.0, 2.0]]), 4).tolist() == [0.25, 0, 0.75, 0]
    assert shares(np.zeros((2, 0)), 2).tolist() == [0, 0]


def plainly(codes: np.ndarray, missing: np.ndarray, numeric: np.ndarray) -> list[tuple[float, str | None] | None]:
    """What `extrapolated` says, by one pair of columns after the other."""
    found: list[tuple[float, str | None] | None] = []
    for hole in missing.T:
        shares = {}
        for k in np.flatnonzero(numeric):
            beside, inside = (codes[rows, k][np.isfinite(codes[rows, k])] for rows in (~hole, hole))
            if min(len(beside), len(inside)) >= 20:
                shares[f"x{k}"] = float(((inside < beside.min()) | (inside > beside.max())).mean())
        by = max(shares, key=shares.__getitem__, default=None)
        found.append(None if by is None else (shares[by], by if shares[by] > 0 else None))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_holes_beyond_what_was_observed_pair_by_pair(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n, P = int(draw.choice([45, 150, 400])), 6
    codes = draw.normal(size=(n, P)).round(int(draw.integers(3)))
    missing = draw.random((n, P)) < draw.choice([0.1, 0.5, 0.9], P)
    rows = np.arange(n)
    missing[np.argsort(codes[:, 0]) >= n // 2, 1] = True  # whole ends of the first column
    missing[rows >= n // 2, 2] = codes[rows >= n // 2, 0] > 0
    codes[missing] = np.nan
    numeric = np.array([True] * 5 + [draw.random() < 0.5])
    found = extrapolated(codes, missing, [f"x{k}" for k in range(P)], numeric)
    assert [None if one is None else (pytest.approx(one.share), one.by) for one in found] == plainly(
        codes, missing, numeric
    )


def test_holes_beyond_what_was_observed_beside_the_column() -> None:
    n = 200
    x = np.arange(n, dtype=float)
    codes = np.stack([x, RNG.normal(size=n), x % 7], 1)
    missing = np.zeros((n, 3), bool)
    missing[150:, 1] = True  # the largest fourth of x
    codes[missing] = np.nan
    beyond = extrapolated(codes, missing, ["x", "y", "z"], np.array([True, True, True]))
    assert beyond[0] is None and beyond[2] is None  # no holes
    assert beyond[1] is not None and beyond[1] == (1.0, "x")
    scattered = np.zeros((n, 3), bool)
    scattered[::5, 1] = True
    inside = extrapolated(np.where(scattered, np.nan, codes), scattered, ["x", "y", "z"], np.array([True, True, True]))
    assert inside[1] is not None and inside[1].share <= 0.05
    few = np.zeros((n, 3), bool)
    few[:5, 1] = True
    assert extrapolated(np.where(few, np.nan, codes), few, ["x", "y", "z"], np.array([True] * 3))[1] is None


def test_holes_of_questions_that_were_not_asked_lie_beyond_nothing() -> None:
    """They count neither as holes nor as rows in which the column is observed."""
    n = 300
    x = np.arange(n, dtype=float)
    missing = np.zeros((n, 2), bool)
    missing[200:, 1] = True  # not asked
    unasked = missing.copy()
    missing[:200:5, 1] = True
    codes = np.where(missing, np.nan, np.stack([x, x % 7], 1))
    names, numeric = ["x", "y"], np.array([True, True])
    counted = extrapolated(codes, missing, names, numeric)[1]
    assert counted is not None and counted.share > 0.7 and counted.by == "x"
    left = extrapolated(codes, missing, names, numeric, unasked)[1]
    asked = extrapolated(codes[:200], missing[:200], names, numeric)[1]
    assert left == asked and left is not None and left.share < 0.05


def test_what_a_curve_still_gains() -> None:
    noise = np.random.default_rng(4).normal(size=30) * 0.5
    assert rise(np.linspace(0, 30, 30)) == pytest.approx(10 * 30 / 29)
    assert rise(noise) == min(rise(noise) or 0.0, 0.0)  # noise accuses nobody
    assert rise(np.zeros(5)) is None
    assert remaining(1 - 0.5 ** np.arange(1, 15)) == pytest.approx(0.5**14)
    assert remaining(1 - 0.5 ** np.arange(1, 8)) == pytest.approx(9 * 0.5**7)  # early steps
    assert remaining(np.array([0.0, 1.0])) == pytest.approx(9.0)
    assert remaining(np.arange(20.0)) == pytest.approx(99.0)
    assert remaining(np.array([0.0, 1.0, 1.0])) == 0.0


def test_training_is_judged_by_held_out_rows_where_there_are_some() -> None:
    lines = [{"epoch": 1, "step": 4, "stage": "warm_model", "objective": -9.0}] + [
        {
            "epoch": e,
            "step": 4 + e,
            "stage": "main",
            "objective": -1.0,
            "held_out_loglik": -s,
            "acceptance": [0.5, None],
        }
        for e, s in enumerate([3.0, 2.0, 2.5], 1)
    ]
    found = told(lines, 3, 3, "epochs", True)
    assert (found.judged_by, found.rise, found.held_out, found.steps) == ("held-out", -0.5, -2.5, 7)
    drawn = curves(lines)
    assert drawn["acceptance"][1].tolist() == [0.5, 0.5, 0.5]
    assert drawn["objective"][0].tolist() == [1, 2, 3]
    em = [{"epoch": e, "step": e, "loglik": -1.0 / e, "objective": -300.0 / e} for e in range(1, 9)]
    found = told(em, 8, 8, "epochs", True)
    assert found.criterion == "loglik" and found.judged_by == "em" and found.rise is not None
    assert told([], 0, 0, None, True).judged_by == "nothing"
    whole = [{"epoch": 1, "objective": -2.0}, {"epoch": 2, "objective": -1.0, "acceptance": 0.25}]  # of plmcmc
    assert curves(whole)["acceptance"][1].tolist() == [0.25]
    assert told(whole, 2, 2, None, True).strain is None
    assert told([{**whole[1], "strain": 9.0}, {"epoch": 3, "objective": -1.0}], 3, 3, None, True).strain == 9.0
    tuned = told(whole, 2, 2, "epochs", True, tuned=True)
    assert (tuned.judged_by, tuned.rise) == ("tuned", None)


def test_plain_values() -> None:
    assert plain({"a": (1, math.inf, np.float64(2.5)), "b": {1: None}}) == {"a": [1, None, 2.5], "b": {"1": None}}
    assert worst(["good", "unknown"]) == "good"
    assert worst(["good", "bad", "look"]) == "bad"
    assert worst([]) == "unknown"


def test_numbers_as_they_are_shown() -> None:
    number = pytest.importorskip("vgi_cli.reports.sections", reason="the extra `report` is not installed").number
    shown = {6.1: "6.1", 0.01234: "0.0123", 613.4: "613", 99.7: "99.7", 1234.5: "1,234", 1e7: "10,000,000", 3: "3"}
    assert {value: number(value) for value in shown} == shown
    assert (number(613.4, 2), number(99.7, 2), number(1e300), number(None)) == ("613", "100", "1e+300", "–")


def test_names_that_would_look_alike_in_a_picture_keep_their_ends() -> None:
    drawing = pytest.importorskip("vgi_cli.reports.drawing", reason="the extra `report` is not installed")
    names = ["income", "a_long_name_of_2019", "a_long_name_of_2020", "another_of_no_twin"]
    assert drawing.shorts(names) == ["income", "a_long…of_2019", "a_long…of_2020", "another_of_no…"]


def test_a_curve_that_does_not_move_is_drawn_flat() -> None:
    drawing = pytest.importorskip("vgi_cli.reports.drawing", reason="the extra `report` is not installed")
    steps = (np.arange(3.0), np.array([-112.4715857, -112.4715856, -112.4715856]))
    picture = drawing.curves("k", {"loglik": steps}, "flat")
    labels = re.findall(r">([^<]+)</text>", picture)
    assert "−112.470" in labels and not any("1e" in label for label in labels), labels


def test_an_axis_of_dates_has_dates() -> None:
    days = pd.date_range("2021-01-01", periods=101).strftime("%d.%m.%Y").to_series(index=range(101))
    frame = pd.DataFrame({"day": days.where(days.index % 5 > 0), "x": np.arange(101.0) * 900})
    schema, _ = infer_schema(from_frame(frame))
    day, x = schema.encoded
    codes = day.codes(from_frame(frame).column("day")), frame["x"].to_numpy()
    drawn = pair((day, x), codes, (np.nan_to_num(codes[0]), codes[1]))
    places, labels = drawn.ticks[0] or ([], [])
    assert drawn.ticks[1] is None and labels == day.spell(np.array(places), None) and len(labels) == 2
    assert all(re.fullmatch(r"\d\d\.\d\d\.20\d\d", label) for label in labels)
    drawing = pytest.importorskip("vgi_cli.reports.drawing", reason="the extra `report` is not installed")
    texts = re.findall(r">([^<]+)</text>", drawing.pairs("k", [drawn], "a"))
    assert {*labels, "day", "x"} <= set(texts) and not any("1e" in text for text in texts), texts


def test_means_of_times_are_times() -> None:
    """Of bedtimes around midnight the mean is near midnight, and written as the table writes times."""
    frame = pd.DataFrame({"bed": ["23:10", "23:50", "00:30", "00:10", None] * 20, "x": np.arange(100.0)})
    schema, _ = infer_schema(from_frame(frame))
    bed, x = schema.encoded
    codes = bed.codes(from_frame(frame).column("bed"))
    seen = codes[~np.isnan(codes)]
    assert picture(bed, seen, np.full((3, 20), seen.min())).means == ["23:55", "23:10"]
    assert picture(bed, seen, np.empty((3, 0))).means == ["23:55"]
    assert picture(x, np.arange(10.0), np.ones((3, 5))).means == ()


def test_shares_in_intervals_are_drawn_beside_what_chance_does() -> None:
    drawing = pytest.importorskip("vgi_cli.reports.drawing", reason="the extra `report` is not installed")
    picture = drawing.covered("k", ["few", "名前", "none"], [0.2, 0.89, 1.0], [0.95, 0.02, 0.1], 0.9, "words")
    assert "名前" in picture  # in no font of matplotlib; a warning would fail the test
    picture = drawing.covered("k", ["few", "many", "none"], [0.2, 0.89, 1.0], [0.95, 0.02, 0.1], 0.9, "words")
    assert {"few", "many", "none", "share in 90 % intervals"} <= set(re.findall(r">([^<]+)</text>", picture))
    assert 'aria-label="words"' in picture and "nan" not in picture


def test_rank_correlation_is_spearmans() -> None:
    points = np.round(RNG.normal(size=(2, 50)), 1)  # with ties
    points[1] += points[0]
    assert rank_correlation(points) == pytest.approx(spearmanr(*points).statistic, abs=1e-12)
    assert rank_correlation(np.array([[1.0, 1.0], [1.0, 2.0]])) is None


@pytest.mark.parametrize("degrees", [1, 2, 10, 500])
def test_tail_of_a_chi_square(degrees: int) -> None:
    assert chi_square_tail(1e-4, degrees) == pytest.approx(chi2.isf(1e-4, degrees), rel=0.08)


def test_rows_of_a_normal_table_are_within_their_limit_and_a_slip_is_not() -> None:
    x = np.random.default_rng(5).normal(size=(2000, 3))
    values, cells = -0.5 * np.square(x).sum(1), np.full(2000, 3)
    assert all(row.below < row.limit for row in lowest(values, cells, 10))
    values[7] -= 60
    first = lowest(values, cells, 10)[0]
    assert first.place == 7 and first.below > first.limit and first.per_cell == values[7] / 3


def at(sd: float, low: float, high: float) -> AtShift:
    return AtShift(sd, 10 * sd, (low + high) / 2, low, high, 0.0)


def line(slope: float, half: float = 1.0) -> list[AtShift]:
    """The mean rises by `slope` for each standard deviation, from 5 without a shift."""
    return [at(sd, 5 + slope * sd - half, 5 + slope * sd + half) for sd in np.linspace(-2, 2, 33).tolist()]


def test_tipping_points_of_a_straight_line() -> None:
    assert tips(line(1.7), 5.0) == pytest.approx((-1 / 1.7, 1 / 1.7))  # where an end of the interval comes to 5
    assert tips(line(-1.7), 5.0) == pytest.approx((-1 / 1.7, 1 / 1.7))
    assert tips(line(0.4), 5.0) == (None, None)
    assert tips(line(1.7), 7.0) == (None, pytest.approx(1 / 1.7))  # it begins to hold 7
    assert tips(line(1.7), 3.0) == (pytest.approx(-1 / 1.7), None)
    assert tips(line(40.0, 0.01), 5.1) == (None, pytest.approx(0.09 / 40))  # passed between two shifts
    assert [stands(at(0, 1, 2), value) for value in (3.0, 1.5, 1.0, 0.5)] == [-1, 0, 0, 1]
