"""What a registered thing must be, checked where it is registered and not in the middle of a fit."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from typing import Any

from vgi_cli.errors import UsageError
from vgi_cli.methods.base import Method, MethodConfig
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.base import Bijective, Latent, Marginal, Model, ModelConfig, Relaxable
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.registry.names import CAPABILITIES

TYPES: dict[str, Any] = {
    "density": Model,
    "marginal": Marginal,
    "bijective": Bijective,
    "gaussian": GaussianFamily,
    "latent": Latent,
    "relaxable": Relaxable,
}
"""Capability -> the type that has it; every model has a bound."""

MADE = frozenset({"conditionals", "imputations"})


def provided(family: type[Model]) -> frozenset[str]:
    """The capabilities of a class."""
    words = {word for word, kind in TYPES.items() if issubclass(family, kind)}
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
