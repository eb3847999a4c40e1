"""Write the tables that come with packages of R, as trials of what no setting was chosen on.

    python benchmarks/r_tables.py FOLDER [--packages AER MASS carData …] [--rows 400]
    python benchmarks/mixed.py FOLDER/*.parquet --mechanisms mcar --methods r-mice vgi --seeds 7

It needs Rscript; of packages that are not installed nothing is written. Of each data frame: columns of texts with at
most 15 levels, and of numbers that do not just count the rows on; different rows, at most `--rows` of them (a random
choice). Kept are tables of 60 rows or more, 20 of them complete, and 3 to 20 columns.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from mixed import run_r

PACKAGES = """AER MASS boot carData cluster datasets ggplot2 lattice lme4 mice mlmRev nlme palmerpenguins plm robustbase
survival"""
LEAST_ROWS, LEAST_COMPLETE, COLUMNS, LEVELS = 60, 20, (3, 20), 15
WRITE = """
for (package in strsplit("PACKAGES", " ")[[1]]) {
  if (!(package %in% rownames(installed.packages()))) next
  for (item in data(package = package)$results[, "Item"]) {
    name <- sub(" .*", "", item)
    within <- new.env()
    found <- tryCatch(data(list = sub("[)]$", "", sub(".*[(]", "", item)), package = package, envir = within),
                      error = function(e) NULL, warning = function(w) NULL)
    if (is.null(found) || !exists(name, within) || !is.data.frame(get(name, within))) next
    table <- as.data.frame(get(name, within))
    table <- table[, sapply(table, function(x) is.null(dim(x)) && !is.list(x)), drop = FALSE]
    try(write.csv(table, paste0(package, "_", name, ".csv"), row.names = FALSE), silent = TRUE)
  }
}
"""


def kept(table: pd.DataFrame, rows: int) -> pd.DataFrame | None:
    """The columns and rows of a table that are tried; None of one that is too small, too wide, or has hardly a complete
    row."""
    names = [name for name in table.columns if _says(table[name])]
    table = table[names].drop_duplicates()
    if len(table) < LEAST_ROWS or not COLUMNS[0] <= len(names) <= COLUMNS[1]:
        return None
    table = table.sample(min(rows, len(table)), random_state=5).sort_index().reset_index(drop=True)
    if table.notna().all(axis=1).sum() < LEAST_COMPLETE:
        return None
    return table.rename(columns=lambda name: str(name).replace(".", "_"))


def _says(column: pd.Series) -> bool:
    """Whether a column is of numbers or levels that vary."""
    seen = column.dropna()
    if seen.nunique() < 2:
        return False
    if not pd.api.types.is_numeric_dtype(seen) or seen.dtype == bool:
        return bool(seen.nunique() <= LEVELS)
    counts_on = np.ptp(np.diff(seen.to_numpy(dtype=float))) == 0 if len(seen) > 1 else True
    numbers_rows = pd.api.types.is_integer_dtype(column) and seen.nunique() == len(column)
    return not (counts_on or numbers_rows)


def main() -> None:
    """Parse, let R write, choose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", nargs="+", default=PACKAGES.split())
    parser.add_argument("--rows", type=int, default=400)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run_r(WRITE.replace("PACKAGES", " ".join(args.packages)), Path(folder))
        for path in sorted(Path(folder).glob("*.csv")):
            table = kept(pd.read_csv(path, low_memory=False), args.rows)
            if table is None:
                continue
            bools = table.select_dtypes(bool).columns
            table.astype(dict.fromkeys(bools, str)).to_parquet(args.folder / f"{path.stem}.parquet", index=False)
            print(f"{path.stem}: {len(table)} rows, {table.shape[1]} columns")


if __name__ == "__main__":
    main()
