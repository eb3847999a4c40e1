"""Tables of the experiments: writing them, and masks of an exact share of the cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

SIXTHS = (1, 2, 3, 4, 5)


def mask(shape: tuple[int, int], sixths: int, rng: np.random.Generator) -> np.ndarray:
    """Bool, True where a cell is missing: exactly that share of all cells, every such set equally likely."""
    N, D = shape
    missing = np.zeros(N * D, dtype=bool)
    missing[: N * D * sixths // 6] = True
    return rng.permutation(missing).reshape(N, D)


def write(columns: Sequence[str], x: np.ndarray, missing: np.ndarray | None, path: Path) -> None:
    """One table; missing cells are nulls (empty in CSV). The extension picks the type."""
    holes = np.zeros(x.shape, bool) if missing is None else missing
    table = pa.table({name: pa.array(x[:, j], mask=holes[:, j]) for j, name in enumerate(columns)})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        pacsv.write_csv(table, path)


def write_masked(
    out: Path, columns: Sequence[str], x: np.ndarray, sixths: Sequence[int], masks: int, seed: int, suffix: str
) -> list[Path]:
    """`train-k-m` for each fraction k/6 and mask m: rows x [N, D] with holes. Each mask depends on seed, k and m
    alone."""
    made = []
    for k in sixths:
        for m in range(1, masks + 1):
            made.append(out / f"train-{k}-{m}.{suffix}")
            write(columns, x, mask(x.shape, k, np.random.default_rng([seed, 2, k, m])), made[-1])
    return made
