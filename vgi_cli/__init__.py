"""Fit statistical models on incomplete tables with variational Gibbs inference, and fill the holes with draws.

    import vgi_cli

    run = vgi_cli.fit("data.csv")              # or a pandas DataFrame
    tables = run.impute(m=20)                  # completed DataFrames
    report = run.evaluate("test.csv")
    vgi_cli.report(run, out="report.html")     # what the fit did, in pictures and verdicts
    pooled = vgi_cli.pool(fits)                # of an analysis, fitted to each table
    completed = vgi_cli.Imputer().fit_transform(X)  # in a pipeline of scikit-learn (docs/python.md)

`check`, `fit`, `finetune`, `impute`, `evaluate`, `report`, `pool`, `sample`, `score`, `hide` and `load` are the twins
of the commands; `impute_batches` fills a table in many processes (docs/batches.md); `register_model` and its like are
for plugins (docs/extending.md). Importing this package loads no torch.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vgi_cli import errors
from vgi_cli.version import __version__

if TYPE_CHECKING:
    from vgi_cli.api import (
        Progress,
        Run,
        check,
        evaluate,
        finetune,
        fit,
        hide,
        impute,
        impute_batches,
        load,
        pool,
        report,
        sample,
        score,
    )
    from vgi_cli.estimators.density import Density
    from vgi_cli.estimators.imputer import Imputer
    from vgi_cli.registry.registration import (
        register_family,
        register_kind,
        register_method,
        register_model,
        register_sampler,
    )

__all__ = [
    "Density",
    "Imputer",
    "Progress",
    "Run",
    "__version__",
    "check",
    "errors",
    "evaluate",
    "finetune",
    "fit",
    "hide",
    "impute",
    "impute_batches",
    "load",
    "pool",
    "register_family",
    "register_kind",
    "register_method",
    "register_model",
    "register_sampler",
    "report",
    "sample",
    "score",
]

# Before the first product of matrices: on some processors MKL rounds a row of a small product by where it stands in the
# batch, and draws would depend on which rows are imputed together.
os.environ.setdefault("MKL_CBWR", "AUTO")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'vgi_cli' has no attribute '{name}'")
    if name.startswith("register_"):
        from vgi_cli.registry import registration

        return getattr(registration, name)
    if name == "Imputer":
        from vgi_cli.estimators.imputer import Imputer

        return Imputer
    if name == "Density":
        from vgi_cli.estimators.density import Density

        return Density
    from vgi_cli import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
