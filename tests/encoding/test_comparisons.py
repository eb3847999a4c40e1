"""Levels that say which of two columns is greater: found, and kept by fills."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.schemas import checked
from tests.selection import first
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.comparisons import Comparison
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.comparing import keep_comparisons
from vgi_cli.encoding.comparisons import breaks
from vgi_cli.encoding.infer import Said, schema_alone
from vgi_cli.encoding.keeping import keep_but_for_blanks, keep_relations
from vgi_cli.encoding.redrawing import Checks, DrawnRows
from vgi_cli.encoding.redundant import every_kept, kept_words
from vgi_cli.encoding.structural_zeros import possible
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

ON_TIME = "'on_time' is yes where 'delivered' ≤ 'promised', else no"
FAST = {"model": "mixture", "set": {"bootstrap": "none", "model.components": 1}, "threads": 1}


def schema_of(frame: pd.DataFrame, encoding: Encoding = Encoding(), **kinds: str) -> Schema:  # noqa: B008 - it is frozen
    return schema_alone(from_frame(frame), Said(encoding=encoding, kinds=kinds))


def compared(frame: pd.DataFrame, **kinds: str) -> list[str]:
    schema = schema_of(frame, **kinds)
    words = every_kept(schema)
    return words[len(words) - len(schema.comparisons) :]


def holed(frame: pd.DataFrame, seed: int, share: float = 0.12) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


def orders(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Parcels that were delivered in time, or not; 12 % of the cells are hidden."""
    rng = np.random.default_rng(seed)
    shipped = np.datetime64("2024-01-01") + rng.integers(0, 300, rows)
    promised, delivered = shipped + rng.integers(3, 9, rows), shipped + 2 + rng.poisson(4, rows)
    frame = pd.DataFrame(
        {
            "shipped": shipped.astype(str),
            "promised": promised.astype(str),
            "delivered": delivered.astype(str),
            "on_time": np.where(delivered <= promised, "yes", "no"),
            "weight": rng.gamma(3, 2, rows).round(2),
        }
    )
    return holed(frame, seed + 100)


def costs(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    budget = rng.gamma(4, 100, rows).round(2)
    spent = (budget * rng.lognormal(-0.2, 0.3, rows)).round(2)
    return pd.DataFrame({"budget": budget, "spent": spent, "over": (spent > budget).astype(int)})


def matches(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    home, away = rng.poisson(80, rows), rng.poisson(80, rows)
    result = np.select([home > away, home < away], ["H", "A"], "D")
    return pd.DataFrame({"home": home, "away": away, "result": result})


def test_they_are_found_and_said() -> None:
    """Of dates, numbers and equal ones; the schema keeps them, and they can be turned off."""
    schema = schema_of(orders())
    promised = "'promised' is as far from 'shipped' as was seen"
    assert every_kept(schema) == [promised, "'shipped' ≤ 'delivered'", ON_TIME]
    (line,) = kept_words(schema)
    assert ON_TIME in line
    assert Schema.from_json(schema.to_json()) == schema
    assert schema_of(orders(), Encoding(relations="ignore")).comparisons == ()
    assert compared(holed(costs(), 1)) == ["'over' is 1 where 'spent' > 'budget', 0 where it is less"]
    assert compared(holed(matches(), 1)) == ["'result' is H, D, A where 'home' >, =, < 'away'"]
    frame = matches()
    frame["same"] = np.where(frame.home == frame.away, "yes", "no")
    assert compared(frame[["home", "away", "same"]]) == ["'same' is yes where 'away' = 'home', else no"]


def test_numbers_of_few_values_say_it_too() -> None:
    frame = matches(400)
    frame["result"] = np.sign(frame.home - frame.away) + 2
    found = "'result' is 3, 2, 1 where 'home' >, =, < 'away'"
    assert compared(frame, result="numeric") == [found]
    assert compared(frame) == [found]


def test_where_cells_are_equal_several_levels_may_be() -> None:
    """Cups are won after a draw, too: nothing is said of these."""
    frame = matches(600)
    won = np.where(frame.home == frame.away, np.arange(600) % 2 == 0, frame.home > frame.away)
    frame["result"] = np.where(won, "home", "away")
    (one,) = schema_of(frame).comparisons
    assert one.codes[1] is None and None not in (one.codes[0], one.codes[2])


def test_moments_of_other_origins_are_compared() -> None:
    frame = orders()
    frame = frame[pd.to_datetime(frame.promised) > "2024-03-01"]
    (one,) = schema_of(frame).comparisons
    assert one.shift != 0
    assert breaks(from_frame(frame), schema_of(frame)) == [0]


@pytest.mark.parametrize("seeds", first(1, [range(5), range(5, 12)]))
def test_chance_is_none(seeds: range) -> None:
    """Nor what one of the columns says alone: levels by a threshold, nearly, or by two; columns that go together."""
    found = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = int(rng.choice([60, 150, 400, 1500]))
        common = rng.normal(size=rows)
        columns: dict[str, object] = {}
        for i in range(6):
            own = common * rng.choice([0, 0.5, 1, 3]) + rng.normal(size=rows) * rng.choice([0.01, 0.3, 1])
            near = own + rng.normal(size=rows) * rng.choice([0, 0.02, 0.3])
            columns[f"x{i}"] = own.round(int(rng.integers(0, 4)))
            columns[f"flag{i}"] = np.where(near > np.quantile(own, rng.uniform(0.05, 0.95)), "yes", "no")
        columns["any"], columns["two"] = rng.choice(list("abc"), rows), ((common > 0.5) ^ (common < -0.7)).astype(int)
        columns["rare"] = np.where(rng.random(rows) < 0.02, "yes", "no")
        found += len(schema_of(holed(pd.DataFrame(columns), seed)).comparisons)
    assert found == 0


def test_what_one_column_says_is_left_to_it() -> None:
    """Above and below 50, while another number lies between: it is a limit of the one alone."""
    rng = np.random.default_rng(0)
    high = rng.random(2_000) < 0.5
    x = np.where(high, rng.normal(70, 5, 2_000), rng.normal(30, 5, 2_000)).round(1)
    y = rng.normal(50, 0.5, 2_000).round(1)
    frame = pd.DataFrame({"x": x, "y": y, "kind": np.where(high, "high", "low")})
    assert ((x > y) == high).all() and schema_of(frame).comparisons == ()


def test_what_relations_say_is_left_to_them() -> None:
    """The result of few goals follows from each pair of these."""
    rng = np.random.default_rng(0)
    home, away = rng.integers(0, 4, 900), rng.integers(0, 4, 900)
    frame = pd.DataFrame({"home": home, "away": away, "result": np.sign(home - away)})
    frame["result"] = frame.result.map({1: "H", 0: "D", -1: "A"})
    schema = schema_of(frame)
    assert [one.how for one in schema.relations] == ["pairs"] and schema.comparisons == ()


def test_rows_of_one_key_count_once() -> None:
    """Nine projects, of which each has all its cells in a hundred rows, are nine."""
    frame = costs(9).iloc[np.arange(900) % 9].reset_index(drop=True)
    frame.insert(0, "project", np.array([f"P{i}" for i in range(9)])[np.arange(900) % 9])
    frame["x"] = np.random.default_rng(0).normal(size=900)
    assert schema_of(frame).comparisons == ()


def test_rows_against_it_again_and_again_are_enough() -> None:
    frame = costs()
    frame.loc[0, "over"] = 1 - frame.over[0]
    (one,) = schema_of(frame).comparisons
    assert one.names == ("over", "spent", "budget") and one.but == 1
    frame.loc[frame.index[frame.over == frame.over[1]][:2], "over"] = 1 - frame.over[1]
    assert schema_of(frame).comparisons == ()


def test_units_are_not_mixed() -> None:
    frame = costs()
    frame["budget"] = [f"{one} kg" for one in frame.budget]
    assert schema_of(frame).comparisons == ()


def exact(frame: pd.DataFrame, schema: Schema) -> Floats:
    table = from_frame(frame)
    return np.stack([column.codes(table.column(column.name)) for column in schema.encoded], 1)


def test_draws_that_break_them_are_not_possible() -> None:
    """Unless all three cells are observed, or one of them holds nothing."""
    frame = costs(40)
    schema = schema_of(costs())
    codes = exact(frame, schema)
    slices = schema.layout.slices
    x = np.concatenate([column.encode(codes[:, j], None) for j, column in enumerate(schema.encoded)], 1)
    flag = slices[schema.modelled.index("over")].start
    x[:20, flag] = 1 - x[:20, flag]
    missing = np.zeros(x.shape, bool)
    missing[:, slices[schema.modelled.index("spent")].start] = True
    np.testing.assert_array_equal(possible(x[None], missing, schema)[0], np.arange(40) >= 20)
    assert possible(x[None], np.zeros_like(missing), schema).all()
    idle = np.zeros((1, *x.shape), bool)
    idle[..., slices[0].start] = True
    assert possible(x[None], missing, schema, idle).all()


def drawn(frame: pd.DataFrame, schema: Schema, missing: Bools, seed: int) -> tuple[Floats, Floats]:
    """Ten draws, of each column any of its cells, and what is observed."""
    rng = np.random.default_rng(seed)
    codes = exact(frame, schema)
    anything = np.stack([rng.choice(codes[:, j], (10, len(frame))) for j in range(codes.shape[1])], -1)
    return np.where(missing, anything, codes), np.where(missing, np.nan, codes)


@pytest.mark.parametrize("make", [costs, matches])
def test_fills_keep_to_them(make: object) -> None:
    """Whatever was drawn: a level follows, else a number moves; what is observed, and rows that keep to it, stay."""
    frame: pd.DataFrame = make(400)  # type: ignore[operator]
    schema = schema_of(frame)
    (one,) = schema.comparisons
    places = [schema.modelled.index(name) for name in one.names]
    missing = np.random.default_rng(2).random(frame.shape) < 0.3
    draws, observed = drawn(frame, schema, missing, 3)
    before = draws.copy()
    wrong = one.excludes(*np.moveaxis(draws[..., places], -1, 0))
    assert wrong.sum() > 500
    u = np.random.default_rng(4).random(draws.shape[:2])
    assert keep_relations(draws, observed, missing, schema, uniform=lambda name: u).count() == 0
    assert not one.excludes(*np.moveaxis(draws[..., places], -1, 0)).any()
    np.testing.assert_array_equal(draws[~wrong], before[~wrong])
    np.testing.assert_array_equal(draws[:, ~missing], before[:, ~missing])
    for j, column in enumerate(schema.encoded):
        np.testing.assert_array_equal(column.held(draws[..., j]), draws[..., j])
    only = wrong & (missing[:, places] == [False, True, False]).all(1)
    first, second = places[1:]
    moved = draws[only][:, first] - draws[only][:, second]
    mirrored = np.isclose(moved, before[only][:, second] - before[only][:, first])
    assert mirrored.mean() > 0.7  # the rest would lie beyond the limits of the column, or is equal


def test_a_number_that_may_not_cross_comes_next_to_the_other_one() -> None:
    """Beyond its limit there is no value, and what it was mirrored to is out of order."""
    frame = orders(600).dropna().reset_index(drop=True)
    schema = schema_of(frame)
    shipped, promised, delivered, flag, _ = range(5)
    codes = exact(frame, schema)
    rows = np.flatnonzero(codes[:, flag] == 1)
    codes, missing = codes[rows], np.zeros((len(rows), 5), bool)
    missing[:, delivered] = True
    draws = codes[None].copy()
    draws[..., delivered] += 40  # it would come before the day of sending, as far on the other side
    assert keep_relations(draws, codes, missing, schema, uniform=lambda name: np.zeros((1, len(rows)))).count() == 0
    (one,) = schema.comparisons
    order = schema.orders[0]
    assert not one.excludes(draws[..., flag], draws[..., delivered], draws[..., promised]).any()
    assert (draws[..., shipped] <= draws[..., delivered] + order.shift).all()


def test_what_goes_with_a_number_moves_along() -> None:
    """A day that is promised 3 to 8 days after an unknown one: both come later."""
    frame = holed(orders(), 7, 0.05)
    schema = schema_of(frame)
    assert [one.slack for one in schema.relations] == [2.5]
    (one,) = schema.comparisons
    shipped, promised, delivered, flag, _ = range(5)
    codes = np.nan_to_num(exact(frame, schema)[:1])
    yes = schema.encoded[flag].texts.index("yes")  # type: ignore[attr-defined]
    codes[0, [shipped, promised, delivered, flag]] = [100, 104, 150, yes]
    missing = np.array([[True, True, False, False, False]])
    draws = codes[None].copy()
    assert keep_relations(draws, codes, missing, schema, uniform=lambda name: np.full((1, 1), 0.5)).count() == 0
    assert not one.excludes(draws[..., flag], draws[..., delivered], draws[..., promised]).any()
    assert draws[0, 0, shipped] > 100


def test_a_level_of_no_sign_may_stand_beside_what_is_filled() -> None:
    """A match that was put off has no goals: whatever they are filled with says nothing."""
    frame = matches(400)
    frame["result"] = frame.result.map({"H": "home", "A": "away", "D": "away"})
    frame.loc[:60, ["home", "away"]] = np.nan
    frame.loc[:60, "result"] = "put off"
    schema = schema_of(frame)
    assert len(schema.comparisons) == 1
    missing = frame.isna().to_numpy()
    codes = exact(frame, schema)
    draws = np.where(missing, [[90.0, 80.0, 0.0]], codes)[None]
    before = draws.copy()
    assert keep_comparisons(draws, codes, missing, schema).count() == 0
    np.testing.assert_array_equal(draws, before)


def test_a_cell_that_stays_blank_says_no_level() -> None:
    """What was drawn there is taken back: a level that is filled beside it stays as it was drawn."""
    schema = schema_of(costs())
    codes = np.array([[100.0, 90.0, 1.0]])
    missing = np.array([[False, True, True]])
    for blank, left in (([False, True, False], 1.0), ([False, False, False], 0.0)):
        rows = DrawnRows(codes[None].copy(), codes, missing, lambda name: np.zeros((1, 1)), None)
        staying = np.array([[blank]])
        assert keep_but_for_blanks(rows, lambda draws, staying=staying: staying, schema, None).count() == 0  # type: ignore[misc]
        assert rows.draws[0, 0, 2] == left


def test_rows_that_are_redrawn_for_other_rules_keep_to_them() -> None:
    schema = schema_of(costs())
    codes, missing = np.array([[100.0, 90.0, 1.0], [100.0, 90.0, 0.0]]), np.ones((2, 3), bool)
    assert Checks(schema, missing).kept(codes, codes, np.arange(2)).tolist() == [False, True]


def test_rows_that_cannot_keep_to_them_are_counted() -> None:
    """More than the greatest whole number that a column admits there is none."""
    frame = matches(400)
    schema = schema_of(frame)
    codes = exact(frame, schema)[:1]
    codes[0] = [80, 10_000, schema.encoded[2].texts.index("H")]  # type: ignore[attr-defined]
    bounded = schema_alone(from_frame(frame), Said(bounds={"home": "0:120"}))
    missing = np.array([[True, False, False]])
    draws = codes[None].copy()
    found = keep_comparisons(draws, codes, missing, bounded)
    assert found.counts() == {bounded.comparisons[0]: 1}
    np.testing.assert_array_equal(draws[0], codes)


@pytest.mark.parametrize("make", first(1, [costs, orders]))
def test_a_fit_fills_as_it_says(make: object, tmp_path: Path) -> None:
    """No fill contradicts another cell of its row, no synthetic row does, and point estimates do not."""
    frame: pd.DataFrame = make(300)  # type: ignore[operator]
    frame = holed(frame, 7, 0.05)
    (words,) = compared(frame)
    said: list[str] = []
    run = vgi_cli.fit(frame, out=tmp_path / "run", say=said.append, **FAST)
    assert any(words in line for line in said)
    filled = [*run.impute(m=3, say=said.append), *run.impute(point="mode", say=said.append)]
    for one in [*filled, run.sample(n=200, say=said.append)]:
        assert breaks(from_frame(one), schema_of(frame)) == [0]
    assert not any("keep to what holds in every row of the fit" in line for line in said)


def test_a_new_table_that_breaks_them_is_told() -> None:
    frame = orders()
    schema = schema_of(frame)
    new = frame.dropna().head(20).reset_index(drop=True)
    new.loc[:2, "on_time"] = new.on_time[:3].map({"yes": "no", "no": "yes"})
    assert breaks(from_frame(new), schema) == [3]
    expected = f"{ON_TIME} in every row of the fit; 3 rows of"
    notes = [note for note in check(from_frame(new), schema) if note.startswith(expected)]
    assert len(notes) == 1 and notes[0].endswith("depart from it, and fills keep to it all the same")


def test_schemas_with_and_without_them_are_read() -> None:
    """A table without any has the schema that it had; what is damaged is refused."""
    assert "comparisons" not in json.loads(schema_of(costs().drop(columns="over")).to_json())
    raw = checked("schema", schema_of(matches()).to_json())
    for key, value in {"flag": "none", "first": "result", "second": "goals", "codes": [0, 1, 7]}.items():
        own = {**raw["comparisons"][0], key: value}
        own = {**own, "flag": "home"} if key == "first" else own
        with pytest.raises(RunError, match="comparisons do not fit the columns"):
            Schema.from_json(json.dumps({**raw, "comparisons": [own]}))
    for key, broken in {"second": "home", "codes": [1, 1, 1]}.items():
        with pytest.raises(RunError, match="damaged"):
            Schema.from_json(json.dumps({**raw, "comparisons": [{**raw["comparisons"][0], key: broken}]}))
    del raw["comparisons"]
    assert Schema.from_json(json.dumps(raw)).comparisons == ()


def timed(seed: int = 0, rows: int = 400) -> pd.DataFrame:
    """Parcels that are promised for a day, and delivered at some time of one."""
    rng = np.random.default_rng(seed)
    promised = np.datetime64("2024-01-10") + rng.integers(0, 120, rows)
    delivered = promised.astype("datetime64[m]") + (rng.normal(8, 22, rows) * 60).astype(int)
    frame = pd.DataFrame({"promised": promised.astype(str), "delivered": delivered.astype("datetime64[s]").astype(str)})
    return frame.assign(on_time=np.where(delivered.astype("datetime64[D]") <= promised, "yes", "no"))


@pytest.mark.parametrize("turned", [False, True])
def test_the_day_of_a_time_is_compared_with_a_date(turned: bool) -> None:
    """A number of either is moved to a day on the other side, and stays at its time of the day."""
    frame = timed()[["delivered", "promised", "on_time"] if turned else ["promised", "delivered", "on_time"]]
    schema = schema_of(holed(frame, 1))
    (one,) = schema.comparisons
    assert every_kept(schema)[-1] == "'on_time' is yes where the day of 'delivered' ≤ 'promised', else no"
    assert Schema.from_json(schema.to_json()).comparisons == (one,)
    assert breaks(from_frame(frame), schema) == [0]
    late = frame.assign(delivered=frame.delivered.str.replace("2024", "2025"))
    assert breaks(from_frame(late), schema) == [int((frame.on_time == "yes").sum())]
    true = np.stack([column.codes(from_frame(frame).column(column.name)) for column in schema.encoded], 1)
    place = {name: schema.modelled.index(name) for name in frame}
    seconds = pd.to_datetime(frame.delivered).dt.hour * 3600 + pd.to_datetime(frame.delivered).dt.minute * 60
    for name in frame:
        missing = np.zeros(true.shape, bool)
        missing[:, place[name]] = True
        draws = np.where(missing, true[::-1], true)[None].copy()
        assert not keep_comparisons(draws, true, missing, schema).count()
        assert not one.excludes(*(draws[0, :, place[column]] for column in one.names)).any()
        if name == "on_time":
            assert (draws[0] == true).all()
        if name == "delivered":
            stays = np.mod(draws[0, :, place[name]] - true[0, place[name]] + seconds[0], 86400)
            assert (stays == seconds.to_numpy()[::-1]).all()


@pytest.mark.parametrize("days", ["first", "second"])
def test_what_is_equal_lies_on_the_same_day(days: str) -> None:
    rng = np.random.default_rng(0)
    one = Comparison("flag", "a", "b", (0, 1, 1), float(rng.integers(-(10**6), 10**6)), days)  # type: ignore[arg-type]
    dates, times = rng.integers(-500, 500, 200).astype(float), rng.integers(-(10**7), 10**7, 200).astype(float)
    for place in (1, 2):
        own, other = (times, dates) if one.is_time(place) else (dates, times)
        equal = one.equal_to(place, other, own)
        assert (one.signs(*((equal, other) if place == 1 else (other, equal))) == 1).all()
        if one.is_time(place):
            assert (np.mod(equal - own, 86400) == 0).all()
