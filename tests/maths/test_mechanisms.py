"""Mechanisms of missingness: their rates, what their probabilities depend on, and what stays."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import rankdata
from torch import Tensor

from vgi_cli.maths.mechanisms import MOST, SLOPE, Unreachable, hide, ranks
from vgi_cli.maths.noise import KeyedNoise, row_keys
from vgi_cli.ranges import MECHANISMS

NAMES = ("a", "b", "c", "d")


def noise(N: int, names: tuple[str, ...] = NAMES, seed: int = 0) -> KeyedNoise:
    return KeyedNoise(seed, names, row_keys([f"row {i}" for i in range(N)]), torch.tensor([0]), "trial")


def rows(N: int, D: int = 4, holes: float = 0.1) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(N, D, generator=generator, dtype=torch.float64)
    x[:, 0] = x[:, 0].round()  # with ties
    x[:, -1] += 0.8 * x[:, 0]
    x[torch.rand(N, D, generator=generator) < holes] = torch.nan
    return x


def test_ranks_are_those_of_scipy_standardised() -> None:
    x = rows(200)
    for j in range(4):
        seen = ~x[:, j].isnan()
        expected = torch.from_numpy(rankdata(x[seen, j].numpy()))
        expected = (expected - expected.mean()) / expected.std(correction=0)
        torch.testing.assert_close(ranks(x)[seen, j], expected)
        assert bool((ranks(x)[~seen, j] == 0).all())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("rate", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("every", [True, False])
def test_the_rate_is_that_of_the_observed_cells_of_each_chosen_column(mechanism: str, rate: float, every: bool) -> None:
    x, chosen = rows(4000), torch.tensor([True, True, every, every])
    found = hide(x, chosen, mechanism, rate, noise(4000))
    seen = ~x.isnan()
    assert not bool(found.cells[~seen].any()) and not bool(found.probability[:, ~chosen].any())
    expected = found.probability.sum(0) / seen.sum(0)
    torch.testing.assert_close(expected, rate * chosen.double(), atol=1e-12, rtol=0)
    share = found.cells.sum(0) / seen.sum(0)
    torch.testing.assert_close(share[chosen].double(), expected[chosen], atol=4 * (rate / 3600) ** 0.5, rtol=0)


def test_mnar_is_a_logistic_function_of_the_cell_itself() -> None:
    x = rows(500)
    found = hide(x, torch.ones(4, dtype=torch.bool), "mnar", 0.3, noise(500))
    seen = ~x.isnan()
    logits, own = found.probability.logit(), ranks(x)
    for j in range(4):
        gap = logits[seen[:, j], j] - SLOPE * own[seen[:, j], j]
        torch.testing.assert_close(gap, gap[:1].expand_as(gap))


@pytest.mark.parametrize("every", [True, False])
def test_what_mar_hides_changes_no_probability(every: bool) -> None:
    """Whatever stood in the cells that were hidden, those of the row would have been hidden with the same probability:
    only ranks of cells that stay decide."""
    chosen = torch.tensor([True, True, every, every])
    x = rows(300, holes=0.0)
    found = hide(x, chosen, "mar", 0.4, noise(300))
    other = x.clone()
    for j in range(4):  # the hidden cells of a column change places: the ranks of the others stay as they are
        hidden = found.cells[:, j].nonzero()[:, 0]
        other[hidden, j] = x[hidden.roll(1), j]
    again = hide(other, chosen, "mar", 0.4, noise(300))
    torch.testing.assert_close(again.probability[found.cells], found.probability[found.cells], atol=1e-9, rtol=0)
    assert float(found.probability[found.cells].std()) > 0.05


def test_mar_depends_on_the_columns_that_stay() -> None:
    x = rows(3000, holes=0.0)
    found = hide(x, torch.tensor([True, False, False, False]), "mar", 0.3, noise(3000))
    total = ranks(x)[:, 1:].sum(1)
    score = (total - total.mean()) / total.std(correction=0)
    gap = found.probability[:, 0].logit() - SLOPE * score
    torch.testing.assert_close(gap, gap[:1].expand_as(gap))


def test_draws_are_keyed_by_row_and_name() -> None:
    x = rows(50)
    chosen, every = torch.ones(4, dtype=torch.bool), noise(50)
    one = hide(x, chosen, "mcar", 0.3, every).cells
    assert bool(
        (hide(x[10:20], chosen, "mcar", 0.3, every.select(rows=torch.arange(10, 20))).cells == one[10:20]).all()
    )
    turned = hide(x.flip(1), chosen, "mcar", 0.3, noise(50, NAMES[::-1])).cells
    assert bool((turned.flip(1) == one).all())
    assert not bool((hide(x, chosen, "mcar", 0.3, noise(50, seed=1)).cells == one).all())


def test_mar_refuses_what_it_cannot_hide() -> None:
    x = rows(400, D=2, holes=0.0)
    with pytest.raises(Unreachable) as raised:
        hide(x, torch.ones(2, dtype=torch.bool), "mar", 0.7, noise(400, NAMES[:2]))
    assert 0.3 < raised.value.most <= MOST * 0.5
    with pytest.raises(Unreachable, match="0"):
        hide(x[:, :1], torch.ones(1, dtype=torch.bool), "mar", 0.1, noise(400, NAMES[:1]))
    with pytest.raises(ValueError, match="unknown mechanism"):
        hide(x, torch.ones(2, dtype=torch.bool), "other", 0.1, noise(400, NAMES[:2]))
