"""How many latents a `vae` wants: held-out log-likelihood and CRPS of fills by `model.latents`.

    python benchmarks/latents.py [TABLE …] [--latents default 2 3] [--seeds 1 2] [--data FOLDER]

Tables: `pair`, `line`, `banana`, `circle`, `mixed`, `gauss` (simulated, 1,000 rows of 2 to 6 columns), `wine`, `iris`,
`diabetes` (scikit-learn), and any Parquet table of FOLDER by its name. 70 % of the rows are fitted with a quarter of
their cells hidden, without refits, the others are scored whole. Prints nats a held-out row, the CRPS of the hidden
numbers by ten draws in standard deviations, and the CPU seconds of the fit.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scores import fair_crps

import vgi_cli

SIMULATED = ("pair", "line", "banana", "circle", "mixed", "gauss")
ROWS = 1_000


def simulated(name: str, rng: np.random.Generator) -> pd.DataFrame:
    """One of the simulated tables, complete."""
    x, e, f = rng.normal(size=(3, ROWS))
    if name == "pair":
        return pd.DataFrame({"x": x, "y": 0.7 * x + 0.7 * e})
    if name == "line":
        return pd.DataFrame({"a": x, "b": 0.6 * (x + e) + 0.5 * f, "c": e})
    if name == "banana":
        y = x**2 + 0.5 * e
        return pd.DataFrame({"x": x, "y": y, "w": np.sin(2 * x) + 0.3 * y + 0.3 * f})
    if name == "circle":
        angle, radius = rng.uniform(0, 2 * np.pi, ROWS), 1 + 0.08 * e
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        return pd.DataFrame({"x": x, "y": y, "w": x + 0.5 * y + 0.3 * f})
    if name == "mixed":
        kind = rng.integers(2, size=ROWS)
        x = 3 * kind + e
        told = np.where(rng.random(ROWS) < 0.8, kind, 1 - kind)
        other = (rng.integers(3, size=ROWS) + kind) % 3
        letters = np.array(list("pq"))[told], np.array(list("uvw"))[other]
        return pd.DataFrame({"x": x, "y": -3 * kind + 0.8 * x + f, "g": letters[0], "h": letters[1]})
    return pd.DataFrame(rng.normal(size=(ROWS, 6)) @ rng.normal(size=(6, 6)), columns=list("abcdef"))


def complete(name: str, seed: int, folder: Path | None) -> pd.DataFrame:
    """The rows of a table without holes, in random order."""
    if name in SIMULATED:
        return simulated(name, np.random.default_rng([seed, SIMULATED.index(name)]))
    if name in ("wine", "iris", "diabetes"):
        import sklearn.datasets

        frame = getattr(sklearn.datasets, f"load_{name}")(as_frame=True).data
    else:
        assert folder is not None, f"--data names the folder of {name}.parquet"
        frame = pd.read_parquet(folder / f"{name}.parquet").dropna()
    return frame.sample(frac=1, random_state=seed).head(1_400).reset_index(drop=True)


def scored(frame: pd.DataFrame, seed: int, latents: str, out: Path) -> tuple[float, float, float]:
    """Nats a held-out row, CRPS of the hidden numbers, CPU seconds."""
    rng = np.random.default_rng(seed)
    fitted = frame[: int(0.7 * len(frame))].reset_index(drop=True)
    hidden = rng.random(fitted.shape) < 0.25
    settings = {"bootstrap": "none"} | ({} if latents == "default" else {"model.latents": int(latents)})
    began = time.process_time()
    run = vgi_cli.fit(fitted.mask(hidden), model="vae", out=out, force=True, set=settings, threads=1, say=_nobody)
    seconds = time.process_time() - began
    report = run.evaluate(frame[len(fitted) :].reset_index(drop=True), say=_nobody)
    tables = run.impute(m=10, say=_nobody)
    errors = []
    for place, name in enumerate(fitted):
        where = hidden[:, place]
        if pd.api.types.is_numeric_dtype(fitted[name]) and where.any():
            sd, truth = fitted[name].std(), fitted[name].to_numpy(float)[where]
            draws = np.stack([table[name].to_numpy(float)[where] for table in tables])
            errors.append(np.mean(fair_crps(draws / sd, truth / sd)))
    return float(report["loglik"]["mean"]), float(np.mean(errors)), seconds


def _nobody(line: str) -> None:
    """Hears what is said."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=[*SIMULATED, "iris", "wine", "diabetes"])
    parser.add_argument("--latents", nargs="+", default=["default", "2", "3"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    print("| table | columns | seed | latents | nats a row | CRPS | CPU s |")
    print("|---|---:|---:|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.tables:
            for seed in args.seeds:
                frame = complete(name, seed, args.data)
                for latents in args.latents:
                    nats, crps, seconds = scored(frame, seed, latents, Path(folder) / "run")
                    cells = f"{nats:.3f} | {crps:.3f} | {seconds:.0f}"
                    print(f"| {name} | {frame.shape[1]} | {seed} | {latents} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
