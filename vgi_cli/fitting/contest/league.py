"""The league table of a contest: its candidates with their scores, best first, as lines and as `contest.json`."""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

from vgi_cli.columns.wording import typed
from vgi_cli.fitting.contest.candidates import Candidate, held
from vgi_cli.fitting.contest.scoring import CALIBRATED, DRAWS, Scores

Score = Literal["cells", "loglik"]

LINES = 5
MOSTLY = 0.5
"""Share of the fills, at least, of models in which slopes differ by level, where nothing is to be said of these."""


class League(NamedTuple):
    """How a contest ended: the candidates with their scores, best first; the place of the winner, and what decided; of
    each its weight in the average that imputations are drawn from (none: there is no average), and what is against it
    (none: nothing is against any)."""

    entries: tuple[tuple[Candidate, Scores], ...]
    winner: int
    by: Score
    weights: tuple[float, ...] = ()
    against: tuple[str, ...] = ()

    @property
    def numbers(self) -> bool:
        """Whether hidden cells of numbers were scored."""
        return any(scores.coverage is not None for _, scores in self.entries)

    def legend(self) -> list[str]:
        """What the columns and the arrow of the table are."""
        ranges = (
            f"; in range: share of true numbers within {DRAWS} draws ({CALIBRATED:.0%} if calibrated)" * self.numbers
        )
        weights = "; weight: in the average that fills are drawn from" * bool(self.weights)
        against = "; against it: why it is neither taken nor in an average, whatever its scores" * any(self.against)
        decides = " on held-out rows (--score loglik)" * (self.by == "loglik")
        return [
            "hidden cells: score of their fills, less is better (1: what the column alone would score); held-out rows: "
            f"log-likelihood, nats a row{ranges}{weights}{against}",
            f"→ is fitted: of the models that score about as well as the best{decides}, and have nothing else against "
            "them, the one with the fewest parameters",
        ]

    def slopes(self) -> str | None:
        """A line where slopes of numbers differ between the levels of a column, and most fills come from models without
        such slopes, as these fill hidden cells better; None elsewhere."""
        by = next((name for one, _ in self.entries if (name := held(one.recipe)) is not None), None)
        weights = self.weights or [float(place == self.winner) for place in range(len(self.entries))]
        share = sum(w for (one, _), w in zip(self.entries, weights, strict=True) if held(one.recipe) is not None)
        if by is None or share >= MOSTLY:
            return None
        fills = f"{share:.0%} of the fills come" if share > 0 else "no fills come"
        return (
            f"slopes of numbers differ between the levels of '{by}', and {fills} from models that have such slopes, as "
            f"others fill hidden cells better: what '{by}' changes of them may come out too small "
            f"(`--model mixture {typed('--set', f'model.by={by}')}` has them in all fills)"
        )

    def lines(self) -> list[str]:
        """The table with its header: a line for each of the first LINES candidates, and on to all with a weight."""
        last = max([self.winner, *(place for place, weight in enumerate(self.weights) if weight > 0)])
        shown = self.entries[: max(LINES, last + 1)]
        columns = ["hidden cells", "held-out rows"]
        columns += ["in range"] * self.numbers + ["weight"] * bool(self.weights)
        width = max(len(candidate.title) for candidate, _ in shown)
        against = self.against[: len(shown)] if any(self.against[: len(shown)]) else ("",) * len(shown)
        out = [f"  {'model':<{width}}  {'  '.join([*columns, *['against it'] * any(against)])}"]
        for place, (candidate, scores) in enumerate(shown):
            mark = "→" if place == self.winner else " "
            cells = [f"{float(scores.cells.mean()):.3f}", f"{float(scores.loglik.mean()):.2f}"]
            if self.numbers:
                cells.append("" if scores.coverage is None else f"{scores.coverage:.0%}")
            if self.weights:
                cells.append(f"{self.weights[place]:.0%}" if self.weights[place] > 0 else "")
            aligned = "  ".join(f"{cell:>{len(column)}}" for cell, column in zip(cells, columns, strict=True))
            out.append(f"{mark} {candidate.title:<{width}}  {aligned}  {against[place]}".rstrip())
        if (more := len(self.entries) - len(shown)) > 0:
            out.append(f"  {more} more, in contest.json")
        return out

    def text(self) -> str:
        """JSON: `contest.json` of a run."""
        candidates = [
            {
                "title": candidate.title,
                "model": candidate.recipe.model.name,
                "settings": dict(candidate.recipe.model.settings),
                "transform": candidate.recipe.table.transform,
                "cells": float(scores.cells.mean()),
                "crps": scores.crps,
                "log_score": scores.log_score,
                "coverage": scores.coverage,
                "loglik": float(scores.loglik.mean()),
                "chosen": place == self.winner,
                "weight": self.weights[place] if self.weights else None,
                "against": (self.against[place] or None) if self.against else None,
            }
            for place, (candidate, scores) in enumerate(self.entries)
        ]
        rows = len(self.entries[0][1].cells)
        about = {"score": self.by, "rows": rows, "calibrated": round(CALIBRATED, 4)}
        return json.dumps({**about, "candidates": candidates}, indent=1) + "\n"
