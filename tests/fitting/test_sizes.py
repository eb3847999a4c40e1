"""The size of a model before its fit, and the warning where it leaves the columns independent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.selection import first
from vgi_cli.data import TensorTable, make_table
from vgi_cli.encoding.encoder import encode
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.fitting.choosing import model_size
from vgi_cli.machine.work import Work
from vgi_cli.reporting import Lines
from vgi_cli.settings.gather import gather
from vgi_cli.settings.recipe import Recipe, to_recipe
from vgi_cli.table.reader import read_table

MAMMALS = Path(__file__).parents[2] / "sample_data" / "mammals.csv"
INDEPENDENT = "the columns are modelled as independent, so nothing observed in a row informs its holes"


def recipe(**settings: Any) -> Recipe:
    named = {key.replace("__", "."): (value, key) for key, value in settings.items()}
    return to_recipe(gather({"model.name": ("fa", "model"), "method.name": ("em", "method"), **named}))


def size(table: TensorTable, seed: int = 0, **settings: Any) -> tuple[dict[str, Any], list[str]]:
    said: list[str] = []
    return model_size(recipe(**settings).replace(seed=seed), table, Work(Lines(said.append))), said


def independent(rows: int, columns: int = 3) -> TensorTable:
    x = torch.randn(rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return make_table(x, torch.zeros(x.shape, dtype=torch.bool))


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_mammals_get_factors(seed: int) -> None:
    """Two of their columns are collinear, and the elephants are far from all others."""
    table = read_table([str(MAMMALS)])
    schema = schema_alone(table)
    chosen, said = size(encode(table, schema, seed=seed).table, seed)
    assert chosen["factors"] >= 1
    assert not any("independent" in line for line in said)


def test_independence_is_said() -> None:
    chosen, said = size(independent(200))
    assert chosen["factors"] == 0
    assert said[-1] == f"warning: no factor improves the log-likelihood of held-out rows: {INDEPENDENT}"


def test_independence_is_said_where_it_was_asked_for_and_where_rows_are_few() -> None:
    for table, settings in ((independent(200), {"model__factors": 0}), (independent(8), {})):
        assert size(table, **settings)[1][-1] == f"warning: {INDEPENDENT}"


def test_one_column_has_nothing_to_depend_on() -> None:
    assert not any("independent" in line for line in size(independent(50, columns=1))[1])
