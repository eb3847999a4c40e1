"""Rows that are looked at again: what is kept, and when it is made anew."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from tests.models.test_mixed import FORMS, built
from vgi_cli.maths.gaussian import patterns_of
from vgi_cli.methods.em.steps import iteration
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.gaussians import within
from vgi_cli.models.gaussian.incomplete import Incomplete


def counted(values: list[int]) -> Callable[[], int]:
    def make() -> int:
        values.append(len(values))
        return values[-1]

    return make


def rows(again: bool) -> Incomplete:
    x = torch.zeros(3, 2, dtype=torch.float64)
    return Incomplete(x, patterns_of(x > 0), again=again)


def test_what_is_looked_at_again_is_made_once() -> None:
    made: list[int] = []
    kept, once = rows(True), rows(False)
    assert [kept.once("a", counted(made)), kept.once("a", counted(made))] == [0, 0]
    assert kept.of_holes("a", counted(made)) == 1, "of the holes it is another"
    assert [once.once("a", counted(made)), once.of_holes("a", counted(made))] == [2, 3]


def test_moved_rows_share_what_is_made_of_the_holes() -> None:
    made: list[int] = []
    kept = rows(True)
    assert kept.of_holes("a", counted(made)) == kept.moved(kept.x + 1).of_holes("a", counted(made)) == 0
    assert kept.once("b", counted(made)) == 1 and kept.moved(kept.x + 1).once("b", counted(made)) == 2


def test_what_has_changed_is_made_anew() -> None:
    made: list[int] = []
    kept, given = rows(True), torch.ones(2)
    assert [kept.until_changed("a", [given], counted(made)) for _ in range(2)] == [0, 0]
    given += 1  # in place: the values are compared
    assert [kept.until_changed("a", [given], counted(made)) for _ in range(2)] == [1, 1]
    assert kept.until_changed("a", [given, given], counted(made)) == 2
    assert kept.until_changed("a", [given[:1], given], counted(made)) == 3


@pytest.mark.parametrize("form", FORMS)
def test_a_climb_on_kept_rows_is_that_on_rows_seen_afresh(form: str) -> None:
    model, x = built(form)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.3
    missing[missing.all(1), 0] = False
    other, penalty = copy.deepcopy(model), model.penalty(None, 1e-3)
    kept = em_table(x, missing)
    for _ in range(3):
        value = iteration(model, kept, penalty, True)
        afresh = iteration(other, em_table(x, missing), penalty, True)
        assert value == afresh
        for mine, its in zip(model.parameters(), other.parameters(), strict=True):
            assert torch.equal(mine, its)
    with torch.no_grad():  # what is fixed in a climb may change between two
        for one in (model, other):
            for parameter in one.parameters():
                parameter.mul_(0.9)
    assert model.objective(kept, penalty) == other.objective(em_table(x, missing), penalty)


def test_rows_of_many_numbers_are_not_kept() -> None:
    model, x = built()
    table = em_table(x, x.isnan())
    (one,) = [rows for _, rows in table.pieces(model.gaussians.footprint())]
    (again,) = [rows for _, rows in table.pieces(model.gaussians.footprint())]
    assert one is again and one.again
    other = table._replace(x=table.x + 1)
    assert next(other.pieces(model.gaussians.footprint()))[1].x is other.x, "of another table"
    with within(400):
        pieces = list(table.pieces(model.gaussians.footprint()))
    assert len(pieces) > 1 and not any(rows.again for _, rows in pieces)
