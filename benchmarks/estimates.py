"""What would a paper say that analyses the imputed table? A simulated health survey, filled, analysed and pooled.

    python benchmarks/estimates.py OUT [--rows 500] [--repetitions 40] [--methods r-mice vgi] [--seed 100]
                                       [--share 0.3] [--set KEY=VALUE ... --label NAME]

Nine columns as surveys have them: age in whole years, sex, smoking (never, former, current), education (1 to 5), body
mass index (one decimal, skewed), systolic blood pressure (whole numbers; age acts on it more in women), doctor's visits
(counts, overdispersed), income (a sixth has none, else log-normal) and a disease that 13 % have. All relations are
regressions of the kind that are then fitted. Age and sex are complete; of each other column a share of the cells is
missing (of the disease two fifths of that), the more or the less often the older the person is, and if a man (MAR).
20 fills of each table.

35 estimates of each filled table are pooled by Rubin's rules: coefficients of a logistic regression of the disease,
linear ones of blood pressure (with age times sex), of log income among those with any and of education, a Poisson one
(standard errors scaled by Pearson's chi squared) of visits; shares and means; a correlation.

For each method and estimate (`--each`), and over all estimates:

bias      mean of the estimate less that of the complete table, in standard errors of the complete table; over all: the
          mean of its absolute value
rmse      root mean squared error against a million rows, in the same standard errors; over all: geometric mean
coverage  share of tables whose 95 % interval holds what a million rows give; over all: mean and least
se        standard error, in the same standard errors; over all: geometric mean

Methods: those of mixed.py. `complete`, the table before cells were hidden, is always there. Results are kept in OUT
table by table; what was stopped goes on. One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import statsmodels.api as sm
from mixed import METHODS

from vgi_cli.pooling.rubin import combine

TEXTS, DRAWS, TRUTH_ROWS = ("sex", "smoking", "disease"), 20, 1_000_000
HOLES = ("smoking", "education", "bmi", "pressure", "visits", "income", "disease")
Estimates = dict[str, tuple[float, float]]
"""By name a value and its squared standard error."""


def survey(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """A complete table."""
    age = np.clip(rng.gamma(9, 5.5, rows), 18, 95).round()
    man, u = rng.random(rows) < 0.48, (age - 50) / 15
    utility = np.stack([np.zeros(rows), 0.5 * u - 0.3, -0.6 * u + 0.2 * man - 0.4], 1) + rng.gumbel(size=(rows, 3))
    smoking = utility.argmax(1)
    current, former = smoking == 2, smoking == 1
    education = np.clip(np.floor(3 - 0.35 * u - 0.5 * current + 1.1 * rng.standard_normal(rows)), 1, 5)
    e = education - 3
    bmi = np.exp(np.log(26) + 0.03 * u - 0.05 * current - 0.02 * e + 0.15 * rng.standard_normal(rows)).round(1)
    b = bmi - 26
    noise = 13 * rng.standard_normal(rows)
    pressure = (125 + 7 * u + 1.1 * b + 3 * current + 4 * man + 4 * u * ~man + noise).round()
    visits = rng.poisson(np.exp(0.3 + 0.25 * u + 0.4 * current + 0.03 * b) * rng.gamma(2, 0.5, rows))
    earned = np.exp(3.2 + 0.25 * e - 0.1 * u + 0.6 * rng.standard_normal(rows)).round(1)
    income = np.where(rng.random(rows) < 0.15, 0, earned)
    score = -2.9 + 0.7 * u + 0.8 * current + 0.3 * former + 0.03 * (pressure - 125) - 0.15 * e
    disease = rng.random(rows) < 1 / (1 + np.exp(-score))
    return pd.DataFrame(
        {
            "age": age,
            "sex": np.where(man, "m", "f"),
            "smoking": np.array(["never", "former", "current"])[smoking],
            "education": education,
            "bmi": bmi,
            "pressure": pressure,
            "visits": visits.astype(float),
            "income": income,
            "disease": np.where(disease, "yes", "no"),
        }
    ).astype(dict.fromkeys(TEXTS, object))


def with_holes(table: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """The table with cells hidden."""
    table = table.copy()
    drive = 0.8 * (table.age - 50) / 15 + 0.6 * (table.sex == "m")
    for place, name in enumerate(HOLES):
        of = share * (0.4 if name == "disease" else 1)
        logit = np.log(of / (1 - of)) + (drive - drive.mean()) * (1 if place % 2 else -1)
        hidden = rng.random(len(table)) < 1 / (1 + np.exp(-logit))
        table.loc[hidden, name] = None if name in TEXTS else np.nan
    return table


def analyses(table: pd.DataFrame) -> Estimates:
    """The estimates of a table without holes."""
    t = table.astype({name: float for name in table if name not in TEXTS})
    t = t.assign(
        u=(t.age - 50) / 15, b=t.bmi - 26, woman=(t.sex == "f") * 1.0, sick=(t.disease == "yes") * 1.0,
        current=(t.smoking == "current") * 1.0, former=(t.smoking == "former") * 1.0, p=(t.pressure - 125) / 10,
    )  # fmt: skip
    t["u_woman"] = t.u * t.woman
    earning = t[t.income > 0].assign(log_income=lambda s: np.log(s.income))
    out: Estimates = {}

    def add(name: str, model: Any, **how: Any) -> None:
        fit = model.fit(**how)
        out.update({f"{name}: {of}": (float(fit.params[of]), float(fit.bse[of]) ** 2) for of in fit.params.index})

    def on(rows: pd.DataFrame, *names: str) -> pd.DataFrame:
        return sm.add_constant(rows[list(names)])

    add("disease", sm.Logit(t.sick, on(t, "u", "woman", "current", "former", "p", "education")), disp=0)
    add("pressure", sm.OLS(t.pressure, on(t, "u", "woman", "u_woman", "b", "current")))
    add("visits", sm.GLM(t.visits, on(t, "u", "current", "b"), family=sm.families.Poisson()), scale="X2")
    add("log income", sm.OLS(earning.log_income, on(earning, "u", "education")))
    add("education", sm.OLS(t.education, on(t, "u", "current", "former")))
    means = {
        "current": t.current, "former": t.former, "no income": (t.income == 0) * 1.0, "bmi over 30": (t.bmi > 30) * 1.0,
        "pressure": t.pressure, "visits": t.visits, "income": t.income, "disease": t.sick,
        "education 1": (t.education == 1) * 1.0, "no visits": (t.visits == 0) * 1.0,
    }  # fmt: skip
    out.update({f"mean: {name}": (float(of.mean()), float(of.var()) / len(t)) for name, of in means.items()})
    r = float(np.corrcoef(t.pressure, t.bmi)[0, 1])
    out["correlation: pressure, bmi"] = r, (1 - r * r) ** 2 / len(t)
    return out


def pooled(tables: Sequence[pd.DataFrame]) -> dict[str, tuple[float, float]]:
    """By name the estimate and its standard error (Rubin 1987)."""
    found = [analyses(table) for table in tables]
    values, squares = np.array([list(one.values()) for one in found]).transpose(2, 0, 1)
    total = combine(values, squares).total if len(found) > 1 else squares[0]
    return dict(zip(found[0], zip(values.mean(0).tolist(), np.sqrt(total).tolist(), strict=True), strict=True))


class Results:
    """Of one method, table by table, kept in a file: of each estimate its value and standard error."""

    def __init__(self, out: Path, name: str) -> None:
        self.path = out / f"{name}.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.tables: list[dict[str, tuple[float, float]]] = []
        self.seconds: list[float] = []
        for line in lines:
            self._take(json.loads(line))

    def _take(self, entry: Mapping[str, Any]) -> None:
        self.tables.append({name: tuple(pair) for name, pair in entry["estimates"].items()})
        self.seconds.append(entry["seconds"])

    def add(self, estimates: Mapping[str, tuple[float, float]], seconds: float) -> None:
        entry = {"estimates": dict(estimates), "seconds": seconds}
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        self._take(entry)

    def values(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """[tables] each: values, standard errors."""
        value, error = np.array([table[name] for table in self.tables]).T
        return value, error


def scores(of: Results, complete: Results, truth: Mapping[str, float]) -> dict[str, tuple[float, float, float, float]]:
    """By estimate: bias, rmse, coverage, se."""
    out = {}
    for name, true in truth.items():
        value, error = of.values(name)
        whole, unit = complete.values(name)
        scale = float(unit.mean())
        against = true if of is complete else whole
        rmse = float(np.sqrt(np.mean((value - true) ** 2))) / scale
        held = float(np.mean(np.abs(value - true) < 1.96 * error))
        out[name] = float(np.mean(value - against)) / scale, rmse, held, float(error.mean()) / scale
    return out


def geometric(values: np.ndarray) -> float:
    return float(np.exp(np.mean(np.log(values))))


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure what is not there yet, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the results, one for each size, share and seed")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--methods", nargs="+", default=["r-mice", "vgi"], help=", ".join(METHODS))
    parser.add_argument("--seed", type=int, default=100, help="of the first table")
    parser.add_argument("--share", type=float, default=0.3, help="of the cells that are missing")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of vgi, with --label")
    parser.add_argument("--label", help="the name of vgi with these settings")
    parser.add_argument("--each", action="store_true", help="print every estimate")
    args = parser.parse_args(argv)
    if bool(args.set) != bool(args.label):
        parser.error("--set and --label go together")
    warnings.simplefilter("ignore")  # of regressions in few rows
    out = args.out / f"{args.rows}-{args.share}-{args.seed}"
    out.mkdir(parents=True, exist_ok=True)
    truth = {name: value for name, (value, _) in analyses(survey(TRUTH_ROWS, np.random.default_rng(0))).items()}
    names = ["complete", *args.methods, *([args.label] if args.label else [])]
    results = {name: Results(out, name) for name in names}
    for repetition in range(args.repetitions):
        seed = args.seed + repetition
        table = survey(args.rows, np.random.default_rng([seed, 0]))
        for name, of in results.items():
            if len(of.tables) > repetition:
                continue
            if name == "complete":
                of.add(pooled([table]), 0.0)
                continue
            holes = with_holes(table, args.share, np.random.default_rng([seed, 1]))
            said = {"set": dict(item.split("=", 1) for item in args.set)} if name == args.label else {}
            filled, seconds = METHODS["vgi" if name == args.label else name](holes, seed, said)
            of.add(pooled(list(filled)), seconds)
    for of in results.values():
        del of.tables[args.repetitions :], of.seconds[args.repetitions :]
    found = {name: scores(of, results["complete"], truth) for name, of in results.items()}
    print(f"{args.rows} rows, {args.share:.0%} missing, {args.repetitions} tables from seed {args.seed}")
    if args.each:
        print("| estimate | truth |" + "".join(f" {name}: bias, rmse, coverage, se |" for name in names))
        print("|---|---:|" + "---|" * len(names))
        for name, true in truth.items():
            cells = (", ".join(f"{v:.2f}" for v in found[method][name]) for method in names)
            print(f"| {name} | {true:.3f} | " + " | ".join(cells) + " |")
    print("| method | bias | rmse | coverage (least) | se | CPU s |\n|---|---:|---:|---|---:|---:|")
    for name in names:
        bias, rmse, held, se = np.array(list(found[name].values())).T
        print(
            f"| {name} | {np.abs(bias).mean():.3f} | {geometric(rmse):.3f} | {held.mean():.3f} ({held.min():.2f}) | "
            f"{geometric(se):.3f} | {np.median(results[name].seconds):.1f} |"
        )


if __name__ == "__main__":
    main()
