"""Where a fit is kept, while it is carried out and afterwards: in a folder (runs/folder.py) or in memory."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vgi_cli.errors import RunError, UsageError
from vgi_cli.runs.manifest import Record
from vgi_cli.settings.gather import read_recipe
from vgi_cli.settings.recipe import Recipe

if TYPE_CHECKING:  # opening a run loads no torch: what is wrong with it is said at once
    from torch import Tensor

    from vgi_cli.methods.base import Parts

RECIPE = "recipe.yaml"
SCHEMA = "schema.json"
CONTEST = "contest.json"
HOLDOUT = "holdout.json"
STEMS = ("model", "conditionals", "imputations", "state")
CHAINS = "chains"
"""Tensors of no checkpoint: what is measured of imputing chains after the end of a fit."""
ENCODED = "encoded"
"""Tensors that may be removed: the encoded rows of a table in files, which --keep-encoded keeps for --resume."""
ANEW = "the command that made it again, with --force"
"""How a fine-tuned run comes to its end."""


class RunStore(ABC):
    """A run: its tensors, its recipe, its schema, the metrics of its epochs, and a manifest that says what it is.

    manifest  its values (docs/run-folder.md)
    name      what messages call it
    address   where another process finds it; None: nowhere
    """

    manifest: dict[str, Any]
    name: str
    address: str | None

    @property
    def record(self) -> Record:
        """The manifest by its types."""
        return Record.of(self.manifest)

    @abstractmethod
    def text(self, name: str) -> str:
        """The recipe, the schema or the league table, as they are written."""

    @abstractmethod
    def holds(self, name: str) -> bool:
        """Whether the run has such a file."""

    def contest(self) -> dict[str, Any] | None:
        """The league table of the models that were compared (`contest.json`); None where none were."""
        return json.loads(self.text(CONTEST)) if self.holds(CONTEST) else None

    def holdout(self) -> dict[str, Any] | None:
        """How a first fit filled cells that were hidden from it (`holdout.json`); None where none were."""
        return json.loads(self.text(HOLDOUT)) if self.holds(HOLDOUT) else None

    @abstractmethod
    def tensors(self, stem: str) -> dict[str, Tensor]:
        """The tensors of one of STEMS, or of CHAINS, empty where the run has none."""

    @abstractmethod
    def save(self, parts: Parts, entries: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> None:
        """Keep a checkpoint, all or nothing of it: tensors by stem, entries of the manifest, recipe and schema. What is
        not named stays as it is."""

    @abstractmethod
    def start_metrics(self) -> None:
        """Get ready to take metrics."""

    @abstractmethod
    def add_metrics(self, line: Mapping[str, Any]) -> None:
        """Keep the metrics of an epoch."""

    @abstractmethod
    def last_metrics(self) -> dict[str, Any]:
        """The last value of every metric; some are not logged in every epoch."""

    @abstractmethod
    def publish(self) -> None:
        """There is a model: what the run replaces is no longer needed."""

    @abstractmethod
    def withdraw(self) -> None:
        """Nothing is to be kept: as if the run had never been begun."""

    def latest(self) -> RunStore:
        """The run as it is now: itself, unless a fit that goes on has kept another checkpoint since it was opened."""
        return self

    @property
    def replaces(self) -> bool:
        """Whether another run comes back when this one is withdrawn."""
        return False

    @property
    def finished(self) -> bool:
        """Whether the fit came to its end."""
        return self.manifest.get("status") == "finished"

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether a checkpoint with a model has been kept."""

    @property
    def resumed_by(self) -> str | None:
        """The command that goes on with the run; None: none does, and the one that made it has to be given again."""
        return f"vgi fit --resume --out {self.name}" if self.manifest.get("command", "fit") == "fit" else None

    def require_model(self) -> None:
        """RunError while there is no model yet."""
        if not self.fitted:
            on = self.resumed_by
            hint = f"make it anew: {ANEW}" if on is None else f"continue it with: {on}"
            raise RunError(f"run '{self.name}' holds no model yet", hint)

    def recipe(self) -> Recipe:
        """The resolved recipe. RunError where the run's is none."""
        try:
            return read_recipe(self.text(RECIPE), RECIPE)
        except UsageError as error:
            raise RunError(
                f"run '{self.name}' is damaged: {error.message}", error.hint or "restore the file, or fit again"
            ) from None

    def parts(self) -> Parts:
        """All tensors."""
        return {stem: self.tensors(stem) for stem in STEMS}


class RunInMemory(RunStore):
    """A run of this process alone: no file is written."""

    name: str = "memory"
    address: str | None = None

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self.manifest = dict(manifest)
        self._texts: dict[str, str] = {}
        self._parts: dict[str, dict[str, Tensor]] = {}
        self._metrics: dict[str, Any] = {}

    @property
    def fitted(self) -> bool:
        return "model" in self._parts

    def text(self, name: str) -> str:
        return self._texts[name]

    def holds(self, name: str) -> bool:
        return name in self._texts

    def tensors(self, stem: str) -> dict[str, Tensor]:
        return dict(self._parts.get(stem, {}))

    def save(self, parts: Parts, entries: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> None:
        """Keep a checkpoint: until the next one, the tensors of the state itself."""
        for stem, tensors in parts.items():
            if tensors or stem == "model":
                self._parts[stem] = {name: value.detach().cpu() for name, value in tensors.items()}
        self.manifest |= entries
        self._texts |= texts or {}

    def forget(self, stem: str) -> None:
        """Let go of the tensors of one of STEMS: without `state` the fit cannot go on, and all else works."""
        self._parts.pop(stem, None)

    def start_metrics(self) -> None:
        """Nothing has to be made ready."""

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        self._metrics |= line

    def last_metrics(self) -> dict[str, Any]:
        return dict(self._metrics)

    def publish(self) -> None:
        """It replaces nothing."""

    def withdraw(self) -> None:
        """Nothing is left of it when nobody refers to it."""
