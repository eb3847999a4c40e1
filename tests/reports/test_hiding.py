"""Which cells a report hides."""

from __future__ import annotations

import torch

from vgi_cli.commands.report.hiding import SHARE, chosen


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_cells_are_hidden_as_they_are_missing_in_other_rows() -> None:
    """Late visits are missing together: so they are hidden, beside what is missing already."""
    missing = torch.zeros(400, 6, dtype=torch.bool)
    missing[300:350, 3:] = True
    missing[350:, 5] = True
    hidden = chosen(missing, missing[300:], generator())
    assert not (hidden & missing).any()
    assert abs(float(hidden[1:300:2].double().mean()) - SHARE) < 0.03  # of every second row by chance
    hidden = hidden[:300:2]
    patterns = {tuple(row) for row in hidden.tolist()}
    late, last = (False, False, False, True, True, True), (False, False, False, False, False, True)
    assert patterns == {late, last}
    assert abs(float(hidden[:, 3].double().mean()) - 0.5) < 0.1


def test_rows_without_such_cells_lose_some_by_chance_and_none_loses_all() -> None:
    complete = torch.zeros(2_000, 5, dtype=torch.bool)
    hidden = chosen(complete, complete[:0], generator())
    assert abs(float(hidden.double().mean()) - SHARE) < 0.02
    all_but_one = torch.ones(2_000, 5, dtype=torch.bool)
    all_but_one[:, 0] = False
    hidden = chosen(complete, torch.ones(3, 5, dtype=torch.bool), generator())
    assert (hidden[::2].sum(1) == 4).all()
    hidden = chosen(all_but_one | complete, torch.ones(3, 5, dtype=torch.bool), generator())
    assert not hidden.any()
