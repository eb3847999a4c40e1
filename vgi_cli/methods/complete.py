"""Maximum likelihood on a complete table, by gradients: the yardstick of every method for holes."""

from __future__ import annotations

import torch

from vgi_cli.data import TensorTable
from vgi_cli.errors import UsageError
from vgi_cli.methods.base import Method
from vgi_cli.methods.gradient import GradientState, chains_of, log_likelihood, run
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.models.base import Model


def check_table(table: TensorTable) -> None:
    """UsageError where a cell is missing."""
    holes = int(torch.count_nonzero(table.missing))
    if holes:
        raise UsageError(
            f"method 'complete' fits complete tables, and {holes:,} cells of this one are missing",
            "leave out --method, or take --method vgi or impute-then-fit",
        )


def init(model: Model, table: TensorTable, config: AscentConfig, generator: torch.Generator) -> GradientState:
    """State before the first step. Raises UsageError as `check_table`."""
    check_table(table)
    seed = int(torch.randint(2**62, (), generator=generator))
    model.initialise(table.x.cpu(), generator)
    return GradientState(model, chains_of(table, config), config, seed, log_likelihood, keeps=False)


METHOD = Method(Config=AscentConfig, init=init, run=run, check_table=check_table)
