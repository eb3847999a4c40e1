"""How much each hidden cell of a contest counts: by how many holes there are in rows like its own.

What a contest hides are observed cells. Where a column is missing more often in some rows than in others its holes lie
elsewhere, and which model fills hidden cells best need not be the one that fills the holes best. So a hidden cell
counts by the odds that a cell of its column is missing in a row like its own (inverse probability weighting; Robins,
Rotnitzky and Zhao 1994): those of a logistic regression of the holes of the column on what else is observed of a row,
and on what else is missing. Where nothing of the rows is related to the holes of a column, all its cells count alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.fitting.rows import Rows

INPUTS = 20
"""Most inputs of a regression."""
CHANCE = 0.01
"""Probability that there are any inputs where holes are at random."""
PRECISION = 1.0
"""Of the normal prior of a coefficient of a standardised input."""
STEPS, FAR = 8, 4.0
"""Newton steps of a regression; logits beyond FAR are cut off."""
MOST = 10.0
"""Times the mean that a cell counts at most."""
FEWEST = 10
"""Holes, and cells, that a column has at least of which a regression is made."""
LEVELS = 16
"""Columns of more levels are no inputs."""
LIMIT = 3.0
"""Standard deviations beyond which inputs are cut off."""


def hole_odds(rows: Rows) -> Tensor:
    """[N, columns] float64: how much each observed cell counts, with a mean of 1 in each column."""
    table = rows.table
    absent = table.layout.of_columns(table.missing)
    odds = torch.ones(absent.shape, dtype=torch.float64)
    inputs, of_column = _inputs(rows, absent)
    for i in range(absent.shape[1]):
        holes = absent[:, i].double()
        if min(float(holes.sum()), float((1 - holes).sum())) < FEWEST:
            continue
        chosen = inputs[:, _related(inputs, of_column != i, holes)]
        if chosen.shape[1]:
            odds[:, i] = _odds(chosen, holes)
    return odds


def _inputs(rows: Rows, absent: Tensor) -> tuple[Tensor, Tensor]:
    """[N, P] inputs, standardised, and the column that each is of [P]: numbers (0: missing), levels, and which cells
    are missing."""
    table, counts = rows.table, [column.level_counts for column in rows.schema.encoded]
    found: list[Tensor] = []
    owners: list[int] = []
    for i, dimensions in enumerate(table.layout.slices):
        own: list[Tensor] = [absent[:, i].double()]
        for j, levels in zip(range(dimensions.start, dimensions.stop), counts[i], strict=True):
            values = table.x[:, j].double()
            if not levels:
                cells = values[~absent[:, i]]
                mean, sd = (cells.mean(), cells.std()) if len(cells) > 1 else (0.0, 1.0)
                own.append(torch.where(absent[:, i], 0.0, ((values - mean) / sd).clamp(-LIMIT, LIMIT)))
            elif levels <= LEVELS:
                own += [((values == level) & ~absent[:, i]).double() for level in range(levels)]
        found += own
        owners += [i] * len(own)
    each = torch.stack(found, 1)
    sd, mean = torch.std_mean(each, 0)
    varied = sd > 0
    return ((each - mean) / sd)[:, varied], torch.tensor(owners)[varied]


def _related(inputs: Tensor, others: Tensor, holes: Tensor) -> Tensor:
    """The places of inputs, among `others` [P], whose correlation with the holes is beyond chance, at most INPUTS."""
    share = holes.mean()
    z = (inputs.mT @ (holes - share)) / (len(holes) * share * (1 - share)).sqrt()
    beyond = -torch.special.ndtri(torch.tensor(0.5 * CHANCE / max(int(others.sum()), 1), dtype=torch.float64))
    z = torch.where(others, z.abs(), 0.0)
    order = z.argsort(descending=True)[:INPUTS]
    return order[z[order] > beyond]


def _odds(inputs: Tensor, holes: Tensor) -> Tensor:
    """[N] the odds of a hole, with a mean of 1 over the cells that are none."""
    X = torch.cat([torch.ones(len(holes), 1, dtype=torch.float64), inputs], 1)
    prior = torch.full((X.shape[1],), PRECISION, dtype=torch.float64)
    prior[0] = 1e-6
    coefficients = torch.zeros(X.shape[1], dtype=torch.float64)
    for _ in range(STEPS):
        p = torch.sigmoid(X @ coefficients)
        information = (X * (p * (1 - p)).clamp(min=1e-4)[:, None]).mT @ X + torch.diag(prior)
        coefficients += torch.linalg.solve(information, X.mT @ (holes - p) - prior * coefficients)
    odds = (X @ coefficients).clamp(-FAR, FAR).exp()
    cells = holes == 0
    for _ in range(2):  # what is cut off is given to the others
        odds = (odds / odds[cells].mean()).clamp(max=MOST)
    return odds / odds[cells].mean()
