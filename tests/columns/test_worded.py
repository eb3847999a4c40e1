"""Durations that are written with their units: read by themselves, and written back to the letter."""

from __future__ import annotations

import numpy as np
import pytest

from tests.table.helpers import from_text
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.worded import format_of, spell, spellings
from vgi_cli.encoding.infer import infer_schema


@pytest.mark.parametrize(
    ("spelled", "format"),
    [
        (lambda m: f"{m // 60}h {m % 60:02d}m", "%-Hh %Mm"),
        (lambda m: f"{m // 60}h{m % 60}m", "%-Hh%-Mm"),
        (lambda m: f"{m // 60}h{m % 60:02d}", "%-Hh%M"),
        (lambda m: f"{m // 60} hr {m % 60} min", "%-H hr %-M min"),
        (lambda m: f"{m // 60} h {m % 60} min", "%-H h %-M min"),
        (lambda m: f"{m // 60:02d}h {m % 60:02d}m", "%Hh %Mm"),
        (lambda m: f"{m // 60}m{m % 60:02d}s", "%-Mm%Ss"),
        (lambda m: f"PT{m // 60}H{m % 60}M", "PT%-HH%-MM"),
        (lambda m: f"PT{m}M", "PT%-MM"),
        (lambda m: " ".join(f"{n}{u}" for n, u in ((m // 60, "h"), (m % 60, "m")) if n), "%-Hh ?%-Mm?"),
    ],
)
def test_they_are_read_and_written_back_to_the_letter(spelled, format: str) -> None:  # type: ignore[no-untyped-def]
    minutes = np.random.default_rng(0).integers(41, 260, 120)
    cells = [spelled(int(m)) for m in minutes]
    assert format_of(cells) == format
    schema, notes = infer_schema(from_text("runtime\n" + "\n".join(["", *cells]) + "\n", na_values=("",)))
    (column,) = schema.encoded
    assert not any("taken for durations" in note for note in notes)
    assert isinstance(column, Moment) and column.kind == "duration" and column.request == "duration"
    per = 1 if "S" in format else 60
    values = minutes.astype(np.float64) * per
    assert column.clock.spell(values) == cells
    assert column.clock.spell(column.snap(values + 0.3 * per)) == cells


def test_texts_that_are_no_such_are_left_alone() -> None:
    for cells in (["92 min", "87 min"], ["5 m", "12 m"], ["1h 50m", "92 min"], ["2h05", "2h5"], ["1h 70m", "2h 05m"]):
        assert format_of(cells) is None, cells
    assert spellings(["1h 50m", "92 min", "1h 20m"]) == ["1h 50m", "92 min"]
    assert spellings(["5 m", "5m"]) == [] and spellings(["1h 50m", "long"]) == []
    assert spell("%-Hh %Mm", -3900) == "-1h 05m" and spell("%-Hh ?%-Mm?", 0) == "0m"


def test_a_mix_of_spellings_is_named() -> None:
    cells = [f"{m} min" if m % 2 else f"{m // 60}h {m % 60:02d}m" for m in range(61, 161)]
    for some in (cells, [*cells[::2], *cells[1:4:2]]):
        lines = "\n".join(f"{i % 7},{cell}" for i, cell in enumerate(some))
        _, notes = infer_schema(from_text(f"x,runtime\n{lines}\n"))
        assert (
            "column 'runtime' is carried as text, not modelled: its cells are lengths of time in several spellings, "
            "such as '61 min' and '1h 02m': write all in one"
        ) in notes
