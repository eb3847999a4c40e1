"""Averages of fits to multiple imputations, against one fit to all of them: appendix D of the paper, on the toy tables.

    python benchmarks/averaging.py WORK_FOLDER [--masks 5] [--sixths 1 2 3 4 5] [--imputations 5]

Makes the tables of `make_toy.py` in the folder. Each is filled by `mice`, so many times, and factor analyses are fitted
by maximum likelihood to every filled table and to all of them stacked. Loadings are one model up to a rotation, and no
two fits need have the same: printed is KL(truth || model), means over masks and their standard errors, of

    naive       means of F, mean and psi over the fits, F as each fit has it
    procrustes  the same with every F turned to their common mean first (generalised orthogonal Procrustes rotation, ten
                Berge 1977)
    stacked     one fit to the stacked tables, which is what `--method impute-then-fit` does

and the distance of the loadings of a fit from their mean, before and after: root mean square over their entries, data
units. Figures are kept in the folder: what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import make_toy
import numpy as np
import pandas as pd
from gaussians import divergence
from scipy.linalg import orthogonal_procrustes

import vgi_cli
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent

ROUNDS, TOLERANCE = 1000, 1e-12
WAYS = ("naive", "procrustes", "stacked")


class Factors(NamedTuple):
    """A factor analysis in data units: F [D, L], mean [D], psi [D]."""

    F: np.ndarray
    mean: np.ndarray
    psi: np.ndarray

    def kl(self) -> float:
        """KL(truth || this), nats."""
        return divergence(make_toy.MEAN, make_toy.covariance(), self.mean, self.F @ self.F.T + np.diag(self.psi))


def aligned(loadings: Sequence[np.ndarray]) -> np.ndarray:
    """[K, D, L] loadings, each turned or mirrored by the orthogonal matrix that brings it nearest to the mean of all
    others as they stand, in rounds, until the mean stands still. Every round brings them nearer to their mean, in sum
    of squares; it begins with all turned to the first."""
    turned = np.stack([F @ orthogonal_procrustes(F, loadings[0])[0] for F in loadings])
    for _ in range(ROUNDS):
        before = turned.mean(0)
        for k in range(len(turned)):
            others = np.delete(turned, k, 0).mean(0) if len(turned) > 1 else turned[k]
            turned[k] = turned[k] @ orthogonal_procrustes(turned[k], others)[0]
        if np.abs(turned.mean(0) - before).max() < TOLERANCE * np.abs(before).max():
            break
    return turned


def spread(loadings: np.ndarray) -> float:
    """Root mean square distance of loadings [K, D, L] from their mean."""
    return float(np.sqrt(np.square(loadings - loadings.mean(0)).mean()))


def averaged(fits: Sequence[Factors], loadings: np.ndarray) -> Factors:
    """The mean of the parameters of fits, of whose loadings [K, D, L] are given."""
    return Factors(loadings.mean(0), np.mean([fit.mean for fit in fits], 0), np.mean([fit.psi for fit in fits], 0))


def fitted(table: pd.DataFrame, seed: int, out: Path) -> Factors:
    """A factor analysis with two factors of a table without holes, by maximum likelihood; its run is made anew."""
    settings = {"model.factors": 2, "bootstrap": "none"}
    run = vgi_cli.fit(table, model="fa", method="em", set=settings, seed=seed, threads=1, out=out, force=True)
    known = load_run(run.path, Silent())
    model, scale = known.model, [column.scale for column in known.schema.encoded]
    sd, centre = np.array([s.sd for s in scale]), np.array([s.mean for s in scale])
    F, mean, psi = (part.detach().double().numpy() for part in (model.F, model.mean, model.log_psi.exp()))
    return Factors(sd[:, None] * F, centre + sd * mean, sd**2 * psi)


def figures(folder: Path, k: int, m: int, imputations: int) -> dict[str, float]:
    """Fill, fit and measure once."""
    kept = folder / "averaging" / f"{k}-{m}-{imputations}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    kept.parent.mkdir(exist_ok=True)
    table = folder / f"train-{k}-{m}.parquet"
    settings = {"model.factors": 2, "method.imputations": imputations, "bootstrap": "none"}
    run = vgi_cli.fit(
        table, model="fa", imputer="mice", set=settings, epochs=1, seed=m, threads=1, out=folder / "averaging" / "run",
        force=True,
    )  # fmt: skip
    filled = vgi_cli.impute(run, sampler="chains", m=imputations, threads=1)
    fits = [fitted(one, m, kept.parent / "one") for one in filled]
    plain = np.stack([fit.F for fit in fits])
    turned = aligned(plain)
    found = {
        "naive": averaged(fits, plain).kl(),
        "procrustes": averaged(fits, turned).kl(),
        "stacked": fitted(pd.concat(filled, ignore_index=True), m, kept.parent / "all").kl(),
        "spread": spread(plain),
        "spread, turned": spread(turned),
    }
    kept.write_text(json.dumps(found))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--sixths", type=int, nargs="+", default=make_toy.SIXTHS)
    parser.add_argument("--imputations", type=int, default=5)
    given = parser.parse_args(argv)
    if not (given.folder / "truth.json").exists():
        make_toy.main([str(given.folder), "--masks", str(given.masks)])
    found = {
        k: [figures(given.folder, k, m, given.imputations) for m in range(1, given.masks + 1)] for k in given.sixths
    }
    print(f"| | {' | '.join(f'{k}/6' for k in given.sixths)} |")
    print("|---|" + "--:|" * len(given.sixths))
    for way in (*WAYS, "spread", "spread, turned"):
        cells = []
        for each in found.values():
            values = [one[way] for one in each]
            error = f" ± {statistics.stdev(values) / len(values) ** 0.5:.2g}" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.4g}{error}")
        print(f"| {way} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
