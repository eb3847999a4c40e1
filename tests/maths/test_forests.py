"""Messages along forests against sums over all rows, and spanning forests against all of them."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from vgi_cli.maths.forests import (
    Forest,
    draw,
    edge_weights,
    evidence,
    expected_counts,
    heaviest,
    inverted,
    joined,
    level_probs,
    see,
)

LEVELS = (2, 3, 2, 4)
SHAPES = [(-1, -1, -1, -1), (-1, 0, 1, 2), (1, -1, 1, -1), (3, 0, 3, -1), (-1, 0, 0, 0)]
K = 2
EVERY = torch.tensor(list(itertools.product(*map(range, LEVELS))))


def tables_of(parent: tuple[int, ...]) -> tuple[Forest, list[Tensor]]:
    forest = Forest(LEVELS, parent)
    logits = torch.randn(K, forest.T, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return forest, forest.tables(forest.log_softmax(logits).exp())


def joint(forest: Forest, tables: list[Tensor]) -> Tensor:
    """[K, rows of EVERY] by the definition."""
    out = torch.ones(K, len(EVERY), dtype=torch.float64)
    for i, p in enumerate(forest.parent):
        row = EVERY[:, p] if p >= 0 else torch.zeros(len(EVERY), dtype=torch.int64)
        out = out * tables[i][:, row, EVERY[:, i]]
    return out


def rows() -> tuple[Tensor, Tensor]:
    """Every row under every mask."""
    masks = torch.tensor(list(itertools.product([False, True], repeat=len(LEVELS))))
    return EVERY.repeat(len(masks), 1), masks.repeat_interleave(len(EVERY), 0)


def agrees(c: Tensor, missing: Tensor) -> Tensor:
    """[R, rows of EVERY] whether a complete row has the observed cells."""
    return ((c[:, None] == EVERY) | missing[:, None]).all(-1).double()


@pytest.mark.parametrize("parent", SHAPES)
def test_probabilities_of_the_observed_cells_are_sums_over_the_rows(parent: tuple[int, ...]) -> None:
    forest, tables = tables_of(parent)
    law = joint(forest, tables)
    assert torch.allclose(law.sum(1), torch.ones(K, dtype=torch.float64))
    c, missing = rows()
    seen = see(forest, tables, evidence(c, missing, forest.levels))
    torch.testing.assert_close(seen.log_prob.exp(), agrees(c, missing) @ law.mT)
    torch.testing.assert_close(forest.flat(tables).log()[:, forest.cells(EVERY)].sum(-1).exp(), law)


@pytest.mark.parametrize("parent", SHAPES)
def test_levels_and_counts_given_the_observed_cells(parent: tuple[int, ...]) -> None:
    forest, tables = tables_of(parent)
    c, missing = rows()
    seen = see(forest, tables, evidence(c, missing, forest.levels))
    weight = torch.rand(len(c), K, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    posterior = agrees(c, missing)[:, None] * joint(forest, tables)  # [R, K, rows of EVERY]
    posterior = posterior / posterior.sum(-1, keepdim=True)
    for i, law in enumerate(level_probs(seen)):
        one_hot = torch.nn.functional.one_hot(EVERY[:, i], LEVELS[i]).double()
        torch.testing.assert_close(law, (posterior @ one_hot).permute(1, 0, 2))
    held = torch.nn.functional.one_hot(forest.cells(EVERY), forest.T).sum(1).double()
    torch.testing.assert_close(expected_counts(seen, weight), torch.einsum("rk,rke,et->kt", weight, posterior, held))


@pytest.mark.parametrize("parent", SHAPES)
def test_draws_have_the_law_given_the_observed_cells(parent: tuple[int, ...]) -> None:
    forest, tables = tables_of(parent)
    c, missing = torch.tensor([[1, 2, 0, 3]]), torch.tensor([[True, False, True, True]])
    seen = see(forest, tables, evidence(c, missing, forest.levels))
    n = 40_000
    u = torch.rand(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for k in range(K):
        drawn = draw(seen, torch.zeros(n, dtype=torch.int64), torch.full((n,), k), u)
        assert bool((drawn[:, 1] == 2).all())
        expected = agrees(c, missing)[0] * joint(forest, tables)[k]
        expected = n * expected / expected.sum()
        counts = (drawn[:, None] == EVERY).all(-1).double().sum(0)
        possible = expected > 0
        square = ((counts - expected).square() / expected)[possible].sum()
        freedom = int(possible.sum()) - 1
        assert bool((counts[~possible] == 0).all()) and square < freedom + 4 * (2 * freedom) ** 0.5


def test_many_dimensions_do_not_underflow() -> None:
    n = 600
    forest = Forest((2,) * n, (-1, *[0] * (n - 1)))
    tables = [torch.tensor([[[1e-3, 1 - 1e-3]] * (1 if i == 0 else 2)], dtype=torch.float32) for i in range(n)]
    missing = torch.zeros(1, n, dtype=torch.bool)
    missing[0, 0] = True
    seen = see(forest, tables, evidence(torch.zeros(1, n, dtype=torch.int64), missing, forest.levels))
    assert seen.log_prob.item() == pytest.approx((n - 1) * torch.tensor(1e-3).log().item(), rel=1e-4)
    torch.testing.assert_close(level_probs(seen)[0][0, 0], tables[0][0, 0])


def test_gradients_of_the_log_probability() -> None:
    forest, _ = tables_of((-1, 0, 1, 2))
    c, missing = rows()
    logits = torch.randn(K, forest.T, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).requires_grad_()
    tables = forest.tables(forest.log_softmax(logits).exp())
    (ours,) = torch.autograd.grad(see(forest, tables, evidence(c, missing, forest.levels)).log_prob.sum(), logits)
    tables = forest.tables(forest.log_softmax(logits).exp())
    (theirs,) = torch.autograd.grad((agrees(c, missing) @ joint(forest, tables).mT).log().sum(), logits)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("seed", range(5))
def test_the_heaviest_forest_is_the_best_of_all(seed: int) -> None:
    n = 5
    weight = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.3
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    best = 0.0
    for chosen in itertools.chain.from_iterable(itertools.combinations(pairs, size) for size in range(n)):
        try:
            shape = joined(Forest.without_edges((2,) * n), chosen)
        except ValueError:
            continue
        if sum(p >= 0 for p in shape.parent) == len(chosen):
            best = max(best, sum(float(weight[a, b]) for a, b in chosen))
    edges = heaviest(weight)
    assert sum(float(weight[a, b]) for a, b in edges) == pytest.approx(best)
    shape = joined(Forest.without_edges((2,) * n), edges)
    assert {tuple(sorted((i, p))) for i, p in enumerate(shape.parent) if p >= 0} == set(edges)


@pytest.mark.parametrize("parent", [(1, 0), (0, -1), (-1, 5), (-1,)])
def test_what_is_no_forest_is_refused(parent: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="parent"):
        Forest((2, 2), parent)


def test_inversion_never_takes_a_level_that_cannot_be() -> None:
    weight = torch.tensor([[0.0, 1.0, 0.0, 2.0, 0.0]]).expand(3, -1)
    assert inverted(weight, torch.tensor([0.0, 0.5, 1.0])).tolist() == [1, 3, 3]


def test_an_edge_is_worth_its_bayes_factor() -> None:
    """Against the Dirichlet-multinomial laws written out for one pair, in both directions."""
    g = torch.Generator().manual_seed(0)
    levels, pull, smooth = (2, 3, 2), 1.5, 1.0
    rows = torch.stack([torch.randint(n, (40,), generator=g) for n in levels], 1)
    rows[:, 1] = torch.where(torch.rand(40, generator=g) < 0.7, rows[:, 0], rows[:, 1])
    weight = torch.rand(40, K, dtype=torch.float64, generator=g)
    one_hot = torch.cat([torch.nn.functional.one_hot(c, n) for c, n in zip(rows.T, levels, strict=True)], 1).double()
    pairs = torch.stack([(one_hot * w[:, None]).T @ one_hot for w in weight.T])
    worth = edge_weights(levels, pairs, pull, smooth)

    def log_law(counts: Tensor, prior: Tensor) -> Tensor:
        parts = torch.lgamma(prior.sum(-1)) - torch.lgamma((prior + counts).sum(-1))
        return (parts + (torch.lgamma(prior + counts) - torch.lgamma(prior)).sum(-1)).sum()

    def one_way(a: int, b: int) -> float:
        start = [0, 2, 5, 7]
        block = pairs[:, start[a] : start[a + 1], start[b] : start[b + 1]]
        whole = block.sum(0)
        own = (whole.sum(0) + 1 / 7) / (whole.sum(0) + 1 / 7).sum()
        law = (whole + smooth * own) / (whole + smooth * own).sum(-1, keepdim=True)
        cost = 0.5 * (levels[a] - 1) * (levels[b] - 1) * whole.sum().log()
        return float(log_law(block, pull * law) - log_law(block.sum(1), pull * own) - cost)

    for a, b in itertools.combinations(range(3), 2):
        assert worth[a, b].item() == pytest.approx((one_way(a, b) + one_way(b, a)) / 2)
    torch.testing.assert_close(worth, worth.mT)
    assert worth[0, 1] > 0 > worth[0, 2]
