"""A run as a process sees it that shares a fit whose run folder another one keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgi_cli.runs.store import RunInMemory, RunStore

if TYPE_CHECKING:
    from torch import Tensor

    from vgi_cli.methods.base import Parts
    from vgi_cli.ranks import Ranks


class RunElsewhere(RunInMemory):
    """What was kept before is read where it lies; of what is kept now, this rank hands in its imputations."""

    def __init__(self, manifest: Mapping[str, Any], path: Path, ranks: Ranks, before: RunStore | None = None) -> None:
        """path: of the folder; before: the run that goes on."""
        super().__init__(manifest)
        self.name, self.address = str(path), str(path.resolve())
        self._ranks, self._before = ranks, before

    @property
    def fitted(self) -> bool:
        return super().fitted or (self._before is not None and self._before.fitted)

    def text(self, name: str) -> str:
        return super().text(name) if self._before is None or super().holds(name) else self._before.text(name)

    def holds(self, name: str) -> bool:
        return super().holds(name) or (self._before is not None and self._before.holds(name))

    def tensors(self, stem: str) -> dict[str, Tensor]:
        own = super().tensors(stem)
        return own if own or self._before is None else self._before.tensors(stem)

    def save(self, parts: Parts, entries: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> None:
        """Send the imputations of this rank's rows to rank 0; the rest is the same there."""
        from vgi_cli.runs.tensors import send_tensors

        if parts.get("imputations"):
            send_tensors(parts["imputations"], self._ranks)
        super().save({stem: tensors for stem, tensors in parts.items() if stem != "imputations"}, entries, texts)
