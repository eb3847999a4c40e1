"""What the estimators share: scikit-learn's conventions, kept without importing scikit-learn, and a fit in memory."""

from __future__ import annotations

import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from vgi_cli.commands.fit import fit_in_memory
from vgi_cli.commands.requests import FitRequest, make_request
from vgi_cli.errors import InputError, InvalidInput, InvalidParameter, NotFitted, UsageError, nearest
from vgi_cli.estimators.spoken import Spoken, in_python
from vgi_cli.fitting.fitted import FittedTable, load
from vgi_cli.machine.device import kept_threads
from vgi_cli.reporting import Reporter, Silent
from vgi_cli.runs.store import RunInMemory, RunStore
from vgi_cli.settings.gather import gather
from vgi_cli.settings.options import FitOptions, fields_of, plain, read_given
from vgi_cli.settings.problems import Settings
from vgi_cli.table.given import Given, given, plain_names

Names: TypeAlias = npt.NDArray[np.object_]
MOST_SEED = 2**31 - 1


@contextmanager
def as_value_errors(parameters: Collection[str]) -> Iterator[None]:
    """What is wrong with a table or a setting is raised as a ValueError too, as users of scikit-learn expect, in words
    that name the `parameters` of the estimator, not flags of the command line."""
    try:
        yield
    except (UsageError, InputError) as error:
        if isinstance(error, ValueError | TypeError):
            raise
        kind = InvalidInput if isinstance(error, InputError) else InvalidParameter
        hint = None if error.hint is None else in_python(error.hint, parameters)
        raise kind(in_python(error.message, parameters), hint) from error


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator:
    """A model of the rows of a table, fitted in memory. The parameters are stored as they come and looked at by `fit`.

    model         its name, or `auto`: models are compared on hidden cells
    method        how it is fitted; None: the model's own way
    columns       what columns are, by name (`{"age": "integer"}`), or one word for all; None: what their cells say
    bounds        limits of the fills, by name (`{"age": "0:120"}`)
    unseen        levels of later rows that the fit has not seen: `error`, `missing` (they are filled) or `carry`
    set           any other setting, by its dotted key (`{"model.components": 3}`), as `vgi fit --set`
    random_state  a whole number: the seed; a generator of NumPy, which gives one; None: a new seed for each fit
    time_limit    wall time of `fit`: seconds, or a text such as `30m`
    device        `auto`, `cpu`, `cuda`, …; None: `auto`
    threads       on the CPU; None: what the table needs
    say           takes the lines that the commands write to stderr, such as `print`
    """

    model: str = "auto"
    method: str | None = None
    columns: Mapping[str, str] | str | None = None
    bounds: Mapping[str, str] | None = None
    unseen: str = "error"
    set: Mapping[str, Any] | None = None
    random_state: Any = 0
    time_limit: str | float | None = None
    device: str | None = None
    threads: int | None = None
    say: Callable[[str], None] | None = None

    def __init_subclass__(cls) -> None:
        """Add the parameters that every estimator has to what `help()` shows of one."""
        shared = (inspect.getdoc(Estimator) or "").partition("\n\n")[2]
        cls.__doc__ = f"{inspect.getdoc(cls)}\n\nParameters of every estimator, looked at by `fit`:\n\n{shared}\n"

    # --- what scikit-learn asks of every estimator ---

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The parameters by name, in order, with their defaults."""
        return {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name. None of them is an estimator, so `deep` changes nothing."""
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **params: Any) -> Self:
        """Change parameters. InvalidParameter (a ValueError) for a name that is none."""
        known = self._defaults()
        for name in params:
            if name not in known:
                raise InvalidParameter(f"{type(self).__name__} has no parameter '{name}'", nearest(name, known))
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The parameters that are not at their defaults."""
        values = ((name, getattr(self, name), default) for name, default in self._defaults().items())
        said = [f"{name}={value!r}" for name, value, default in values if repr(value) != repr(default)]
        return f"{type(self).__name__}({', '.join(said)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know of an estimator. Called by scikit-learn alone."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(allow_nan=True))

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the table of the fit, and instead of the models the run that keeps them."""
        state = {name: value for name, value in vars(self).items() if name not in ("_fitted", "_given")}
        if self.__sklearn_is_fitted__():
            state["_run"] = self._fitted.run
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        run: RunStore | None = state.pop("_run", None)
        vars(self).update(state)
        if run is not None:
            self._fitted = load(run, Silent())

    # --- a fit in memory ---

    def _fit(self, X: Any) -> None:
        """Fit the rows of X."""
        started = time.monotonic()
        with kept_threads(), as_value_errors(self._defaults()):
            found = given(X, type(self).__name__)
            request = self._fit_request(found, started)
            self._foresee(request)
            self._fitted = fit_in_memory(request, self._reporter())
        if isinstance(self._fitted.run, RunInMemory):
            self._fitted.run.forget("state")  # that of the optimiser: nothing goes on with this fit
        self.n_features_in_: int = len(found.names)
        vars(self).pop("feature_names_in_", None)
        if found.named:
            self.feature_names_in_: Names = np.asarray(found.names, object)
        self.manifest_: dict[str, Any] = self._fitted.run.manifest
        self._given, self._kind = found, found.emptied()

    def _foresee(self, request: FitRequest) -> None:
        """Refuse a fit with which nothing could be done that the estimator is for; of most there is none."""

    def _fit_request(self, found: Given, started: float) -> FitRequest:
        own = ("model", "method", "bounds", "unseen", "set", "time_limit", "device", "threads")
        said = {name: getattr(self, name) for name in own}
        columns = dict.fromkeys(found.names, self.columns) if isinstance(self.columns, str) else self.columns
        values = {**said, "columns": columns, "seed": seed_of(self.random_state)}
        options = read_given(type(self).__name__, fields_of(FitOptions), values)
        return make_request(FitRequest, options, None, os.environ, table=found.table(), started=started)

    def _reporter(self) -> Reporter:
        return Spoken(self.say, self._defaults())

    def _known(self, method: str) -> FittedTable:
        """The fit. NotFitted where there is none."""
        if not self.__sklearn_is_fitted__():
            raise _not_fitted(f"This {type(self).__name__} instance is not fitted yet", f"call fit before {method}")
        return self._fitted

    def _later(self, X: Any) -> Given:
        """X as a table with the columns of the fit. InvalidInput where it has others."""
        name = type(self).__name__
        with as_value_errors(self._defaults()):
            found = given(X, name, self._kind.decimals)
        before: Sequence[str] | None = vars(self).get("feature_names_in_")
        if found.named and before is not None:
            _check_names(found.names, list(before))
        elif found.named != (before is not None):
            without = "X does not have valid feature names, but {} was fitted with feature names"
            having = "X has feature names, but {} was fitted without feature names"
            warnings.warn((having if found.named else without).format(name), UserWarning, stacklevel=3)
        if len(found.names) != self.n_features_in_:
            raise InvalidInput(
                f"X has {len(found.names)} features, but {name} is expecting {self.n_features_in_} features as input"
            )
        return found.called(self._names)

    @property
    def _names(self) -> list[str]:
        """What the columns of the fit are called."""
        names = vars(self).get("feature_names_in_")
        return plain_names(self.n_features_in_) if names is None else list(names)

    def _settings(self) -> Settings:
        """What later rows are read and computed with."""
        said = {"table.unseen": self.unseen, "device": self.device, "threads": self.threads}
        return gather({key: (plain(value), key.split(".")[-1]) for key, value in said.items()}, (), os.environ)


def seed_of(random_state: Any) -> int:
    """The seed that is meant. InvalidParameter where none is."""
    if random_state is None:
        return int(np.random.default_rng().integers(MOST_SEED))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(MOST_SEED))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(MOST_SEED))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    raise InvalidParameter(
        f"random_state: expected a whole number, a generator of NumPy or None, got {random_state!r}", "random_state=0"
    )


def _not_fitted(message: str, hint: str) -> NotFitted:
    """The error for what needs a fit: where scikit-learn is loaded, its own kind of error too."""
    known = sys.modules.get("sklearn.exceptions")
    if known is None:
        return NotFitted(message, hint)
    both: type[NotFitted] = type("NotFitted", (NotFitted, known.NotFittedError), {})
    return both(message, hint)


def _check_names(names: Sequence[str], before: Sequence[str]) -> None:
    """InvalidInput where columns are not those of the fit, in their order."""
    if list(names) == list(before):
        return
    message = "The feature names should match those that were passed during fit.\n"
    strange, lacking = sorted(set(names) - set(before)), sorted(set(before) - set(names))
    for what, some in (("unseen at fit time", strange), ("seen at fit time, yet now missing", lacking)):
        if some:
            shown = "".join(f"- {name}\n" for name in some[:5]) + "- ...\n" * (len(some) > 5)
            message += f"Feature names {what}:\n{shown}"
    if not strange and not lacking:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise InvalidInput(message)
