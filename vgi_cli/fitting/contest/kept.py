"""What candidates of a contest have scored, kept as soon as it is there, so that one that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from vgi_cli.fitting.contest.candidates import Candidate
from vgi_cli.fitting.contest.scoring import Drawn, Scores
from vgi_cli.fitting.rows import Rows
from vgi_cli.methods.em.sizing import Candidate as Sized
from vgi_cli.registry import plugins
from vgi_cli.runs.comparison import Comparison, Kept
from vgi_cli.runs.files import sha256
from vgi_cli.settings.problems import from_plain
from vgi_cli.settings.recipe import Recipe
from vgi_cli.version import __version__

HASHED = 1 << 16
"""Rows that are hashed at a time."""


class KeptScores:
    """The scores of the candidates for some rows, under a hash of all that they depend on.

    found  how many were there already
    """

    def __init__(self, comparison: Comparison, rows: Rows, used: Tensor) -> None:
        """used: the numbers of the rows that are compared."""
        self._comparison, self._rows, self._used = comparison, rows, used
        self.found = 0

    def key(self, title: str, recipe: Recipe) -> str:
        """A hash of all that the scores of a candidate depend on; empty where none are kept."""
        if not self._comparison.somewhere:  # hashing many rows takes time
            return ""
        used = plugins.in_use([("model", recipe.model.name), ("method", recipe.method.name)])
        return sha256(json.dumps([__version__, title, recipe.text(), dict(used), self._of_the_rows]).encode())

    @cached_property
    def _of_the_rows(self) -> str:
        """A hash of the rows that are compared, and of their cells."""
        table, source = self._rows.table, self._rows.source
        digest = hashlib.sha256(b"" if source is None else source.table.sha256.encode())
        digest.update(self._used.numpy().tobytes())
        weight = () if table.weight is None else (table.weight,)
        for tensor in (table.x, table.missing, self._rows.keys, *weight):
            for places in self._used.split(HASHED):
                digest.update(tensor[places].cpu().numpy().tobytes())
        return digest.hexdigest()

    def find(self, key: str, recipe: Recipe, rows: Rows) -> tuple[Candidate, Scores, tuple[Sized, ...]] | None:
        """The candidate that was scored under a key, with its scores and the sizes that were tried for it; `recipe`:
        before its size was chosen, `rows`: as it encodes them. None where there is none."""
        kept = self._comparison.find(key)
        if kept is None:
            return None
        self.found += 1
        recipe = recipe.with_model(**kept.values["settings"])
        config = type(recipe.model_settings)
        sizes = tuple(Sized(from_plain(config, size), score) for size, score in kept.values["sizes"])
        return Candidate(kept.values["title"], recipe, rows), _scores_of(kept), sizes

    def keep(self, key: str, entry: tuple[Candidate, Scores], sizes: Sequence[Sized] = ()) -> None:
        """Keep what a candidate has scored, and the sizes that were tried for it."""
        (title, recipe, _), scores = entry
        fields = {**scores._asdict(), **scores.drawn._asdict()}
        tensors = {name: value for name, value in fields.items() if isinstance(value, Tensor)}
        values = {name: value for name, value in fields.items() if name not in tensors and name != "drawn"}
        tried = [(one.config.model_dump(mode="json"), one.score) for one in sizes]
        plain = {"title": title, "settings": dict(recipe.model.settings), "sizes": tried, "scores": values}
        self._comparison.keep(key, Kept(plain, tensors))


def _scores_of(kept: Kept) -> Scores:
    drawn = Drawn(**{name: kept.tensors[name] for name in Drawn._fields})
    own: dict[str, Any] = {name: kept.tensors[name] for name in Scores._fields if name in kept.tensors}
    return Scores(**own, **kept.values["scores"], drawn=drawn)
