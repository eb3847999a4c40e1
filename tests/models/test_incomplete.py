"""Rows that are looked at again: what is kept, and when it is made anew."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.models.test_mixed import FORMS, built
from vgi_cli.maths.forests import Forest
from vgi_cli.maths.gaussian import patterns_of
from vgi_cli.methods.em.steps import iteration
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.full import FullGaussians
from vgi_cli.models.gaussian.gaussians import Observed, within
from vgi_cli.models.gaussian.incomplete import Incomplete, Kept
from vgi_cli.models.gaussian.mixed import Mixed
from vgi_cli.models.gaussian.widened import Widened


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


def test_what_a_module_keeps_is_made_anew_with_other_numbers_types_and_gradients() -> None:
    made: list[int] = []
    kept, given = Kept(), torch.ones(2)

    def ask(*tensors: Tensor) -> int:
        return kept.until_changed("a", tensors, counted(made))

    with torch.no_grad():
        assert [ask(given), ask(given.clone())] == [0, 0]
        assert [ask(given.double()), ask(given)] == [1, 2], "equal numbers of another type"
        given += 1
        assert [ask(given), ask(given)] == [3, 3]
        assert copy.deepcopy(kept).until_changed("a", (given,), counted(made)) == 4, "a copy keeps nothing"
        kept.clear()
        assert ask(given) == 5
    assert [ask(given), ask(given)] == [6, 7], "with gradients"


@pytest.mark.parametrize("form", ["full with outliers", "full with outliers shifted in pairs"])
def test_parameters_that_change_in_place_are_seen(form: str) -> None:
    """What is kept of parameters follows them, whoever changes them."""
    model, x = built(form)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.3
    with torch.inference_mode():
        before = model.objective(em_table(x, missing), model.penalty(None, 1e-3)), model.log_prob(x)
        for parameter in model.parameters():
            parameter.mul_(0.9)
        afresh = copy.deepcopy(model)
        after = model.objective(em_table(x, missing), model.penalty(None, 1e-3)), model.log_prob(x)
        assert after[0] == afresh.objective(em_table(x, missing), model.penalty(None, 1e-3)) != before[0]
        assert torch.equal(after[1], afresh.log_prob(x)) and not torch.equal(after[1], before[1])


def test_tables_of_levels_and_precisions_are_made_once_for_the_same_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = built()
    made: list[str] = []
    tables, precision = Forest.log_softmax, FullGaussians._precision
    monkeypatch.setattr(Forest, "log_softmax", lambda self, logits: made.append("tables") or tables(self, logits))
    monkeypatch.setattr(FullGaussians, "_precision", lambda self: made.append("precision") or precision(self))
    with torch.no_grad():
        for _ in range(3):
            model.gaussians.precision()
            assert isinstance(model.gaussians, Mixed)
            model.gaussians.categories.log_tables()
    assert sorted(made) == ["precision", "precision", "tables"], "learnt and broad ones, and the tables"


def test_a_forest_is_chosen_by_two_looks_at_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The objective before and after; the responsibilities come with the first."""
    model, x = built()
    looks: list[int] = []
    observe = Mixed.observe

    def counting(self: Mixed, rows: Incomplete, *, fixed: bool = False) -> Observed:
        looks.append(len(rows.x))
        return observe(self, rows, fixed=fixed)

    monkeypatch.setattr(Mixed, "observe", counting)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) < 0.3
    model.refine(em_table(x, missing), model.penalty(None, 1e-3))
    assert looks == [len(x)] * 2


def test_rows_without_a_broad_component_are_drawn_by_the_learnt_ones_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = built()
    assert isinstance(model.gaussians, Mixed) and isinstance(model.gaussians.numbers, Widened)
    rows = Incomplete(x[:, model.gaussians.continuous], patterns_of(x[:, model.gaussians.continuous] > 0))
    seen = model.gaussians.numbers.observe(rows)
    noise = torch.randn(rows.x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    component = torch.arange(len(x)) % 3
    some = seen.draw_each(component, noise, noise[:, :0])
    mixed = seen.draw_each(torch.where(torch.arange(len(x)) < 5, 3, component), noise, noise[:, :0])
    assert torch.equal(some[5:], mixed[5:]) and not torch.equal(some[:5], mixed[:5])
    monkeypatch.setattr(seen.broad, "draw_each", None)  # type: ignore[attr-defined]
    assert torch.equal(seen.draw_each(component, noise, noise[:, :0]), some)
