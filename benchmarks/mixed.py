"""How well are hidden cells of tables of numbers and categories imputed, beside R's mice and others?

    python benchmarks/mixed.py penguins.parquet auto_mpg.parquet … [--only vgi r-mice …] [--seeds 1 2 3] [--cache FILE]

30 % of the observed cells of each table are hidden, every method fills all holes 20 times (missForest: once), and the
hidden cells are scored against the truth. Scores are kept in one JSON file, one entry for each table, mechanism, seed
and method: a run that was interrupted goes on where it stopped, and `--only` measures the methods that it names anew.
Seed 1 is for tuning. `--set KEY=VALUE --label NAME` tries `vgi` with other settings, under a name of their own.

mcar  each cell is hidden on its own
mar   rows fall at random in three groups, and columns in three sets, categories dealt evenly; in the rows of a group
      the cells of one set stay, and in each other column a cell is hidden with a logistic probability in a random
      combination of the cells that stay (a normal weight a number, one a level of a category), 45 % on average

Which columns are numbers and which are categories is said for five tables (COLUMNS; ids and free text are left out),
elsewhere texts are categories. Categories are given to every method as texts: an automatic choice of kinds takes them
as such. Numbers and categories have their own scores, means over their columns:

CRPS        of numbers, fair for 20 draws, divided by the column's standard deviation
log score   of categories: -log of the share of the true level among the draws, one draw added to each level
coverage    of the range of the first 19 draws, 90 % when calibrated; ties count as random ones broken
mode        share of cells of which the level drawn most often is not the true one
sliced W    1-Wasserstein distance of completed from true rows on 100 random directions: numbers standardised, a
            category as the indicators of its levels; rows that the table holds completely
AUC         of a boosted classifier that tells completed from true rows, cross-validated (0.5: it cannot); the two
            versions of a row are in the same fold
CPU s       fit and draws on one thread

`r-mice` is R's mice with its defaults (predictive mean matching, logistic and multinomial regression), `r-cart` the
same with its trees. They need Rscript with the packages mice, nnet and rpart; without them the same equations in Python
(`chained`) are what the ratios divide by, and a line says so. `trees` are the trees in Python; `mice`, `missforest` and
`miceforest` the imputers of `vgi fit --method impute-then-fit`.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import chained_mixed
import numpy as np
import pandas as pd
from scores import fair_crps

DRAWS = 20
COVERAGE_DRAWS = 19
MAX_ROWS = 1000
SHARE = 0.3
MECHANISMS = ("mcar", "mar")

COLUMNS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "penguins": (
        ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "year"),
        ("species", "island", "sex"),
    ),
    "auto_mpg": (
        ("mpg", "displacement", "horsepower", "weight", "acceleration", "model_year"),
        ("cylinders", "origin"),
    ),
    "pbc": (
        (
            *("time", "age", "bili", "chol", "albumin", "copper", "alk.phos", "ast", "trig", "platelet"),
            "protime",
        ),
        ("status", "trt", "sex", "ascites", "hepato", "spiders", "edema", "stage"),
    ),
    "bike_sharing_hour": (
        ("mnth", "hr", "temp", "atemp", "hum", "windspeed", "casual", "registered"),
        ("season", "yr", "holiday", "weekday", "workingday", "weathersit"),
    ),
    "breast_cancer_wisconsin": (
        (
            *("clump_thickness", "uniformity_of_cell_size", "uniformity_of_cell_shape", "marginal_adhesion"),
            *("single_epithelial_cell_size", "bare_nuclei", "bland_chromatin", "normal_nucleoli", "mitoses"),
        ),
        ("class",),
    ),
}
"""Numbers and categories, by table. Left out: ids and free text (car_name, id, sample_code_number, instant, dteday),
and bike_sharing_hour's cnt, the sum of casual and registered: a third of its holes would be a matter of arithmetic."""


# -- the design ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table as codes [N, d]: a number as it is, a category as the place of its level; NaN where nothing is known.

    levels  of each category its levels, as texts; numbers are not in it
    """

    name: str
    columns: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    codes: np.ndarray

    @property
    def numbers(self) -> list[int]:
        return [i for i, name in enumerate(self.columns) if name not in self.levels]

    @property
    def categories(self) -> list[int]:
        return [i for i, name in enumerate(self.columns) if name in self.levels]

    def frame(self, hidden: np.ndarray) -> pd.DataFrame:
        """The table with holes: numbers as floats, categories as texts."""
        out = {}
        for i, name in enumerate(self.columns):
            codes = np.where(hidden[:, i], np.nan, self.codes[:, i])
            known = self.levels.get(name)
            if known is None:
                out[name] = pd.Series(codes)
            else:
                texts = [None if np.isnan(code) else known[int(code)] for code in codes]
                out[name] = pd.Series(texts, dtype=object)
        return pd.DataFrame(out)

    def read(self, completed: pd.DataFrame) -> np.ndarray:
        """Codes of a completed table; ValueError where a hole is left."""
        out = np.empty(self.codes.shape)
        for i, name in enumerate(self.columns):
            known = self.levels.get(name)
            if known is None:
                out[:, i] = completed[name].to_numpy(dtype=float)
            else:
                places = {level: place for place, level in enumerate(known)}
                out[:, i] = [places.get(str(text), np.nan) for text in completed[name]]
            if np.isnan(out[:, i]).any():
                raise ValueError(f"{self.name}: {int(np.isnan(out[:, i]).sum())} holes are left in {name}")
        return out


def load(path: Path, rows: int) -> Table:
    """The modelled columns of a table, at most `rows` rows of it (a fixed random choice)."""
    name = path.stem
    if str(path) == "nhanes2":
        frame = nhanes2()
    else:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    numbers = [c for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c])]
    categories = [c for c in frame.columns if c not in numbers and frame[c].nunique() <= 50]
    if name in COLUMNS:
        numbers, categories = (list(names) for names in COLUMNS[name])
    if len(frame) > rows:
        frame = frame.sample(rows, random_state=0)
    frame = frame.reset_index(drop=True)
    columns = [c for c in frame.columns if c in numbers or c in categories]
    levels, codes = {}, np.full((len(frame), len(columns)), np.nan)
    for i, column in enumerate(columns):
        known = frame[column].notna().to_numpy()
        if column in numbers:
            codes[known, i] = frame[column][known].to_numpy(dtype=float)
            continue
        found, codes[known, i] = np.unique(frame[column][known].to_numpy(), return_inverse=True)
        levels[column] = tuple(v if isinstance(v, str) else f"is {v:g}" for v in found.tolist())
    return Table(name, tuple(columns), levels, codes)


def nhanes2() -> pd.DataFrame:
    """The table of 25 rows that comes with R's mice."""
    if not has_r():
        raise SystemExit("error: nhanes2 comes with R's mice, and there is no Rscript with it here")
    with tempfile.TemporaryDirectory() as folder:
        run_r(f'write.csv(mice::nhanes2, "{folder}/t.csv", row.names = FALSE)')
        return pd.read_csv(f"{folder}/t.csv")


def hide(table: Table, mechanism: str, rng: np.random.Generator) -> np.ndarray:
    """Cells to hide [N, d]: some of those that the table holds (see above)."""
    N, d = table.codes.shape
    known = ~np.isnan(table.codes)
    if mechanism == "mcar":
        return known & (rng.random((N, d)) < SHARE)
    order = [*rng.permutation(table.categories), *rng.permutation(table.numbers)]
    member = np.empty(d, int)
    member[order] = (np.arange(d) + rng.integers(3)) % 3
    group = rng.permutation(np.arange(N) % 3)
    hidden = np.zeros((N, d), bool)
    for g in range(3):
        rows, stay = group == g, np.flatnonzero(member == g)
        for column in np.flatnonzero(member != g):
            effect = sum(_effect(table, i, rows, rng) for i in stay)
            effect = (effect - effect.mean()) / (effect.std() or 1.0)
            hidden[rows, column] = rng.random(rows.sum()) < _logistic(effect, 1.5 * SHARE)
    return known & hidden


def _effect(table: Table, column: int, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What a column adds to the logit of some rows, of which alone it is a function; 0 where it is not known."""
    codes = table.codes[rows, column]
    gone = np.isnan(codes)
    if table.columns[column] in table.levels:
        weights = rng.standard_normal(len(table.levels[table.columns[column]]))
        return np.where(gone, 0.0, weights[np.where(gone, 0, codes).astype(int)])
    scaled = (codes - codes[~gone].mean()) / (codes[~gone].std() or 1.0)
    return np.where(gone, 0.0, scaled * rng.standard_normal())


def _logistic(effect: np.ndarray, share: float) -> np.ndarray:
    """Probabilities of mean `share`."""
    low, high = -50.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 / (1 + np.exp(-(effect + middle)))).mean() < share else (low, middle)
    return 1 / (1 + np.exp(-(effect + low)))


# -- the scores ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Of one table, mechanism, seed and method; see above. None where the table has no such cell."""

    crps: float | None
    log_score: float | None
    coverage: float | None
    mode_error: float | None
    sliced_wasserstein: float
    auc: float
    cpu_seconds: float


def score(table: Table, hidden: np.ndarray, draws: np.ndarray, cpu_seconds: float) -> Scores:
    """The scores of draws [m, N, d] of all cells, as codes."""
    crps, coverage, logs, mode = [], [], [], []
    sd = np.nanstd(table.codes, 0)
    sd = np.where(sd > 0, sd, 1.0)
    for column in np.flatnonzero(hidden.any(0)):
        rows = hidden[:, column]
        x, y = draws[:, rows, column], table.codes[rows, column]
        if column in table.numbers:
            crps.append(fair_crps(x, y).mean() / sd[column])
            coverage.append(covered(x[:COVERAGE_DRAWS], y))
        else:
            count = np.stack([(x == level).sum(0) for level in range(len(table.levels[table.columns[column]]))])
            share = (count + 1) / (len(x) + len(count))
            logs.append(-np.log(share[y.astype(int), np.arange(len(y))]).mean())
            mode.append((count.argmax(0) != y).mean())
    whole = ~np.isnan(table.codes).any(1)
    true = spread(table, table.codes[whole], sd)
    directions = np.random.default_rng(0).standard_normal((true.shape[1], 100))
    directions /= np.linalg.norm(directions, axis=0)
    straight = np.sort(true @ directions, 0)
    distance = [np.abs(np.sort(spread(table, x[whole], sd) @ directions, 0) - straight).mean() for x in draws]
    auc = float(np.mean([tell_apart(table, x[whole], whole) for x in draws[:5]]))
    parts = [float(np.mean(v)) if v and not np.isnan(v).all() else None for v in (crps, logs, coverage, mode)]
    return Scores(*parts, float(np.mean(distance)), auc, cpu_seconds)


def covered(draws: np.ndarray, truth: np.ndarray) -> float:
    """Share of truths within the range of the draws, ties broken at random (as `vgi evaluate`); NaN for one draw."""
    if len(draws) == 1:
        return np.nan
    low, high, outermost = draws.min(0), draws.max(0), 1 / (1 + (draws == truth).sum(0))
    ties = outermost * (truth == low) + outermost * (truth == high)
    return float((((low <= truth) & (truth <= high)) - ties).mean())


def spread(table: Table, codes: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Rows with numbers divided by their standard deviation and categories as indicators of their levels."""
    parts = []
    for i, name in enumerate(table.columns):
        if name in table.levels:
            parts.append(codes[:, i, None] == np.arange(len(table.levels[name])))
        else:
            parts.append(codes[:, i, None] / sd[i])
    return np.hstack(parts).astype(float)


def tell_apart(table: Table, completed: np.ndarray, whole: np.ndarray) -> float:
    """AUC over five folds of a boosted classifier of completed and true rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold

    X = np.vstack([completed, table.codes[whole]])
    y = np.repeat([1, 0], len(completed))
    rows = np.tile(np.random.default_rng(0).permutation(len(completed)), 2)
    out = np.empty(len(y))
    for learnt, left in GroupKFold(5).split(X, y, rows):
        small = HistGradientBoostingClassifier(
            max_iter=50, max_depth=4, early_stopping=False, categorical_features=table.categories, random_state=0
        )
        out[left] = small.fit(X[learnt], y[learnt]).predict_proba(X[left])[:, 1]
    return float(roc_auc_score(y, out))


# -- the methods -----------------------------------------------------------------------------------------------------

Filled = tuple[Sequence[pd.DataFrame], float]
"""Completed tables, and CPU seconds."""
Method = Callable[[pd.DataFrame, int, Mapping[str, Any]], Filled]
"""(table with holes, seed, settings of `vgi`) -> Filled. Columns of texts are categories."""


def marginal(holes: pd.DataFrame, seed: int, settings: Mapping[str, Any]) -> Filled:
    """Each hole a draw from the observed cells of its column."""
    started, rng = time.process_time(), np.random.default_rng(seed)
    out = []
    for _ in range(DRAWS):
        filled = holes.copy()
        for name in filled:
            gone = filled[name].isna().to_numpy()
            filled.loc[gone, name] = rng.choice(holes[name][~gone].to_numpy(), gone.sum())
        out.append(filled)
    return out, time.process_time() - started


def vgi(holes: pd.DataFrame, seed: int, settings: Mapping[str, Any]) -> Filled:
    """`vgi fit` and `vgi impute`, nothing said but the number of draws (and `--set`)."""
    import vgi_cli
    import vgi_cli.fitting.fit_rows  # so that its loading is not in the seconds

    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = vgi_cli.fit(holes, out=Path(folder) / "run", seed=seed, threads=1, **dict(settings))
        return run.impute(m=DRAWS), time.process_time() - started


def _python(how: str) -> Method:
    def method(holes: pd.DataFrame, seed: int, settings: Mapping[str, Any]) -> Filled:
        started = time.process_time()
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # regressions that end before they have settled
            out = [chained_mixed.impute(holes, how, rng) for _ in range(DRAWS)]
        return out, time.process_time() - started

    return method


def _imputer(name: str) -> Method:
    """An imputer of the package (`--method impute-then-fit --imputer NAME`), as it is: no model is fitted."""

    def method(holes: pd.DataFrame, seed: int, settings: Mapping[str, Any]) -> Filled:
        from vgi_cli.registry.names import COMPLETERS

        impute, traits = COMPLETERS.load(name), COMPLETERS.entry(name).traits
        started = time.process_time()
        missing = holes.isna().to_numpy()
        x, texts = np.zeros(holes.shape), {}
        for i, column in enumerate(holes):
            seen = holes[column][~missing[:, i]].to_numpy()
            if chained_mixed.is_text(holes[column]):
                texts[i], seen = np.unique(seen.astype(str), return_inverse=True)
            x[~missing[:, i], i] = seen
        levels = tuple(len(texts.get(i, ())) for i in range(x.shape[1]))
        numbers = np.array(levels) == 0
        sd = np.where(numbers, np.std(x, 0, where=~missing), 1.0)
        scale = np.exp2(np.rint(np.log2(np.where(sd > 0, sd, 1.0))))  # powers of two: back to the very same numbers
        made = []
        for k in range(1 if name == "missforest" else DRAWS):
            filled = impute(x / scale, missing, 1000 * seed + k, traits.settings, levels=levels) * scale
            columns = [texts[i][filled[:, i].astype(int)] if i in texts else filled[:, i] for i in range(x.shape[1])]
            made.append(pd.DataFrame(dict(zip(holes.columns, columns, strict=True))))
        return made, time.process_time() - started

    return method


R_MICE = """
suppressMessages(library(mice))
kinds <- read.csv("kinds.csv", stringsAsFactors = FALSE)
d <- read.csv("holes.csv", check.names = FALSE, na.strings = "", colClasses = kinds$kind)
for (name in kinds$column[kinds$kind == "character"]) d[[name]] <- factor(d[[name]])
start <- proc.time()
imputed <- mice(d, m = DRAWS, seed = SEED, printFlag = FALSE METHOD)
spent <- proc.time() - start
for (i in 1:DRAWS) write.csv(complete(imputed, i), paste0("filled", i, ".csv"), row.names = FALSE, na = "")
writeLines(as.character(sum(spent[c(1, 2, 4, 5)])), "seconds")
"""


def _r(method: str) -> Method:
    def run(holes: pd.DataFrame, seed: int, settings: Mapping[str, Any]) -> Filled:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            text = [chained_mixed.is_text(holes[name]) for name in holes]
            kinds = pd.DataFrame({"column": holes.columns, "kind": np.where(text, "character", "numeric")})
            kinds.to_csv(folder / "kinds.csv", index=False)
            holes.to_csv(folder / "holes.csv", index=False, float_format="%.17g")
            how = f', method = "{method}"' if method else ""
            run_r(R_MICE.replace("DRAWS", str(DRAWS)).replace("SEED", str(seed)).replace("METHOD", how), folder)
            filled = [pd.read_csv(folder / f"filled{i + 1}.csv", dtype=str) for i in range(DRAWS)]
            for one in filled:
                one.columns = holes.columns
            return filled, float((folder / "seconds").read_text())

    return run


def run_r(program: str, folder: Path | None = None) -> None:
    """Run a program of R on one thread; RuntimeError with what it says where it fails."""
    done = subprocess.run(["Rscript", "-e", program], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Rscript: {done.stderr.strip()}")


@functools.cache
def has_r() -> bool:
    """Whether R is here with mice and the packages that it needs for categories and trees."""
    if shutil.which("Rscript") is None:
        return False
    ask = 'quit(status = !all(c("mice", "nnet", "rpart") %in% rownames(installed.packages())))'
    return subprocess.run(["Rscript", "-e", ask], capture_output=True, check=False).returncode == 0


METHODS: Mapping[str, Method] = {
    "marginal": marginal,
    "r-mice": _r(""),
    "r-cart": _r("cart"),
    "chained": _python("regressions"),
    "trees": _python("trees"),
    "mice": _imputer("mice"),
    "missforest": _imputer("missforest"),
    "miceforest": _imputer("miceforest"),
    "vgi": vgi,
}
NEED_R = ("r-mice", "r-cart")


# -- the results, kept -----------------------------------------------------------------------------------------------


def measure(table: Table, mechanism: str, method: str, seed: int, settings: Mapping[str, Any]) -> Scores:
    """Hide, impute, score."""
    digest = hashlib.blake2b(f"{table.name}/{mechanism}/{seed}".encode(), digest_size=8).digest()
    hidden = hide(table, mechanism, np.random.default_rng(int.from_bytes(digest, "little")))
    filled, spent = METHODS[method](table.frame(hidden), seed, settings)
    kept = ~hidden & ~np.isnan(table.codes)
    draws = np.stack([np.where(kept, table.codes, table.read(one)) for one in filled])
    return score(table, hidden, draws, spent)


class Cache:
    """Finished cells in a JSON file, which several processes may write in turn."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, dict[str, Any]]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def add(self, key: str, scores: Scores) -> None:
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            aside = self.path.with_suffix(".new")
            aside.write_text(json.dumps({**self.read(), key: asdict(scores)}, indent=0, sort_keys=True))
            aside.replace(self.path)


# -- the report ------------------------------------------------------------------------------------------------------

NAMES = ("crps", "log_score", "coverage", "mode_error", "sliced_wasserstein", "auc", "cpu_seconds")
RELATIVE = ("crps", "log_score", "mode_error", "sliced_wasserstein")
Cell = tuple[str, str, str]
"""Table, mechanism, method."""


def average(scores: Sequence[Scores]) -> dict[str, float]:
    """Means over seeds; a score that there is not is left out."""
    found = {name: [v for s in scores if (v := getattr(s, name)) is not None] for name in NAMES}
    return {name: float(np.mean(values)) for name, values in found.items() if values}


def report(cells: Mapping[Cell, Mapping[str, float]], methods: Sequence[str], reference: str) -> str:
    """Two Markdown tables: each cell, and by method what they come to."""
    lines = ["| table | hidden | method | CRPS | log score | coverage | mode | sliced W | AUC | CPU s |"]
    lines.append("|---|---|---|" + "---:|" * len(NAMES))
    for (table, mechanism, method), own in cells.items():
        shown = " | ".join(f"{own[name]:.3f}" if name in own else "" for name in NAMES)
        lines.append(f"| {table} | {mechanism} | {method} | {shown} |")
    lines += ["", f"Geometric means over tables and mechanisms, relative to {reference} (worst):", ""]
    lines.append("| method | CRPS | log score | mode | sliced W | coverage (least, most) | AUC | CPU s, median |")
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for method in methods:
        of = {cell[:2]: own for cell, own in cells.items() if cell[2] == method}
        if not of:
            continue
        shown = []
        for name in RELATIVE:
            pairs = [(own, cells.get((*key, reference), {})) for key, own in of.items()]
            ratios = [own[name] / of_it[name] for own, of_it in pairs if own.get(name) and of_it.get(name)]
            shown.append(f"{np.exp(np.mean(np.log(ratios))):.3f} ({max(ratios):.2f})" if ratios else "")
        coverage = [own["coverage"] for own in of.values() if "coverage" in own]
        inside = f"{np.mean(coverage):.3f} ({min(coverage):.3f}, {max(coverage):.3f})" if coverage else ""
        auc = np.mean([own["auc"] for own in of.values()])
        cpu = np.median([own["cpu_seconds"] for own in of.values()])
        lines.append(f"| {method} | {' | '.join(shown)} | {inside} | {auc:.3f} | {cpu:.1f} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure what is not there yet, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path, help="CSV or Parquet files, or nhanes2")
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help=", ".join(METHODS))
    parser.add_argument("--only", nargs="+", default=[], metavar="METHOD", help="measure these anew, the others not")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rows", type=int, default=MAX_ROWS, help="at most so many rows of each table")
    parser.add_argument("--cache", type=Path, default=Path("mixed-results.json"), help="file of finished cells")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of vgi, with --label")
    parser.add_argument("--label", default="vgi", help="the name of vgi with these settings")
    args = parser.parse_args(argv)
    said = dict(item.split("=", 1) for item in args.set)
    if bool(said) != (args.label != "vgi"):
        parser.error("--set and --label go together")
    methods = [*dict.fromkeys([*args.methods, *args.only, args.label])]
    methods = [m for m in methods if m != "vgi" or "vgi" in args.methods + args.only]
    for name in methods:
        if name not in METHODS and name != args.label:
            parser.error(f"unknown method '{name}': one of {', '.join(METHODS)}")
    if not has_r():
        print("no Rscript with mice and nnet: r-mice and r-cart are left out", file=sys.stderr)
        methods = [m for m in methods if m not in NEED_R]
    reference = "r-mice" if has_r() else "chained"

    cache, settings = Cache(args.cache), {"set": said} if said else {}
    wanted = args.only or ([args.label] if said else methods)
    cells: dict[Cell, list[Scores]] = {}
    failed: list[str] = []
    for path in args.tables:
        table = load(path, args.rows)
        for mechanism in args.mechanisms:
            for method in methods:
                for seed in args.seeds:
                    key = f"{table.name}/{len(table.codes)}/{mechanism}/{seed}/{method}"
                    known = cache.read().get(key)
                    if method in wanted and (known is None or method in (*args.only, args.label if said else "")):
                        own = method == args.label and said
                        try:
                            scores = measure(table, mechanism, "vgi" if own else method, seed, settings if own else {})
                        except (RuntimeError, ValueError) as error:
                            failed.append(f"{key}: {' '.join(str(error).split())}")
                            continue
                        cache.add(key, scores)
                        shown = " ".join(f"{name} {value:.3f}" for name, value in average([scores]).items())
                        print(f"{key}: {shown}", file=sys.stderr, flush=True)
                    elif known is None:
                        continue
                    else:
                        scores = Scores(**known)
                    cells.setdefault((table.name, mechanism, method), []).append(scores)
    print(report({cell: average(scores) for cell, scores in cells.items()}, methods, reference))
    if failed:
        print("\nFailed, and in no mean:", *failed, sep="\n\n")


if __name__ == "__main__":
    main()
