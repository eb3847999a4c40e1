"""On how many rows `vgi evaluate --conditionals` looks, by what a row costs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from vgi_cli.commands.evaluate.conditionals import CELLS, FEWEST, ROWS, rows_to_compare
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.layout import Layout
from vgi_cli.models.base import Model
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis


def rows(model: Model, D: int, N: int, marginal: bool) -> int:
    fitted = SimpleNamespace(model=model, layout=Layout.plain(D), marginal=marginal)
    return rows_to_compare(cast(FittedTable, fitted), N)


@pytest.mark.parametrize("marginal", [False, True])
def test_quadrature_over_a_density_takes_few_rows(marginal: bool) -> None:
    """Also where the model knows its marginals, but is no mixture of Gaussians."""
    flow = Flow(FlowConfig(steps=1, hidden=2, bins=2), Layout.plain(2))
    assert rows(flow, 2, 10_000, marginal) == ROWS
    assert rows(flow, 50, 10_000, marginal) == CELLS // 50 == 18
    assert rows(flow, 500, 10_000, marginal) == FEWEST
    assert rows(flow, 500, 3, marginal) == 3


def test_closed_conditionals_take_many() -> None:
    fa = FactorAnalysis.build(FaConfig(factors=1), Layout.plain(2))
    assert rows(fa, 500, 10_000, True) == ROWS and rows(fa, 500, 20, True) == 20
