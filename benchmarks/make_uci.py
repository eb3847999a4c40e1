"""Make the tables of the paper's flow experiments from the raw files of the UCI repository.

    python benchmarks/make_uci.py power     household_power_consumption.txt       results/power
    python benchmarks/make_uci.py gas       ethylene_CO.txt                       results/gas
    python benchmarks/make_uci.py hepmass   1000_train.csv.gz 1000_test.csv.gz    results/hepmass
    python benchmarks/make_uci.py miniboone MiniBooNE_PID.txt                     results/miniboone

The pre-processing is that of Papamakarios, Pavlakou and Murray (Masked Autoregressive Flow for Density Estimation,
2017), which later papers on flows, and Simkus, Rhodes and Gutmann (2023) among them, took over:

power      Rows with a gap are dropped. Six columns: global active power, voltage, the three sub-meters and the minute
           of the day. Rows are shuffled (numpy's RandomState(42)); uniform noise undoes the rounding: width 0.001 of
           the active power, 0.01 of the voltage, 1 of each sub-meter, none of the time.
gas        A quarter of the rows, drawn at random (the published row counts imply it; which quarter is not known). Time
           and the two gas concentrations are dropped, then, from the left, each column that another one follows with a
           correlation above 0.98, until there is none.
hepmass    Rows of class 1, without label and mass. A column is dropped whose smallest value is found more than 5 times
           in the training rows: a mark of a value that stands for something else.
miniboone  Rows of the signal. The rows whose first value is below -100 (11 of them, -999 in every column) are dropped,
           then columns by the same rule as in hepmass.

Splits: the last tenth of the rows is the test set (hepmass: the second file), the last tenth of the others validation.
Columns are standardised by the mean and standard deviation of training and validation rows (gas: of all rows; hepmass:
of training and validation).

Written into the folder: `train`, `val` and `test`, complete, and `train-k-m` with k/6 of the cells missing completely
at random, mask m.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from tables import SIXTHS, write, write_masked

SHUFFLE = 42
REPEATED = 5
CORRELATED = 0.98


class Split(NamedTuple):
    """Standardised rows [N, D] of three parts, and the names of the columns."""

    columns: list[str]
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


def tenths(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test rows, in order."""
    rest, test = x[: len(x) - len(x) // 10], x[len(x) - len(x) // 10 :]
    return rest[: len(rest) - len(rest) // 10], rest[len(rest) - len(rest) // 10 :], test


def standardised(columns: Sequence[str], train: np.ndarray, val: np.ndarray, test: np.ndarray) -> Split:
    """By mean and standard deviation of training and validation rows."""
    known = np.concatenate([train, val])
    mean, sd = known.mean(0), known.std(0)
    return Split(list(columns), *((part - mean) / sd for part in (train, val, test)))


def spiked(x: np.ndarray) -> np.ndarray:
    """[D] bool: columns whose smallest value is found more than REPEATED times."""
    return (x == x.min(0)).sum(0) > REPEATED


def power(path: Path) -> Split:
    """Individual household electric power consumption."""
    raw = pd.read_csv(path, sep=";", na_values="?", low_memory=False).dropna()
    clock = raw["Time"].str.split(":", expand=True).astype(int)
    raw["minute"] = clock[0] * 60 + clock[1]
    widths = {
        "Global_active_power": 0.001,
        "Voltage": 0.01,
        "Sub_metering_1": 1.0,
        "Sub_metering_2": 1.0,
        "Sub_metering_3": 1.0,
        "minute": 0.0,
    }
    rng = np.random.RandomState(SHUFFLE)
    x = raw[list(widths)].to_numpy("float64")
    rng.shuffle(x)
    x = x + rng.rand(*x.shape) * np.array(list(widths.values()))
    return standardised(list(widths), *tenths(x))


def gas(path: Path) -> Split:
    """Gas sensor array under dynamic gas mixtures, ethylene in CO (or methane)."""
    raw = pd.read_csv(path, sep=r"\s+", skiprows=1, header=None).sample(frac=0.25, random_state=SHUFFLE)
    frame = raw.iloc[:, 3:]
    frame.columns = [f"sensor{i + 1}" for i in range(frame.shape[1])]
    while True:
        follows = (frame.corr().to_numpy() > CORRELATED).sum(1) > 1
        if not follows.any():
            break
        frame = frame.drop(columns=frame.columns[int(follows.argmax())])
    x = frame.to_numpy("float64")
    return Split(list(frame.columns), *tenths((x - x.mean(0)) / x.std(0)))


def hepmass(train: Path, test: Path) -> Split:
    """Collisions that make a particle of mass 1000 (class 1)."""
    parts = []
    for path in (train, test):
        raw = pd.read_csv(path, index_col=False)
        raw = raw[raw.iloc[:, 0] == 1]
        parts.append(raw[[name for name in raw.columns if name.strip().startswith("f")]])
    x, held = (part.to_numpy("float64") for part in parts)
    kept = ~spiked(x) & (x.std(0) > 0)
    names = [name.strip() for name, keep in zip(parts[0].columns, kept, strict=True) if keep]
    cut = len(x) - len(x) // 10
    return standardised(names, x[:cut, kept], x[cut:, kept], held[:, kept])


def miniboone(path: Path) -> Split:
    """Electron neutrinos (the signal); the first line of the file counts the rows of either class, signal first."""
    with path.open() as lines:
        signal = int(lines.readline().split()[0])
    x = pd.read_csv(path, sep=r"\s+", skiprows=1, header=None, nrows=signal).to_numpy("float64")
    x = x[x[:, 0] >= -100]
    kept = ~spiked(x)
    names = [f"particle{j + 1}" for j in np.flatnonzero(kept)]
    return standardised(names, *tenths(x[:, kept]))


SETS: dict[str, tuple[int, Callable[..., Split]]] = {
    "power": (1, power),
    "gas": (1, gas),
    "hepmass": (2, hepmass),
    "miniboone": (1, miniboone),
}


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SETS)
    parser.add_argument("paths", nargs="+", type=Path, metavar="RAW … OUT", help="raw files, then the folder to write")
    parser.add_argument("--sixths", type=int, nargs="+", default=(1, 3, 5), choices=SIXTHS)
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    count, read = SETS[given.name]
    *raw, out = given.paths
    if len(raw) != count:
        parser.error(
            f"{given.name} takes {count} raw file{'s' * (count > 1)} and a folder, got {len(given.paths)} paths"
        )
    for path in raw:
        if not path.is_file():
            parser.error(f"no file '{path}'")
    split = read(*raw)
    out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "val", "test"):
        write(split.columns, getattr(split, part), None, out / f"{part}.parquet")
    made = write_masked(out, split.columns, split.train, given.sixths, given.masks, given.seed, "parquet")
    sizes = ", ".join(f"{len(getattr(split, part)):,} {part}" for part in ("train", "val", "test"))
    print(f"{given.name}: {sizes} rows of {len(split.columns)} columns, {len(made)} tables with holes, in {out}")


if __name__ == "__main__":
    main()
