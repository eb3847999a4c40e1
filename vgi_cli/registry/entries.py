"""What stands behind a name of the command line: one type of entry, and one type of table for every extension point.

The entries of the package are constants (registry/names.py). Those of plugins are values beside them (`Plugin`), which
every table shows while they are active (`active_with`): nothing is edited in place.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from vgi_cli.errors import UsageError, nearest


class ModelTraits(NamedTuple):
    """What is taken for a model where nobody says: its method, the reason that is printed, and how its columns are
    encoded (`linear` or `normal`)."""

    method: str
    because: str
    transform: str


class MethodTraits(NamedTuple):
    """What only a method has.

    precision   of the table and the model that it is given: `float32` or `float64`
    gpu         whether it computes on a GPU where there is one
    likelihood  whether what it finds is meant to maximise the likelihood of the observed cells, so that reweighted rows
                say how uncertain it is
    like        the method whose settings suit a model for it too
    blocks      `table.blocks` where nobody says
    own_blocks  capabilities of models for which the method has blocks of its own
    shared      whether several processes can share the rows of a fit
    unshared    capabilities of models for which they cannot
    """

    precision: str = "float32"
    gpu: bool = True
    likelihood: bool = True
    like: str | None = None
    blocks: str | None = None
    own_blocks: frozenset[str] = frozenset()
    shared: bool = False
    unshared: frozenset[str] = frozenset()


class SamplerTraits(NamedTuple):
    """What only a sampler has.

    precision  that it computes in; None: that of the fitted model
    refits     whether it can draw from several models, so that the uncertainty of the fit is in the draws
    stored     whether its draws are the imputations that the run stores: of the fitted rows, and no more than those
    direct     whether a draw is made in a few steps, not as the end of a Markov chain that has to run long
    """

    precision: str | None = None
    refits: bool = False
    stored: bool = False
    direct: bool = False


class CompleterTraits(NamedTuple):
    """What only an imputer of whole tables has.

    settings  the settings `method.*` that it takes, with its defaults; it refuses all others
    single    whether it gives one imputation only, the same in every run
    proper    whether its imputations include the uncertainty of its own parameters
    package   the distribution that it needs and the module by which that is imported; None: nothing beside numpy
    """

    settings: Mapping[str, int | None]
    single: bool = False
    proper: bool = False
    package: tuple[str, str] | None = None


Traits = TypeVar("Traits")


@dataclass(frozen=True)
class Entry(Generic[Traits]):
    """A name of an extension point, readable without loading what it names.

    about     one line that says what it is
    source    `module:attribute` that leads to it
    traits    what only this kind of thing has
    needs     capabilities that it needs: a method of the model, a sampler of the model and the run
    provides  capabilities that it offers: a model by its types, a method by what it leaves for samplers
    given     the thing itself, where a plugin gave it
    """

    about: str
    source: str
    traits: Traits
    needs: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()
    given: Any = None

    def load(self) -> Any:
        """What the entry names; loads what that imports, such as torch."""
        if self.given is not None:
            return self.given
        module, _, attribute = self.source.partition(":")
        return getattr(importlib.import_module(module), attribute)


Entries: TypeAlias = dict[str, dict[str, Entry[Any]]]
"""What a plugin has registered, by extension point and name."""

collected: list[Entries] = []
"""Of the plugins that are being imported, the innermost last: where `register_model` and its like put their entries."""


class Plugin(NamedTuple):
    """An imported plugin: the path that was said, the SHA-256 of the bytes that were run, and what they registered, by
    extension point and name."""

    path: Path
    sha256: str
    entries: Mapping[str, Mapping[str, Entry[Any]]]

    @property
    def file(self) -> str:
        """Its file name, as recipes and messages have it."""
        return self.path.name

    def gives(self, point: str, name: object) -> bool:
        """Whether a name of an extension point comes from it."""
        return name in self.entries.get(point, {})


_active: ContextVar[tuple[Plugin, ...]] = ContextVar("plugins", default=())


def active() -> tuple[Plugin, ...]:
    """The plugins whose names are known at present; one that is said twice, or by nested calls, is here twice."""
    return _active.get()


@contextmanager
def active_with(plugins: Iterable[Plugin]) -> Iterator[None]:
    """Within this context the names of some plugins, beside those that are active already, are in the tables."""
    token = _active.set((*_active.get(), *plugins))
    try:
        yield
    finally:
        _active.reset(token)


class ExtensionPoint(Mapping[str, Entry[Traits]]):
    """The names of one kind of thing: the package's, in their order, then those of the active plugins."""

    def __init__(
        self, word: str, entries: Mapping[str, Entry[Traits]], *, reserved: tuple[str, ...] = (), plugins: bool = True
    ) -> None:
        """`word`: what one of them is called; `reserved`: names that mean something else; `plugins`: whether plugins
        may add to them."""
        self.word = word
        self.reserved = reserved
        self.plugins = plugins
        self._own = dict(entries)

    def _all(self) -> dict[str, Entry[Traits]]:
        found = dict(self._own)
        for plugin in active():
            found |= plugin.entries.get(self.word, {})
        return found

    def __getitem__(self, name: str) -> Entry[Traits]:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def entry(self, name: str) -> Entry[Traits]:
        """The entry of a name; UsageError with the nearest name where there is none."""
        if name not in self:
            known = nearest(name, [*self, *self.reserved])
            lost = "" if active() or not self.plugins else " (a name from a plugin needs --plugin FILE.py)"
            raise UsageError(f"unknown {self.word} '{name}'", known + lost)
        return self[name]

    def load(self, name: str) -> Any:
        """What a name stands for; UsageError with the nearest name where there is none."""
        return self.entry(name).load()
