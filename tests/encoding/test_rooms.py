"""Of cells of which others leave several values (a time of a day, a number of a hundred) those are taken beside which
what is computed from them stays within its limits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_following import spread
from tests.encoding.test_relations import codes_in, schema_of
from tests.selection import covering
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.dates import counted
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.orders import out_of_order
from vgi_cli.encoding.redundant import as_number

N = 500


def visits(n: int = N, seed: int = 0) -> pd.DataFrame:
    """When visits begin and end, and how long they are."""
    rng = np.random.default_rng(seed)
    start = pd.Series(pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365 * 86_400, n), "s"))
    seconds = pd.Series(rng.integers(60, 7_200, n))
    end = start + pd.to_timedelta(seconds, "s")
    return pd.DataFrame(
        {
            "start": start,
            "day": start.dt.strftime("%Y-%m-%d"),
            "month": start.dt.month,
            "hour": start.dt.hour,
            "end": end,
            "seconds": seconds,
            "minutes": seconds // 60,
        }
    )


def lines(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Where pieces of a road begin and end, how long they are, and in which hundred of metres they begin."""
    rng = np.random.default_rng(seed)
    begin, length = rng.uniform(0, 3_000, n).round(1), rng.uniform(5, 60, n).round(1)
    frame = pd.DataFrame({"begin": begin, "hundred": (begin // 100).astype(int), "length": length})
    return frame.assign(end=(begin + length).round(1))


def filled_without(frame: pd.DataFrame, schema: Schema, *names: str) -> tuple[Floats, Floats, int]:
    """Draws [m, N, columns] in which some columns are those of other rows, before and after they are to keep to the
    relations, and in how many rows they do not."""
    true = codes_in(frame, schema)
    missing = np.repeat(np.isin(schema.modelled, names)[None], len(frame), 0)
    draws = spread(true, missing)
    before = draws.copy()
    apart = keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
    return before, draws, apart.count()


def within(codes: Floats, schema: Schema, name: str) -> bool:
    """Whether a column [m, N] is within its limits."""
    place = schema.modelled.index(name)
    number = as_number(schema.encoded[place])
    assert number is not None, "limits are of numbers"
    least, most = number.ends
    assert np.isfinite([least, most]).all(), "the column has limits"
    own = codes[..., place]
    return bool(((own >= least) & (own <= most)).all())


@covering(
    pytest.mark.parametrize("length", ["seconds", "minutes"]), pytest.mark.parametrize("part", ["day", "month", "hour"])
)
def test_a_visit_of_a_known_day_month_or_hour_is_no_longer_than_any(part: str, length: str) -> None:
    frame = visits()[["start", part, "end", length]]
    if part != "day":  # a visit that ends in the next hour began at its end, or not more than two hours before
        frame = frame[frame.end.dt.hour >= 2]
    schema = schema_of(frame)
    assert {part, length} <= {one.names[0] for one in schema.relations}
    _, draws, apart = filled_without(frame, schema, "start", length)
    assert apart == 0 and within(draws, schema, length)


def test_so_is_a_piece_of_a_road_in_a_known_hundred() -> None:
    frame = lines()
    schema = schema_of(frame)
    _, draws, apart = filled_without(frame, schema, "begin", "length")
    assert apart == 0 and within(draws, schema, "length")


def test_draws_that_suit_all_stay_else_the_drawn_length_does_where_it_can() -> None:
    frame = lines()
    schema = schema_of(frame)
    before, draws, _ = filled_without(frame, schema, "begin", "length")
    at = {name: i for i, name in enumerate(schema.modelled)}
    begin, length, end = (before[..., at[name]] for name in ("begin", "length", "end"))
    hundred = before[..., at["hundred"]]
    number = as_number(schema.encoded[at["length"]])
    assert number is not None
    suits = (np.floor(begin / 100) == hundred) & (end - begin >= number.ends[0]) & (end - begin <= number.ends[1])
    kept = draws[..., at["begin"]] == begin
    assert suits.any() and kept[suits].all()
    other = np.round(end - length, 1)
    greatest = as_number(schema.encoded[at["begin"]])
    assert greatest is not None
    able = ~suits & (np.floor(other / 100) == hundred) & (other <= greatest.ends[1])
    assert able.mean() > 0.3 and np.allclose(draws[..., at["length"]][able], length[able])


def test_where_no_length_within_the_limits_is_left_the_relations_hold_beyond_them() -> None:
    frame = lines()
    schema = schema_of(frame)
    far = frame.assign(end=frame.end + 500)
    _, draws, apart = filled_without(far, schema, "begin", "length")
    assert apart == 0 and not within(draws, schema, "length")
    at = {name: i for i, name in enumerate(schema.modelled)}
    np.testing.assert_allclose(draws[..., at["begin"]] + draws[..., at["length"]], draws[..., at["end"]])


@pytest.mark.parametrize("known", ["day", "hundred"])
def test_what_begins_on_a_known_day_or_in_a_known_hundred_begins_before_it_ends(known: str) -> None:
    """Also where little of the day is left before the end, less than the small distances that were seen; and not always
    at its first second then."""
    table = visits if known == "day" else lines
    names = ["start", "day", "end"] if known == "day" else ["begin", "hundred", "end"]
    schema, others = schema_of(table()[names]), table(20_000, seed=1)
    assert [(one.low, one.high) for one in schema.orders if one.low != known] == [(names[0], "end")]
    size, first = (86_400, pd.to_datetime(others.day)) if known == "day" else (100, 100 * others.hundred)
    left = (others.end - first) / (pd.Timedelta(1, "s") if known == "day" else 1)
    true = codes_in(others[names][left < size / 10], schema)
    missing = np.zeros(true.shape, bool)
    missing[:, 0] = True
    of = counted(schema.encoded[0])
    begin = 0.0 if of is None else of[1]
    drawn = np.floor((true[:, 0] + begin) / size) + np.random.default_rng(0).uniform(0.2, 0.9, (3, len(true)))
    draws = np.repeat(true[None], 3, 0)
    draws[..., 0] = schema.encoded[0].held(size * drawn - begin)
    assert len(true) > 20 and out_of_order(draws, schema).all()
    assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
    assert not out_of_order(draws, schema).any()
    assert (np.abs(np.mod(draws[..., 0] + begin + size / 2, size) - size / 2) < 0.01).mean() < 0.1


def test_a_missing_day_goes_along_with_what_begins_before_its_end() -> None:
    frame = visits()[["start", "day", "end"]]
    schema = schema_of(frame)
    before, draws, apart = filled_without(frame, schema, "start", "day")
    assert out_of_order(before, schema).mean() > 0.3
    assert apart == 0 and not out_of_order(draws, schema).any()
