"""Repeat an experiment of the paper: methods × fractions missing × masks, beside the published figures.

    python benchmarks/make_toy.py results/toy && python benchmarks/paper.py toy-fa results/toy
    python benchmarks/paper.py miniboone results/miniboone --sixths 3 --masks 1 --methods vgi plmcmc --epochs 0.05

The folder holds the tables (`make_toy.py`, `make_frey.py`, `make_uci.py`); runs and figures are kept in it, and what is
there is not run again: an interrupted command goes on where it stopped, inside a fit too. `--epochs SHARE` gives every
fit that share of its epochs (2: twice as many), `--time-limit T` bounds each (such figures are kept apart). Every fit
goes through `vgi_cli.fit`, one thread, seed = number of the mask.

Written into the folder: NAME.md (mean over masks ± standard error, number of masks; the published mean below it; CPU
seconds of an epoch, and the share of them spent in the imputation step, for methods that have one), NAME.json, and
where matplotlib is installed NAME.png (the measure) and NAME-cost.png (CPU seconds of an epoch, and of its imputing):
of the command's methods.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
from gaussians import divergence, gaussian
from paper_families import COMPLETE, FAMILIES, Family, Fit

import vgi_cli
from vgi_cli.fitting.fitted import load_run
from vgi_cli.methods.vgi.latent_targets import BlockLatents, CarriedLatents, SingleCells
from vgi_cli.methods.vgi.targets import Columns
from vgi_cli.reporting import Silent
from vgi_cli.settings.gather import load_recipe

Figures = dict[str, Any]


def divergence_from(truth: Path, mean: np.ndarray, covariance: np.ndarray) -> float:
    """KL(truth || N(mean, covariance)), nats; the truth is a factor analysis in `truth.json`."""
    kept = {key.lower(): np.array(value) for key, value in json.loads(truth.read_text()).items() if key != "columns"}
    return divergence(kept["mean"], kept["f"] @ kept["f"].T + np.diag(kept["psi"]), mean, covariance)


@contextmanager
def imputing_timed() -> Iterator[list[float]]:
    """CPU seconds of the imputation steps of `vgi` within."""
    spent = [0.0]

    def timed(plain: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            started = time.process_time()
            out = plain(*args, **kwargs)
            spent[0] += time.process_time() - started
            return out

        return run

    with ExitStack() as stack:
        for target in (Columns, CarriedLatents, BlockLatents, SingleCells):
            stack.enter_context(mock.patch.object(target, "update", timed(target.update)))
        yield spent


def table_of(folder: Path, k: int, m: int) -> Path:
    """The table at k/6 missing, mask m, or the complete one."""
    return folder / ("train.parquet" if k == COMPLETE else f"train-{k}-{m}.parquet")


def digest(fit: Fit) -> str:
    """What a fit is made of, its recipe's text included."""
    recipe = None if fit.recipe is None else fit.recipe.read_text(encoding="utf-8")
    said = json.dumps([*fit._replace(recipe=recipe)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def figures(folder: Path, family: Family, name: str, k: int, m: int, args: argparse.Namespace) -> Figures:
    """Fit, or go on with a fit that was interrupted, and measure once; kept beside the run.

    `cpu` is none where the fit was interrupted: its first part was not timed.
    """
    cut = f"-{args.epochs:g}" if args.epochs != 1 else ""
    cut += f"-{args.time_limit}" if args.time_limit else ""
    stem = re.sub(r"[^a-z0-9]+", "-", f"{args.name} {name} {k} {m}".lower()) + cut
    kept = folder / "figures" / f"{stem}.json"
    fit: Fit = family.ways[name](k)
    made_by = digest(fit)
    if kept.exists():
        found = json.loads(kept.read_text())
        if found.get("made_by") != made_by:
            raise SystemExit(f"{kept} was made with other settings: remove it and {folder / 'runs' / stem}")
        return found
    epochs = fit.epochs
    if epochs is None and fit.recipe is not None:
        epochs = load_recipe(fit.recipe).epochs
    if args.epochs != 1 and epochs is None:
        raise SystemExit(f"--epochs: '{name}' has no number of epochs to multiply; leave it out of --methods")
    if epochs is not None:
        epochs = max(1, round(epochs * args.epochs))
    run = folder / "runs" / stem
    run.parent.mkdir(exist_ok=True)
    begun = (run / "manifest.json").exists()
    started = time.process_time()
    with imputing_timed() as imputing:
        vgi_cli.fit(
            table_of(folder, k, m),
            model=fit.model,
            method=fit.method,
            recipe=fit.recipe,
            set={"bootstrap": "none", **fit.settings},
            epochs=epochs,
            time_limit=args.time_limit,
            seed=m,
            threads=1,
            out=run,
            resume=begun,
            force=not begun,
        )
    cpu = time.process_time() - started
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    done = max([1, *(line["epoch"] for line in lines if line.get("stage", "main") == "main")])  # warm-ups left out
    found = {"made_by": made_by, "cpu": None if begun else cpu, "epochs": done, "imputing": imputing[0]}
    if family.measure == "kl":
        found["kl"] = divergence_from(folder / "truth.json", *gaussian(load_run(run, Silent())))
    else:
        found["loglik"] = vgi_cli.evaluate(run, folder / "test.parquet", threads=1)["loglik"]["mean"]
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(found))
    print(f"{stem}: {family.measure} {found[family.measure]:.5g}, {done} epochs, {cpu:.0f} CPU s", flush=True)
    return found


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and its standard error (none for one value)."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return statistics.fmean(values), error


def cell(values: Sequence[float]) -> str:
    """Mean ± standard error (number)."""
    mean, error = mean_and_error(values)
    return f"{mean:.4g}" + (f" ± {error:.2g}" if error is not None else "") + f" ({len(values)})"


def cost(found: Sequence[Figures]) -> tuple[float, float] | None:
    """Medians of the CPU seconds an epoch of the main stage (all that the fit does shared out among them) and of the
    share of imputing, of the fits that were timed; none without one."""
    timed = [f for f in found if f["cpu"] is not None]
    if not timed:
        return None
    seconds = statistics.median(f["cpu"] / f["epochs"] for f in timed)
    return seconds, statistics.median(f["imputing"] / f["cpu"] for f in timed)


def report(family: Family, results: dict[str, dict[int, list[Figures]]]) -> str:
    """The tables in Markdown."""
    fractions = sorted({k for by_k in results.values() for k in by_k if k != COMPLETE})
    heads = [f"{k}/6" for k in fractions]
    unit = "KL(truth, model), nats" if family.measure == "kl" else "test log-likelihood, nats a row"
    lines = [f"| {unit} | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for name, by_k in results.items():
        ours = [by_k.get(COMPLETE) or by_k.get(k) for k in fractions]
        cells = ["" if found is None else cell([f[family.measure] for f in found]) for found in ours]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        published = family.published.get(name, {})
        if published:
            known = [published.get(COMPLETE, published.get(k)) for k in fractions]
            lines.append(f"| {name}, published | {' | '.join('' if p is None else f'{p:.4g}' for p in known)} |")
    lines += ["", f"| CPU s an epoch (share imputing) | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for name, by_k in results.items():
        cells = []
        for k in fractions:
            spent = cost(by_k.get(COMPLETE) or by_k.get(k) or [])
            cells.append("" if spent is None else f"{spent[0]:.3g}" + (f" ({spent[1]:.0%})" if spent[1] else ""))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def empty_figure() -> tuple[Any, Any] | None:
    """A figure and its axes; none without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6, 4), layout="constrained")
    return figure, figure.subplots()


def draw(family: Family, results: dict[str, dict[int, list[Figures]]], path: Path) -> bool:
    """The figure: the measure against the fraction missing, with standard errors. False without matplotlib."""
    empty = empty_figure()
    if empty is None:
        return False
    figure, axes = empty
    for name, by_k in results.items():
        points = sorted(k for k in by_k if k != COMPLETE)
        if COMPLETE in by_k:
            mean, _ = mean_and_error([f[family.measure] for f in by_k[COMPLETE]])
            axes.axhline(mean, linestyle="--", color="grey", label=name)
        elif points:
            middle = [mean_and_error([f[family.measure] for f in by_k[k]]) for k in points]
            axes.errorbar([k / 6 for k in points], [m for m, _ in middle], [e or 0 for _, e in middle], label=name)
    axes.set_xlabel("share of cells missing")
    axes.set_ylabel("KL(truth, model), nats" if family.measure == "kl" else "test log-likelihood, nats a row")
    if family.measure == "kl":
        axes.set_yscale("log")
    axes.legend()
    figure.savefig(path, dpi=150)
    return True


def draw_cost(results: dict[str, dict[int, list[Figures]]], path: Path) -> bool:
    """The figure of CPU seconds an epoch against the fraction missing, dotted: the part that imputes."""
    empty = empty_figure()
    if empty is None:
        return False
    figure, axes = empty
    for name, by_k in results.items():
        spent = {k / 6: known for k, found in sorted(by_k.items()) if (known := cost(found)) is not None}
        if not spent:
            continue
        (line,) = axes.plot(list(spent), [seconds for seconds, _ in spent.values()], "o-", label=name)
        if any(share for _, share in spent.values()):
            axes.plot(list(spent), [seconds * share for seconds, share in spent.values()], ":", color=line.get_color())
    axes.set_xlabel("share of cells missing")
    axes.set_ylabel("CPU seconds an epoch (dotted: imputing)")
    axes.set_ylim(bottom=0)
    if axes.lines:
        axes.legend()
    figure.savefig(path, dpi=150)
    return True


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=FAMILIES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sixths", type=int, nargs="+")
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--epochs", type=float, default=1.0, metavar="SHARE")
    parser.add_argument("--time-limit", metavar="T")
    args = parser.parse_args(argv)
    family = FAMILIES[args.name]()
    unknown = sorted(set(args.methods or ()) - set(family.ways))
    if unknown:
        parser.error(f"unknown method '{unknown[0]}': {args.name} has {', '.join(family.ways)}")
    results: dict[str, dict[int, list[Figures]]] = {}
    for name in args.methods or family.ways:
        fractions = (COMPLETE,) if name in family.complete else args.sixths or family.sixths
        for k in fractions:
            masks = range(1, args.masks + 1)
            absent = next((path for m in masks if not (path := table_of(args.folder, k, m)).exists()), None)
            if absent is not None:
                parser.error(f"no table '{absent}': make the tables first (see the recipe in recipes/paper)")
            results.setdefault(name, {})[k] = [figures(args.folder, family, name, k, m, args) for m in masks]
    text = report(family, results)
    (args.folder / f"{args.name}.md").write_text(text, encoding="utf-8")
    (args.folder / f"{args.name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    drawn = draw(family, results, args.folder / f"{args.name}.png")
    drawn = draw_cost(results, args.folder / f"{args.name}-cost.png") and drawn
    made = ", .png, -cost.png" if drawn else "; no figures without matplotlib"
    print(f"\n{text}\n{args.folder / args.name}.md, .json{made}")


if __name__ == "__main__":
    main()
