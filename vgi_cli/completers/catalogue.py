"""Imputers of whole tables by name: what `impute-then-fit` fills the holes with before a model is fitted.

Reading this table loads neither torch nor the packages that an imputer needs. Adding an imputer is adding its file and
one entry here. (The samplers of `vgi impute`, which draw from a fitted model, are in registry/names.py.)
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, NamedTuple

from vgi_cli.errors import UsageError, nearest

INSTALL = "pip install '.[baselines]' in a clone of vgi"


class ImputerEntry(NamedTuple):
    """An imputer by name: `module.attribute` fills a table (`TableImputer`, completers/base.py).

    settings  the settings `method.*` that it takes, with its defaults; it refuses all others
    single    whether it gives one imputation only, the same in every run
    package   the distribution that it needs and the module by which that is imported; none: nothing beside numpy
    """

    about: str
    module: str
    attribute: str
    settings: Mapping[str, int | None]
    single: bool
    package: tuple[str, str] | None
    example: str


IMPUTERS: Mapping[str, ImputerEntry] = {
    "empirical": ImputerEntry(
        "draws from the observed values of the cell's column",
        "vgi_cli.completers.marginals",
        "empirical",
        {"imputations": 5},
        False,
        None,
        "vgi fit data.csv --model fa --imputer empirical",
    ),
    "mean": ImputerEntry(
        "the mean of the observed values of the cell's column, once",
        "vgi_cli.completers.marginals",
        "mean",
        {"imputations": 1},
        True,
        None,
        "vgi fit data.csv --model fa --imputer mean",
    ),
    "mice": ImputerEntry(
        "chained equations, one draw of each Bayesian linear regression an imputation",
        "vgi_cli.completers.regressions",
        "mice",
        {"imputations": 5, "iterations": 10},
        False,
        None,
        "vgi fit data.csv --model fa --imputer mice --set method.iterations=50",
    ),
    "missforest": ImputerEntry(
        "chained random forests, their predictions (scikit-learn)",
        "vgi_cli.completers.iterative",
        "missforest",
        {"imputations": 5, "iterations": 10, "trees": 100, "depth": None},
        False,
        ("scikit-learn", "sklearn"),
        "vgi fit data.csv --model mixture --imputer missforest --set method.trees=20",
    ),
    "miceforest": ImputerEntry(
        "chained boosted trees with predictive mean matching (LightGBM)",
        "vgi_cli.completers.boosted",
        "miceforest",
        {"imputations": 5, "iterations": 5, "trees": 50, "depth": None, "neighbours": 5},
        False,
        ("LightGBM", "lightgbm"),
        "vgi fit data.csv --model mixture --imputer miceforest",
    ),
}


def imputer_entry(name: str) -> ImputerEntry:
    """The imputer of that name; UsageError with the nearest name otherwise."""
    if name not in IMPUTERS:
        raise UsageError(f"unknown imputer '{name}'", nearest(name, IMPUTERS))
    return IMPUTERS[name]


def lacking(name: str) -> str | None:
    """The distribution that the imputer needs and that is not installed here; none: it can run."""
    package = imputer_entry(name).package
    return package[0] if package is not None and importlib.util.find_spec(package[1]) is None else None


def load_imputer(name: str) -> Any:
    """The TableImputer of a name (imports what it needs)."""
    entry = imputer_entry(name)
    return getattr(importlib.import_module(entry.module), entry.attribute)
