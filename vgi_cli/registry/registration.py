"""What a plugin calls: `register_model` and `register_method`. Importing this loads no torch; calling them does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from vgi_cli.errors import UsageError
from vgi_cli.registry.entries import MethodEntry, ModelEntry
from vgi_cli.registry.names import METHODS, MODELS


class Registrations(NamedTuple):
    """What a plugin has registered, by name."""

    models: dict[str, ModelEntry]
    methods: dict[str, MethodEntry]


_collecting: list[Registrations] = []


@contextmanager
def collecting() -> Iterator[Registrations]:
    """Collect what is registered meanwhile; the tables of names stay as they are."""
    _collecting.append(Registrations({}, {}))
    try:
        yield _collecting[-1]
    finally:
        _collecting.pop()


def register_model(
    name: str,
    family: Any,
    *,
    about: str,
    method: str = "vgi",
    because: str = "what its plugin takes",
    transform: str = "linear",
) -> None:
    """Give a model a name on the command line; called by a plugin (see docs/extending.md).

    family     a class derived from `vgi_cli.models.base.Model`, or the text `module:attribute` that leads to it
    about      one line that says what it is
    method     the method that it takes where none is named, and `because`, the reason that is printed
    transform  how its columns are encoded where nobody says: `linear` or `normal`

    Its capabilities are its types. Raises UsageError for a name that is taken and a class that cannot be used.
    """
    from vgi_cli.registry.checks import check_family, check_name, provided, resolve

    models = _registrations("register_model").models
    where = f"register_model('{name}')"
    check_name(where, name, [*MODELS, *models, "auto"])
    family = resolve(where, family)
    check_family(where, family)
    if transform not in ("linear", "normal"):
        raise UsageError(f"{where}: transform: expected 'linear' or 'normal', got {transform!r}", "linear is usual")
    example = f"vgi fit data.csv --plugin FILE.py --model {name}"
    models[name] = ModelEntry(
        about, family.__module__, family.__qualname__, provided(family), method, because, transform, example, family
    )


def register_method(
    name: str,
    method: Any,
    *,
    about: str,
    makes: Iterable[str] = (),
    precision: str = "float32",
    gpu: bool = False,
) -> None:
    """Give a method a name on the command line; called by a plugin (see docs/extending.md).

    method     a `vgi_cli.methods.base.Method`, or the text `module:attribute` that leads to it
    about      one line that says what it is
    makes      what it leaves for samplers: `imputations`, also `conditionals` (a variant of vgi), or nothing
    precision  of the table and the model that it is given: `float32` or `float64`
    gpu        whether it computes on a GPU where there is one

    Raises UsageError for a name that is taken and a Method that cannot be used.
    """
    from vgi_cli.registry.checks import check_method_tuple, check_name, required, resolve

    methods = _registrations("register_method").methods
    where = f"register_method('{name}')"
    check_name(where, name, [*METHODS, *methods])
    method = resolve(where, method)
    check_method_tuple(where, method, frozenset(makes))
    if precision not in ("float32", "float64"):
        raise UsageError(f"{where}: precision: expected 'float32' or 'float64', got {precision!r}", "float32 is usual")
    requires = required(where, method)
    example = f"vgi fit data.csv --plugin FILE.py --method {name}"
    tunes = method.tune is not None
    methods[name] = MethodEntry(
        about, method.init.__module__, requires, frozenset(makes), precision, gpu, example, method, tunes=tunes
    )


def _registrations(function: str) -> Registrations:
    if not _collecting:
        raise UsageError(
            f"{function} is for plugins, and no plugin is being loaded",
            "put the call into a file and name it: --plugin FILE.py, or plugins=['FILE.py'] in Python",
        )
    return _collecting[-1]
