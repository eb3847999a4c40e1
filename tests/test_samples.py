"""The sample tables are what sample_data/README.md says: sizes, holes, ids, the mask, sources and licences."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

SAMPLES = Path(__file__).parents[1] / "sample_data"
PENGUIN_NUMBERS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "delta_15n", "delta_13c")
MAMMAL_NUMBERS = ("sleep_total", "sleep_rem", "sleep_cycle", "awake", "brainwt", "bodywt")


def read(name: str) -> list[dict[str, str]]:
    with (SAMPLES / name).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    ("name", "numbers", "rows", "columns", "holes"),
    [("penguins.csv", PENGUIN_NUMBERS, 344, 14, 35), ("mammals.csv", MAMMAL_NUMBERS, 83, 11, 100)],
)
def test_csv_samples(name: str, numbers: tuple[str, ...], rows: int, columns: int, holes: int) -> None:
    table = read(name)
    assert len(table) == rows and {len(row) for row in table} == {columns}
    cells = [row[column] for row in table for column in numbers]
    assert cells.count("NA") == holes
    assert all(float(cell) == float(cell) for cell in cells if cell != "NA")
    stated = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {rows:,} | {columns} | {holes} of {rows * len(numbers):,} in {len(numbers)} columns" in stated


def test_penguins_ids_are_unique_and_dates_are_dates() -> None:
    table = read("penguins.csv")
    assert len({(row["study"], row["individual"]) for row in table}) == len(table)
    assert all(row["date_egg"][:2] == "20" and row["date_egg"][4] == "-" for row in table)


def test_penguins_mask_hides_observed_cells_of_the_measured_columns_only() -> None:
    table, mask = read("penguins.csv"), read("penguins.mask.csv")
    assert list(table[0]) == list(mask[0]) and len(table) == len(mask)
    hidden = 0
    for row, flags in zip(table, mask, strict=True):
        for column, flag in flags.items():
            assert flag in ("0", "1")
            if row[column] == "NA":
                assert flag == "0"
            elif flag == "0":
                assert column in PENGUIN_NUMBERS
                hidden += 1
    assert hidden == round(0.15 * (6 * 344 - 35))


def test_weather_sample() -> None:
    table = pq.read_table(SAMPLES / "weather.parquet")
    assert (table.num_rows, table.num_columns) == (1090, 10)
    holes = {name: table[name].null_count for name in table.column_names if table[name].null_count}
    assert holes == {"wind_direction": 49, "pressure_mbar": 126}
    keys = set(zip(table["airport"].to_pylist(), table["time"].cast("int64").to_pylist(), strict=True))
    assert len(keys) == table.num_rows


def test_every_sample_is_small_and_has_source_and_licence() -> None:
    tables = [p for p in SAMPLES.iterdir() if p.suffix in (".csv", ".parquet")]
    assert {p.name for p in tables} == {"penguins.csv", "penguins.mask.csv", "mammals.csv", "weather.parquet"}
    assert all(p.stat().st_size < 200_000 for p in tables)
    sections = (SAMPLES / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) == 3
    assert all("- Source: " in section and "- Licence" in section and "- Changed: " in section for section in sections)
