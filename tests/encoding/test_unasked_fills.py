"""What is filled in where a question is not asked decides no other cell of its row: the date of a cancellation beside
`cancelled` = no says nothing of how long somebody was a customer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.selection import covering, first
from vgi_cli.columns.blanks import read_blanks, staying
from vgi_cli.columns.orders import Order
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_but_for_blanks
from vgi_cli.encoding.orders import orders_without, pairs_in_order
from vgi_cli.encoding.redrawing import DrawnRows
from vgi_cli.encoding.redundant import codes_of, every_kept, half_digit
from vgi_cli.encoding.relations import departing
from vgi_cli.table.frames import from_frame

N = 400
DAY = np.timedelta64(1, "D")


def days(start: str, after: np.ndarray) -> pd.Series:
    return pd.Series(np.datetime64(start) + after * DAY).dt.strftime("%Y-%m-%d")


def customers() -> pd.DataFrame:
    """A date that is another one and a number of days, of those who left alone."""
    rng = np.random.default_rng(4)
    signup, tenure, left = rng.integers(0, 200, N), rng.integers(5, 1500, N), rng.random(N) < 0.7
    tenure = np.where(left, tenure, tenure + 500)
    frame = pd.DataFrame({"left": np.where(left, "yes", "no"), "signup": days("2020-01-01", signup)})
    return frame.assign(tenure=tenure, leaving=days("2020-01-01", signup + tenure).where(left))


def pay() -> pd.DataFrame:
    """A total with a part that managers alone have."""
    rng = np.random.default_rng(5)
    manager, salary = rng.random(N) < 0.6, rng.integers(3_000, 6_000, N) * 10.0
    bonus = np.where(manager, rng.integers(100, 900, N) * 10.0, np.nan)
    frame = pd.DataFrame({"manager": np.where(manager, "yes", "no"), "salary": salary, "bonus": bonus})
    return frame.assign(total=np.where(manager, salary + bonus, salary + rng.integers(0, 400, N) * 10))


def fees() -> pd.DataFrame:
    """A product with a factor that there is from an age on."""
    rng = np.random.default_rng(6)
    age, units, rate = rng.integers(18, 90, N), rng.integers(1, 9, N) * 1.0, rng.integers(300, 900, N) / 4
    return pd.DataFrame({"age": age, "units": units, "rate": np.where(age >= 50, rate, np.nan), "fee": units * rate})


def stays() -> pd.DataFrame:
    """Hours between two datetimes, one of them of those who have gone home alone."""
    rng = np.random.default_rng(7)
    start, hours, home = rng.integers(0, 500_000, N), rng.integers(2, 400, N), rng.random(N) < 0.7
    came = pd.Series(pd.Timestamp("2022-01-01") + pd.to_timedelta(start, "min"))
    went = came + pd.to_timedelta(60 * hours + rng.integers(0, 60, N), "min")
    text = "%Y-%m-%d %H:%M"
    frame = pd.DataFrame({"home": np.where(home, "yes", "no"), "came": came.dt.strftime(text), "hours": hours})
    return frame.assign(went=went.dt.strftime(text).where(home))


def codes_in(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    return np.stack([codes_of(from_frame(frame), one) for one in schema.encoded], 1)


def kept(
    schema: Schema, draws: np.ndarray, observed: np.ndarray, missing: np.ndarray, told: np.ndarray | None = None
) -> Apart:
    half = np.full(draws.shape[:2], 0.5)
    rows = DrawnRows(draws, observed, missing, lambda name: half, lambda name, other: half)
    return keep_but_for_blanks(rows, None, schema, told)


@covering(
    pytest.mark.parametrize(
        ("table", "blank", "others"),
        [
            (customers, "leaving", ["tenure"]),
            (customers, "leaving", ["signup"]),
            (customers, "leaving", ["signup", "tenure"]),
            (pay, "bonus", ["total"]),
            (pay, "bonus", ["salary"]),
            (pay, "bonus", ["salary", "total"]),
            (fees, "rate", ["units", "fee"]),
            (stays, "went", ["hours"]),
            (stays, "went", ["came"]),
        ],
    ),
    pytest.mark.parametrize("decider_missing", [False, True]),
)
def test_other_cells_are_as_drawn_and_it_follows(
    table: Callable[[], pd.DataFrame], blank: str, others: list[str], decider_missing: bool
) -> None:
    frame = table()
    schema = schema_alone(from_frame(frame))
    relation = next(one for one in schema.relations if blank in one.names)
    assert set(others) < set(relation.names)
    observed = codes_in(frame, schema)
    missing = np.isnan(observed)
    unasked = missing.any(1)
    at, places = schema.modelled.index(blank), [schema.modelled.index(name) for name in others]
    missing[:, places] = True
    missing[:, 0] |= decider_missing
    drawn = observed.copy()
    drawn[unasked] = observed[unasked][-1]  # as in a row of the same kind
    drawn[unasked, at] = observed[~unasked, at].min()  # and far from what goes with these
    drawn = np.where(missing, drawn, observed)
    draws = drawn[None].repeat(2, 0)
    apart = kept(schema, draws, observed, missing)
    rest = np.arange(draws.shape[-1]) != at
    assert (draws[:, unasked][..., rest] == drawn[unasked][:, rest]).all()
    own = [schema.modelled.index(name) for name in relation.names]
    assert not apart.count() and not departing(relation, draws[..., own], half_digit(schema.encoded[own[0]])).any()


def test_a_level_that_is_drawn_says_where_it_is_asked() -> None:
    """Of a row whose decider is missing, draw by draw."""
    frame = pay()
    schema = schema_alone(from_frame(frame))
    observed = codes_in(frame, schema)
    missing = np.isnan(observed)
    missing[0] = [True, False, True, True]
    draws = np.where(missing, 5_000.0, observed)[None].repeat(2, 0)
    draws[:, 0, 0], draws[:, 0, 3] = [0.0, 1.0], 30_000.0  # no, yes
    observed[0, 1] = draws[:, 0, 1] = 20_000.0
    assert not kept(schema, draws, observed, missing).count()
    assert draws[0, 0].tolist() == [0, 20_000, 10_000, 30_000]
    assert draws[1, 0].tolist() == [1, 20_000, 5_000, 25_000]


def test_what_a_key_says_is_no_fill() -> None:
    frame = pay()
    schema = schema_alone(from_frame(frame))
    observed = codes_in(frame, schema)
    row = int(np.flatnonzero(frame["manager"] == "no")[0])
    missing = np.isnan(observed)
    missing[row, 3] = True
    draws, told = np.where(missing, 10_000.0, observed)[None], np.full(observed.shape, np.nan)
    told[row, 2] = 5_000.0
    assert not kept(schema, draws, observed, missing, told).count()
    assert draws[0, row, 2:].tolist() == [5_000, observed[row, 1] + 5_000]


def test_beside_cells_that_stay_blank() -> None:
    """One of two parts stays blank by request, the other one is filled: the total is as drawn, whatever they are."""
    frame = pay()
    frame["extra"] = np.where(frame["manager"] == "yes", np.arange(N) % 50 * 10.0, np.nan)
    frame["total"] += frame["extra"].fillna(0)
    schema = schema_alone(from_frame(frame))
    assert "'extra' = 'total' - 'salary' - 'bonus'" in " ".join(every_kept(schema))
    observed = codes_in(frame, schema)
    missing = np.isnan(observed)
    missing[:, 3] = True
    draws = np.where(missing, 40_000.0, observed)[None]
    before, rules = draws.copy(), read_blanks(["extra:manager=no"], schema)

    def blank(own: np.ndarray) -> np.ndarray:
        return staying(rules, own, observed, missing, schema)[1]

    kept_rows = DrawnRows(draws, observed, missing, None, None)
    assert not keep_but_for_blanks(kept_rows, blank, schema, None).count()
    unasked = (frame["manager"] == "no").to_numpy()
    assert np.array_equal(draws[:, unasked], before[:, unasked])
    parts = draws[:, ~unasked][..., [1, 2, 4]].sum(-1)
    assert np.allclose(parts, draws[:, ~unasked, 3])


def visits() -> pd.DataFrame:
    """Three dates in order, the one between of those who were treated alone."""
    rng = np.random.default_rng(8)
    first, treated = rng.integers(0, 900, N), rng.random(N) < 0.7
    between = first + rng.integers(1, 40, N)
    frame = pd.DataFrame({"treated": np.where(treated, "yes", "no"), "first": days("2021-01-01", first)})
    frame["treatment"] = days("2021-01-01", between).where(treated)
    return frame.assign(last=days("2021-01-01", between + rng.integers(1, 40, N)))


def test_orders_of_it_move_no_other_cell() -> None:
    frame = visits()
    schema = schema_alone(from_frame(frame))
    assert {(one.low, one.high) for one in schema.orders} == {("first", "treatment"), ("treatment", "last")}
    observed = codes_in(frame, schema)
    missing = np.isnan(observed)
    unasked = missing[:, 2]
    missing[:, 3] = True
    draws = np.where(missing, 0.0, observed)[None].repeat(2, 0)
    draws[0, :, 3] = observed[:, 1] + 3  # after the first one
    draws[1, :, 3] = observed[:, 1] - 30  # before it
    draws[..., 2] = np.where(unasked, observed[:, 1] + 100, draws[..., 2])
    before = draws.copy()
    apart = kept(schema, draws, observed, missing)
    assert not apart.rows()[:, unasked].any()
    assert np.array_equal(draws[0, unasked, 3], before[0, unasked, 3])
    for one in draws[:, unasked]:
        first, treatment, last = (pd.to_datetime(schema.encoded[i].spell(one[:, i], None)) for i in (1, 2, 3))
        assert (first < treatment).all() and (treatment < last).all()
    near = draws[1, unasked, 3] - draws[0, unasked, 3]
    assert np.abs(near).max() < 60  # and not beyond the treatment that was drawn


def test_orders_that_follow_through_a_column_stay_without_it() -> None:
    schema = schema_alone(from_frame(visits()))
    every, left = pairs_in_order(schema), orders_without(schema, {"treatment"})
    distances = {(one[0], one[1]): one[2] for one in every}
    assert [(one.low, one.high) for one in left] == [("first", "last")] and left[0].shift == distances[1, 3]
    assert left[0].small == pytest.approx(np.sum([one.small for one in schema.orders], 0))
    assert orders_without(schema, {"treated"}) is schema.orders
    assert orders_without(schema, {"last"}) == tuple(one for one in schema.orders if one.high == "treatment")
    assert orders_without(schema, {"first", "last"}) == ()
    assert all(isinstance(one, Order) for one in left)


def test_fills_of_a_fit_and_of_new_rows(tmp_path: Path) -> None:
    """Those of other columns are the same as where its holes stay blank, and it agrees with them."""
    frame = customers()
    frame["tenure"] = frame["tenure"].where(np.random.default_rng(1).random(N) > 0.2)
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", set={"model.components": 2, "bootstrap": "none"})
    for table in (None, frame.iloc[:90]):
        tables = run.impute(table, m=3)
        blank = run.impute(table, m=3, leave_blank={"leaving": "left=no"})
        own = frame if table is None else table
        holes = (own["tenure"].isna() & (own["left"] == "no")).to_numpy()
        assert holes.sum() >= 4
        for one, other in zip(tables, blank, strict=True):
            pd.testing.assert_frame_equal(one.drop(columns="leaving"), other.drop(columns="leaving"))
            assert ((pd.to_datetime(one.leaving) - pd.to_datetime(one.signup)).dt.days == one.tenure).all()
    run.impute(m=1, point="mean")


def reviews(n: int = N, lost: float = 0.0) -> pd.DataFrame:
    """How many reviews there are, none of some, else how many a month and how good, which are `lost` together."""
    rng = np.random.default_rng(9)
    months, without = rng.integers(2, 60, n), rng.random(n) < 0.3
    count = np.where(without, 0, 1 + rng.poisson(months * rng.gamma(1.5, 0.4, n)))
    blank = without | (rng.random(n) < lost)
    monthly = pd.Series((np.maximum(count, 1) / months).round(2)).mask(blank)
    stars = pd.Series(rng.integers(30, 51, n) / 10).mask(blank)
    return pd.DataFrame(
        {"reviews": count, "reviews_per_month": monthly, "stars": stars, "rooms": rng.integers(1, 5, n)}
    )


@pytest.mark.parametrize("leave", [False, True])
def test_orders_of_it_move_no_number_by_which_it_is_not_asked(leave: bool) -> None:
    """Of a row without any of the cells a draw says that there are no reviews, or some."""
    frame = reviews()
    schema = schema_alone(from_frame(frame))
    assert [(one.low, one.high) for one in schema.orders] == [("reviews_per_month", "reviews")]
    assert [(one.name, one.limit, set(one.others)) for one in schema.thresholds] == [
        ("reviews", 1, {"reviews_per_month", "stars"})
    ]
    observed = codes_in(frame, schema)
    missing = np.isnan(observed)
    rows = np.arange(0, 20)
    missing[rows, :3] = True
    draws = np.where(missing, 2.0, observed)[None].repeat(2, 0)
    draws[0, rows, 0], draws[1, rows, 0] = 0, 1  # less than 2.0 a month
    rules = read_blanks(["reviews_per_month,stars:reviews<1"], schema)

    def blank(own: np.ndarray) -> np.ndarray:
        return staying(rules, own, observed, missing, schema)[1]

    half = np.full(draws.shape[:2], 0.5)
    own = DrawnRows(draws, observed, missing, lambda name: half, lambda name, other: half)
    keep_but_for_blanks(own, blank if leave else None, schema, None)
    assert (draws[0, rows, 0] == 0).all()
    assert (draws[1, rows, 0] >= np.maximum(draws[1, rows, 1], 1)).all()  # of those that are asked they do


@pytest.mark.parametrize("lost", first(1, [0.4, 0.02]))
def test_a_number_beside_blanks_alone_is_not_asked_as_often_as_they_say(tmp_path: Path, lost: float) -> None:
    """By Bayes' rule: hardly ever something else where cells are hardly ever lost, else so much less often."""
    frame = reviews(1_500, lost)
    hidden = frame.assign(reviews=frame["reviews"].astype(float).mask(np.random.default_rng(1).random(1_500) < 0.2))
    open_ = hidden["reviews"].isna() & hidden["reviews_per_month"].isna()
    run = vgi_cli.fit(
        hidden,
        out=tmp_path / "run",
        model="mixture",
        threads=1,
        set={"model.components": 1, "bootstrap": "none", "trees": "none"},
    )
    share = np.mean([(one.loc[open_, "reviews"] == 0).mean() for one in run.impute(m=10)])
    observed = hidden["reviews"][hidden["reviews"].notna() & hidden["reviews_per_month"].isna()]
    assert share == pytest.approx((observed == 0).mean(), abs=0.06)
