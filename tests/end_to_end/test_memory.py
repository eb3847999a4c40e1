"""`vgi impute` needs no more memory for more rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vgi_cli import fit

D, BLOCK = 8, 512
FEW, MANY = 8 * BLOCK, 24 * BLOCK
PROGRAM = f"""
import sys
from vgi_cli.cli.app import main
from vgi_cli.table.csv import rows as csv_rows
from vgi_cli.table import source as row_blocks

csv_rows.PIECE = 16384
row_blocks.block_rows = lambda width: {BLOCK}
for data in sys.argv[1:]:
    assert main(["impute", "--checkpoint", "run", data, "--m", "3", "-o", f"out-{{data}}", "-q"]) == 0
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print("peak", data, peak.split()[1])
"""


def simulate(path: Path, rows: int) -> Path:
    """Correlated columns, half of the cells missing."""
    rng = np.random.default_rng(rows)
    cells = np.round(rng.normal(size=(rows, 1)) + rng.normal(size=(rows, D)), 2).astype(str)
    cells[rng.random(cells.shape) < 0.5] = ""
    path.write_text("\n".join([",".join(f"x{i}" for i in range(D)), *map(",".join, cells)]) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    settings = {"model.factors": 1, "bootstrap": "none"}
    fit(simulate(tmp_path / "fit.csv", 200), model="fa", set=settings, threads=1, out=tmp_path / "run")
    for rows in (FEW, MANY):
        simulate(tmp_path / f"{rows}.csv", rows)
    command = [sys.executable, "-c", PROGRAM, f"{FEW}.csv", f"{MANY}.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path)
    lines = (line.split()[1:] for line in done.stdout.splitlines() if line.startswith("peak "))
    peak = {data: int(kib) / 1024 for data, kib in lines}
    assert len(list(tmp_path.glob(f"out-{MANY}.*.csv"))) == 3
    # all in memory, 8,192 more rows would need about 17 MiB more; the peak of the second is that of both
    assert peak[f"{MANY}.csv"] - peak[f"{FEW}.csv"] < 10, f"peak memory in MiB: {peak}"
