"""How far could the scores of `benchmarks/mixed.py` fall? Those of imputations from the true law, where it is known.

    python benchmarks/mixed_floor.py penguins.parquet auto_mpg.parquet …

No imputation can beat draws from the true conditional law on average, and a distance between completed and true rows
stays above 0 even for these: the hidden cells are one draw of the law, an imputation is another. So a mixture of eight
clusters is fitted to each table (as it is, all its cells), a table of as many rows is simulated from it, cells of that
are hidden as `mixed.py` hides them, and `truth` fills them by 20 exact draws from the very mixture, without anything to
learn; the other methods see the table with holes alone. Two of them are told of the law all but its numbers: `form` is
a mixture of as many clusters, with what `vgi` does beside that turned off, fitted to the table with holes, with refits;
`form, one fit` has no refits, so that its fills are as if the fit were the law. The scores are those of `mixed.py`, and

pooled  sliced W of the rows of all draws together, divided by that of one draw: 0.71 (1 / sqrt 2) where all of the
        distance is the noise of two draws, 1 where all of it is a wrong law
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

import mixed
import numpy as np

CLUSTERS = 8
PLAIN = {"trees": "none", "model.components": CLUSTERS}
ONE = {"bootstrap": "none", **PLAIN}
FORMS = {"form": PLAIN, "form, one fit": ONE}
SEED = 5
NAMES = ("crps", "log_score", "mode_error", "sliced_wasserstein", "auc", "coverage")


def simulated(table: mixed.Table, folder: Path) -> tuple[mixed.Table, mixed.Method]:
    """A table from a mixture that was fitted to this one, and how that mixture fills its holes."""
    import vgi_cli

    nothing = np.zeros(table.codes.shape, bool)
    run = vgi_cli.fit(table.frame(nothing), out=folder / "run", model="mixture", seed=1, threads=1, set=ONE)
    rows = run.sample(n=len(table.codes))

    def truth(holes: mixed.pd.DataFrame, seed: int, settings: object) -> mixed.Filled:
        return list(run.impute(holes, m=mixed.DRAWS, sampler="exact")), 0.0

    return dataclasses.replace(table, codes=table.read(rows)), truth


def pooled(table: mixed.Table, draws: np.ndarray) -> float:
    """Sliced 1-Wasserstein distance of the rows of all draws [m, N, d] together."""
    sd = table.codes.std(0)
    sd = np.where(sd > 0, sd, 1.0)
    true = mixed.spread(table, table.codes, sd)
    directions = np.random.default_rng(0).standard_normal((true.shape[1], 100))
    directions /= np.linalg.norm(directions, axis=0)
    every = np.sort(np.vstack([mixed.spread(table, x, sd) for x in draws]) @ directions, 0)
    return float(np.abs(every - np.sort(np.repeat(true, len(draws), 0) @ directions, 0)).mean())


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate, hide, fill, score; print a line for each table, mechanism and method, and ratios to the first method
    after the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--methods", nargs="+", default=["r-mice"], help="beside the truth: form, and see mixed.py")
    parser.add_argument("--mechanisms", nargs="+", default=list(mixed.MECHANISMS), choices=mixed.MECHANISMS)
    parser.add_argument("--rows", type=int, default=mixed.MAX_ROWS, help="at most so many rows of each table")
    args = parser.parse_args(argv)
    ratios: dict[str, list[list[float]]] = {}
    print(f"| table | hidden | method | {' | '.join(NAMES)} | pooled |")
    print("|---|---|---|" + "---:|" * (len(NAMES) + 1))
    for path in args.tables:
        table = mixed.load(path, args.rows)
        with tempfile.TemporaryDirectory() as folder:
            table, truth = simulated(table, Path(folder))
            for mechanism in args.mechanisms:
                hidden = mixed.hide(table, mechanism, np.random.default_rng(SEED))
                found = {}
                for name in ["truth", *args.methods]:
                    method = truth if name == "truth" else mixed.METHODS["vgi" if name in FORMS else name]
                    settings = {"model": "mixture", "set": FORMS[name]} if name in FORMS else {}
                    filled, spent = method(table.frame(hidden), 1, settings)
                    draws = np.stack([np.where(hidden, table.read(one), table.codes) for one in filled])
                    scores = mixed.score(table, hidden, draws, spent)
                    found[name] = [float(getattr(scores, key) or np.nan) for key in NAMES]
                    share = pooled(table, draws) / scores.sliced_wasserstein
                    shown = " | ".join(f"{value:.3f}" for value in (*found[name], share))
                    print(f"| {table.name} | {mechanism} | {name} | {shown} |", flush=True)
                for name, own in found.items():
                    pairs = zip(own[:4], found[args.methods[0]][:4], strict=True)
                    ratios.setdefault(name, []).append([one / two for one, two in pairs])
    print(f"\nGeometric means relative to {args.methods[0]} (least):\n")
    for name, some in ratios.items():
        means = np.exp(np.log(some).mean(0))
        parts = [
            f"{key} {mean:.3f} ({least:.2f})"
            for key, mean, least in zip(NAMES[:4], means, np.min(some, 0), strict=True)
        ]
        print(f"{name}: {', '.join(parts)}")


if __name__ == "__main__":
    main()
