"""The curves of a fit, and whether they had levelled off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from vgi_cli.columns.numerals import Floats
from vgi_cli.reports.values import Training

CRITERIA = ("loglik", "objective")
"""What may be climbed, the first that there is."""
FEWEST = 6
"""Epochs from which on thirds of a curve are compared."""

EARLY, SLOW = 10, 0.9
"""Steps of EM that are early ones, and by which ratio they are taken to shrink at least."""


def main_lines(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines of metrics.jsonl that are of the fit itself, not of warm-ups."""
    return [line for line in lines if line.get("stage", "main") == "main" and line.get("epoch") is not None]


def criterion_of(lines: Sequence[Mapping[str, Any]]) -> str:
    """What the curve of the fit shows."""
    return next((name for name in CRITERIA if any(name in line for line in lines)), CRITERIA[-1])


def curves(lines: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Floats, Floats]]:
    """name -> (epochs, values) of the criterion, of the scores of held-out rows and of the acceptance (mean over the
    columns, where a method counts it by column), where there are any."""
    main = main_lines(lines)
    own = [*CRITERIA, *(name for line in main for name in line if "loglik" in name)]
    found = {}
    for name in dict.fromkeys(own):
        points = [(line["epoch"], line[name]) for line in main if isinstance(line.get(name), int | float)]
        if points:
            epochs, values = np.array(points, float).T
            found[name] = (epochs, values)
    accepted = [
        (line["epoch"], float(np.mean(known)))
        for line in main
        if (known := [rate for rate in np.ravel(line.get("acceptance") or []) if rate is not None])
    ]
    if accepted:
        epochs, values = np.array(accepted, float).T
        found["acceptance"] = (epochs, values)
    return found


def told(
    lines: Sequence[Mapping[str, Any]],
    epochs: int,
    planned: int,
    stopped_by: str | None,
    finished: bool,
    *,
    tuned: bool = False,
) -> Training:
    """How a fit went, from the lines of metrics.jsonl and what its manifest says; `tuned`: of a fine-tuned run."""
    main = main_lines(lines)
    name = criterion_of(main)
    drawn = curves(lines)
    values = drawn[name][1] if name in drawn else np.zeros(0)
    scores = next((curve[1] for key, curve in drawn.items() if key not in (*CRITERIA, "acceptance")), np.zeros(0))
    judged_by: Literal["held-out", "em", "curve", "nothing", "tuned"]
    gained: float | None
    if tuned:
        judged_by, gained = "tuned", None
    elif len(scores) > 1:
        judged_by, gained = "held-out", float(scores[-1] - scores[:-1].max())
    elif name == "loglik":
        judged_by, gained = ("em", remaining(values)) if len(values) > 1 else ("nothing", None)
    else:
        gained = rise(values)
        judged_by = "nothing" if gained is None else "curve"
    return Training(
        criterion=name,
        epochs=epochs,
        planned=planned,
        steps=int(main[-1].get("step", 0)) if main else 0,
        stopped_by=stopped_by,
        finished=finished,
        judged_by=judged_by,
        rise=gained,
        held_out=float(scores[-1]) if len(scores) else None,
        strain=next((float(line["strain"]) for line in reversed(main) if line.get("strain") is not None), None),
    )


def rise(values: Floats) -> float | None:
    """What a curve [epochs] gained in its last third against the middle one, as far as that exceeds two standard errors
    by the scatter within the thirds; 0 where it does not. None for fewer than FEWEST epochs."""
    third = len(values) // 3
    if len(values) < FEWEST:
        return None
    last, middle = values[-third:], values[-2 * third : -third]
    gain = float(last.mean() - middle.mean())
    error = float(np.sqrt((last.var(ddof=1) + middle.var(ddof=1)) / third))
    return gain if gain > 2 * error else min(gain, 0.0)


def remaining(values: Floats) -> float:
    """What EM would still gain after values [epochs], two or more, if its steps went on shrinking by the ratio of the
    last two (Aitken). That is at most 0.99, and of the first EARLY steps, which shrink faster than those that follow,
    at least SLOW."""
    steps = np.diff(values)
    last = max(float(steps[-1]), 0.0)
    ratio = last / float(steps[-2]) if len(steps) > 1 and steps[-2] > 0 else SLOW
    ratio = min(max(ratio, SLOW if len(steps) <= EARLY else 0.0), 0.99)
    return last * ratio / (1 - ratio)
