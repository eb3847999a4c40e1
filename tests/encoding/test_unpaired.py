"""Levels and numbers that stand beside no cell of the column they go one to one with: a free plan without a code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from vgi_cli.columns.blanks import read_blanks, staying
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_but_for_blanks, keep_relations
from vgi_cli.encoding.redrawing import DrawnRows
from vgi_cli.encoding.redundant import codes_of, every_kept, kept_words
from vgi_cli.table.frames import from_frame

CODES = {"free": None, "basic": "B-10", "pro": "P-20"}
FEES = {"free": None, "basic": 9.9, "pro": 29.9}
TIERS = {"free": None, "monthly": "basic", "yearly": "basic", "pro": "top"}
COUPONS = {0.0: None, 5.0: "SAVE5", 10.0: "SAVE10", 20.0: "SAVE20"}
ONE_TO_ONE = "one to one"


def customers(deciding: str, other: str, codes: dict[object, object], n: int = 400) -> pd.DataFrame:
    """Rows in which a level of the column that decides, the first of `codes`, is there in 60 % and has no code."""
    rng = np.random.default_rng(4)
    levels = list(codes)
    rest = 0.4 / (len(levels) - 1)
    own = rng.choice(np.arange(len(levels)), n, p=[0.6, *[rest] * (len(levels) - 1)])
    frame = pd.DataFrame({deciding: [levels[k] for k in own], other: [codes[levels[k]] for k in own]})
    frame["usage"] = np.exp(rng.normal(3, 0.5, n)).round(1)
    return frame


def schema_of(frame: pd.DataFrame, words: str) -> Schema:
    schema = schema_alone(from_frame(frame))
    assert words in kept_words(schema)[0]
    return schema


def filled(frame: pd.DataFrame, schema: Schema, drawn: dict[str, object]) -> tuple[list[object], int]:
    """What the cells of some columns, all missing, are in the end, and how many rows do not keep to rules."""
    table, n = from_frame(frame), len(frame)
    observed = np.stack([codes_of(table, one) for one in schema.encoded], 1)
    missing = np.isnan(observed)
    cells = pd.concat([frame.astype(object), pd.DataFrame([drawn | {"usage": 20.0}]).astype(object)], ignore_index=True)
    codes = np.stack([codes_of(from_frame(cells.astype(frame.dtypes)), one) for one in schema.encoded], 1)
    draws = np.where(missing, codes[n], observed)[None]
    places = [schema.modelled.index(name) for name in drawn]
    missing[0], draws[0, 0] = True, codes[n]
    apart = keep_relations(draws, observed, missing, schema, lambda name: np.full((1, n), 0.5))
    texts = [schema.encoded[place].spell(draws[0, :1, place], None)[0] for place in places]
    return texts, apart.count()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("codes", "drawn", "words"),
    [
        (CODES, ("free", "B-10"), ONE_TO_ONE),
        (FEES, ("free", 9.9), ONE_TO_ONE),
        (TIERS, ("free", "basic"), "'tier' follows from 'plan'"),
        (COUPONS, (0.0, "SAVE5"), ONE_TO_ONE),
    ],
)
def test_a_filled_partner_does_not_decide(
    swapped: bool, codes: dict[object, object], drawn: tuple[object, object], words: str
) -> None:
    names = ("plan", "tier" if codes is TIERS else "code")
    frame = customers(*names, codes)
    frame = frame[list(frame.columns[[1, 0, 2]])] if swapped else frame
    schema = schema_of(frame, words)
    texts, apart = filled(frame, schema, dict(zip(names, drawn, strict=True)))
    assert texts == [str(drawn[0]).removesuffix(".0"), str(drawn[1])]
    assert not apart  # nor do the rows with a free plan and no code, whose code is filled with any


def test_others_are_computed_still() -> None:
    frame = customers("plan", "code", CODES)
    texts, apart = filled(frame, schema_of(frame, ONE_TO_ONE), {"plan": "pro", "code": "B-10"})
    assert texts == ["pro", "P-20"] and not apart


@pytest.mark.parametrize("order", [("plan", "code", "name"), ("code", "name", "plan"), ("name", "plan", "code")])
def test_nor_do_several_filled_partners(order: tuple[str, ...]) -> None:
    """Of three columns that go one to one: the code settles the name, and neither the plan."""
    frame = customers("plan", "code", CODES)
    frame["name"] = frame.code.map({"B-10": "Basic!", "P-20": "Pro!"})
    frame = frame[[*order, "usage"]]
    texts, apart = filled(frame, schema_of(frame, ONE_TO_ONE), {"plan": "free", "code": "B-10", "name": "Pro!"})
    assert texts[0] == "free" and not apart


@pytest.mark.parametrize("codes", [CODES, FEES])
def test_a_level_without_a_code_is_drawn(codes: dict[object, object], tmp_path: Path) -> None:
    frame = customers("plan", "code", codes)
    frame.loc[np.random.default_rng(1).random(len(frame)) < 0.15, "plan"] = None
    both = frame.plan.isna() & frame.code.isna()
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", set={"model.components": 2, "bootstrap": "none"})
    tables = run.impute(m=3, leave_blank={"code": "plan=free"})
    assert both.sum() > 20
    for one in tables:
        assert (one.plan[both] == "free").mean() > 0.9  # it was 0
        assert (one.code.isna() == (one.plan == "free")).all()
    drawn = run.sample(n=1000)
    assert abs((drawn.plan == "free").mean() - (frame.plan == "free").sum() / frame.plan.notna().sum()) < 0.05


def flights(n: int = 500) -> pd.DataFrame:
    """Rows of which a status follows from the delay, but for those that were cancelled, which have none, and alone a
    reason; a departure is the planned one and the delay."""
    rng = np.random.default_rng(5)
    cancelled, planned = rng.random(n) < 0.2, rng.integers(0, 900, n).astype(float)
    delay = np.where(cancelled, np.nan, (rng.exponential(20, n) - 5).round())
    status = np.where(cancelled, "cancelled", np.where(delay >= 15, "delayed", "on time"))
    reason = np.where(cancelled, rng.choice(["weather", "crew"], n), None)
    return pd.DataFrame(
        {"planned": planned, "departed": planned + delay, "delay": delay, "status": status, "reason": reason}
    )


def seasons(n: int = 500) -> pd.DataFrame:
    """Rows of which a season follows from the date, but for those without one."""
    rng = np.random.default_rng(5)
    open_, date = rng.random(n) < 0.2, pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), "D")
    season = np.where(open_, "open", np.array(["winter", "spring", "summer", "autumn"])[date.month % 12 // 3])
    return pd.DataFrame(
        {"date": date.where(~open_).strftime("%Y-%m-%d"), "season": season, "usage": rng.normal(size=n)}
    )


def sizes(n: int = 500) -> pd.DataFrame:
    """Rows of which a class follows from an item and a size, but for those of no size, which have a class alone."""
    rng = np.random.default_rng(5)
    item, size, none = rng.integers(0, 4, n), rng.integers(0, 4, n), rng.random(n) < 0.2
    class_ = np.where(none, "none", np.array(["A", "B", "C"])[(item * size + item) % 3])
    frame = pd.DataFrame(
        {"item": np.array(["tea", "cocoa", "latte", "mate"])[item], "size": np.array(list("smlx"))[size]}
    )
    return frame.assign(size=frame["size"].where(~none), **{"class": class_}, usage=rng.normal(size=n))


def wards(n: int = 500) -> pd.DataFrame:
    """Rows of which a ward follows from a room, but for those without one, which are at home."""
    rng = np.random.default_rng(5)
    room, home = rng.integers(100, 140, n), rng.random(n) < 0.2
    ward = np.where(home, "home", np.array(["north", "east", "west"])[room * 7 % 11 % 3])
    return pd.DataFrame({"room": pd.Series(room).where(~home), "ward": ward, "usage": rng.normal(size=n)})


def fees(n: int = 500) -> pd.DataFrame:
    """Rows of which a fee is a price times a quantity, but for those of quantity 0, which have no price and a fee of
    their own."""
    rng = np.random.default_rng(5)
    none, price = rng.random(n) < 0.2, rng.integers(5, 60, n) / 2
    quantity = np.where(none, 0, rng.integers(1, 9, n))
    price = np.where(none, np.nan, price)
    return pd.DataFrame(
        {"fee": np.where(none, rng.integers(40, 60, n), price * quantity), "price": price, "n": quantity}
    )


@pytest.mark.parametrize(
    ("frame", "words", "row", "filled"),
    [
        (flights(), "'status' follows from 'delay'", (None, None, 20.0, "cancelled", "crew"), [0, 1, 2, 3]),
        (flights(), "'status' follows from 'delay'", (10.0, None, 20.0, "cancelled", None), [1, 2, 3, 4]),
        (seasons(), "'season' follows from the month of 'date'", ("2021-05-05", "open", 0.5), [0, 1]),
        (sizes(), "'class' follows from 'item' and 'size'", ("tea", "s", "none", 0.5), [1, 2]),
        (wards(), "'ward' follows from 'room'", (120.0, "home", 0.5), [0, 1]),
        (fees(), "'n' = 'fee' / 'price'", (41.0, 9.5, 0.0), [0, 1, 2]),
        (fees(), "'n' = 'fee' / 'price'", (41.0, 9.5, 0.0), [0, 1]),
        (fees(), "'n' = 'fee' / 'price'", (41.0, 9.5, 0.0), [1, 2]),
    ],
)
def test_whatever_kind_of_relation_says_the_others(
    frame: pd.DataFrame, words: str, row: tuple[object, ...], filled: list[int]
) -> None:
    schema = schema_alone(from_frame(frame))
    assert words in " ".join(every_kept(schema))
    rows = pd.concat([pd.DataFrame([row], columns=frame.columns).astype(frame.dtypes), frame], ignore_index=True)
    codes = np.stack([codes_of(from_frame(rows), one) for one in schema.encoded], 1)
    drawn = np.nan_to_num(codes[0], nan=1.0)
    missing = np.isnan(codes)
    missing[0, filled] = True
    draws = np.where(missing, 1.0, codes)[None]
    draws[0, 0] = drawn
    apart = keep_relations(draws, codes, missing, schema, lambda name: np.full((1, len(codes)), 0.5))
    assert draws[0, 0, -3:].tolist() == drawn[-3:].tolist()
    assert not apart.count()  # nor do the other rows of such a level, whose blanks are filled with any


def test_what_is_filled_in_beside_a_drawn_level_that_leaves_it_blank_decides_nothing() -> None:
    frame = flights()
    schema = schema_alone(from_frame(frame))
    assert "'delay' = 'departed' - 'planned'" in " ".join(every_kept(schema))
    codes = np.stack([codes_of(from_frame(frame), one) for one in schema.encoded], 1)
    missing, before = np.isnan(codes), np.tile(np.nan_to_num(codes, nan=30.0), (2, 1, 1))
    rows = np.flatnonzero(frame["status"] == "on time")
    missing[rows, :4] = True
    before[:, rows, 0] = 400.0  # nor the planned time that there was
    before[1, rows, 3] = 0.0  # cancelled
    blanks = read_blanks(["departed,delay:status=cancelled"], schema)

    def blank(draws: np.ndarray) -> np.ndarray:
        return staying(blanks, draws, codes, missing, schema)[1]

    draws = before.copy()
    apart = keep_but_for_blanks(DrawnRows(draws, codes, missing, None, None), blank, schema, None)
    assert not apart.count()
    planned, departed, delay = draws[..., rows, :3].transpose(2, 0, 1)
    assert np.allclose(departed[0], planned[0] + delay[0])
    assert np.array_equal(draws[1, rows], before[1, rows])


@pytest.mark.slow
def test_flights_without_a_delay_are_cancelled_as_often_as_the_model_draws_them(tmp_path: Path) -> None:
    frame = flights().drop(columns=["planned", "departed"])
    rng = np.random.default_rng(1)
    true = frame["status"].copy()
    frame.loc[rng.random(len(frame)) < 0.2, "status"] = None
    frame.loc[rng.random(len(frame)) < 0.1, "delay"] = None
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", set={"model.components": 2, "bootstrap": "none"})
    holes, told = frame["status"].isna(), frame["status"].isna() & frame["reason"].notna()
    assert told.sum() > 10 and (holes & (true == "cancelled")).sum() > 10
    for one in (*run.impute(m=2), *run.impute(m=2, leave_blank={"delay": "status=cancelled"})):
        assert (one.status[told] == "cancelled").all()  # none was
        delayed = frame["delay"].notna()
        assert ((one.status == "delayed") == (one.delay >= 15))[delayed].all()
    drawn = run.sample(n=1000, leave_blank={"delay": "status=cancelled"})
    assert abs((drawn.status == "cancelled").mean() - 0.2) < 0.06  # it was 0
    assert (drawn.delay.isna() == (drawn.status == "cancelled")).all()
    answered = drawn[drawn.delay.notna()]
    assert ((answered.status == "delayed") == (answered.delay >= 15)).all()
