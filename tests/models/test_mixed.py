"""Mixtures over mixed rows: densities against sums and integrals, conditionals against enumeration, EM, gradients."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from torch import Tensor

from tests.selection import some
from vgi_cli.layout import Layout
from vgi_cli.maths.forests import Forest
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.methods.em.steps import iteration
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.mixed import Mixed
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.shifted import Shifted

LEVELS = (3, 0, 2, 0, 4)  # of the dimensions of most tests
TREE = (-1, 0, 1)  # of its discrete ones
FORMS = ["full", "factor", "full with outliers", "factor with outliers"]
FORMS += [*(f"{form} shifted" for form in FORMS), "full with outliers shifted in pairs", "factor shifted in pairs"]
FEW = ["full", "factor with outliers", "factor shifted", "full with outliers shifted in pairs"]
"""By default: each part of a form once at least."""


def built(
    form: str = "full with outliers", levels: tuple[int, ...] = LEVELS, K: int = 3, rows: int = 200
) -> tuple[GaussianMixture, Tensor]:
    """A model started from random rows and shaken, with a forest over three discrete dimensions; the rows."""
    form, shifted, in_pairs = form.partition(" shifted")
    covariance, _, outliers = form.partition(" with ")
    settings = {"components": K, "covariance": covariance, "factors": 1, "outliers": bool(outliers)}
    settings["dependence"] = "linear" if shifted else "none"
    layout = Layout.of([f"c{i}" for i in range(len(levels))], levels=levels)
    model = GaussianMixture.build(MixtureConfig.model_validate(settings), layout).double()
    g = torch.Generator().manual_seed(len(levels))
    columns = [
        torch.randint(n, (rows,), generator=g).double() if n else torch.randn(rows, generator=g).double()
        for n in levels
    ]
    x = torch.stack(columns, 1)
    mixed = model.gaussians
    assert isinstance(mixed, Mixed)
    model.initialise(x, g)
    if sum(n > 0 for n in levels) == 3:
        held = mixed.categories
        held._take(Forest(held.forest.levels, TREE))
        prior = torch.randn(held.forest.T, dtype=torch.float64, generator=g)
        held.prior = held.forest.log_softmax(prior).exp()
    if isinstance(mixed, Shifted):  # all but the last dimension of several; in pairs: all, and every two interact
        chosen, pairs = torch.arange(len(mixed.chosen)) < max(len(mixed.chosen) - 1, 1), None
        if in_pairs:
            chosen = torch.ones_like(chosen)
            pairs = torch.combinations(torch.arange(len(chosen)))
        mixed._take(chosen, torch.rand(mixed.share.shape, generator=g, dtype=torch.float64), pairs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return model.eval(), x


def combinations(levels: tuple[int, ...], grid: Tensor) -> tuple[Tensor, float]:
    """Every row on the levels and a grid of the numbers, and the volume of a row's cell."""
    axes = [torch.arange(n).double() if n else grid for n in levels]
    step = float(grid[1] - grid[0])
    return torch.cartesian_prod(*axes).view(-1, len(levels)), step ** sum(n == 0 for n in levels)


@pytest.mark.parametrize("form", some(FEW, FORMS))
@pytest.mark.parametrize("levels", [(3, 0, 2), (2, 3, 2), (4,)])
def test_the_density_sums_and_integrates_to_one(form: str, levels: tuple[int, ...]) -> None:
    model, _ = built(form, levels)
    cells, volume = combinations(levels, torch.linspace(-60, 60, 8001, dtype=torch.float64))
    with torch.no_grad():
        assert model.log_prob(cells).exp().sum().item() * volume == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("form", some(FEW, FORMS))
def test_marginals_are_sums_over_the_levels_and_integrals_over_the_numbers(form: str) -> None:
    model, x = built(form, (3, 0, 2, 4))
    grid = torch.linspace(-60, 60, 4001, dtype=torch.float64)
    for mask in itertools.product([False, True], repeat=4):
        missing = torch.tensor(mask)
        for row in x[:2]:
            axes = [
                (torch.arange(n).double() if n else grid) if gone else row[i : i + 1]
                for i, (n, gone) in enumerate(zip((3, 0, 2, 4), mask, strict=True))
            ]
            cells = torch.cartesian_prod(*axes)
            with torch.no_grad():
                volume = math.log(120 / 4000) if mask[1] else 0.0
                expected = model.log_prob(cells).logsumexp(0) + volume
                torch.testing.assert_close(
                    model.marginal_log_prob(row[None], missing[None])[0], expected, rtol=0, atol=1e-6
                )


@pytest.mark.parametrize("form", some(FEW, FORMS))
def test_draws_and_modes_have_the_conditional_law(form: str) -> None:
    model, x = built(form)
    missing = torch.tensor([True, False, True, True, False])
    n = 20_000
    rows, holes = x[:1].expand(n, -1), missing.expand(n, -1)
    noise = KeyedNoise(1, tuple("abcde"), torch.arange(n), torch.arange(1))
    conditional = model.conditional(rows, holes)
    drawn, centre = conditional.sample(noise)[0], conditional.mean()[0]
    assert bool((drawn[:, ~missing] == rows[:, ~missing]).all())
    pairs = torch.cartesian_prod(torch.arange(3), torch.arange(2)).double()
    cells = x[:1].expand(len(pairs), -1).clone()
    cells[:, [0, 2]] = pairs
    known = torch.tensor([False, False, False, True, False]).expand(len(pairs), -1)
    with torch.no_grad():
        expected = n * torch.softmax(model.marginal_log_prob(cells, known), 0)
    counts = (drawn[:, None, [0, 2]] == pairs).all(-1).double().sum(0)
    assert ((counts - expected).square() / expected).sum() < 25  # 5 degrees of freedom: p = 1e-4
    assert centre[0] == expected.view(3, 2).sum(1).argmax() and centre[2] == expected.view(3, 2).sum(0).argmax()
    grid = torch.linspace(-60, 60, 12001, dtype=torch.float64)  # of the number, given the likeliest pair of levels
    own = drawn[(drawn[:, [0, 2]] == pairs[expected.argmax()]).all(1), 3].sort().values
    line = cells[expected.argmax()].expand(len(grid), -1).clone()
    line[:, 3] = grid
    with torch.no_grad():
        mass = torch.cumulative_trapezoid(model.log_prob(line).exp(), grid)
    reached = (mass / mass[-1])[torch.searchsorted(grid, own) - 1]
    steps = (torch.arange(len(own)).double() + 0.5) / len(own)
    assert (reached - steps).abs().max() < 1.95 / len(own) ** 0.5


@pytest.mark.parametrize(
    ("levels", "form"),
    [
        *some([(LEVELS, form) for form in FEW], [(LEVELS, form) for form in FORMS]),
        *(
            pytest.param(levels, form, marks=[] if form in FORMS[4:6] else pytest.mark.slow)
            for levels in ((2, 3, 4), (3,), (0, 2))
            for form in FORMS
        ),
    ],
)
def test_em_never_falls_and_settles_at_the_priors_without_rows(form: str, levels: tuple[int, ...]) -> None:
    model, x = built(form, levels)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.4
    used = ~missing.all(1)
    table, penalty = em_table(x[used], missing[used]), model.penalty(None, 1e-3)
    values = [iteration(model, table, penalty, accelerate=True).objective.item() for _ in range(12)]
    assert all(after >= before - 1e-9 * abs(before) for before, after in itertools.pairwise(values))
    assert isinstance(model.gaussians, Mixed)
    tables = model.gaussians.categories
    tables.maximise(torch.zeros_like(tables.log_tables()), penalty.tables)
    torch.testing.assert_close(tables.log_tables().exp(), tables.prior.expand(tables.K, -1))


def test_the_objective_of_em_has_the_gradient_zero_where_em_stops() -> None:
    model, x = built("full", K=2, rows=60)
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    used = ~missing.all(1)
    table, penalty = em_table(x[used], missing[used]), model.penalty(None, 1e-3)
    for _ in range(120):
        iteration(model, table, penalty, accelerate=True)
    loglik = model.marginal_log_prob(x[used], missing[used]).sum()
    value = loglik + model.gaussians.log_penalty(table.scale, penalty) + (penalty.weight * model.log_weights()).sum()
    assert isinstance(model.gaussians, Mixed)
    (gradient,) = torch.autograd.grad(value, model.gaussians.categories.logits)
    assert gradient.abs().max() < 1e-2


@pytest.mark.parametrize("form", some(FEW, FORMS))
def test_gradients_under_a_mask_are_those_of_the_sum(form: str) -> None:
    model, x = built(form, (3, 0, 2))
    missing = torch.tensor([True, False, True]).expand(len(x), -1)
    parameters = [p for p in model.parameters() if p.requires_grad]
    ours = torch.autograd.grad(model.marginal_log_prob(x, missing).sum(), parameters)
    each = []
    for a, b in itertools.product(range(3), range(2)):
        rows = x.clone()
        rows[:, 0], rows[:, 2] = a, b
        each.append(model.log_prob(rows))
    theirs = torch.autograd.grad(torch.stack(each).logsumexp(0).sum(), parameters)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("form", some(FEW, FORMS))
def test_a_column_redrawn_alone_has_its_law_given_the_others(form: str) -> None:
    model, x = built(form)
    n = 20_000
    u = (torch.arange(n).double() + 0.5) / n
    rows, redraw = x[:1].expand(n, -1), model.column_redraws()
    low, high = torch.tensor(0.0).double(), torch.tensor(3.0).double()
    levels = redraw(rows, 4, low, high, u, u)
    every = x[:1].expand(4, -1).clone()
    every[:, 4] = torch.arange(4)
    with torch.no_grad():
        expected = torch.softmax(model.log_prob(every), 0)
    shares = torch.bincount(levels.long(), minlength=4) / n
    torch.testing.assert_close(shares.double(), expected, rtol=0, atol=2 / n)
    choice = torch.rand(n, generator=torch.Generator().manual_seed(0)).double()
    numbers = redraw(rows, 1, low, high, choice, torch.rand(n, generator=torch.Generator().manual_seed(1)).double())
    grid = torch.linspace(0, 3, 2001, dtype=torch.float64)
    line = x[:1].expand(len(grid), -1).clone()
    line[:, 1] = grid
    with torch.no_grad():
        mass = torch.cumulative_trapezoid(model.log_prob(line).exp(), grid)
    drawn = numbers.sort().values
    reached = (mass / mass[-1])[(torch.searchsorted(grid, drawn) - 1).clamp(0, len(mass) - 1)]
    assert (reached - u).abs().max() < 1.95 / n**0.5 + 1e-3


def test_samples_have_the_density() -> None:
    model, _ = built(levels=(3, 2, 4))
    n = 30_000
    drawn = model.sample(n, torch.Generator().manual_seed(0))
    cells = torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(4)).double()
    with torch.no_grad():
        expected = n * model.log_prob(cells).exp()
    counts = (drawn[:, None] == cells).all(-1).double().sum(0)
    assert ((counts - expected).square() / expected).sum() < 23 + 4 * 46**0.5


def test_parameters_that_were_saved_bring_their_forest() -> None:
    model, x = built()
    other, _ = built()
    assert isinstance(other.gaussians, Mixed) and isinstance(model.gaussians, Mixed)
    other.gaussians.categories._take(Forest.without_edges(other.gaussians.categories.forest.levels))
    other.load_state_dict(model.state_dict())
    assert other.gaussians.categories.forest.parent == TREE
    assert torch.equal(other.log_prob(x), model.log_prob(x))
    broken = {**model.state_dict(), "gaussians.categories.parent": torch.tensor([1, 0, -1])}
    with pytest.raises(RuntimeError, match="ring"):
        other.load_state_dict(broken)


def test_shrinking_keeps_a_share_of_what_sets_the_tables_apart() -> None:
    model, x = built()
    moved = copy.deepcopy(model)
    table = em_table(x, torch.zeros_like(x, dtype=torch.bool))
    iteration(moved, table, moved.penalty(None, 1e-3), accelerate=False)
    whole, none = copy.deepcopy(moved), copy.deepcopy(moved)
    whole.shrink_to(model, 1.0)
    none.shrink_to(model, 0.0)
    torch.testing.assert_close(whole.log_prob(x), moved.log_prob(x))
    torch.testing.assert_close(none.log_prob(x), model.log_prob(x))


def chain(N: int = 1000) -> tuple[Tensor, Tensor, Layout]:
    """Levels of which each copies the one before it, often, one that stands alone, a number; with holes."""
    g = torch.Generator().manual_seed(0)
    first = torch.randint(3, (N,), generator=g)
    columns = [first]
    for n in (3, 4):
        copied = torch.rand(N, generator=g) < 0.7
        columns.append(torch.where(copied, columns[-1], torch.randint(n, (N,), generator=g)))
    x = torch.stack([*columns, torch.randint(2, (N,), generator=g), torch.randn(N, generator=g) + first], 1).double()
    missing = torch.rand(x.shape, generator=g) < 0.3
    missing[missing.all(1), 0] = False
    return x, missing, Layout.of("abcde", levels=(3, 3, 4, 2, 0))


def test_the_forest_is_found_and_choosing_it_anew_never_lowers_the_objective() -> None:
    x, missing, layout = chain()
    model = GaussianMixture.build(MixtureConfig(components=2, outliers=True), layout).double()
    g = torch.Generator().manual_seed(1)
    model.initialise(torch.where(missing, torch.randint(2, x.shape, generator=g).double(), x), g)
    table, penalty = em_table(x, missing), model.penalty(None, 1e-3)
    values = []
    for _ in range(6):
        values += [iteration(model, table, penalty, accelerate=True).objective.item() for _ in range(2)]
        before = model.objective(table, penalty)
        model.refine(table, penalty)
        after = model.objective(table, penalty)
        assert after.objective >= before.objective
        values += [before.objective.item(), after.objective.item()]
    assert all(after >= before - 1e-9 * abs(before) for before, after in itertools.pairwise(values))
    assert isinstance(model.gaussians, Mixed) and model.gaussians.categories.forest.parent == (-1, 0, 1, -1)
    alone = GaussianMixture.build(MixtureConfig(components=2, outliers=True, levels="independent"), layout).double()
    alone.initialise(x, g)
    alone.refine(table, penalty)
    assert isinstance(alone.gaussians, Mixed) and set(alone.gaussians.categories.forest.parent) == {-1}


def test_a_step_of_em_returns_the_objective_and_the_responsibilities_weigh_the_rows() -> None:
    model, x = built()
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    table, penalty = em_table(x, missing), model.penalty(None, 1e-3)
    value = model.objective(table, penalty)
    r, same = model.responsibilities(table, penalty)
    assert same == value
    expected = model.marginal_log_prob(x, missing)
    torch.testing.assert_close(value.loglik, expected.sum())
    torch.testing.assert_close(r.sum(1), torch.ones_like(r[:, 0]))
    assert model.em_step(table, penalty) == value
    weights = (r * table.weights[:, None]).sum(0) + penalty.weight
    torch.testing.assert_close(model.log_weights().exp(), weights / weights.sum())
