"""Learning curves on VAE-Frey: test log-likelihood of one method at several numbers of epochs.

    python benchmarks/make_vae_frey.py FACES results/vae-frey
    python benchmarks/vae_frey.py results/vae-frey --methods vbgi mvae --sixths 3 --epochs 250 500 1000

One seed (mask 1), one thread, the settings of `paper.py vae-frey`. A fit is one run, continued from one number of
epochs to the next, so an interrupted command goes on where it stopped. At each of them the complete validation rows and
the complete test rows are evaluated by the importance-weighted bound, the encoder fine-tuned to them (paper, section
6.3). Written: curves/METHOD-K.json, and with matplotlib the curves of the command's methods, curves/K.svg; printed: a
line for each point, and at the end, for each method, the last point and the one that the validation rows select.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from paper import empty_figure, table_of
from paper_families import COMPLETE, FREY_VAE

import vgi_cli

POINTS = (100, 250, 500, 1000, 1500, 2000, 2500, 3000)


def curve(
    folder: Path, name: str, k: int, points: Sequence[int], samples: int, refit: int | None
) -> list[dict[str, Any]]:
    """The points of one method at k/6 missing, those that are there included."""
    stem = re.sub(r"[^a-z0-9]+", "-", f"{name}-{k}")
    kept = folder / "curves" / f"{stem}.json"
    found: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    run = folder / "runs" / f"curve-{stem}"
    kept.parent.mkdir(exist_ok=True)
    run.parent.mkdir(exist_ok=True)
    for epochs in points:
        if any(point["epochs"] >= epochs for point in found):
            continue
        fit = FREY_VAE.ways[name](k)
        started = time.process_time()
        vgi_cli.fit(
            table_of(folder, k, 1),
            model=fit.model,
            method=fit.method,
            recipe=fit.recipe,
            set={"bootstrap": "none", **fit.settings},
            epochs=epochs,
            seed=1,
            threads=1,
            out=run,
            resume=(run / "manifest.json").exists(),
        )
        cpu = time.process_time() - started + (found[-1]["cpu"] if found else 0.0)
        point: dict[str, Any] = {"epochs": epochs, "cpu": cpu}
        for part in ("val", "test"):
            report = vgi_cli.evaluate(run, folder / f"{part}.parquet", samples=samples, refit_epochs=refit, threads=1)[
                "loglik"
            ]
            point[part] = report["mean"]
        found.append(point)
        kept.write_text(json.dumps(found, indent=1) + "\n")
        print(
            f"{name} {k}/6, {epochs} epochs, {cpu:.0f} CPU s: val {point['val']:.2f}, test {point['test']:.2f}",
            flush=True,
        )
    return found


def draw(curves: Mapping[str, list[dict[str, Any]]], path: Path) -> None:
    """Test log-likelihood by epoch, a line for each method; a dot where the validation rows stop it. Nothing without
    matplotlib."""
    empty = empty_figure()
    if empty is None:
        return
    figure, axes = empty
    for name, points in curves.items():
        (line,) = axes.plot([p["epochs"] for p in points], [p["test"] for p in points], label=name)
        best = selected(points)
        axes.plot(best["epochs"], best["test"], "o", color=line.get_color())
    axes.set_xscale("log")
    axes.set_xlabel("epochs")
    axes.set_ylabel("test log-likelihood, nats a row")
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def selected(points: list[dict[str, Any]]) -> dict[str, Any]:
    """The point that the validation rows select."""
    return max(points, key=lambda point: point["val"])


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--methods", nargs="+", default=list(FREY_VAE.ways), choices=FREY_VAE.ways)
    parser.add_argument("--sixths", type=int, nargs="+", default=(3, 5))
    parser.add_argument("--epochs", type=int, nargs="+", default=POINTS)
    parser.add_argument("--samples", type=int, default=1000, help="of the importance-weighted bound")
    parser.add_argument("--refit-epochs", type=int, help="of the encoder (the authors': 1000); none: while they help")
    args = parser.parse_args(argv)
    rows = []
    curves: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for name in args.methods:
        for k in (COMPLETE,) if name in FREY_VAE.complete else args.sixths:
            points = curve(args.folder, name, k, sorted(args.epochs), args.samples, args.refit_epochs)
            curves.setdefault(k, {})[name] = points
            best, last = selected(points), points[-1]
            share = "0" if k == COMPLETE else f"{k}/6"
            rows.append(
                f"| {name} | {share} | {last['epochs']} | {last['test']:.1f} | {best['epochs']} | {best['test']:.1f} "
                f"| {last['cpu'] / last['epochs']:.2f} |"
            )
    print("\n| method | missing | epochs | test | selected epochs | test | CPU s an epoch |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    print("\n".join(rows))
    for k, by_name in curves.items():
        draw(by_name, args.folder / "curves" / f"{k}.svg")


if __name__ == "__main__":
    main()
