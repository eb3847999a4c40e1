"""Parts of times in a zone with daylight saving are named, since fills do not keep to them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import IGNORED, KEPT
from vgi_cli.columns.datetime import Moment
from vgi_cli.encoding.dates import by_its_clock
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.seasons import seasons
from vgi_cli.table.frames import from_frame

LINE = (
    "'day', 'hour', 'name' follow from 'at' by the clocks of Europe/Berlin, whose offset changes: fills do not keep to "
    "that, as they do to what follows from local times without a zone"
)


def timed(zone: str | None, n: int = 500) -> pd.DataFrame:
    """Times of a year, their day, hour and the name of their month by the clocks of a zone, and a number that goes with
    the hour; all with holes."""
    rng = np.random.default_rng(4)
    at = pd.Series(pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365 * 86_400, n), "s"))
    at = at if zone is None else at.dt.tz_localize("UTC").dt.tz_convert(zone)
    frame = pd.DataFrame({"at": at, "day": at.dt.date, "hour": at.dt.hour, "name": at.dt.strftime("%B")})
    frame["load"] = np.round(2 * np.sin(2 * np.pi * at.dt.hour / 24) + rng.normal(size=n), 2)
    return frame.mask(rng.random(frame.shape) < 0.2)


def notes(frame: pd.DataFrame, **changes: object) -> list[str]:
    return [line for line in infer_schema(from_frame(frame), **changes)[1] if "whose offset changes" in line]  # type: ignore[arg-type]


def test_they_are_named_where_relations_are_kept_to() -> None:
    frame = timed("Europe/Berlin")
    assert notes(frame, encoding=KEPT) == [LINE]
    assert notes(frame, encoding=IGNORED) == []
    assert notes(frame.assign(hour=frame.hour.where(frame.index != 3, 25.0)), encoding=KEPT) == [
        LINE.replace("'hour', ", "")
    ]
    assert notes(frame[["at", "hour"]], encoding=KEPT) == [
        LINE.replace("'day', 'hour', 'name' follow", "'hour' follows")
    ]
    assert notes(frame[["at", "load"]], encoding=KEPT) == []


@pytest.mark.parametrize("zone", [None, "UTC", "+02:00"])
def test_of_local_times_and_of_one_offset_fills_keep_to_them(zone: str | None) -> None:
    frame = timed(zone)
    assert notes(frame, encoding=KEPT) == []
    assert {"hour", "name"} <= {one.names[0] for one in schema_alone(from_frame(frame)).relations}


def test_an_hour_that_is_there_tells_a_model_of_the_time_of_day() -> None:
    frame = timed("Europe/Berlin")
    for some, lines in ((frame[["at", "hour", "load"]], 0), (frame[["at", "load"]], 1)):
        table = from_frame(some)
        assert len([line for line in seasons(table, schema_alone(table)) if "time of day in 'at'" in line]) == lines


def test_local_times_are_those_that_the_clocks_show() -> None:
    table = from_frame(timed("America/New_York"))
    (column,) = [one for one in schema_alone(table).encoded if one.name == "at"]
    assert isinstance(column, Moment)
    codes = column.codes(table.column("at"))
    local, shown = by_its_clock(column, codes)
    clock = local.clock
    for code, here in zip(codes.tolist(), (shown + clock.origin / clock.per).tolist(), strict=True):
        if np.isnan(code):
            assert np.isnan(here)
            continue
        there = datetime.fromtimestamp(code + clock.origin / clock.per, ZoneInfo("America/New_York"))
        assert (there.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() == pytest.approx(here, abs=1e-3)
    assert by_its_clock(local, shown)[1] is shown
