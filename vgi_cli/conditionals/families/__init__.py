"""The families of conditionals by name, readable without importing torch. A family is a file here and one entry."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class FamilyEntry(NamedTuple):
    """A family by name: `module.attribute` is its class (families/base.py), `given` the class itself where a plugin
    gave it."""

    about: str
    module: str
    attribute: str
    given: Any = None

    def load(self) -> Any:
        """The class; imports torch."""
        return self.given or getattr(importlib.import_module(self.module), self.attribute)


FAMILIES: dict[str, FamilyEntry] = {
    "gaussian": FamilyEntry("normal", "vgi_cli.conditionals.families.gaussian", "NormalFamily"),
    "spline": FamilyEntry(
        "an affine map of splines of a normal", "vgi_cli.conditionals.families.spline", "SplineFamily"
    ),
}
