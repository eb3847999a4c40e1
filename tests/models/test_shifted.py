"""Shifts of the numbers by the levels: what they are without any, what EM learns of them, which columns shift."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.selection import some
from vgi_cli.layout import Layout
from vgi_cli.maths.gaussian import patterns_of
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.methods.em.steps import climb, iteration
from vgi_cli.models.gaussian import shift_choice
from vgi_cli.models.gaussian import shifted as shifted_components
from vgi_cli.models.gaussian.family import FilledRows, em_table
from vgi_cli.models.gaussian.gaussians import within
from vgi_cli.models.gaussian.incomplete import Incomplete
from vgi_cli.models.gaussian.mixed import Mixed
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.shift_choice import CROSSED_ROWS, GROUP_CELLS, GROUPS, MANY_ROWS
from vgi_cli.models.gaussian.shifted import Shifted, alike_where_close

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance",
    "models.gaussian.mixture.GaussianMixture.tolerance",
    "methods.em.bootstrap.TOLERANCE",
    "methods.em.bootstrap.ANEW_TOLERANCE",
)

LEVELS = (0, 3, 0, 2)
COVARIANCES = ["full", "factor"]


def rows_of(N: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two clusters of two numbers, three levels and two, which shift the numbers alike in both clusters by B [5, 2];
    rows [N, 4] and B."""
    g = torch.Generator().manual_seed(seed)
    B = torch.tensor([[0.0, 0.0], [1.0, -0.5], [-0.5, 1.0], [0.0, 0.0], [0.7, 0.7]], dtype=torch.float64)
    cluster = (torch.rand(N, generator=g) < 0.4).long()
    a = torch.multinomial(torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])[cluster], 1, generator=g)[:, 0]
    b = (torch.rand(N, generator=g) < torch.tensor([0.3, 0.6])[cluster]).long()
    mean = torch.tensor([[0.0, 0.0], [4.0, 5.0]], dtype=torch.float64)[cluster] + B[a] + B[3 + b]
    noise = torch.randn(N, 2, dtype=torch.float64, generator=g) @ torch.tensor([[0.6, 0.3], [0.0, 0.5]]).double()
    x = mean + noise
    return torch.stack([x[:, 0], a.double(), x[:, 1], b.double()], 1), B


CROSSED = torch.tensor([1.5, -1.2], dtype=torch.float64)
"""By how much more than by both a row of the second level of both columns is shifted, in `rows_in_pairs`."""


def rows_in_pairs(N: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """As `rows_of`, with an interaction of the two columns."""
    x, B = rows_of(N, seed)
    x[:, [0, 2]] += ((x[:, 1] == 1) & (x[:, 3] == 1))[:, None] * CROSSED
    return x, B


every_rows = pytest.mark.parametrize("rows", [rows_of, rows_in_pairs])


def with_holes(x: Tensor, share: float = 0.3) -> Tensor:
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < share
    missing[missing.all(1), 0] = False
    return missing


def started(x: Tensor, covariance: str = "full", K: int = 2, dependence: str = "linear") -> GaussianMixture:
    settings = {"components": K, "covariance": covariance, "factors": 1, "outliers": True, "dependence": dependence}
    layout = Layout.of("xayb", levels=LEVELS)
    model = GaussianMixture.build(MixtureConfig.model_validate(settings), layout).double()
    model.initialise(x, torch.Generator().manual_seed(2))
    return model


def shifted(model: GaussianMixture) -> Shifted:
    assert isinstance(model.gaussians, Shifted)
    return model.gaussians


@pytest.mark.parametrize("dependence", ["none", "linear"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_draws_under_a_component_of_each_row_are_those_under_it_of_all_rows(covariance: str, dependence: str) -> None:
    """And those of some rows are those of all, of broad components too."""
    x, _ = rows_of(60)
    missing, g = with_holes(x), torch.Generator().manual_seed(3)
    model = started(x, covariance, dependence=dependence)
    assert dependence == "none" or shifted(model).places
    with torch.no_grad():
        seen = model.gaussians.observe(Incomplete(torch.where(missing, 0.0, x), patterns_of(missing)))
        K = seen.log_prob.shape[1]
        component = torch.arange(len(x)) % K
        columns, factors = (torch.randn(len(x), n, dtype=torch.float64, generator=g) for n in (4, model.gaussians.L))
        drawn = seen.draw_each(component, columns, factors)
        of_each = torch.stack([seen.draw(k, columns, factors) for k in range(K)])
        rows = torch.randperm(len(x), generator=g)[:17]
        some = seen.draw_each(component[rows], columns[rows], factors[rows], rows)
    assert K > 2
    torch.testing.assert_close(drawn, of_each[component, torch.arange(len(x))])
    torch.testing.assert_close(some, drawn[rows])


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_em_recovers_the_shifts_from_rows_with_holes(covariance: str) -> None:
    x, B = rows_of(3000)
    missing = with_holes(x)
    model = started(x, covariance)
    with torch.no_grad():
        shifted(model).shift.zero_()
    climb(model, em_table(x, missing), model.penalty(0.0, 1e-3), epochs=20, tolerance=1e-6)
    found = shifted(model).shift.detach()
    assert shifted(model).places == (0, 1)
    torch.testing.assert_close(found[1:3] - found[0], B[1:3] - B[0], rtol=0, atol=0.1)
    torch.testing.assert_close(found[4] - found[3], B[4] - B[3], rtol=0, atol=0.1)
    plain = started(x, covariance, dependence="none")
    table = em_table(x, missing)
    climb(plain, table, plain.penalty(0.0, 1e-3), epochs=20, tolerance=1e-6)
    own, other = (m.objective(table, m.penalty(0.0, 1e-3)).loglik for m in (model, plain))
    assert (own - other) / len(x) > 0.05  # nats a row


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_em_recovers_an_interaction_from_rows_with_holes(covariance: str) -> None:
    """In the means of the six combinations, less what is additive in them."""
    x, _ = rows_in_pairs(3000)
    missing = with_holes(x)
    model = started(x, covariance)
    with torch.no_grad():
        shifted(model).crossing.zero_()
    climb(model, em_table(x, missing), model.penalty(0.0, 1e-3), epochs=20, tolerance=1e-6)
    assert shifted(model).pairs.tolist() == [[0, 1]] and shifted(model).combinations.shape == (6, 2)
    table = shifted(model).shifts().detach().view(3, 2, 2)
    beyond = table[:, 1] - table[:, 0]  # by how much b = 1 shifts beside each level of a
    torch.testing.assert_close(beyond[1] - beyond[0], CROSSED, rtol=0, atol=0.2)
    torch.testing.assert_close(beyond[2] - beyond[0], 0 * CROSSED, rtol=0, atol=0.2)


@every_rows
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_every_plain_em_step_raises_the_objective(covariance: str, rows: Callable[..., tuple[Tensor, Tensor]]) -> None:
    """From far away too: the shifts follow the means and covariances that were learnt just before."""
    x, _ = rows(300)
    missing = with_holes(x, 0.4)
    model = started(x, covariance, K=2)
    assert len(shifted(model).pairs) == (rows is rows_in_pairs)
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.7 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    table, penalty = em_table(x, missing), model.penalty(None, 1e-3)
    values = [model.em_step(table, penalty).objective.item() for _ in range(40)]
    assert all(after >= before - 1e-9 * abs(before) for before, after in itertools.pairwise(values))


@pytest.mark.parametrize(
    ("covariance", "rows"), some([("factor", rows_in_pairs)], itertools.product(COVARIANCES, [rows_of, rows_in_pairs]))
)
def test_where_em_stops_the_penalised_likelihood_has_no_slope_in_the_shifts(
    covariance: str, rows: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    x, _ = rows(200)
    missing = with_holes(x)
    model = started(x, covariance)
    assert len(shifted(model).pairs) == (rows is rows_in_pairs)
    table, penalty = em_table(x, missing), model.penalty(None, 1e-3)
    for _ in range(100):
        iteration(model, table, penalty, accelerate=True)
    loglik = model.marginal_log_prob(x, missing).sum()
    value = loglik + model.gaussians.log_penalty(table.scale, penalty) + (penalty.weight * model.log_weights()).sum()
    mean = shifted(model).numbers.get_parameter("learnt.mean")
    slopes = torch.autograd.grad(value, [shifted(model).shift, shifted(model).crossing, mean])
    assert all(slope.abs().amax() < 1e-2 for slope in slopes if slope.numel())
    assert penalty.shift > 0 and shifted(model).shift.abs().max() > 0.2
    assert rows is rows_of or shifted(model).crossing.abs().max() > 0.2


def test_without_shifts_it_is_the_model_that_has_none() -> None:
    x, _ = rows_of(300)
    missing = with_holes(x)
    plain, model = started(x, dependence="none"), started(x)
    assert type(plain.gaussians) is Mixed
    with torch.no_grad():
        shifted(model).shift.zero_()
    model.load_state_dict(plain.state_dict(), strict=False)
    assert shifted(model).places == (0, 1)
    torch.testing.assert_close(model.log_prob(x), plain.log_prob(x))
    torch.testing.assert_close(model.marginal_log_prob(x, missing), plain.marginal_log_prob(x, missing))
    torch.testing.assert_close(model.conditional(x, missing).mean(), plain.conditional(x, missing).mean())
    laws = [one.cell_laws() for one in (model, plain)]
    for j, n in enumerate(LEVELS):
        if n:
            torch.testing.assert_close(laws[0].probabilities(x, j), laws[1].probabilities(x, j))
        else:
            for part, other in zip(laws[0].number(x, j), laws[1].number(x, j), strict=True):
                torch.testing.assert_close(part, other)


def test_no_column_shifts_what_the_levels_say_nothing_of() -> None:
    """Then it is the model without shifts, but for the rounding of products that processors sum in other orders."""
    x, _ = rows_of(300)
    x[:, [1, 3]] = 0.0
    plain, model = started(x, dependence="none"), started(x)
    assert shifted(model).places == ()
    missing = with_holes(x)
    for one in (plain, model):
        climb(one, em_table(x, missing), one.penalty(None, 1e-3), epochs=5, tolerance=1e-9)
    torch.testing.assert_close(model.log_prob(x), plain.log_prob(x), rtol=0, atol=1e-12)
    noise = KeyedNoise(1, numbered("c", 4), torch.arange(len(x)), torch.arange(2))
    draws = [one.conditional(x, missing).sample(noise) for one in (model, plain)]
    torch.testing.assert_close(*draws, rtol=0, atol=1e-12)


def hidden(x: Tensor, levels: tuple[int, ...], share: float = 1.0) -> Tensor:
    """[R, D] where so many of the levels were missing: all combinations agree with such a row."""
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(4)) < share
    return missing & (torch.tensor(levels) > 0)


def choosing(levels: tuple[int, ...], effects: tuple[float, ...], R: int = 1500, missing: float = 1.0) -> Shifted:
    """Columns of levels of which each shifts two numbers by so much a level, as chosen by rows of which such a share of
    the levels was missing, and is filled as it is."""
    g = torch.Generator().manual_seed(0)
    c = [torch.randint(n, (R,), generator=g) for n in levels]
    total = sum((e * one for e, one in zip(effects, c, strict=True)), torch.zeros(R))
    x = torch.stack([*c, total + torch.randn(R, generator=g), -total + torch.randn(R, generator=g)], 1).double()
    layout = Layout.of([f"c{i}" for i in range(x.shape[1])], levels=(*levels, 0, 0))
    model = GaussianMixture.build(MixtureConfig(components=1, dependence="linear"), layout).double()
    model.initialise_filled(FilledRows(x, hidden(x, (*levels, 0, 0), missing)), g)
    return shifted(model)


def test_columns_shift_that_explain_the_numbers_best_as_far_as_their_combinations_are_few() -> None:
    assert choosing((2, 3, 2), (1.0, 0.0, 0.5)).places == (0, 2)  # one of three levels explains nothing
    best = choosing((4, 5, 3, 2), (0.4, 1.0, 0.9, 0.2))
    assert (
        best.places == (1, 2, 3) and len(best.combinations) == 30
    )  # the first does more than the last, but 60 > CELLS
    assert choosing((4, 9), (1.0, 1.0)).places == (1,)  # 36 > CELLS


def test_a_column_that_names_groups_shifts_beside_some_others() -> None:
    """Forty clinics and two sexes: what patients of one clinic have in common must not be lost."""
    assert choosing((40, 2, 3), (0.05, 1.0, 1.0)).places == (0, 1, 2)  # 240 combinations
    assert choosing((40, 2, 4), (0.05, 1.0, 1.0)).places == (
        0,
        2,
    )  # the one of four levels does more, 320 > GROUP_CELLS
    assert choosing((GROUPS + 1, 4), (0.2, 1.0)).places == (0, 1)
    assert choosing((GROUPS, 4), (0.2, 1.0)).places in ((0,), (1,))
    assert choosing((GROUP_CELLS + 1,), (0.01,)).places == ()
    assert choosing((40,), (0.05,), R=MANY_ROWS).places == ()


def test_more_combinations_may_shift_where_few_of_them_agree_with_a_row() -> None:
    """The time goes with those that agree with what is observed of a row, 1 where no level is missing."""
    levels, effects = (5, 7, 8), (1.0, 0.9, 0.8)  # 280 combinations
    assert choosing(levels, effects, missing=0.0).places == (0, 1, 2)
    assert choosing(levels, effects, missing=0.1).places == (0, 1, 2)  # 1.4 × 1.6 × 1.7 agree on average
    assert len(choosing(levels, effects, missing=0.5).places) == 1  # 3 × 4 would, of 1,500 rows at most 5.3
    assert len(choosing(levels, effects, R=500, missing=0.5).places) == 2  # of fewer rows more: 16
    assert choosing((9, 9, 9), effects, missing=0.0).places == (0, 1)  # 729 > MOST_CELLS
    assert choosing((5, 7), effects[:2], R=MANY_ROWS, missing=0.1).places == (0, 1)  # of many rows 2.2
    assert len(choosing((5, 7), effects[:2], R=MANY_ROWS, missing=0.2).places) == 1  # 4


def test_columns_beyond_the_first_few_combinations_shift_what_they_explain_clearly() -> None:
    """By itself, or given the other numbers: of two numbers that a third column shifts to opposite sides of a large
    common part, each alone shows nothing. A constant number and one that another determines are no trouble."""
    g = torch.Generator().manual_seed(3)
    c = [torch.randint(n, (800,), generator=g).double() for n in (6, 7, 3)]
    common = torch.randn(800, generator=g, dtype=torch.float64)
    for effect, places in ((0.0, (0, 1)), (0.6, (0, 1, 2))):
        noise = torch.randn(2, 800, generator=g, dtype=torch.float64)
        base = c[0] + c[1] + 4 * common
        numbers = [base + effect * (c[2] > 1) + 0.7 * noise[0], base - effect * (c[2] > 1) + 0.7 * noise[1]]
        x = torch.stack([*c, *numbers, torch.ones(800).double(), 2 * numbers[0]], 1)
        found = crossed(x, hidden(x, (6, 7, 3, 0, 0, 0, 0), 0.1), levels=(6, 7, 3, 0, 0, 0, 0))
        assert found.places == places


def crossing(effect: float, R: int, seed: int = 0, seen: float = 1.0) -> tuple[Tensor, Tensor]:
    """Rows [R, 4] of two groups and two periods that shift y by half of `effect` to either side, and by nothing on
    average, and of two numbers, x and y; and which cells were missing [R, 4]: those of a share of y, filled without it.
    """
    g = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(2, (R,), generator=g) for _ in range(2))
    known = torch.rand(R, generator=g) < seen
    x, y = torch.randn(2, R, generator=g, dtype=torch.float64)
    y = x + y + known * torch.where(a == b, 0.5, -0.5) * effect
    missing = torch.zeros(R, 4, dtype=torch.bool)
    missing[:, 3] = ~known
    return torch.stack([a.double(), b.double(), x, y], 1), missing


def crossed(
    x: Tensor,
    missing: Tensor | None = None,
    levels: tuple[int, ...] = (2, 2, 0, 0),
    of_row: Tensor | None = None,
) -> Shifted:
    layout = Layout.of([f"c{i}" for i in range(len(levels))], levels=levels)
    model = GaussianMixture.build(MixtureConfig(components=1, dependence="linear"), layout).double()
    missing = torch.zeros_like(x, dtype=torch.bool) if missing is None else missing
    model.initialise_filled(FilledRows(x, missing, of_row), torch.Generator().manual_seed(0))
    return shifted(model)


def test_columns_interact_whose_effects_are_not_additive_though_none_has_one_on_average() -> None:
    found = crossed(crossing(0.8, 400)[0])
    assert found.pairs.tolist() == [[0, 1]] and found.places == (0, 1)
    beyond = found.shifts().detach().view(2, 2, 2)
    assert beyond[1, 1, 1] - beyond[1, 0, 1] - beyond[0, 1, 1] + beyond[0, 0, 1] > 1.0
    assert found.moved(found.levels_of(crossing(0.8, 400)[0])).mean(0).abs().max() < 0.05
    by_chance = [len(crossed(crossing(0.0, 200, seed)[0]).pairs) for seed in range(40)]
    assert sum(by_chance) <= 6  # two are expected; seven are once in 300


def subjects(R: int = 320) -> tuple[Tensor, Tensor]:
    """Rows [R, 5] of `crossing`, each of 40 subjects eight times, with an age that is the same in all rows of one;
    and which cells were missing: one age of every fourth subject, filled far off."""
    x, _ = crossing(2.0, R, seed=3)
    subject = torch.arange(40).repeat_interleave(R // 40)
    age = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(7))[subject]
    missing = torch.zeros(R, 5, dtype=torch.bool)
    missing[:: 4 * (R // 40), 4] = True
    filled = torch.where(missing[:, 4], age + 3, age)
    return torch.cat([subject[:, None].double(), x[:, :2], x[:, 3:], filled[:, None]], 1), missing


def test_what_levels_all_but_determine_starts_from_its_observed_cells_where_columns_interact() -> None:
    """The start with products of indicators was a plain ridge regression, on the fills too."""
    x, missing = subjects()
    found = crossed(x, missing, levels=(40, 2, 2, 0, 0))
    assert found.pairs.tolist() == [[1, 2]] and found.places == (0, 1, 2)
    left = found.centred(x)[~missing[:, 4], 1]
    assert left.var().item() < 0.005 * x[:, 4].var().item()


def test_an_interaction_is_looked_for_in_the_cells_that_were_not_filled() -> None:
    rows = [crossing(0.7, 400, seed, seen=0.25) for seed in range(20)]
    found = [(len(crossed(x, missing).pairs), len(crossed(x).pairs)) for x, missing in rows]
    assert sum(known for known, _ in found) >= 14 and sum(unknown for _, unknown in found) <= 8


def test_copies_of_rows_say_of_interactions_what_one_does() -> None:
    x, missing = crossing(0.25, 400, seed=2)
    twice = torch.arange(400).repeat(2)
    assert not len(crossed(x).pairs) and not len(crossed(x[twice], missing[twice], of_row=twice).pairs)
    assert len(crossed(x[twice], missing[twice]).pairs) == 1
    some = torch.tensor([5, 2, 5, 9, 2, 2])
    assert FilledRows(x[some], missing[some], some).once().tolist() == [0, 1, 3]
    assert FilledRows(x[some], missing[some]).once().tolist() == [0, 1, 2, 3, 4, 5]


def test_columns_interact_where_each_combination_has_some_rows() -> None:
    x, _ = crossing(3.0, 400)
    both = ((x[:, 0] == 1) & (x[:, 1] == 1)).nonzero()[:, 0]
    few = torch.ones(len(x), dtype=torch.bool)
    few[both[CROSSED_ROWS - 1 :]] = False
    assert not len(crossed(x[few]).pairs)
    few[both[CROSSED_ROWS - 1]] = True
    assert len(crossed(x[few]).pairs) == 1


def test_columns_interact_as_far_as_there_is_room_for_their_combinations() -> None:
    """The two that do, of three; where the third has half as many levels as there may be, one may shift beside it."""
    g = torch.Generator().manual_seed(1)
    x, _ = crossing(2.0, 1200)
    for n, pairs in ((3, [[0, 1]]), (16, [])):
        third = torch.randint(n, (len(x),), generator=g)
        own = torch.cat([x[:, :2], third[:, None].double(), x[:, 2:]], 1)
        own[:, 4] += 3.0 * (third % 2) + (third > 1)
        found = crossed(own, hidden(own, (2, 2, n, 0, 0)), levels=(2, 2, n, 0, 0))
        assert found.pairs.tolist() == pairs and 2 in found.places and len(found.combinations) <= 32


def test_columns_that_interact_take_the_room_of_those_that_explain_less() -> None:
    """Of two others that shift and leave no room, one shifts by less than the two, or by more."""
    x, _ = crossing(2.0, 600)
    others = torch.randint(4, (len(x), 4), generator=torch.Generator().manual_seed(2)).double()
    rows = torch.cat([others, x], 1)
    rows[:, 7] += others[:, 0]
    for effect, places, pairs in ((0.3, (0, 4, 5), [[4, 5]]), (3.0, (0, 1), [])):
        own = rows.clone()
        own[:, 7] += effect * others[:, 1] + 2 * effect * (others[:, 1] == 2)
        levels = (4, 4, 4, 4, 2, 2, 0, 0)
        found = crossed(own, hidden(own, levels), levels=levels)
        assert {*places} <= {*found.places} and found.pairs.tolist() == pairs
        assert len(found.combinations) <= 32


def test_of_many_pairs_those_come_first_whose_columns_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift_choice, "MOST_PAIRS", 1)
    x, _ = crossing(2.0, 400, seed=5)
    other = torch.randint(2, (len(x), 1), generator=torch.Generator().manual_seed(1)).double()
    for shifts, places, pairs in ((2 * other[:, 0], (0,), []), (x[:, 0] + x[:, 1], (1, 2), [[1, 2]])):
        rows = torch.cat([other, x], 1)
        rows[:, 4] += shifts
        found = crossed(rows, levels=(2, 2, 2, 0, 0))
        assert found.places == places and found.pairs.tolist() == pairs


def test_pairs_that_interact_are_saved_and_those_of_an_older_run_do_not() -> None:
    x, _ = rows_in_pairs(300)
    model, plain = started(x), started(rows_of(300)[0])
    assert "gaussians.pairs" in model.state_dict() and not any(
        name.endswith(("pairs", "crossing")) for name in plain.state_dict()
    )
    empty = GaussianMixture.build(
        MixtureConfig(components=2, outliers=True, dependence="linear"), Layout.of("xayb", levels=LEVELS)
    ).double()
    before = [*empty.parameters()]
    for own in (model, plain, model):
        empty.load_state_dict(own.state_dict())
        assert torch.equal(shifted(empty).pairs, shifted(own).pairs)
        assert torch.equal(empty.log_prob(x), own.log_prob(x))
        assert empty.free_parameters() == own.free_parameters()
    assert all(one is other for one, other in zip(before, empty.parameters(), strict=True))
    assert model.free_parameters() == plain.free_parameters() + 2 * 2
    state = model.state_dict()
    for pairs, why in (([[1, 0]], "no two dimensions that shift"), ([[0, 7]], "no two"), ([0, 1], "of shape")):
        with pytest.raises(RuntimeError, match=why):
            empty.load_state_dict({**state, "gaussians.pairs": torch.tensor(pairs)})
    with pytest.raises(RuntimeError, match="crossing"):
        empty.load_state_dict({**state, "gaussians.crossing": torch.zeros(2, 2)})


def test_what_pairs_interact_is_said() -> None:
    layout = Layout.of("xayb", levels=LEVELS)
    for rows, words in ((rows_in_pairs, ": a, b, a × b"), (rows_of, ": a, b")):
        (line,) = started(rows(300)[0]).remarks(layout)
        assert line.endswith(words)


def test_the_start_is_the_regression_within_clusters() -> None:
    x, B = rows_of(4000)
    model = shifted(started(x))
    found = model.shift.detach()
    torch.testing.assert_close(found[1:3] - found[0], B[1:3] - B[0], rtol=0, atol=0.2)
    torch.testing.assert_close(model.share[:3], torch.nn.functional.one_hot(x[:, 1].long()).double().mean(0))
    assert model.moved(model.levels_of(x)).mean(0).abs().max() < 1e-9  # the means stay those of the rows


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("D", [1, 10])
def test_an_effect_that_correlated_numbers_share_is_pulled_as_one_of_a_single_number(D: int, covariance: str) -> None:
    """The ridge is that of a regression of their mean on the indicators alone, however many they are."""
    N, generator = 150, torch.Generator().manual_seed(3)
    treated = (torch.rand(N, generator=generator, dtype=torch.float64) < 0.3).double()
    normal = torch.randn(N, D + 1, generator=generator, dtype=torch.float64)
    items = 0.84 * (normal[:, :1] + treated[:, None]) + 0.55 * normal[:, 1:]
    x = torch.cat([treated[:, None], items], 1)
    layout = Layout.of([f"{i}" for i in range(D + 1)], levels=(2, *[0] * D))
    settings = {"components": 1, "covariance": covariance, "factors": 1, "outliers": False, "dependence": "linear"}
    model = GaussianMixture.build(MixtureConfig.model_validate(settings), layout).double()
    model.initialise(x, torch.Generator().manual_seed(2))
    table, penalty = em_table(x, torch.zeros_like(x, dtype=torch.bool)), model.penalty(None, 1e-3)
    climb(model, table, penalty, epochs=500, tolerance=1e-9)
    found = shifted(model).shift.detach()
    one_hot = torch.stack([1 - treated, treated], 1)
    d, y = one_hot - one_hot.mean(0), items - items.mean(0)
    ridge = torch.linalg.solve(d.mT @ d + shift_choice.SHIFT * torch.eye(2, dtype=d.dtype), d.mT @ y)
    torch.testing.assert_close((found[1] - found[0]).mean(), (ridge[1] - ridge[0]).mean(), rtol=0.02, atol=0)


def test_the_units_of_the_ridge_are_saved_and_older_runs_have_the_variances() -> None:
    x, _ = rows_of(300)
    model = started(x)
    state = model.state_dict()
    older = {name: value for name, value in state.items() if name != "gaussians.prior_precision"}
    table, penalty = em_table(x, with_holes(x)), model.penalty(None, 1e-3)
    for own, same in ((state, True), (older, False), (state, True)):
        other = GaussianMixture.build(
            MixtureConfig(components=2, outliers=True, dependence="linear"), Layout.of("xayb", levels=LEVELS)
        ).double()
        other.load_state_dict(own)
        ridge = shifted(other)._ridge(table.scale, penalty)
        units = shifted(model).prior_precision if same else torch.diag(1 / table.scale.variance[[0, 2]])
        torch.testing.assert_close(ridge, shift_choice.SHIFT * units)
        assert torch.equal(other.log_prob(x), model.log_prob(x))
        other.em_step(table, penalty)
    with pytest.raises(RuntimeError, match="prior_precision"):
        other.load_state_dict({**state, "gaussians.prior_precision": torch.zeros(3, 3)})


def test_parameters_that_were_saved_bring_the_columns_that_shift() -> None:
    x, _ = rows_of(300)
    model = started(x)
    empty = GaussianMixture.build(
        MixtureConfig(components=2, outliers=True, dependence="linear"), Layout.of("xayb", levels=LEVELS)
    )
    empty = empty.double()
    assert shifted(empty).places == ()
    empty.load_state_dict(model.state_dict())
    assert shifted(empty).places == (0, 1)
    assert torch.equal(empty.log_prob(x), model.log_prob(x))
    assert empty.free_parameters() == started(x, dependence="none").free_parameters() + 3 * 2
    assert not empty.independent


@every_rows
def test_shrinking_keeps_a_share_of_what_sets_the_shifts_apart(rows: Callable[..., tuple[Tensor, Tensor]]) -> None:
    x, _ = rows(300)
    model = started(x)
    moved = copy.deepcopy(model)
    table = em_table(x, with_holes(x))
    iteration(moved, table, moved.penalty(None, 1e-3), accelerate=False)
    half = copy.deepcopy(moved)
    half.shrink_to(model, 0.5)
    torch.testing.assert_close(shifted(half).shift, (shifted(model).shift + shifted(moved).shift) / 2)
    torch.testing.assert_close(shifted(half).crossing, (shifted(model).crossing + shifted(moved).crossing) / 2)
    with pytest.raises(ValueError, match="the same pairs"):
        half.shrink_to(started((rows_of if rows is rows_in_pairs else rows_in_pairs)(300)[0]), 0.5)


@every_rows
def test_pieces_of_rows_change_nothing(rows: Callable[..., tuple[Tensor, Tensor]]) -> None:
    x, _ = rows(200)
    missing = with_holes(x, 0.5)
    model = started(x)
    whole = model.marginal_log_prob(x, missing)
    stepped = copy.deepcopy(model)
    value = stepped.em_step(em_table(x, missing), stepped.penalty(None, 1e-3)).objective
    pieces = copy.deepcopy(model)
    with within(20 * model.gaussians.footprint().row):
        torch.testing.assert_close(model.marginal_log_prob(x, missing), whole, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(pieces.em_step(em_table(x, missing), pieces.penalty(None, 1e-3)).objective, value)
    for one, other in zip(stepped.parameters(), pieces.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_tables_without_numbers_or_levels_have_nothing_to_shift() -> None:
    config = MixtureConfig(components=2, dependence="linear")
    assert type(GaussianMixture.build(config, Layout.of("ab", levels=(2, 3))).gaussians) is Mixed
    assert not isinstance(GaussianMixture.build(config, Layout.plain(2)).gaussians, Mixed)
    words = {levels: dict(config.idle(Layout.of("ab", levels=levels), 20)) for levels in ((2, 3), (0, 0), (0, 2))}
    assert words == {
        (2, 3): {"dependence": "the table has no column of numbers, which levels could shift"},
        (0, 0): {"dependence": "the table has no column of levels, which could shift the numbers"},
        (0, 2): {},
    }
    assert not MixtureConfig().idle(Layout.of("ab", levels=(2, 3)), 20)


def test_of_many_rows_fewer_combinations_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = rows_of(400)
    assert len(shifted(started(x)).combinations) == 6  # three levels of a, two of b
    monkeypatch.setattr(shift_choice, "MANY_ROWS", 400)
    monkeypatch.setattr(shift_choice, "FEW_CELLS", 3)
    monkeypatch.setattr(shift_choice, "MOST_CELLS", 3)
    assert len(shifted(started(x)).combinations) in (2, 3)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("places", [1, 2])
def test_iterations_solve_what_the_matrix_does(monkeypatch: pytest.MonkeyPatch, places: int, alone: bool) -> None:
    """The M-step of many coefficients, by conjugate gradients, and of few, by the whole system."""
    generator = torch.Generator().manual_seed(places)
    sizes = (30,) if places == 1 else (15, 3)
    J, Q, D = math.prod(sizes), sum(sizes), 4
    grid = torch.cartesian_prod(*map(torch.arange, sizes)).view(J, -1)
    d = torch.cat([torch.nn.functional.one_hot(c, n) for c, n in zip(grid.unbind(1), sizes, strict=True)], 1).double()
    d = d - d.mean(0)
    root = torch.randn(J, D, D, generator=generator, dtype=torch.float64)
    curve = root @ root.mT * torch.rand(J, 1, 1, generator=generator, dtype=torch.float64) * 50
    curve[3] = 0.0  # a combination without rows
    if alone:
        curve = torch.diag_embed(curve.diagonal(dim1=1, dim2=2))
    ridge = torch.diag(torch.linspace(1, 5, D).double()) + 0.5
    wanted = torch.randn(Q, D, generator=generator, dtype=torch.float64)
    system = torch.einsum("ja,jb,jde->adbe", d, d, curve).reshape(Q * D, Q * D) + torch.block_diag(*[ridge] * Q)
    curve = curve.diagonal(dim1=1, dim2=2) if alone else curve
    exact = torch.linalg.solve(system, wanted.reshape(-1)).view(Q, D)
    found = shifted_components._conjugate_gradients(d, curve, ridge, wanted)
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-8)

    def gained(x: Tensor) -> float:
        return float((wanted * x).sum() - 0.5 * x.reshape(-1) @ system @ x.reshape(-1))

    monkeypatch.setattr(shifted_components, "MOST_ITERATIONS", 2)
    assert 0 < gained(shifted_components._conjugate_gradients(d, curve, ridge, wanted)) < gained(exact)


@every_rows
def test_a_step_is_the_same_by_iterations(
    monkeypatch: pytest.MonkeyPatch, rows: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    x, _ = rows(300)
    table = em_table(x, with_holes(x))
    one, other = started(x), started(x)
    penalty = one.penalty(None, 1e-3)
    one.em_step(table, penalty)
    monkeypatch.setattr(shifted_components, "DENSE", 0)
    other.em_step(table, penalty)
    torch.testing.assert_close(shifted(one).shift, shifted(other).shift, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(shifted(one).crossing, shifted(other).crossing, rtol=1e-6, atol=1e-8)


def test_the_work_of_rows_counts_the_combinations_that_agree_with_them() -> None:
    x, _ = rows_of(400)
    mixed = shifted(started(x))
    levels = mixed.categories.forest.levels
    none, every = torch.zeros(x.shape, dtype=torch.bool), torch.ones(x.shape, dtype=torch.bool)
    assert mixed.expansion(none) == 1 and mixed.expansion(every) == math.prod(levels[i] for i in mixed.places)
    half = none.clone()
    first = int(mixed.discrete[mixed.places[0]])
    half[:200, first] = True
    assert mixed.expansion(half) == (1 + levels[mixed.places[0]]) / 2
    assert mixed.work(none) < mixed.work() and mixed.cells(none) < mixed.cells()
    held = mixed.footprint().rows(torch.stack([none[0], half[0], every[0]]))
    beside = mixed.footprint().beside
    assert mixed.footprint().most == held.max()
    assert (held - beside).tolist() == [
        mixed.footprint().row * n for n in (1, levels[mixed.places[0]], len(mixed.combinations))
    ]


def test_columns_that_hardly_differ_get_back_their_noise_alike() -> None:
    times, rng = torch.tensor([1.1, 1.2, 1.3, 1.4], dtype=torch.float64), torch.Generator().manual_seed(0)
    x = torch.randn(500, 4, generator=rng, dtype=torch.float64)
    assert torch.equal(alike_where_close(times, x.mT @ x), times)
    x[:, 2] = -3 * x[:, 0] + 1e-3 * x[:, 2]
    x[:, 3] = x[:, 2] + 1e-3 * x[:, 3]
    found = alike_where_close(times, x.mT @ x)
    mean = (1.1 * 1.3 * 1.4) ** (1 / 3)
    torch.testing.assert_close(found, torch.tensor([mean, 1.2, mean, mean], dtype=torch.float64))


def test_refits_keep_columns_apart_as_little_as_they_are() -> None:
    """Two numbers that differ by a thousandth, one of them missing in half of the rows: they have lost unlike shares of
    their noise, and what one leaves of the other stays small all the same."""
    rng = torch.Generator().manual_seed(0)
    level = torch.arange(240) % 12
    a = 0.5 * level + torch.randn(240, generator=rng)
    x = torch.stack([level.double(), a.double(), a + 1e-3 * torch.randn(240, generator=rng, dtype=torch.float64)], 1)
    missing = torch.zeros_like(x, dtype=torch.bool)
    missing[::2, 2] = True
    layout = Layout.of(("level", "a", "b"), levels=(12, 0, 0))
    config = MixtureConfig(components=1, covariance="full", dependence="linear")
    model = GaussianMixture.build(config, layout).double()
    model.initialise_filled(FilledRows(x, missing), rng)
    climb(model, em_table(x, missing), model.penalty(None, None), epochs=50, tolerance=1e-6)
    before = model.learnt.precision()[0][0].diagonal().clone()
    spread = model.learnt.moments().covariance[0].diagonal().clone()
    model.restore_noise(missing)
    grown = model.learnt.moments().covariance[0].diagonal() / spread
    assert (grown > 1.1).all() and (before / model.learnt.precision()[0][0].diagonal() < 1.5).all()
