"""Two columns in order that are equal in many rows are filled so as often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.schemas import checked
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.orders import SMALL, Chance, Line, Order, Term, Ties
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.orders import keep_orders
from vgi_cli.encoding.redundant import codes_of, every_kept, kept_words
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

N, M = 800, 20


def invoices(seed: int = 0, n: int = N) -> pd.DataFrame:
    """Three segments of customers pay in full with probabilities of 0.2, 0.5 and 0.8, else a part."""
    rng = np.random.default_rng(seed)
    segment = rng.integers(0, 3, n)
    invoiced = np.exp(rng.normal(5, 0.8, n)).round(2)
    full = rng.random(n) < np.array([0.2, 0.5, 0.8])[segment]
    part = (invoiced * rng.uniform(0.1, 0.9, n)).round(2)
    return pd.DataFrame(
        {
            "segment": np.array(["a", "b", "c"])[segment],
            "invoiced": invoiced,
            "paid": np.where(full, invoiced, part),
            "age": rng.integers(20, 80, n),
        }
    )


def stays(seed: int = 0, n: int = N) -> pd.DataFrame:
    """Two in five are discharged on the day of their admission."""
    rng = np.random.default_rng(seed)
    admitted = pd.Timestamp("2023-03-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    days = np.where(rng.random(n) < 0.4, 0, rng.integers(1, 21, n))
    discharged = admitted + pd.to_timedelta(days, "D")
    return pd.DataFrame({"discharged": discharged, "admitted": admitted, "age": rng.integers(1, 90, n)})


def customers(seed: int = 0, n: int = N) -> pd.DataFrame:
    """Of months times a fee about so much is paid in total: in the first month the fee."""
    rng = np.random.default_rng(seed)
    months = np.where(rng.random(n) < 0.1, 1, rng.integers(1, 40, n))
    fee = rng.uniform(20, 110, n).round(2)
    total = np.where(months == 1, fee, months * fee * np.exp(0.03 * rng.normal(size=n))).round(2)
    return pd.DataFrame({"months": months, "fee": fee, "total": total})


def schema_of(frame: pd.DataFrame) -> Schema:
    return schema_alone(from_frame(frame))


def codes_in(frame: pd.DataFrame, schema: Schema) -> Floats:
    table = from_frame(frame)
    return np.stack([codes_of(table, column) for column in schema.encoded], 1)


def ties_in(schema: Schema) -> Ties:
    (order,) = schema.orders
    assert order.ties is not None
    return order.ties


def random(seed: int = 0, m: int = M, n: int = N) -> Callable[[str, str], Floats]:
    return lambda name, other: np.random.default_rng([seed, *f"{name} {other}".encode()]).random((m, n))


def smeared(true: Floats, place: int, by: Floats, seed: int = 1) -> Floats:
    """[M, N, columns] draws of a column that are near to `by`, on both sides, in half of the rows, else below it."""
    rng = np.random.default_rng(seed)
    draws = np.repeat(true[None], M, 0)
    near = rng.random((M, len(true))) < 0.5
    draws[..., place] = (
        by * np.where(near, 1 + 0.005 * rng.normal(size=near.shape), rng.uniform(0.1, 0.9, near.shape))
    ).round(2)
    return draws


FRAME = invoices()
SCHEMA = schema_of(FRAME)
TRUE = codes_in(FRAME, SCHEMA)
AT = {name: i for i, name in enumerate(SCHEMA.modelled)}


# -- what is found -----------------------------------------------------------------------------------------------------


def test_columns_that_are_often_equal_are_said_to_be() -> None:
    ties = ties_in(SCHEMA)
    assert ties.share == (FRAME.paid == FRAME.invoiced).mean() and ties.ratio
    line = f"'paid' ≤ 'invoiced', equal in {ties.share:.0%} of the rows (`"
    assert line in kept_words(SCHEMA)[0]
    assert every_kept(SCHEMA) == ["'paid' ≤ 'invoiced'"]  # of a new table that departs from it
    assert Schema.from_json(SCHEMA.to_json()).orders == SCHEMA.orders
    checked("schema", SCHEMA.to_json())


def test_their_chance_is_that_of_rows_alike() -> None:
    ties = ties_in(SCHEMA)
    assert {"segment"} <= ties.names <= {"segment", "paid", "invoiced"}
    for chance in (ties.low, ties.high):
        found = chance.of(lambda name: TRUE[None, :, AT[name]], (1, N))[0]
        for level in range(3):
            rows = TRUE[:, AT["segment"]] == level
            assert found[rows].mean() == pytest.approx((FRAME.paid == FRAME.invoiced)[rows].mean(), abs=0.02)


def test_draws_have_weights_of_bootstrap_samples() -> None:
    weights = np.array(ties_in(schema_of(stays())).high.weights)[:, 0]
    share = (stays().discharged == stays().admitted).mean()
    assert 1 / (1 + np.exp(-weights[0])) == pytest.approx(share, abs=1e-3)
    error = 1 / (N * share * (1 - share)) ** 0.5  # of a log odds
    assert 0.6 * error < weights[1:].std() < 1.5 * error


@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame: frame.assign(paid=frame.paid.mask(frame.paid == frame.invoiced, (0.9 * frame.paid).round(2))),
        lambda frame: frame.assign(paid=frame.paid.where(np.arange(N) < 8, (0.9 * frame.paid).round(2))),  # too few
    ],
)  # fmt: skip
def test_where_hardly_any_are_equal_nothing_is_said(spoil: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    (order,) = schema_of(spoil(FRAME)).orders
    assert order.ties is None and order.words_of_ties() == order.words()


def test_as_many_equal_counts_as_a_normal_law_has_are_left_to_it() -> None:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 1_000, N)
    frame = pd.DataFrame(
        {"first": first, "last": first + np.rint(rng.normal(3, 1.3, N)).clip(0), "x": rng.normal(size=N)}
    )
    (order,) = schema_of(frame).orders
    assert 0 < (frame["first"] == frame["last"]).mean() < 0.05 and order.ties is None


def test_cells_that_are_equal_at_an_end_alone_are_no_ties() -> None:
    """Where the upper one is zero, the lower one can be nothing else."""
    none = np.arange(N) < 0.2 * N
    rng = np.random.default_rng(9)
    high = np.where(none, 0, np.exp(rng.normal(1, 0.5, N))).round(3)
    low = (high * rng.beta(4, 2, N)).round(3)
    (order,) = schema_of(pd.DataFrame({"low": low, "high": high, "x": rng.normal(size=N)})).orders
    assert (low == high).mean() >= 0.2 and order.ties is None


# -- fills -------------------------------------------------------------------------------------------------------------


def test_fills_are_equal_as_often_as_rows_alike() -> None:
    """By segment; those that are not are as far apart as in the table, and nothing else is moved."""
    missing = np.zeros(TRUE.shape, bool)
    missing[:, AT["paid"]] = True
    invoiced = TRUE[:, AT["invoiced"]]
    draws = smeared(TRUE, AT["paid"], invoiced)
    before, drawn = draws.copy(), draws.copy()
    assert not keep_orders(draws, TRUE, missing, SCHEMA, ties=random()).count()
    keep_orders(drawn, TRUE, missing, SCHEMA)
    equal = draws[..., AT["paid"]] == invoiced
    for level, share in enumerate((0.2, 0.5, 0.8)):
        rows = TRUE[:, AT["segment"]] == level
        assert equal[:, rows].mean() == pytest.approx(share, abs=0.06)
        assert (drawn[..., AT["paid"]] == invoiced)[:, rows].mean() < 0.35  # as they are drawn and brought into order
    ratio = (draws[..., AT["paid"]] / invoiced)[~equal]
    assert ratio.mean() == pytest.approx(0.5, abs=0.04) and (ratio > 0.98).mean() < 0.01 and ratio.max() < 1
    others = [i for i in range(len(AT)) if i != AT["paid"]]
    assert np.array_equal(draws[..., others], before[..., others])
    away = before[..., AT["paid"]] / invoiced < 0.6  # what is far from equal was not meant to be
    assert np.array_equal(draws[..., AT["paid"]][away & ~equal], before[..., AT["paid"]][away & ~equal])


def test_none_is_equal_beyond_a_limit_of_questions_that_were_asked() -> None:
    """Who failed an exam, below 50 points, sits a second one, and the better one of both counts."""
    rng = np.random.default_rng(0)
    exam = np.clip(np.round(rng.normal(55, 15, 400)), 0, 100)
    second = np.where(exam < 50, np.clip(exam + np.round(rng.normal(8, 8, 400)), 0, 100), np.nan)
    frame = pd.DataFrame({"exam": exam, "second": second, "final": np.fmax(exam, second)})
    frame.loc[::40, "final"] += 1  # for work at home
    schema = schema_alone(from_frame(frame))
    limit = next(one for one in schema.thresholds if one.name == "exam")
    assert (limit.side, limit.limit, limit.others) == ("above", 49, ("second",))
    assert "'exam' ≤ 'final'" in [one.words() for one in schema.orders]
    observed, blank = frame.to_numpy(), frame.isna().to_numpy()
    missing = blank | np.array([True, False, False])
    draws = np.repeat(np.where(blank, 60.0, observed)[None], M, 0)
    draws[..., 0] = rng.choice(exam, draws.shape[:2])
    numbers = random(n=400)
    keep_relations(draws, observed, missing, schema, lambda name: numbers(name, name), numbers)
    asked = ~blank[:, 1]
    assert draws[:, asked, 0].max() <= 49 and (draws[..., 0] <= draws[..., 2]).all()
    assert (draws[:, ~asked, 0] == draws[:, ~asked, 2]).any()


def test_the_upper_one_is_filled_alike_and_so_are_both() -> None:
    draws = smeared(TRUE, AT["paid"], TRUE[:, AT["invoiced"]])
    for holes in (["invoiced"], ["invoiced", "paid"]):
        missing = np.zeros(TRUE.shape, bool)
        missing[:, [AT[name] for name in holes]] = True
        some = np.repeat(TRUE[None], M, 0)
        if len(holes) == 1:
            some[..., AT["invoiced"]] = TRUE[:, AT["paid"]] * draws[..., AT["invoiced"]] / draws[..., AT["paid"]]
            some[..., AT["invoiced"]] = some[..., AT["invoiced"]].round(2)
        else:
            some[..., AT["paid"]] = draws[..., AT["paid"]]
        assert not keep_orders(some, TRUE, missing, SCHEMA, ties=random()).count()
        equal = some[..., AT["paid"]] == some[..., AT["invoiced"]]
        assert equal.mean() == pytest.approx(ties_in(SCHEMA).share, abs=0.04)


def test_dates_are_equal_as_often_and_else_apart_as_in_the_table() -> None:
    frame = stays()
    schema = schema_of(frame)
    true = codes_in(frame, schema)
    shift = schema.orders[0].shift
    for place, side in ((0, 1), (1, -1)):  # discharged, admitted
        missing = np.zeros(true.shape, bool)
        missing[:, place] = True
        draws = np.repeat(true[None], M, 0)
        days = np.rint(np.random.default_rng(3).normal(5, 6, (M, N)))
        day = 86_400.0
        draws[..., place] = true[:, 1 - place] - side * shift + side * days * day
        assert not keep_orders(draws, true, missing, schema, ties=random()).count()
        apart = (draws[..., 0] + shift - draws[..., 1]) / day
        assert (apart == 0).mean() == pytest.approx(ties_in(schema).share, abs=0.03)
        assert (apart >= 0).all() and np.array_equal(apart, apart.round())
        assert (apart == 1).mean() < 0.1  # they do not pile up beside the equal ones


def test_dates_that_are_not_equal_lie_apart_as_in_rows_alike() -> None:
    """The older the longer a stay, and the rarer one of a day; all draws were meant to be equal."""
    rng = np.random.default_rng(11)
    age, admitted = rng.integers(0, 90, N), rng.integers(0, 300, N)
    days = np.where(rng.random(N) < 0.8 - 0.6 * age / 90, 0, 1 + rng.poisson(1 + 12 * age / 90))
    start = pd.Timestamp("2023-03-01")
    frame = pd.DataFrame(
        {
            "discharged": start + pd.to_timedelta(admitted + days, "D"),
            "admitted": start + pd.to_timedelta(admitted, "D"),
            "age": age,
        }
    )
    schema = schema_of(frame)
    checked("schema", schema.to_json())
    assert Schema.from_json(schema.to_json()).orders == schema.orders and ties_in(schema).alike
    true, missing = codes_in(frame, schema), np.zeros(frame.shape, bool)
    missing[:, 0] = True
    draws = np.repeat(true[None], M, 0)
    draws[..., 0] = true[:, 1] - schema.orders[0].shift
    assert not keep_orders(draws, true, missing, schema, ties=random()).count()
    apart = (draws[..., 0] + schema.orders[0].shift - draws[..., 1]) / 86_400
    for low, high in ((0, 30), (30, 60), (60, 90)):
        rows = (low <= age) & (age < high)
        assert apart[:, rows][apart[:, rows] > 0].mean() == pytest.approx(days[rows & (days > 0)].mean(), rel=0.15)


def test_cells_are_equal_where_the_value_is_that_says_so_and_nothing_else_is_moved() -> None:
    """By the fee alone a total of two months looks like one that was meant to be equal: others are far higher."""
    frame = customers()
    schema = schema_of(frame)
    checked("schema", schema.to_json())
    assert Schema.from_json(schema.to_json()).orders == schema.orders
    ties, true = ties_in(schema), codes_in(frame, schema)
    assert all(Term("months", "at", 1.0) in one.terms for one in (ties.low, ties.high))
    for place, short in ((2, 1), (1, 2)):  # total, fee
        missing = np.zeros(true.shape, bool)
        missing[:, place] = True
        draws = np.repeat(true[None], M, 0)
        by = true[:, 1] * true[:, 0] if place == 2 else true[:, 2] / true[:, 0]
        draws[..., place] = (by * np.exp(0.05 * np.random.default_rng(3).normal(size=(M, N)))).round(2)
        before = draws.copy()
        assert not keep_orders(draws, true, missing, schema, ties=random()).count()
        equal, first = draws[..., place] == true[:, short], true[:, 0] == 1
        assert equal[:, first].mean() > 0.95 and equal[:, ~first].mean() < 0.01
        same = draws[..., place] == before[..., place]
        assert same[:, ~first].mean() > 0.98


def test_cells_that_are_not_equal_lie_apart_as_in_rows_alike() -> None:
    """The longer the dearer: all draws were meant to be equal, and hardly any is to be."""
    rng = np.random.default_rng(12)
    days, start = rng.integers(1, 60, N), np.exp(rng.normal(4, 0.5, N)).round(1)
    end = np.where(rng.random(N) < 0.3, start, start + (days * np.exp(0.1 * rng.normal(size=N)))).round(1)
    schema = schema_of(pd.DataFrame({"days": days, "start": start, "end": end}))
    (order,) = schema.orders
    ties = ties_in(schema)
    assert ties.lines is not None and "days" in {term.name for term in ties.lines[1].terms}
    true = np.stack([days, start, end], 1).astype(float)
    never = Chance((), ((-50.0,),))
    alone = replace(schema, orders=(replace(order, ties=replace(ties, low=never, high=never)),))
    missing = np.zeros(true.shape, bool)
    missing[:, 2] = True
    draws = np.repeat(true[None], M, 0)
    draws[..., 2] = true[:, 1]
    assert not keep_orders(draws, true, missing, alone, ties=random()).count()
    apart = draws[..., 2] - true[:, 1]
    for low, high in ((5, 20), (20, 40), (40, 60)):
        rows = (low <= days) & (days < high)
        assert apart[:, rows].mean() == pytest.approx(days[rows].mean(), rel=0.2)


def test_a_cell_that_equals_one_of_two_others() -> None:
    """Low ≤ mid ≤ high, of which mid is low in half of the rows and high in a third of them."""
    rng = np.random.default_rng(4)
    low, apart, which = rng.integers(0, 100, N), rng.integers(10, 30, N), rng.random(N)
    mid = np.where(which < 0.5, low, np.where(which < 5 / 6, low + apart, low + apart // 2))
    frame = pd.DataFrame({"low": low, "mid": mid, "high": low + apart, "x": rng.normal(size=N)})
    schema = schema_of(frame)
    assert [one.ties is not None for one in schema.orders] == [True, True]
    true, missing = codes_in(frame, schema), np.zeros(frame.shape, bool)
    missing[:, 1] = True
    draws = np.repeat(true[None], M, 0)
    draws[..., 1] = np.rint(low + apart * rng.uniform(0.1, 0.9, (M, N)))
    keep_orders(draws, true, missing, schema, ties=random())
    assert (draws[..., 1] == true[:, 0]).mean() == pytest.approx((mid == low).mean(), abs=0.02)
    assert (draws[..., 1] == true[:, 2]).mean() == pytest.approx((mid == low + apart).mean(), abs=0.02)


def test_without_ties_fills_are_as_they_were() -> None:
    missing = np.random.default_rng(5).random(TRUE.shape) < 0.4
    draws = np.where(missing, np.random.default_rng(6).permuted(np.repeat(TRUE[None], M, 0), axis=1), TRUE)
    plain = replace(SCHEMA, orders=tuple(replace(one, ties=None) for one in SCHEMA.orders))
    results = []
    for schema, ties in ((plain, random()), (plain, None), (SCHEMA, None)):
        after = draws.copy()
        keep_relations(after, TRUE, missing, schema, ties=ties)
        results.append(after)
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def test_a_row_does_not_depend_on_the_others() -> None:
    missing = np.random.default_rng(7).random(TRUE.shape) < 0.4
    draws = np.where(missing, np.random.default_rng(8).permuted(np.repeat(TRUE[None], M, 0), axis=1), TRUE)
    whole = draws.copy()
    keep_orders(whole, TRUE, missing, SCHEMA, ties=random())
    for rows in (np.array([7]), np.arange(100, 350)):
        part = draws[:3, rows].copy()
        u = random()
        keep_orders(part, TRUE[rows], missing[rows], SCHEMA, ties=lambda a, b, r=rows, u=u: u(a, b)[:3, r])  # type: ignore[misc]
        assert np.array_equal(part, whole[:3, rows])


def test_a_fill_is_equal_only_where_its_column_holds_that() -> None:
    order = SCHEMA.orders[0]
    always = Chance((), ((50.0,),))
    schema = replace(SCHEMA, orders=(replace(order, ties=replace(ties_in(SCHEMA), low=always, high=always)),))
    missing = np.zeros(TRUE.shape, bool)
    missing[:, AT["paid"]] = True
    observed, draws = TRUE.copy(), np.repeat(TRUE[None], M, 0)
    observed[:5, AT["invoiced"]] += 0.003
    draws[..., AT["paid"]] = (0.5 * TRUE[:, AT["invoiced"]]).round(2)
    draws[..., AT["invoiced"]] = observed[:, AT["invoiced"]]
    keep_orders(draws, observed, missing, schema, ties=random())
    assert (draws[:, 5:, AT["paid"]] == observed[5:, AT["invoiced"]]).all()
    assert (draws[:, :5, AT["paid"]] < observed[:5, AT["invoiced"]]).all()
    assert np.array_equal(SCHEMA.encoded[AT["paid"]].held(draws[..., AT["paid"]]), draws[..., AT["paid"]])


# -- runs --------------------------------------------------------------------------------------------------------------


def holed(frame: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < 0.25)


@pytest.mark.slow
def test_filled_tables_and_sampled_rows_are_equal_as_often(tmp_path: Path) -> None:
    frame = stays()
    hidden = holed(frame)
    run = vgi_cli.fit(hidden, out=tmp_path / "run", model="mixture", threads=1, set={"bootstrap": 2})
    said = (hidden.discharged == hidden.admitted)[hidden.discharged.notna() & hidden.admitted.notna()].mean()
    holes = hidden.discharged.isna() | hidden.admitted.isna()
    filled = run.impute(m=10)
    shares = [(one.discharged == one.admitted)[holes].mean() for one in filled]
    assert np.mean(shares) == pytest.approx(said, abs=0.05)
    rows = run.sample(n=1_000)
    assert (rows.discharged == rows.admitted).mean() == pytest.approx(said, abs=0.06)
    assert all((one.admitted <= one.discharged).all() for one in [*filled, rows])


@pytest.mark.parametrize(("kind", "share"), [("date", 0.02), ("number", 0.08), ("number", 0.3)])
def test_the_same_or_the_next_one_is_an_order_with_shares_and_no_rounding(
    tmp_path: Path, kind: str, share: float
) -> None:
    """Shipped on the day of the order or the next: rounding of both would explain it, and a number beside that says
    nothing, at any share."""
    rng, n = np.random.default_rng(3), 400
    ordered = rng.integers(1, 366, n)
    shipped = ordered + (np.arange(n) < share * n)
    frame = pd.DataFrame({"x": rng.normal(size=n).round(1), "ordered": ordered, "shipped": shipped})
    frame = frame.sample(frac=1.0, random_state=0, ignore_index=True)
    if kind == "date":
        for name in ("ordered", "shipped"):
            frame[name] = pd.Timestamp("2025-01-01") + pd.to_timedelta(frame[name], unit="D")
    holes = rng.random(n)
    hidden = frame.assign(ordered=frame.ordered.mask(holes < 0.1), shipped=frame.shipped.mask(holes > 0.9))
    schema = schema_of(hidden)
    assert schema.relations == () and ties_in(schema).share == pytest.approx(1 - share, abs=0.02)
    run = vgi_cli.fit(hidden, out=tmp_path / "run", model="mixture", threads=1, set={"bootstrap": 0})
    filled = hidden.isna().any(axis=1)
    apart = np.concatenate([(one.shipped - one.ordered)[filled] for one in run.impute(m=10)])
    days = apart / np.timedelta64(1, "D") if kind == "date" else apart
    error = (share * (1 - share) / filled.sum()) ** 0.5
    assert abs((days != 0).mean() - share) < 3 * error + 0.01 and (days >= 0).all()


def test_damage_is_named() -> None:
    text = SCHEMA.to_json()
    place = text.index('"ties"')
    with pytest.raises(RunError, match=r"schema\.json: damaged \(ties of orders do not fit the columns\)"):
        Schema.from_json(text[:place] + text[place:].replace('"name": "segment"', '"name": "nobody"', 1))
    plain = replace(SCHEMA, orders=tuple(replace(one, ties=None) for one in SCHEMA.orders))
    older = plain.to_json().replace(',\n   "ties": null', "")
    assert "ties" not in older and Schema.from_json(older).orders == plain.orders


def test_what_ties_are_made_of() -> None:
    one = Chance((), ((0.0,),))
    with pytest.raises(ValueError, match="one weight for each term"):
        Chance((Term("a", "number", 0.0),), ((0.0,),))
    with pytest.raises(ValueError, match="are not equal"):
        Ties(0.5, one, one, ())
    with pytest.raises(ValueError, match="one probability each"):
        Ties(0.5, one, one, ((0.0, 1.0),), alike=((0.5, 0.5), (0.5, 0.5)))
    with pytest.raises(ValueError, match="one weight for each term"):
        Line((Term("a", "number", 0.0),), (0.0,))
    with pytest.raises(ValueError, match="have what these say"):
        Ties(0.5, one, one, ((0.0, 1.0),), lines=(Line((), (0.0,)), Line((), (0.0,))))
    ties = Ties(0.58, one, one, ((0.0, 1.0),))
    assert Order("a", "b", 1.0, (0.0,) * SMALL, ties=ties).words_of_ties() == "'a' ≤ 'b', equal in 58% of the rows"
    codes = np.array([[-9.0, 1.0, 2.0]])
    assert Term("a", "number", 1.0, 2.0).of(codes).tolist() == [[-3.0, 0.0, 0.5]]
    assert Term("a", "square", 1.0, 2.0).of(codes).tolist() == [[9.0, 0.0, 0.25]]
    assert Term("a", "log", np.log(2.0), np.log(2.0)).of(codes).tolist() == [[-3.0, -1.0, 0.0]]
    line = Line((Term("a", "number", 1.0, 2.0), Term("a", "square", 1.0, 2.0)), (1.0, 2.0, 3.0))
    assert line.of(lambda name: {"a": codes}[name], (1, 3)).tolist() == [[22.0, 1.0, 2.75]]
    assert Term("a", "at", 2.0).of(codes).tolist() == [[0.0, 0.0, 1.0]]
