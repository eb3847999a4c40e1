"""Do usual analyses of filled tables say what those of the whole tables say, and closer than by R's mice?

    python benchmarks/analyses.py [--laws logistic interaction …] [--rows 300] [--tables 20] [--first 0] [--methods …]

logistic     a rare outcome (a tenth of the rows) on two numbers and a sex; all four have holes
interaction  y on x, where the slope of one sex is 0.9 and that of the other −0.2; holes in x and y
dropout      four visits with slopes of their own; who is high leaves, and stays away; the last visit on the first and
             the arm
patients     a trial of two arms with five visits; half of the patients leave, the more often the higher the value that
             was seen last; the last visit on the first and the arm (of few patients: --rows 80)
clinics      twenty clinics of different means: the variance of these, and a slope; holes in x and y
items        six items of five points: the mean of their sum, Cronbach's alpha, and a slope on the sum; holes in the
             items
filters      cigarettes a day are asked of smokers alone, and answered by nine in ten; holes in who smokes and in a
             pressure: the share of smokers, and the pressure on smoking and age
confounder   a treatment that three levels decide upon as they do upon y; six in ten levels are missing, the more often
             the higher y is: the effects of the treatment and of the levels on y
survival     censored times: an exponential regression on x and a treatment; holes in x, more often where times are long
did          differences in differences: y on two groups in two periods, whose product is -2, and x; a third of y is
             missing, more often of one group and of high x
parallel     the same without a product
slopes       y on x with a slope of 0.1 or 0.6, as a group says, and w; holes in x and y
regions      the same of four groups, with slopes of 0.1, 0.3, 0.6 and 0.4
alike        the same of two groups with a slope of 0.4 both
stones       the logarithm of a price on that of a weight and three columns of five, seven and eight levels, which
             decide upon the weight too; holes in both numbers and in two of the columns
response     a trial of two arms: whether a patient responds, on arm, three grades of severity, and age; a third of the
             responses are missing
arms         a trial of two arms: ten items that correlate by 0.7, and four rows in ten lack them all; what the arm does
             to their sum, and to one of them
exposure     a disease on an exposure, three grades that decide upon both, and a sex; all four have holes
files        two files, one under the other, that share three columns: of y and z, which have nothing to do with each
             other given these, each is in one file alone: z on y and x
answers      two files that share two numbers: a number and a yes or no are in one, an answer of three levels is in the
             other, and given the shared ones they have nothing to do with each other: either on the answer
analytes     45 analytes of three factors, of which a third of the cells are missing, and cases and controls, which
             differ by 1 and -1 in two of them: these differences (few rows: --rows 80)

Holes are at random given a complete column (20 to 35 %), with a logistic chance. Defaults of `vgi fit`, and of mice
(`r-mice`; it needs Rscript with the package mice), 20 filled tables each, pooled by Rubin's rules. For each estimate:
the pooled one less that of the whole table, in pooled standard errors, its mean over the tables with the standard error
of that, and its root mean square.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from mixed import run_r

import vgi_cli

M = 20
Estimates = tuple[np.ndarray, np.ndarray]
"""Of one table: estimates, and their variances."""


class Study(NamedTuple):
    """A whole table, where its holes are, what is estimated, and how."""

    whole: pd.DataFrame
    hidden: pd.DataFrame
    names: tuple[str, ...]
    estimate: Callable[[pd.DataFrame], Estimates]


def logistic(rows: int, rng: np.random.Generator) -> Study:
    """Of a rare outcome."""
    x, sex = rng.normal(size=(2, rows)), rng.random(rows) < 0.5
    z = 0.5 * x[0] + x[1]
    y = rng.random(rows) < 1 / (1 + np.exp(2.8 - 0.8 * x[0] + 0.5 * z - 0.7 * sex))
    age = (50 + 10 * rng.normal(size=rows)).round()
    whole = pd.DataFrame({"x": x[0].round(2), "z": z.round(2), "sex": words(sex, "m", "f"), "y": words(y, "yes", "no")})

    def estimate(table: pd.DataFrame) -> Estimates:
        return poisson_or_logistic(table.y == "yes", [table.x, table.z, table.sex == "m"])

    hidden = holes(["x", "z", "sex", "y"], age, 0.2, rng)
    return Study(whole.assign(age=age), hidden, ("intercept", "x", "z", "sex"), estimate)


def interaction(rows: int, rng: np.random.Generator) -> Study:
    """A slope that depends on a level."""
    x, sex, age = rng.normal(size=rows), rng.random(rows) < 0.5, rng.normal(size=rows)
    y = np.where(sex, 0.9, -0.2) * x + 0.6 * rng.normal(size=rows)
    whole = pd.DataFrame({"x": x.round(2), "sex": words(sex, "m", "f"), "y": y.round(2), "age": age.round(2)})

    def estimate(table: pd.DataFrame) -> Estimates:
        male = table.sex == "m"
        return least_squares(table.y, [table.x, male, table.x * male])

    return Study(whole, holes(["x", "y"], age, 0.25, rng), ("intercept", "x", "sex", "x × sex"), estimate)


def dropout(rows: int, rng: np.random.Generator) -> Study:
    """Visits of which the first holes are the last."""
    level, slope, arm = rng.normal(size=rows), rng.normal(0.3, 0.3, rows), rng.random(rows) < 0.5
    y = level[:, None] + (slope - 0.25 * arm)[:, None] * np.arange(4) + rng.normal(0, 0.5, (rows, 4))
    whole = pd.DataFrame(y.round(2), columns=["y1", "y2", "y3", "y4"]).assign(arm=words(arm, "a", "b"))
    hidden, gone = {}, np.zeros(rows, bool)
    for visit in range(1, 4):
        gone = gone | (rng.random(rows) < 1 / (1 + np.exp(1.8 - 0.8 * y[:, visit - 1])))
        hidden[f"y{visit + 1}"] = gone

    def estimate(table: pd.DataFrame) -> Estimates:
        return least_squares(table.y4, [table.y1, table.arm == "a"])

    return Study(whole, pd.DataFrame(hidden), ("intercept", "first visit", "arm"), estimate)


def patients(rows: int, rng: np.random.Generator) -> Study:
    """As `dropout`, with an effect that grows, and columns that say nothing."""
    arm, sex, age = rng.random(rows) < 0.5, rng.random(rows) < 0.5, rng.integers(20, 80, rows)
    level, slope = rng.normal(50, 8, rows), rng.normal(0, 1.5, rows) - 2 * arm
    y = level[:, None] + slope[:, None] * np.arange(5) + rng.normal(0, 4, (rows, 5))
    names = [f"y{visit}" for visit in range(5)]
    whole = pd.DataFrame(y.round(1), columns=names)
    whole = whole.assign(arm=words(arm, "active", "placebo"), sex=words(sex, "f", "m"), age=age)
    hidden, gone = {}, np.zeros(rows, bool)
    for visit in range(1, 5):
        gone = gone | (rng.random(rows) < 1 / (1 + np.exp(1.6 - 0.12 * (y[:, visit - 1] - 50))))
        hidden[names[visit]] = gone

    def estimate(table: pd.DataFrame) -> Estimates:
        return least_squares(table.y4, [table.y0, table.arm == "active"])

    return Study(whole, pd.DataFrame(hidden), ("intercept", "first visit", "arm"), estimate)


def clinics(rows: int, rng: np.random.Generator) -> Study:
    """Twenty levels that each have a mean of their own."""
    clinic, effect, x = rng.integers(0, 20, rows), rng.normal(0, 0.7, 20), rng.normal(size=rows)
    y = effect[clinic] + 0.5 * x + rng.normal(size=rows)
    whole = pd.DataFrame({"clinic": [f"c{i:02d}" for i in clinic], "x": x.round(2), "y": y.round(2)})

    def estimate(table: pd.DataFrame) -> Estimates:
        between = table.groupby("clinic").y.mean().var()
        slopes, variances = least_squares(table.y, [table.x])
        return np.array([between, slopes[1]]), np.array([2 * between**2 / 19, variances[1]])

    return Study(whole, holes(["x", "y"], rng.normal(size=rows), 0.25, rng), ("variance of means", "x"), estimate)


def items(rows: int, rng: np.random.Generator) -> Study:
    """A scale of several items."""
    z = rng.normal(size=rows)
    points = np.clip(np.rint(3 + 0.8 * z[:, None] + 0.8 * rng.normal(size=(rows, 6))), 1, 5).astype(int)
    w, names = (0.5 * z + rng.normal(size=rows)).round(2), [f"q{i}" for i in range(6)]

    def estimate(table: pd.DataFrame) -> Estimates:
        held = table[names].to_numpy(float)
        total = held.sum(1)
        alpha = 6 / 5 * (1 - held.var(0, ddof=1).sum() / total.var(ddof=1))
        slopes, variances = least_squares(table.w, [total])
        found = np.array([total.mean(), alpha, slopes[1]])
        return found, np.array([total.var() / rows, 12 * (1 - alpha) ** 2 / (5 * rows), variances[1]])

    hidden = holes(names, w, 0.2, rng)
    return Study(pd.DataFrame(points, columns=names).assign(w=w), hidden, ("mean of sum", "alpha", "slope"), estimate)


def filters(rows: int, rng: np.random.Generator) -> Study:
    """A question that is not asked of all."""
    age, smokes = (50 + 12 * rng.normal(size=rows)).round(), rng.random(rows) < 0.35
    pressure = (120 + 10 * smokes + 0.4 * (age - 50) + 15 * rng.normal(size=rows)).round()
    cigarettes = np.where(smokes & (rng.random(rows) < 0.9), 1 + rng.poisson(11, rows), np.nan)
    whole = pd.DataFrame({"age": age, "smokes": words(smokes, "yes", "no"), "cigarettes": cigarettes})

    def estimate(table: pd.DataFrame) -> Estimates:
        some = table.smokes == "yes"
        slopes, variances = least_squares(table.pressure, [some, table.age])
        share = some.mean()
        return np.r_[share, slopes[1:]], np.r_[share * (1 - share) / rows, variances[1:]]

    hidden = holes(["smokes", "pressure"], age, 0.3, rng)
    return Study(whole.assign(pressure=pressure), hidden, ("share of smokers", "smoking", "age"), estimate)


def confounder(rows: int, rng: np.random.Generator) -> Study:
    """A cause of the treatment and of the outcome that is hidden by the outcome."""
    level = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    treated = rng.random(rows) < np.array([0.2, 0.5, 0.8])[level]
    y = (treated + np.array([0.0, 1.0, 2.5])[level] + 1.2 * rng.normal(size=rows)).round(2)
    severity = np.array(["low", "middle", "high"])[level]
    whole = pd.DataFrame({"y": y, "treated": words(treated, "yes", "no"), "severity": severity})

    def estimate(table: pd.DataFrame) -> Estimates:
        some = [table.treated == "yes", table.severity == "middle", table.severity == "high"]
        found, variances = least_squares(table.y, some)
        return found[1:], variances[1:]

    hidden = pd.DataFrame({"severity": rng.random(rows) < 1 / (1 + np.exp(0.9 - 0.9 * y))})
    return Study(whole, hidden, ("treatment", "middle", "high"), estimate)


def survival(rows: int, rng: np.random.Generator) -> Study:
    """Times to an event, some of them censored."""
    x, treated = rng.normal(size=rows), rng.random(rows) < 0.5
    event = 5 * rng.weibull(1.3, rows) * np.exp(-(0.6 * x - 0.4 * treated) / 1.3)
    censored = rng.uniform(1, 10, rows)
    time = np.minimum(event, censored).round(2) + 0.01
    whole = pd.DataFrame({"time": time, "event": (event <= censored).astype(int), "x": x.round(2)})

    def estimate(table: pd.DataFrame) -> Estimates:
        return poisson_or_logistic(table.event, [table.x, table.arm == "a"], np.log(table.time.to_numpy(float)))

    hidden = holes(["x"], pd.Series(time).rank().to_numpy(), 0.35, rng)
    return Study(whole.assign(arm=words(treated, "a", "b")), hidden, ("intercept", "x", "arm"), estimate)


def did(rows: int, rng: np.random.Generator, product: float = -2.0) -> Study:
    """An effect that is there in one group and one period."""
    group, period, x = rng.random(rows) < 0.5, rng.random(rows) < 0.5, rng.normal(size=rows)
    y = 10 + group + 1.5 * period + product * (group & period) + x + 1.5 * rng.normal(size=rows)
    names = {"group": words(group, "treated", "control"), "period": words(period, "after", "before")}

    def estimate(table: pd.DataFrame) -> Estimates:
        treated, after = table.group == "treated", table.period == "after"
        return least_squares(table.y, [treated, after, treated & after, table.x])

    hidden = holes(["y"], group + 0.8 * x, 0.35, rng)
    return Study(
        pd.DataFrame({**names, "x": x.round(3), "y": y.round(3)}),
        hidden,
        ("intercept", "group", "period", "group × period", "x"),
        estimate,
    )


def parallel(rows: int, rng: np.random.Generator) -> Study:
    """Groups between which each period has the same difference."""
    return did(rows, rng, 0.0)


def slopes(rows: int, rng: np.random.Generator, slope: tuple[float, ...] = (0.1, 0.6)) -> Study:
    """Slopes that depend on a group."""
    group = rng.integers(0, len(slope), rows)
    x, age = rng.normal(size=(2, rows))
    w = 0.4 * x + 0.8 * rng.normal(size=rows)
    y = np.array(slope)[group] * x + 0.3 * w + 0.8 * rng.normal(size=rows)
    whole = pd.DataFrame({"x": x, "w": w, "y": y, "age": age}).round(2)
    names = "abcd"[: len(slope)]
    whole = whole.assign(group=np.array(list(names))[group], arm=words(rng.random(rows) < 0.5, "p", "q"))

    def estimate(table: pd.DataFrame) -> Estimates:
        others = [(table.group == name).astype(float) for name in names[1:]]
        return least_squares(table.y, [table.x, *others, *(table.x * other for other in others), table.w])

    terms = ("intercept", "x", *names[1:], *(f"x × {name}" for name in names[1:]), "w")
    return Study(whole, holes(["x", "y"], age, 0.25, rng), terms, estimate)


def regions(rows: int, rng: np.random.Generator) -> Study:
    """Of four groups."""
    return slopes(rows, rng, (0.1, 0.3, 0.6, 0.4))


def alike(rows: int, rng: np.random.Generator) -> Study:
    """That do not."""
    return slopes(rows, rng, (0.4, 0.4))


def stones(rows: int, rng: np.random.Generator) -> Study:
    """Of many levels."""
    cut, colour, clarity = (rng.integers(0, levels, rows) for levels in (5, 7, 8))
    weight = np.exp(-0.4 + 0.06 * colour - 0.08 * clarity + 0.45 * rng.normal(size=rows))
    price = np.exp(
        7.9 + 1.8 * np.log(weight) + 0.03 * cut - 0.09 * colour + 0.12 * clarity + 0.13 * rng.normal(size=rows)
    )
    table = (57 + 2 * rng.normal(size=rows)).round(1)
    whole = pd.DataFrame({"weight": weight.round(2), "table": table, "price": price.round()})
    named = {"cut": cut, "colour": colour, "clarity": clarity}
    whole = whole.assign(**{name: np.array([f"{name} {i}" for i in range(8)])[c] for name, c in named.items()})

    def estimate(filled: pd.DataFrame) -> Estimates:
        levels = [
            (filled[name] == f"{name} {i}").astype(float)
            for name, count in (("cut", 5), ("colour", 7), ("clarity", 8))
            for i in range(1, count)
        ]
        found, variances = least_squares(np.log(filled.price), [np.log(filled.weight), *levels])
        kept = [1, 5, 11, 18]  # the last level of each
        return found[kept], variances[kept]

    hidden = holes(["weight", "price", "cut", "colour"], table, 0.3, rng)
    return Study(whole, hidden, ("log weight", "cut 4", "colour 6", "clarity 7"), estimate)


def response(rows: int, rng: np.random.Generator) -> Study:
    """Levels alone decide upon a level."""
    arm, grade = rng.random(rows) < 0.5, rng.choice(3, rows, p=[0.4, 0.35, 0.25])
    age = (55 + 11 * rng.normal(size=rows)).round()
    y = rng.random(rows) < 1 / (1 + np.exp(-(0.2 + 0.7 * arm - np.array([0.0, 0.4, 1.2])[grade])))
    whole = pd.DataFrame({"arm": words(arm, "new", "usual"), "grade": np.array(["mild", "moderate", "severe"])[grade]})
    whole = whole.assign(age=age, response=words(y, "yes", "no"))

    def estimate(table: pd.DataFrame) -> Estimates:
        grades = [table.grade == "moderate", table.grade == "severe"]
        return poisson_or_logistic(table.response == "yes", [table.arm == "new", *grades, table.age])

    names = ("intercept", "arm", "moderate", "severe", "age")
    return Study(whole, holes(["response"], age, 0.35, rng), names, estimate)


def arms(rows: int, rng: np.random.Generator) -> Study:
    """A level that shifts many numbers alike, which are missing together."""
    arm, age = rng.random(rows) < 0.4, (50 + 12 * rng.normal(size=rows)).round()
    z = 0.6 * arm + rng.normal(size=rows)
    items = (np.sqrt(0.7) * z[:, None] + np.sqrt(0.3) * rng.normal(size=(rows, 10))).round(2)
    names = [f"q{i}" for i in range(10)]
    whole = pd.DataFrame(items, columns=names).assign(arm=words(arm, "new", "usual"), age=age)

    def estimate(table: pd.DataFrame) -> Estimates:
        new = table.arm == "new"
        both = [least_squares(y, [new]) for y in (table[names].sum(axis=1), table.q0)]
        return tuple(np.array([one[i][1] for one in both]) for i in range(2))

    hidden = holes(["all"], age, 0.4, rng)["all"]
    return Study(whole, pd.DataFrame(dict.fromkeys(names, hidden)), ("arm, sum", "arm, an item"), estimate)


def exposure(rows: int, rng: np.random.Generator) -> Study:
    """Levels that confound the effect of a level on a level."""
    grade, sex = rng.choice(3, rows, p=[0.5, 0.3, 0.2]), rng.random(rows) < 0.5
    exposed = rng.random(rows) < 1 / (1 + np.exp(0.6 - np.array([0.0, 0.6, 1.1])[grade] + 0.4 * sex))
    ill = rng.random(rows) < 1 / (1 + np.exp(1.2 - 0.6 * exposed - np.array([0.0, 0.5, 1.0])[grade] - 0.4 * sex))
    age = (45 + 12 * rng.normal(size=rows)).round()
    whole = pd.DataFrame({"ill": words(ill, "yes", "no"), "exposed": words(exposed, "yes", "no")})
    whole = whole.assign(grade=np.array(["a", "b", "c"])[grade], sex=words(sex, "m", "f"), age=age)

    def estimate(table: pd.DataFrame) -> Estimates:
        levels = [table.exposed == "yes", table.grade == "b", table.grade == "c", table.sex == "m"]
        return poisson_or_logistic(table.ill == "yes", levels)

    hidden = holes(["ill", "exposed", "grade", "sex"], age, 0.2, rng)
    return Study(whole, hidden, ("intercept", "exposed", "b", "c", "sex"), estimate)


def files(rows: int, rng: np.random.Generator) -> Study:
    """No row has both y and z."""
    x1, sex = rng.normal(size=rows), rng.random(rows) < 0.5
    x2 = 0.4 * x1 + 0.9 * rng.normal(size=rows)
    y = 10 + 3 * (0.8 * x1 + 0.3 * sex + 0.6 * rng.normal(size=rows))
    z = 50 + 8 * (0.6 * x1 + 0.5 * x2 + 0.6 * rng.normal(size=rows))
    whole = pd.DataFrame({"sex": words(sex, "m", "f"), "x1": x1.round(2), "x2": x2.round(2)})
    whole = whole.assign(y=y.round(1), z=z.round(1))

    def estimate(table: pd.DataFrame) -> Estimates:
        return least_squares(table.z / 8, [table.y / 3, table.x1, table.x2])

    first = np.arange(rows) < rows // 2
    return Study(whole, pd.DataFrame({"y": ~first, "z": first}), ("intercept", "y", "x1", "x2"), estimate)


def answers(rows: int, rng: np.random.Generator) -> Study:
    """No row has y or v, and z."""
    x, w = rng.normal(size=(2, rows))
    y = 0.8 * x + 0.6 * rng.normal(size=rows)
    z = np.array(["a", "b", "c"])[np.digitize(0.9 * x + 0.5 * w + 0.7 * rng.normal(size=rows), [-0.6, 0.6])]
    v = words(0.8 * x + rng.normal(size=rows) > 0, "q", "p")
    whole = pd.DataFrame({"x": x.round(2), "w": w.round(2), "y": y.round(2), "z": z, "v": v})

    def estimate(table: pd.DataFrame) -> Estimates:
        columns = [table.x, table.w, table.z == "b", table.z == "c"]
        of_y, of_v = least_squares(table.y, columns), poisson_or_logistic(table.v == "q", columns)
        return np.append(of_y[0][3:], of_v[0][3:]), np.append(of_y[1][3:], of_v[1][3:])

    first = np.arange(rows) < rows // 2
    return Study(
        whole, pd.DataFrame({"z": first, "y": ~first, "v": ~first}), ("y on b", "y on c", "v on b", "v on c"), estimate
    )


def analytes(rows: int, rng: np.random.Generator) -> Study:
    """A group beside many more numbers than rows determine."""
    case = rng.random(rows) < 0.5
    y = 0.4 * rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 45)) + 0.8 * rng.normal(size=(rows, 45))
    y[:, 0] += case
    y[:, 1] -= case
    names = [f"a{number}" for number in range(45)]
    whole = pd.DataFrame(y.round(3), columns=names)
    whole.insert(0, "group", words(case, "case", "control"))

    def estimate(table: pd.DataFrame) -> Estimates:
        found = [least_squares(table[name], [table.group == "case"]) for name in names[:2]]
        return np.array([one[0][1] for one in found]), np.array([one[1][1] for one in found])

    missing = pd.DataFrame(rng.random((rows, 45)) < 1 / 3, columns=names)
    return Study(whole, missing, ("a0 on case", "a1 on case"), estimate)


EFFECTS = logistic, interaction, confounder, did, parallel, slopes, regions, alike, stones, response, arms, exposure
DESIGNS = dropout, patients, clinics, items, filters, survival, files, answers, analytes
LAWS = {law.__name__: law for law in (*EFFECTS, *DESIGNS)}


def words(which: np.ndarray, yes: str, no: str) -> np.ndarray:
    """[rows] a word for each truth value."""
    return np.where(which, yes, no)


def holes(names: list[str], by: np.ndarray, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Where cells of some columns are hidden: the more often, the greater a number of the row is."""
    effect = np.log(share / (1 - share)) + 0.8 * (by - by.mean()) / by.std()
    return pd.DataFrame({name: rng.random(len(by)) < 1 / (1 + np.exp(-effect)) for name in names})


def least_squares(y: pd.Series, columns: list[pd.Series | np.ndarray]) -> Estimates:
    """Coefficients of a linear regression and their variances."""
    x, target = np.column_stack([np.ones(len(y)), *columns]).astype(float), y.to_numpy(float)
    inverse = np.linalg.inv(x.T @ x)
    found = inverse @ x.T @ target
    return found, np.diag(inverse) * np.square(target - x @ found).sum() / (len(y) - x.shape[1])


def poisson_or_logistic(
    y: pd.Series, columns: list[pd.Series | np.ndarray], offset: np.ndarray | None = None
) -> Estimates:
    """The same of a logistic regression, or of a Poisson regression with an offset, by Newton's method."""
    x, target = np.column_stack([np.ones(len(y)), *columns]).astype(float), y.to_numpy(float)
    found = np.zeros(x.shape[1])
    for _ in range(50):
        mean = 1 / (1 + np.exp(-x @ found)) if offset is None else np.exp(x @ found + offset)
        information = (x * (mean * (1 - mean) if offset is None else mean)[:, None]).T @ x
        found = found + np.clip(np.linalg.solve(information, x.T @ (target - mean)), -2, 2)
    return found, np.diag(np.linalg.inv(information))


def vgi(table: pd.DataFrame, seed: int, folder: Path) -> list[pd.DataFrame]:
    """Filled by the defaults."""
    return vgi_cli.fit(table, out=folder / "run", seed=seed, threads=1).impute(m=M)


def r_mice(table: pd.DataFrame, seed: int, folder: Path) -> list[pd.DataFrame]:
    """Filled by R's mice with its defaults."""
    table.to_csv(folder / "holes.csv", index=False)
    run_r(
        "suppressMessages(library(mice)); "
        "d <- read.csv('holes.csv', na.strings = '', stringsAsFactors = TRUE); "
        f"f <- mice(d, m = {M}, printFlag = FALSE, seed = {seed}); "
        f"for (k in 1:{M}) write.csv(complete(f, k), sprintf('%d.csv', k), row.names = FALSE)",
        folder,
    )
    return [pd.read_csv(folder / f"{k}.csv") for k in range(1, M + 1)]


METHODS = {"vgi": vgi, "r-mice": r_mice}


def off(law: str, rows: int, seed: int, method: str) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the estimates, and by how many pooled standard errors each is off that of the whole table."""
    study = LAWS[law](rows, np.random.default_rng([seed, *map(ord, law)]))
    table = study.whole.copy()
    for name in study.hidden:
        table[name] = table[name].mask(study.hidden[name])
    with tempfile.TemporaryDirectory() as folder:
        filled = [study.estimate(one) for one in METHODS[method](table, seed, Path(folder))]
    estimates, variances = (np.stack(part) for part in zip(*filled, strict=True))
    pooled = variances.mean(0) + (1 + 1 / M) * estimates.var(0, ddof=1)
    return study.names, (estimates.mean(0) - study.estimate(study.whole)[0]) / np.sqrt(pooled)


def main() -> None:
    """Parse, measure, print a line for each estimate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", nargs="+", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--rows", type=int, default=300, help="of each table")
    parser.add_argument("--tables", type=int, default=20, help="of each law")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first table")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    args = parser.parse_args()
    heads = [f"{method}, {what}" for method in args.methods for what in ("off", "root mean square")]
    print(f"| law | estimate | {' | '.join(heads)} |\n|---|---|{'---:|' * len(heads)}", flush=True)
    for law in args.laws:
        found = {}
        for method in args.methods:
            tables = [off(law, args.rows, seed, method) for seed in range(args.first, args.first + args.tables)]
            names, found[method] = tables[0][0], np.stack([one for _, one in tables])
        for i, name in enumerate(names):
            cells = []
            for each in found.values():
                error = each[:, i].std(ddof=1) / np.sqrt(len(each))
                cells += [f"{each[:, i].mean():+.2f} ± {error:.2f}", f"{np.sqrt(np.square(each[:, i]).mean()):.2f}"]
            print(f"| {law} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
