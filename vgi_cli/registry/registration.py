"""What a plugin calls to give a thing of its own a name: loaded, with torch, when it does. What the thing must be is
checked here, and not in the middle of a fit."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from typing import Any

from vgi_cli.columns.base import Column
from vgi_cli.conditionals.families.base import Family
from vgi_cli.errors import UsageError
from vgi_cli.methods.base import Method, MethodConfig
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.base import Bijective, Latent, Marginal, Model, ModelConfig, Relaxable
from vgi_cli.models.gaussian.fa import FactorAnalysis
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.registry.entries import Entry, ExtensionPoint, MethodTraits, ModelTraits, SamplerTraits, collected
from vgi_cli.registry.names import CAPABILITIES, FAMILIES, KINDS, METHODS, MODELS, SAMPLERS

TYPES: dict[str, Any] = {
    "density": Model,
    "marginal": Marginal,
    "bijective": Bijective,
    "gaussian": GaussianFamily,
    "factors": FactorAnalysis,
    "latent": Latent,
    "relaxable": Relaxable,
}
"""Capability -> the type that has it; every model has a bound."""

MADE = frozenset({"conditionals", "imputations"})


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
    where = _place("register_model", MODELS, name)
    family = resolve(where, family)
    check_model(where, family)
    if transform not in ("linear", "normal"):
        raise UsageError(f"{where}: transform: expected 'linear' or 'normal', got {transform!r}", "linear is usual")
    traits = ModelTraits(method, because, transform)
    _add(MODELS, name, Entry(about, _source(family), traits, frozenset(), provided(family), family))


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
    where = _place("register_method", METHODS, name)
    method = resolve(where, method)
    check_method(where, method, frozenset(makes))
    if precision not in ("float32", "float64"):
        raise UsageError(f"{where}: precision: expected 'float32' or 'float64', got {precision!r}", "float32 is usual")
    needed = model_capabilities(where, needs)
    traits = MethodTraits(precision, gpu)
    _add(METHODS, name, Entry(about, _source(method.init), traits, needed, frozenset(makes), method))


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
    where = _place("register_sampler", SAMPLERS, name)
    build = resolve(where, build)
    check_build(where, build)
    needed = check_capabilities(where, needs)
    if precision not in (None, "float32", "float64"):
        raise UsageError(f"{where}: precision: expected 'float32' or 'float64', got {precision!r}", "leave it out")
    traits = SamplerTraits(precision, refits)
    _add(SAMPLERS, name, Entry(about, _source(build), traits, needed, frozenset(), build))


def register_family(name: str, family: Any, *, about: str) -> None:
    """Give a family of conditionals a name, `--set method.conditional=NAME`; called by a plugin (docs/extending.md).

    family  a class derived from `vgi_cli.conditionals.families.base.Family`, or the text `module:attribute`
    about   one line that says what it is

    Raises UsageError for a name that is taken and a class that cannot be used.
    """
    _register_class("register_family", FAMILIES, name, family, Family, about)


def register_kind(name: str, kind: Any, *, about: str) -> None:
    """Give a kind of columns the name that schema.json has for it; called by a plugin (docs/extending.md). Columns are
    looked at by the kinds of plugins first: whatever it takes is of this kind.

    kind   a class derived from `vgi_cli.columns.base.Column`, or the text `module:attribute`
    about  one line that says what it is

    Raises UsageError for a name that is taken and a class that cannot be used.
    """
    _register_class("register_kind", KINDS, name, kind, Column, about)


def _register_class(function: str, point: Any, name: str, given: Any, base: type, about: str) -> None:
    """Give a class derived from `base` a name, where no more need be said of it."""
    where = _place(function, point, name)
    found = resolve(where, given)
    check_class(where, found, base)
    _add(point, name, Entry(about, _source(found), None, given=found))


def _source(thing: Any) -> str:
    """`module:attribute` of a class or a function."""
    return f"{thing.__module__}:{thing.__qualname__}"


def _place(function: str, point: ExtensionPoint[Any], name: str) -> str:
    """The call in words, for messages. UsageError outside a plugin and for a name that cannot be had."""
    if not collected:
        raise UsageError(
            f"{function} is for plugins, and no plugin is being loaded",
            "put the call into a file and name it: --plugin FILE.py, or plugins=['FILE.py'] in Python",
        )
    where = f"{function}('{name}')"
    check_name(where, name, [*point, *collected[-1].get(point.word, {}), *point.reserved])
    return where


def _add(point: ExtensionPoint[Any], name: str, entry: Entry[Any]) -> None:
    collected[-1].setdefault(point.word, {})[name] = entry


def provided(family: type[Model]) -> frozenset[str]:
    """The capabilities of a class."""
    words = {word for word, kind in TYPES.items() if issubclass(family, kind)}
    words |= {"discrete"} if family.discrete else set()
    return frozenset({"bound"} | (words if family.exact else words - {"density"}))


def check_capabilities(where: str, needs: Iterable[str], known: Iterable[str] = CAPABILITIES) -> frozenset[str]:
    """What a method or a sampler needs; UsageError for a word that is no capability."""
    needed = frozenset([needs] if isinstance(needs, str) else needs)
    for word in sorted(needed - set(known)):
        raise UsageError(f"{where}: needs {word!r}, which is no capability", f"expected some of: {', '.join(known)}")
    return needed


def model_capabilities(where: str, needs: Iterable[str]) -> frozenset[str]:
    """What a method needs of a model: a bound at least. UsageError for a word that is no capability of one."""
    return check_capabilities(where, needs, ["bound", *TYPES]) | {"bound"}


def check_name(where: str, name: str, taken: Iterable[str]) -> None:
    """UsageError for a name that cannot be typed after a flag, or that exists."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise UsageError(f"{where}: a name is lower-case letters, digits, - and _, got '{name}'", "choose another name")
    if name in taken:
        raise UsageError(f"{where}: the name exists", "choose another name")


def resolve(where: str, thing: Any) -> Any:
    """The object itself, or what the text `module:attribute` leads to."""
    if not isinstance(thing, str):
        return thing
    module, _, attribute = thing.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"{where}: cannot import '{thing}' ({error})", "write it as module:attribute") from None


def check_model(where: str, family: Any) -> None:
    """UsageError unless the class is a complete model."""
    check_class(where, family, Model, "Model, Marginal or Bijective")
    _check_config(where, family, ModelConfig)


def check_class(where: str, cls: Any, base: type, bases: str | None = None) -> None:
    """UsageError unless it is a class of that kind with nothing left to define; `bases`: what to derive it from."""
    if not inspect.isclass(cls) or not issubclass(cls, base):
        hint = f"derive it from {bases or base.__name__} of {base.__module__}"
        raise UsageError(f"{where}: expected a class derived from {base.__name__}, got {cls!r}", hint)
    _check_complete(where, cls)


def check_method(where: str, method: Any, makes: frozenset[str]) -> None:
    """UsageError unless it is a Method whose settings the program can hand over."""
    if not isinstance(method, Method):
        raise UsageError(f"{where}: expected a Method, got {method!r}", "make one with vgi_cli.methods.base.Method(…)")
    _check_config(where, method, MethodConfig)
    if "epochs" not in method.Config.model_fields:
        raise UsageError(
            f"{where}: {method.Config.__name__} has no field 'epochs', which --epochs and a resumed fit set",
            "add one, for example epochs: int = 100",
        )
    if not makes <= MADE:
        raise UsageError(f"{where}: makes: got {sorted(makes)}", f"expected some of: {', '.join(sorted(MADE))}")
    if "conditionals" in makes and not issubclass(method.Config, VgiConfig):
        raise UsageError(
            f"{where}: what makes conditionals has the settings of vgi, got {method.Config.__name__}",
            "derive its Config from vgi_cli.methods.vgi.config.VgiConfig, or leave conditionals out of makes",
        )
    inputs = ["model", "table", "config", "generator", *(["resources"] if "imputations" in makes else [])]
    for name, taken in (("init", inputs), ("run", ["state", "stop"])):
        try:
            inspect.signature(getattr(method, name)).bind(*taken)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{where}: {name}: {error}", f"write {name}({', '.join(taken)})") from None


def check_build(where: str, build: Any) -> None:
    """UsageError unless it is a function of one argument."""
    if not callable(build):
        raise UsageError(f"{where}: expected a function, got {build!r}", "write build(fitted), which gives an Imputer")
    try:
        inspect.signature(build).bind("fitted")
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}", "write build(fitted)") from None


def _check_complete(where: str, cls: type) -> None:
    lacking = sorted(getattr(cls, "__abstractmethods__", ()))
    if lacking:
        raise UsageError(f"{where}: {cls.__name__} does not define {', '.join(lacking)}", "define them")


def _check_config(where: str, owner: Any, base: type) -> None:
    config = getattr(owner, "Config", None)
    if not inspect.isclass(config) or not issubclass(config, base):
        raise UsageError(
            f"{where}: expected Config to be a class derived from {base.__name__}, got {config!r}",
            f"write class Config({base.__name__}) with the settings, or none, as its fields",
        )
