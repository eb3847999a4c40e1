"""Hostile command lines, from a seed: options of the table of options with plausible and with hostile values."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.fuzz import runs
from tests.fuzz.inputs import MIXTURE, Input
from tests.fuzz.tables import csv_case, parquet_case
from vgi_cli.cli.commands import COMMANDS
from vgi_cli.settings.options import ConsoleOptions, Field, fields_of

HOSTILE = (
    *("", " ", "0", "-1", "1.5", "1e400", "nan", "inf", "-inf", "9" * 40, "1" + "0" * 12, "0x10", "1_000", "٣", "½"),
    *("x" * 5000, "\x07\x1b[31m", "a\nb", "a\tb", "\u202e", "\udcff", "💥", "é", "../x", "/dev/null/x", "~", "*"),
    *("--force", "-", "--", "=", "a=", "=a", "a=b=c", "a,b", ",", "[", "{", "'", '"', "%s", "{0}", "[red]x[/red]"),
    *("null", "none", "auto", "all", "true", "a", "b", "c", "zzz", "a:b", "a=integer", "b=carry", "1:2", "\\t", ";"),
)
FILES = ("t.csv", "t.parquet", "m.csv", "run", ".", "nowhere.csv", "odd.csv", "odd.parquet", "-", "run/schema.json")
PLAUSIBLE: dict[str, tuple[str, ...]] = {
    "mask": ("m.csv", "m.csv", *FILES),
    "na_values": ("-999", "a=3", "x", "0", "c=y"),
    "delimiter": (",", ";", "\\t", "|"),
    "decimal": (".", ","),
    "unseen": ("error", "missing", "carry"),
    "seed": ("0", "1", "-5", "9223372036854775807"),
    "device": ("cpu", "auto", "cuda", "cuda:9", "mps"),
    "threads": ("1", "2", "257"),
    "out": ("o.csv", "o.parquet", "o.csv.gz", "o.tsv", "o", "-", "t.csv", "run", ".", "new/o.csv", "o.xlsx", ""),
    "model": ("mixture", "fa", "auto", "flow", "mixtur"),
    "method": ("em", "vgi", "impute-then-fit", "mvae", "plmcmc"),
    "imputer": ("mean", "mice", "forest"),
    "recipe": ("toy-fa", "run/recipe.yaml", "r.yaml", *FILES),
    "set": (
        "model.components=2",
        "model.factors=1",
        "bootstrap=2",
        "table.transform=normal",
        "table.spikes=split",
        "optim.lr=0.1",
        "seed=1",
    ),
    "val": ("0.2", "t.csv", "0.999", "m.csv"),
    "holdout_cells": ("5%", "0.05", "50%", "0.6"),
    "select": ("loglik", "objective"),
    "score": ("cells", "loglik"),
    "epochs": ("1", "2"),
    "time_limit": ("1", "2s", "1m"),
    "id": ("a", "c", "nope"),
    "exclude": ("b", "c", "nope"),
    "columns": ("a=integer", "b=numeric", "c=ordinal:x,y,z", "c=categorical", "a=carry", "c=datetime", "d=boolean"),
    "weight": ("a", "d", "c", "nope"),
    "bounds": ("a=0:9", "all=observed", "b=none", "a=9:0", "c=0:1"),
    "unbounded": ("a", "all"),
    "blocks": ("a,b", "auto", "a,a", "a"),
    "compile": ("auto", "off"),
    "mechanism": ("mcar", "mar", "mnar"),
    "rate": ("0.3", "0.9", "1", "0.001"),
    "only": ("a", "b", "nope"),
    "report": ("p.html",),
    "m": ("1", "2", "0", "10001"),
    "format": ("files", "long", "single", "mids-csv"),
    "point": ("mean", "median", "mode"),
    "sampler": ("auto", "exact", "metropolis", "gibbs", "chains", "trees"),
    "uncertainty": ("auto", "bootstrap", "posterior", "none"),
    "delta": ("b=+0.5sd", "b=-3", "c=x:x1.5", "b=x2", "nope=1"),
    "truth": ("t.csv", "t.parquet", "odd.csv"),
    "truth_model": ("law.json", "run", "t.csv"),
    "per_row": ("rows.csv", "rows.parquet", "t.csv"),
    "samples": ("1", "10", "0"),
    "rows": ("all", "5", "1", "0"),
    "refit_epochs": ("0", "1"),
    "fail_if": ("loglik < -5", "loglik>1e9", "rows == 24", "nope < 1", "loglik <"),
    "n": ("1", "5", "0", "100000001"),
    "df_complete": ("57", "0", "-1"),
    "level": ("0.95", "0", "1"),
    "tests": ("a,b", "a", ""),
    "color": ("never", "auto", "always"),
    "plugins": ("t.csv", "nope.py"),
    "tensorboard": ("board",),
}
LAWS = (
    {"mean": [0, 1], "covariance": [[1, 0], [0, 1]], "columns": ["a", "b"]},
    {"weights": [0.5, 0.5], "means": [[0], [1]], "covariances": [[[1]], [[1]]], "columns": ["b"]},
)
LEFT_OUT = {"log_file", "debug", "dry_run", "objective", "conditionals"}
"""Options that are not drawn: a log is written whatever happens, `--debug` shows tracebacks, others are slow."""


def line(rng: Random, name: str) -> list[str]:
    """A command line of a command."""
    command = COMMANDS[name]
    fields = [f for f in fields_of(*command.tables, ConsoleOptions).values() if f.flags and f.name not in LEFT_OUT]
    words = name.split()
    for argument in command.arguments:
        for _ in range(rng.choice((1, 1, 1, 1, 2)) if argument.several else 1):
            if rng.random() < 0.97:
                words.append(_argument(rng, argument.name))
    if command.of_run and rng.random() < 0.97:
        words += ["--checkpoint", "run" if rng.random() < 0.93 else rng.choice((*FILES, *HOSTILE))]
    for one in rng.sample(fields, min(rng.choice((0, 1, 1, 2, 2, 3, 5)), len(fields))):
        for _ in range(rng.choice((1, 1, 2)) if one.repeated else 1):
            words += _option(rng, one)
    if rng.random() < 0.03:
        words.insert(rng.randrange(len(words) + 1), rng.choice(HOSTILE))
    return words + _ending(rng, name)


def _argument(rng: Random, name: str) -> str:
    hostile = rng.random() < 0.05
    match name:
        case "checkpoint" | "run":
            return rng.choice((*FILES, *HOSTILE)) if hostile else "run"
        case "name":
            return rng.choice(HOSTILE) if hostile else rng.choice(("toy-fa", "paper/gas", "run/recipe.yaml", "nope"))
        case "file":
            return rng.choice(HOSTILE) if hostile else rng.choice(("r.yaml", "run/recipe.yaml", "toy-fa", "t.csv"))
        case "estimates":
            return rng.choice((*FILES, *HOSTILE)) if hostile else "est.csv"
        case "shell":
            return rng.choice(("bash", "zsh", "fish", *HOSTILE))
    return rng.choice(HOSTILE) if hostile else rng.choice(("t.csv", "t.csv", "t.csv", "t.parquet", *FILES))


def _option(rng: Random, one: Field) -> list[str]:
    flag = rng.choice(one.flags)
    if one.typed[0] is bool:
        return [flag]
    if one.name == "set" and rng.random() < 0.4:
        return [flag, runs.item(rng)]
    known = PLAUSIBLE.get(one.name, ())
    value = rng.choice(known) if known and rng.random() < 0.75 else rng.choice(HOSTILE)
    return [f"{flag}={value}"] if flag.startswith("--") and rng.random() < 0.1 else [flag, value]


def _ending(rng: Random, name: str) -> list[str]:
    """What keeps a command short: words said last count."""
    match name:
        case "fit":
            return ["--dry-run"] if rng.random() < 0.6 else [*MIXTURE[:4], "--epochs", "2"]
        case "check":
            return ["--no-trial"]
        case "impute":
            return ["--dry-run"] if rng.random() < 0.4 else []
    return []


WEIGHTS = {
    "fit": 8,
    "impute": 8,
    "check": 4,
    "evaluate": 4,
    "hide": 3,
    "sample": 3,
    "score": 3,
    "finetune": 2,
    "pool": 4,
}
"""How often a command is drawn; others once."""


def line_input(seed: int) -> Input:
    """A command line and the files that it may name."""
    rng = Random(f"line {seed}")
    names = [name for name in COMMANDS if name != "report" or rng.random() < 0.2]
    name = rng.choices(names, [WEIGHTS.get(one, 1) for one in names])[0]
    words = line(rng, name)
    files: dict[str, bytes] = {}
    if any("odd.csv" in word for word in words):
        files["odd.csv"] = csv_case(rng.randrange(10**9)).data
    if any("odd.parquet" in word for word in words):
        files["odd.parquet"] = parquet_case(rng.randrange(10**9)).data
    if any("law.json" in word for word in words):
        files["law.json"] = law(rng)
    if any("r.yaml" in word for word in words):
        files["r.yaml"] = runs.recipe(rng, [b"model:\n  name: mixture\nseed: 3\n", b"", b"table:\n  id: [a]\n"])
    if name == "pool":
        files["est.csv"] = estimates(rng)
    return Input(f"line {seed}", [words], files, base=True)


def law(rng: Random) -> bytes:
    """What --truth-model takes, often damaged."""
    data = json.dumps(rng.choice(LAWS)).encode()
    draw = rng.random()
    if draw < 0.5:
        return runs.edit(rng, data)
    return rng.choice(runs.DAMAGES)(rng, data) if draw < 0.8 else data


def estimates(rng: Random) -> bytes:
    """What `vgi pool` takes, often damaged."""
    m, terms = rng.choice((1, 2, 3, 5)), rng.choice((["a"], ["a", "b"], ["a", "b", "(Intercept)"]))
    head = [rng.choice(("imputation", ".imp")), "term", "estimate", rng.choice(("std_error", "std.error", "se"))]
    rows: list[list[Any]] = []
    odd = ("", "x", "0", "-1", "inf", "1e308", "1e-320", "NA", "5e-324")
    for i in range(1, m + 1):
        for term in terms:
            row: list[Any] = [i, term, f"{rng.gauss(0, 1):.4g}", f"{rng.random():.4g}"]
            if rng.random() < 0.15:
                row[rng.randrange(4)] = rng.choice(odd)
            rows.append(row)
    if rng.random() < 0.3:
        head += [f"cov:{term}" for term in terms]
        for row in rows:
            row += [rng.choice((0, 0.1, *odd[:3])) for _ in terms]
    data = "\n".join(",".join(map(str, row)) for row in [head, *rows]).encode() + b"\n"
    return rng.choice(runs.DAMAGES)(rng, data) if rng.random() < 0.3 else data
