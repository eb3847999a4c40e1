"""`vgi_cli.Density`: the density of the rows of a table that may have holes, in scikit-learn's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.numerals import Bools
from vgi_cli.commands.requests import SampleRequest, ScoreRequest
from vgi_cli.estimators.base import Estimator, as_value_errors, seed_of
from vgi_cli.machine.device import kept_threads
from vgi_cli.settings.options import plain
from vgi_cli.settings.problems import Setting

Scores = npt.NDArray[np.float64]


@dataclass(kw_only=True, eq=False, repr=False)
class Density(Estimator):
    """The density of the rows of a table, holes and all, in scikit-learn's shape. scikit-learn is not needed.

        from vgi_cli import Density

        density = Density().fit(X)
        scores = density.score_samples(X)       # the lowest rows are the least expected
        more = density.sample(1000)

    X is as for `vgi_cli.Imputer`. The score of a row is log p of the cells that are observed in it: the others are
    integrated out. It is in nats, in the units of the data: the log of a density for numbers, of a probability for
    whole numbers and levels.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to the rows of X; `y` is ignored. Sets and raises as `Imputer.fit` does."""
        self._fit(X)
        return self

    def score_samples(self, X: Any) -> Scores:
        """[N] log p(observed cells) of each row; 0, the log of one, for a row without any.

        Exact, and a function of the row alone, for `fa` and `mixture`. For flows that of rows with holes is estimated,
        and for autoencoders every one; a warning says where an estimate is not to be trusted. Raises as
        `Imputer.transform` does.
        """
        return self._scores("score_samples", X)[0]

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples(X)` over the rows with an observed cell, as `vgi evaluate` reports it; `y` is
        ignored. NaN where there is no such row."""
        scores, seen = self._scores("score", X)
        return float(scores[seen].mean()) if seen.any() else float("nan")

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Rows drawn from the fitted density, as a table of the type of the one that was fitted; columns that are not
        modelled are empty.

        random_state  as the parameter; None: that of the fit, and so the same rows each time

        More rows leave the first ones as they are. Raises NotFitted, and InvalidParameter for a number that cannot be.
        """
        fitted = self._known("sample")
        seed = {} if random_state is None else {"seed": Setting(seed_of(random_state), "random_state")}
        with kept_threads(), as_value_errors(self._defaults()):
            asked = SampleRequest(checkpoint=fitted.run, settings={**self._settings(), **seed}, n=plain(n_samples))
            return self._kind.of_rows(asked.frame(self._reporter()))

    def _scores(self, method: str, X: Any) -> tuple[Scores, Bools]:
        """[N] scores, and [N] whether a cell of the row is observed."""
        fitted, found = self._known(method), self._later(X)
        with kept_threads(), as_value_errors(self._defaults()):
            asked = ScoreRequest(
                checkpoint=fitted.run,
                settings=self._settings(),
                table=found.table(),
                refit_epochs=0 if fitted.latent else None,
                by_content=True,
            )
            scores = asked.carry_out(self._reporter())
        if scores.interrupted is not None:
            raise scores.interrupted
        values = [0.0 if score is None else score for score in scores.columns["loglik"]]
        return np.array(values, np.float64), np.array(scores.columns["observed"]) > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        return tags
