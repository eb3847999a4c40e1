"""`vgi_cli.Imputer`: fill the holes of a table in a pipeline of scikit-learn, or draw several completed tables."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from vgi_cli.columns.base import Empty
from vgi_cli.commands.fit import foreseen
from vgi_cli.commands.impute import filled
from vgi_cli.commands.requests import FitRequest, ImputeRequest
from vgi_cli.encoding.encoder import RowKeys
from vgi_cli.errors import InvalidInput, InvalidParameter, VgiWarning, nearest
from vgi_cli.estimators.base import Estimator, Names, as_value_errors
from vgi_cli.layout import Layout
from vgi_cli.machine.device import kept_threads
from vgi_cli.ranges import MOST_IMPUTATIONS
from vgi_cli.settings.options import plain
from vgi_cli.settings.problems import is_whole
from vgi_cli.table.frames import Frame, to_frames
from vgi_cli.table.given import OUTPUTS, Given, as_library, index_of, select

HOW = ("mean", "median", "mode", "draw")


@dataclass(kw_only=True, eq=False, repr=False)
class Imputer(Estimator):
    """Fill the holes of a table from a model of its rows, in scikit-learn's shape. scikit-learn is not needed.

        from vgi_cli import Imputer

        completed = Imputer().fit_transform(X)          # one completed table
        tables = Imputer(model="mixture").fit(X).sample(m=20)   # twenty, for standard errors

    X is an array [N, d] whose holes are NaN, a pandas DataFrame, an Arrow table or what exports Arrow (polars). A
    completed table is of the same type, with the types of its columns; observed cells stay as they are.

    `transform` fills a hole by the mean of `draws` draws from its law given what the row observes, under the fitted
    model: a function of the row alone, the best guess by squared error, and what a model that predicts from completed
    rows needs. One completed table hides how uncertain its fills are: standard errors and tests computed from it are
    too small, whichever `how` made it. `sample(m)` gives multiple imputations, which Rubin's rules (`vgi_cli.pool`)
    need: proper ones, whose draws include the uncertainty of the fitted parameters. Fills are at the resolution of
    their column and within its bounds.

    how           what `transform` fills in: `mean` (levels: the one drawn most often), `median`, `mode` (numbers beside
                  levels: the median; refused where there are numbers only), or `draw`, one draw
    draws         of which these are made; more cost more time
    keep_empty_features
                  whether columns without any observed cell in `fit` keep their holes; by default they are dropped from
                  what `transform` and `sample` give, with a warning
    """

    how: str = "mean"
    draws: int = 20
    keep_empty_features: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to the rows of X; `y` is ignored.

        Sets `n_features_in_`, `feature_names_in_` (where X names its columns, by texts) and `manifest_`, what was
        fitted, how and in how long. Raises InvalidInput and InvalidParameter (ValueErrors), InvalidCells (a TypeError),
        FitError where training fails, TimeUp where `time_limit` is over before there is a model.
        """
        self._check_how()
        self._fit(X)
        if self._dropped:
            warnings.warn(
                f"{_columns(self._dropped)} without any observed cell: dropped (see keep_empty_features)",
                VgiWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: Any) -> Any:
        """X with its holes filled, as `how` says. The same rows get the same fills, whatever else X holds; with
        `how="draw"` rows that are equal in every cell get different ones.

        Raises NotFitted, and InvalidInput for other columns than those of the fit or levels that it has not seen.
        """
        self._known("transform")
        self._check_how()
        point = None if self.how == "draw" else self.how
        return self._filled(self._later(X), 1 if point is None else plain(self.draws), point)[0]

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """`fit(X).transform(X)`."""
        return self.fit(X, y).transform(X)

    def sample(self, m: int = 5, X: Any = None) -> list[Any]:
        """m completed copies of X (default: the table of the fit): multiple imputations, each a joint draw of all holes
        of a row. The first ones are the same however many are asked for.

        The uncertainty of the fitted parameters is included where the fit has refits (of `fa` and `mixture` it has, by
        default; otherwise `say` is told). The table of the fit is kept in memory, and is no part of a pickle: a loaded
        estimator needs X. Raises as `transform` does.
        """
        self._known("sample")
        if X is None and "_given" not in vars(self):
            raise InvalidInput("the table of the fit is not kept in a pickle", "give it: sample(m, X)")
        return self._filled(self._given if X is None else self._later(X), plain(m), None, blanks=True)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Names:
        """The names of the columns that `transform` gives: those of the fit, or `input_features`, or x0, x1, …"""
        self._known("get_feature_names_out")
        names = self._names
        if input_features is not None:
            given = [str(name) for name in input_features]
            if "feature_names_in_" in vars(self) and given != names:
                raise InvalidInput("input_features is not equal to feature_names_in_")
            if len(given) != len(names):
                raise InvalidInput(
                    f"input_features should have length equal to number of features ({len(names)}), got {len(given)}"
                )
            names = given
        return np.asarray([names[place] for place in self._places], object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """What `transform` and `sample` give: `pandas`, `polars`, or `default`, what they were given; None changes
        nothing. Where this was never called, scikit-learn's own setting (`sklearn.set_config`) decides."""
        if transform is not None:
            if transform not in OUTPUTS:
                raise InvalidParameter(f"set_output: unknown output '{transform}'", nearest(transform, OUTPUTS))
            self._sklearn_output_config = {"transform": transform}  # the name by which sklearn.clone copies it
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64", "float32"])
        return tags

    def _foresee(self, request: FitRequest) -> None:
        if self.how == "mode":
            _require_levels(foreseen(request).layout)

    def _check_how(self) -> None:
        if self.how not in HOW:
            raise InvalidParameter(f"how: expected {', '.join(HOW)}, got {self.how!r}", nearest(str(self.how), HOW))
        if not (is_whole(plain(self.draws)) and 1 <= self.draws <= MOST_IMPUTATIONS):
            raise InvalidParameter(
                f"draws: expected a whole number from 1 to {MOST_IMPUTATIONS}, got {self.draws!r}",
                "for example draws=20",
            )

    @property
    def _dropped(self) -> list[str]:
        """Columns that do not come out: those without any observed cell in the fit."""
        columns = () if self.keep_empty_features else self._fitted.schema.columns
        return [column.name for column in columns if isinstance(column, Empty)]

    @property
    def _places(self) -> list[int]:
        """Which columns come out."""
        dropped = self._dropped
        return [place for place, name in enumerate(self._names) if name not in dropped]

    def _filled(self, found: Given, m: int, point: str | None, *, blanks: bool = False) -> list[Any]:
        """The completed tables: m draws, or one of a point estimate of m draws. `blanks`: as in `impute.filled`."""
        fitted, reporter = self._fitted, self._reporter()
        started = time.monotonic()
        if point == "mode":
            _require_levels(fitted.layout)
        keys = RowKeys(fitted.schema, by_content=True, counted=point is None)
        with kept_threads(), as_value_errors(self._defaults()):
            asked = ImputeRequest(
                checkpoint=fitted.run, settings=self._settings(), table=found.table(), m=m, point=point, started=started
            )
            asked, even = asked.checked(in_memory=True), point is not None
            table, draws, holes = filled(fitted, asked, reporter, keys, even=even, blanks=blanks)
            tables = to_frames(table, fitted.schema, draws, True, say=reporter.say)
        left = [name for name in holes.staying if name not in self._dropped]
        if left:
            warnings.warn(f"{_columns(left)} not modelled: holes stay there", VgiWarning, stacklevel=3)
        return [self._output(found, found.completed(table, each)) for each in tables]

    def _output(self, found: Given, completed: Frame) -> Frame:
        """A completed table as it is wanted: without the columns that are dropped, of the library that is set."""
        names = list(self.get_feature_names_out()) if "feature_names_in_" in vars(self) or found.named else None
        some = select(completed, self._places, names)
        library = vars(self).get("_sklearn_output_config", {}).get("transform")
        if library is None:
            loaded = sys.modules.get("sklearn")
            library = "default" if loaded is None else loaded.get_config()["transform_output"]
        if library == "default":
            return some
        return as_library(some, library, list(self.get_feature_names_out()), index_of(found.source))


def _require_levels(layout: Layout) -> None:
    """InvalidParameter where no column has a mode."""
    if not layout.discrete:
        raise InvalidParameter("how='mode': every column holds numbers, which have no mode", "how='median'")


def _columns(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:5]) + f" and {len(names) - 5} more" * (len(names) > 5)
    return f"column{'s' * (len(names) > 1)} {shown} {'are' if len(names) > 1 else 'is'}"
