"""Observed cells are hidden and drawn: do the draws tell them?

Here they are hidden from their rows. The fit has seen them, so bad scores accuse it, and good ones do not acquit it.
Cells that a fit never saw are kept apart by `vgi fit --holdout-cells`; their scores are read from the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.commands.requests import ImputeRequest
from vgi_cli.commands.run_table import seed_of, shared_work
from vgi_cli.commands.sampling import Sampling, Watch
from vgi_cli.evaluation.imputation import COVERAGE_DRAWS, number_scores
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.rows import Rows
from vgi_cli.registry import names as registry
from vgi_cli.reporting import Silent, Stage
from vgi_cli.reports.values import Calibration, Hidden

SHARE = 0.15
"""Of the observed cells of a row of which no other row says what to hide."""
EXACT_ROWS, CHAIN_ROWS = 1_000, 150
"""Rows of which cells are hidden: where draws are independent, and where each is a chain."""
CHAIN_REFITS = 4
"""Refits that take turns in the draws where each is a chain: with all of them, packs of chains would be half empty."""
FEWEST = 5
"""Hidden cells of a column from which on it has scores."""


class HiddenCells(NamedTuple):
    """Scores by column and over all; None and a note where nothing could be hidden."""

    overall: Calibration | None
    columns: Mapping[str, Hidden]
    notes: list[str]


def hide_again(
    fitted: FittedTable, rows: Rows, codes: Floats, asked: ImputeRequest, over: Callable[[], bool], stage: Stage
) -> HiddenCells:
    """Hide cells of a random choice of the rows of a table, draw them, and compare with what they were: codes [N,
    columns]. OutOfTime where `over` says so."""
    request = dataclasses.replace(asked, m=COVERAGE_DRAWS)
    if not fitted.marginal:
        fitted = dataclasses.replace(fitted, refits=fitted.refits[:CHAIN_REFITS])
    sampling = Sampling(fitted, request, shared_work(asked, Silent()))
    if registry.SAMPLERS[sampling.sampler].traits.stored:
        note = "no cell could be hidden: this run keeps the imputations of its own holes only"
        return HiddenCells(None, {}, [note])
    seed, layout = seed_of(fitted, asked), fitted.schema.layout
    most = EXACT_ROWS if fitted.marginal else CHAIN_ROWS
    missing = layout.of_columns(rows.table.missing)
    useful = ((~missing).sum(1) >= 2).nonzero()[:, 0]
    generator = stream(seed, "report/hidden")
    some = useful[torch.randperm(len(useful), generator=generator)[:most]]
    hidden = chosen(missing[some], missing[missing.any(1)], generator)
    if not bool(hidden.any()):
        return HiddenCells(None, {}, ["no cell could be hidden: no row has two observed cells"])
    own = rows.at(some)
    absent = own.table.missing | layout.of_dimensions(hidden)
    holed = own._replace(table=own.table._replace(x=own.table.x.masked_fill(absent, 0.0), missing=absent))
    draws = np.asarray(sampling.draw(holed, Watch(stage, 0, len(some), over)))
    scores = score(fitted.schema.encoded, codes, hidden.numpy(), rows.places[some].numpy(), draws, seed)
    return HiddenCells(summary(scores, len(some), int(hidden.sum())), scores, [])


def summary(scores: Mapping[str, Hidden], rows: int, cells: int) -> Calibration:
    """The scores of the columns in one: the mean skill, and of all numbers the share in their intervals."""
    numbers = [own for own in scores.values() if own.coverage is not None]
    covered = sum((own.coverage or 0.0) * own.cells for own in numbers) / max(sum(own.cells for own in numbers), 1)
    return Calibration(
        rows=rows,
        cells=cells,
        draws=COVERAGE_DRAWS,
        skill=float(np.mean([own.skill for own in scores.values()])) if scores else None,
        coverage=covered if numbers else None,
    )


def kept_apart(holdout: Mapping[str, Any] | None) -> HiddenCells:
    """The scores of cells that were hidden from a fit, as the run keeps them (holdout.json)."""
    if holdout is None:
        return HiddenCells(None, {}, [])
    scores = {}
    for name, own in holdout["columns"].items():
        score = "log_score" if "log_score" in own else "crps"
        if own.get(score) is not None and own["marginal"].get(score):
            model, alone = own[score], own["marginal"][score]
            scores[name] = Hidden(own["cells"], score, model, alone, 1 - model / alone, own.get("coverage90"))
    return HiddenCells(summary(scores, holdout["scored_rows"], holdout["scored_cells"]), scores, [])


def chosen(missing: Tensor, patterns: Tensor, generator: torch.Generator) -> Tensor:
    """[R, columns] cells to hide of rows with holes [R, columns] and two observed cells at least. Of every second row
    those that are missing in another row, drawn at random from patterns [n, columns]; of the others, for what has no
    holes is judged too, and of those that would lose none, each observed one with probability SHARE. One of a row
    stays, the last one that chance would hide."""
    chance = torch.rand(missing.shape, generator=generator).masked_fill(missing, 2.0)
    hidden = chance < SHARE
    if len(patterns):
        other = patterns[torch.randint(len(patterns), (len(missing),), generator=generator)] & ~missing
        hidden[::2] = torch.where(other.any(1, keepdim=True), other, hidden)[::2]
    every = (hidden | missing).all(1)
    kept = chance.masked_fill(missing, -1.0).argmax(1)
    hidden[every, kept[every]] = False
    return hidden


def score(
    columns: tuple[ModelledColumn, ...], codes: Floats, hidden: Bools, places: Floats, draws: Floats, seed: int
) -> dict[str, Hidden]:
    """Scores of draws [m, R, columns] of the cells hidden [R, columns] of rows that stand at `places` [R] in a table of
    codes [N, columns], against as many draws from the column's observed cells."""
    random = np.random.default_rng(seed % 2**64)  # which may be negative
    found = {}
    for j, column in enumerate(columns):
        which = hidden[:, j]
        if which.sum() < FEWEST:
            continue
        truth, drawn = codes[places[which], j], draws[:, which, j]
        alone = random.choice(codes[np.isfinite(codes[:, j]), j], drawn.shape)
        name = "log_score" if isinstance(column, Levelled) else "crps"
        model, yardstick = (column.scores(cells, truth, number_scores) for cells in (drawn, alone))
        if (own := model[name]) is None or not (against := yardstick[name]):
            continue
        coverage = model.get("coverage90")
        found[column.name] = Hidden(
            cells=int(which.sum()),
            score=name,
            model=float(own),
            alone=float(against),
            skill=1 - float(own) / float(against),
            coverage=None if coverage is None else float(coverage),
        )
    return found
