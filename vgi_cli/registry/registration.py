"""What a plugin calls to give a thing of its own a name. Importing this loads no torch; calling it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from vgi_cli.errors import UsageError
from vgi_cli.registry.entries import Entry, ExtensionPoint, MethodTraits, ModelTraits, SamplerTraits
from vgi_cli.registry.names import FAMILIES, KINDS, METHODS, MODELS, SAMPLERS

Entries: TypeAlias = dict[str, dict[str, Entry[Any]]]
"""What a plugin has registered, by extension point and name."""

_collecting: list[Entries] = []


@contextmanager
def collecting() -> Iterator[Entries]:
    """Collect what is registered meanwhile; the tables of names stay as they are."""
    _collecting.append({})
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
    from vgi_cli.registry.checks import check_model, provided, resolve

    where = _place("register_model", MODELS, name)
    family = resolve(where, family)
    check_model(where, family)
    if transform not in ("linear", "normal"):
        raise UsageError(f"{where}: transform: expected 'linear' or 'normal', got {transform!r}", "linear is usual")
    traits = ModelTraits(method, because, transform)
    example = f"vgi fit data.csv --plugin FILE.py --model {name}"
    _add(MODELS, name, Entry(about, _source(family), traits, frozenset(), provided(family), example, family))


def register_method(
    name: str,
    method: Any,
    *,
    about: str,
    needs: Iterable[str] = (),
    makes: Iterable[str] = (),
    precision: str = "float32",
    gpu: bool = False,
) -> None:
    """Give a method a name on the command line; called by a plugin (see docs/extending.md).

    method     a `vgi_cli.methods.base.Method`, or the text `module:attribute` that leads to it
    about      one line that says what it is
    needs      capabilities of the models that it works for, such as `marginal`; nothing: every model
    makes      what it leaves for samplers: `imputations`, also `conditionals` (a variant of vgi), or nothing
    precision  of the table and the model that it is given: `float32` or `float64`
    gpu        whether it computes on a GPU where there is one

    Raises UsageError for a name that is taken and a Method that cannot be used.
    """
    from vgi_cli.registry.checks import check_method, model_capabilities, resolve

    where = _place("register_method", METHODS, name)
    method = resolve(where, method)
    check_method(where, method, frozenset(makes))
    if precision not in ("float32", "float64"):
        raise UsageError(f"{where}: precision: expected 'float32' or 'float64', got {precision!r}", "float32 is usual")
    needed = model_capabilities(where, needs)
    example = f"vgi fit data.csv --plugin FILE.py --method {name}"
    traits = MethodTraits(precision, gpu)
    _add(METHODS, name, Entry(about, _source(method.init), traits, needed, frozenset(makes), example, method))


def register_sampler(
    name: str,
    build: Any,
    *,
    about: str,
    needs: Iterable[str] = (),
    precision: str | None = None,
    refits: bool = False,
) -> None:
    """Give a sampler of `vgi impute` a name on the command line; called by a plugin (see docs/extending.md).

    build      `build(fitted) -> Imputer` (vgi_cli/samplers/base.py), or the text `module:attribute` that leads to it
    about      one line that says what it is
    needs      capabilities of the model and the run, such as `marginal` or `conditionals`; nothing: every run
    precision  that it computes in: `float32` or `float64`; None: that of the fitted model
    refits     whether it can draw from several models, so that the uncertainty of the fit is in the draws

    `--sampler auto` takes it where none of the package's works. Raises UsageError for a name that is taken and a
    function that cannot be used.
    """
    from vgi_cli.registry.checks import check_build, check_capabilities, resolve

    where = _place("register_sampler", SAMPLERS, name)
    build = resolve(where, build)
    check_build(where, build)
    needed = check_capabilities(where, needs)
    if precision not in (None, "float32", "float64"):
        raise UsageError(f"{where}: precision: expected 'float32' or 'float64', got {precision!r}", "leave it out")
    example = f"vgi impute --checkpoint run1 --plugin FILE.py --sampler {name}"
    traits = SamplerTraits(precision, refits)
    _add(SAMPLERS, name, Entry(about, _source(build), traits, needed, frozenset(), example, build))


def register_family(name: str, family: Any, *, about: str) -> None:
    """Give a family of conditionals a name, `--set method.conditional=NAME`; called by a plugin (docs/extending.md).

    family  a class derived from `vgi_cli.conditionals.families.base.Family`, or the text `module:attribute`
    about   one line that says what it is

    Raises UsageError for a name that is taken and a class that cannot be used.
    """
    from vgi_cli.conditionals.families.base import Family
    from vgi_cli.registry.checks import check_class, resolve

    where = _place("register_family", FAMILIES, name)
    family = resolve(where, family)
    check_class(where, family, Family)
    example = f"vgi fit data.csv --plugin FILE.py --set method.conditional={name}"
    _add(FAMILIES, name, Entry(about, _source(family), None, example=example, given=family))


def register_kind(name: str, kind: Any, *, about: str) -> None:
    """Give a kind of columns the name that schema.json has for it; called by a plugin (docs/extending.md). Columns are
    looked at by the kinds of plugins first: whatever it takes is of this kind.

    kind   a class derived from `vgi_cli.columns.base.Column`, or the text `module:attribute`
    about  one line that says what it is

    Raises UsageError for a name that is taken and a class that cannot be used.
    """
    from vgi_cli.columns.base import Column
    from vgi_cli.registry.checks import check_class, resolve

    where = _place("register_kind", KINDS, name)
    kind = resolve(where, kind)
    check_class(where, kind, Column)
    _add(KINDS, name, Entry(about, _source(kind), None, example="vgi fit data.csv --plugin FILE.py", given=kind))


def _source(thing: Any) -> str:
    """`module:attribute` of a class or a function."""
    return f"{thing.__module__}:{thing.__qualname__}"


def _place(function: str, point: ExtensionPoint[Any], name: str) -> str:
    """The call in words, for messages. UsageError outside a plugin and for a name that cannot be had."""
    from vgi_cli.registry.checks import check_name

    if not _collecting:
        raise UsageError(
            f"{function} is for plugins, and no plugin is being loaded",
            "put the call into a file and name it: --plugin FILE.py, or plugins=['FILE.py'] in Python",
        )
    where = f"{function}('{name}')"
    check_name(where, name, [*point, *_collecting[-1].get(point.word, {}), *point.reserved])
    return where


def _add(point: ExtensionPoint[Any], name: str, entry: Entry[Any]) -> None:
    _collecting[-1].setdefault(point.word, {})[name] = entry
