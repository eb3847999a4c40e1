"""Conditionals of levels, alone and in one block with numbers: what they draw is what they score, under every mask."""

import itertools

import pytest
import torch

from tests.mixed import LAYOUT, rough_conditionals
from tests.selection import covering, some
from vgi_cli.conditionals.families.levels import LevelHeads
from vgi_cli.conditionals.families.location import MOST_COMBINATIONS, within_combinations
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.maths.laws import EXACT_UP_TO
from vgi_cli.methods.vgi.build import build_conditionals
from vgi_cli.methods.vgi.config import VgiConfig

LAYOUTS = ("independent", "shared", "modulated")
ORDERED = Layout.of("abc", levels=(5, 0, 3), ordered=(0,))


def rows(n, layout=LAYOUT, seed=1):
    g = torch.Generator().manual_seed(seed)
    columns = [
        torch.randint(levels, (n,), generator=g).double()
        if levels
        else torch.randn(n, generator=g, dtype=torch.float64)
        for levels in layout.level_counts
    ]
    return torch.stack(columns, 1), torch.ones(n, layout.D, dtype=torch.bool), g


def test_unordered_levels_are_a_softmax_and_ordered_ones_differences_of_sigmoids():
    heads = LevelHeads(ORDERED).double()
    params = torch.randn(2, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    law = heads(params, torch.tensor([0, 2]))
    location, cuts = params[0, 0], [-torch.inf]
    even = [(share / (1 - share)).log() for share in torch.arange(1, 5, dtype=torch.float64) / 5]
    for k in range(4):
        gap = params[0, 1] if k == 0 else (5 * (params[0, k + 1] / 5).tanh()).exp() * (even[k] - even[k - 1])
        cuts.append(float(even[0] + gap if k == 0 else cuts[-1] + gap))
    below = torch.sigmoid(torch.tensor([*cuts, torch.inf], dtype=torch.float64) - location)
    torch.testing.assert_close(law.log_probs[0].exp(), below.diff(), atol=1e-6, rtol=1e-6)  # cutpoints in float32
    torch.testing.assert_close(law.log_probs[1, :3], params[1, :3].log_softmax(0))
    assert bool((law.log_probs[1, 3:] == -torch.inf).all())
    assert float(heads(torch.zeros(1, 7), torch.tensor([0])).log_probs.exp().std()) < 1e-6


def test_gradients_are_numbers_where_a_level_all_but_cannot_be():
    heads = LevelHeads(ORDERED).double()
    params = torch.tensor([[60.0, 0, 0, 0, 0], [0, 0, -80, 0, 0]], dtype=torch.float64).repeat(2, 1).requires_grad_()
    law = heads(params, torch.tensor([0, 0, 2, 1]))
    (law.entropy().sum() + law.quadrature(params.new_zeros(4, 1)).weight.sum()).backward()
    assert bool(torch.isfinite(params.grad).all())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("extended", [False, True])
def test_laws_see_the_rest_of_the_row_and_their_own_level_in_the_extended_kernel_only(layout, extended):
    q = rough_conditionals(layout=layout, kernel="extended" if extended else "standard")
    x, missing, _ = rows(1)
    for j, changed in itertools.product(range(4), range(4)):
        other = x.clone()
        other[0, changed] = (x[0, changed] + 1) % 2 if LAYOUT.level_counts[changed] else x[0, changed] + 1
        at = torch.zeros(1, dtype=torch.float64)
        for hidden in (False, True):
            one, two = (q.law(row, missing, torch.tensor([j]), hidden=hidden).log_prob(at) for row in (x, other))
            assert torch.equal(one, two) == (changed == j and (hidden or not extended))


@covering(pytest.mark.parametrize("share", [0.0, 0.3]), pytest.mark.parametrize("family", ["gaussian", "spline"]))
def test_single_laws_draw_what_they_score(family, share):
    q = rough_conditionals(conditional=family)
    x, missing, g = rows(1)
    n = 60_000
    for column, levels in enumerate(LAYOUT.level_counts):
        with torch.no_grad():
            law = q.law(x.expand(n, -1), missing.expand(n, -1), torch.full((n,), column))
            law = law.widened(share) if share else law
            noise = torch.randn(n, 2, dtype=torch.float64, generator=g)
            value, log_q = law.draw_scored(noise)
            torch.testing.assert_close(log_q, law.log_prob(value))
            torch.testing.assert_close(value, law.draw(noise))
            if levels:
                for level in range(levels):
                    expected = float(law.log_prob(torch.full((n,), float(level), dtype=torch.float64))[0].exp())
                    assert float((value == level).double().mean()) == pytest.approx(expected, abs=8e-3)
            else:
                grid = torch.linspace(-100, 100, n, dtype=torch.float64)
                density = law.log_prob(grid).exp()
                assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=1e-3)
                inside = grid < 0.2
                share_below = float(torch.trapezoid(density[inside], grid[inside]))
                assert float((value < 0.2).double().mean()) == pytest.approx(share_below, abs=8e-3)


MIXED_BLOCK = LAYOUT.grouped([("u", "a", "b")])
PARTS = [part for n in (1, 2, 3) for part in itertools.combinations((0, 1, 3), n)]


@pytest.mark.parametrize(
    ("extended", "family"), some([(True, "spline")], itertools.product([False, True], ["gaussian", "spline"]))
)
def test_a_block_of_both_kinds_is_a_law_whatever_part_of_it_is_missing(family, extended):
    """Summed over its levels and integrated over its number: 1, and so if widened; draws keep what is given."""
    q = rough_conditionals(table=MIXED_BLOCK, conditional=family, kernel="extended" if extended else "standard")
    q.requires_grad_(False)
    grid = torch.linspace(-100, 100, 4001, dtype=torch.float64)
    x, _, g = rows(1)
    block = q.block_of[torch.tensor([0])]
    for part in PARTS:
        missing = torch.zeros(1, 4, dtype=torch.bool)
        missing[0, list(part)] = True
        given = [i for i in (0, 1, 3) if i not in part]
        many = x.expand(len(grid), -1), missing.expand(len(grid), -1), block.expand(len(grid))
        for law in (q.law(*many), q.law(*many).widened(0.3)):
            total = 0.0
            ranges = [range(n) if n and i in part else [x[0, i]] for i, n in enumerate(LAYOUT.level_counts)]
            for a, b in itertools.product(ranges[1], ranges[3]):
                values = x[:, [0, 1, 3]].repeat(len(grid), 1)
                values[:, 1], values[:, 2] = a, b
                if 0 in part:
                    values[:, 0] = grid
                    total += float(torch.trapezoid(law.log_prob(values).exp(), grid))
                else:
                    total += float(law.log_prob(values).exp()[0])
            assert total == pytest.approx(1, abs=2e-3)
            noise = torch.randn(len(grid), q.noise_width, dtype=torch.float64, generator=g)
            value, log_q = law.draw_scored(noise)
            torch.testing.assert_close(log_q, law.log_prob(value))
            drawn = q.put(many[0], many[2], value)
            assert torch.equal(drawn[:, given], many[0][:, given])


def test_what_is_given_of_a_block_enters_by_the_rule_of_Bayes():
    """Gaussian numbers: the law of a part given the others is the joint law over that of the others."""
    q = rough_conditionals(table=LAYOUT.grouped([("u", "a", "v", "b")]))
    x, every, _ = rows(1)
    block = torch.tensor([0])
    joint = q.law(x, every, block)
    other = x.clone()
    other[0, 1], other[0, 0] = (x[0, 1] + 1) % 3, x[0, 0] + 0.7
    for part in ([0, 1], [1], [0], [0, 1, 3], [1, 2]):
        missing = torch.zeros(1, 4, dtype=torch.bool)
        missing[0, part] = True
        moved = torch.where(missing, other, x)
        law = q.law(x, missing, block)
        ratio = joint.log_prob(moved) - joint.log_prob(x)
        torch.testing.assert_close(law.log_prob(moved) - law.log_prob(x), ratio, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("table", [MIXED_BLOCK, LAYOUT])
def test_entropy_is_minus_the_mean_of_log_q(table):
    q = rough_conditionals(table=table)
    x, missing, g = rows(q.S)
    missing[:, 1] = torch.arange(q.S) % 2 == 0
    law = q.law(x, torch.ones_like(missing), torch.arange(q.S))
    noise = torch.randn(40_000, q.S, q.fresh_width, dtype=torch.float64, generator=g)
    torch.testing.assert_close(law.entropy(), -law.draw_scored(noise)[1].mean(0), atol=0.02, rtol=0)


@covering(
    pytest.mark.parametrize("table", [MIXED_BLOCK, LAYOUT]), pytest.mark.parametrize("family", ["gaussian", "spline"])
)
def test_the_points_of_a_law_have_its_mean(family, table):
    """Of a function of the row less log q: against plain draws."""
    q = rough_conditionals(table=table, conditional=family)
    x, missing, g = rows(q.S)
    j = torch.arange(q.S)

    def f(rows):
        return torch.sin(rows.sum(-1)) + rows[..., 1] * rows[..., 0] - rows[..., 3]

    n = 40_000
    for block in range(q.S):
        j = torch.full((n,), block)
        with torch.no_grad():
            law = q.law(x[:1].expand(n, -1), missing[:1].expand(n, -1), j)
            noise = torch.randn(n, q.fresh_width, dtype=torch.float64, generator=g)
            value, log_q = law.draw_scored(noise)
            plain = f(q.put(x[:1], j, value)) - log_q
            points = law.quadrature(noise)
            got = points.mean(f(q.put(x[:1], j.expand(points.weight.shape), points.value)))
        error = 5 * (plain.var() / n + got.var() / n).sqrt() + 1e-9
        assert abs(float(got.mean() - plain.mean())) < error
        assert float(got.var()) <= 1.02 * float(plain.var()) + 1e-9


def test_a_block_of_too_many_combinations_is_refused():
    layout = Layout.of("abcd", levels=(9, 8, 0, 2)).grouped([("a", "b", "c")])
    with pytest.raises(UsageError, match=rf"a, b, c has 72 combinations .* at most {MOST_COMBINATIONS}") as caught:
        build_conditionals(VgiConfig(), layout)
    assert caught.value.hint


def test_a_column_of_too_many_levels_beside_blocks_is_refused():
    layout = Layout.of("abc", levels=(0, 70, 0)).grouped([("a", "c")])
    with pytest.raises(UsageError, match="column 'b' has 70 levels") as caught:
        build_conditionals(VgiConfig(), layout)
    assert caught.value.hint
    assert build_conditionals(VgiConfig(), Layout.of("abc", levels=(0, 70, 0))).mixed


def test_columns_are_cut_where_their_combinations_would_be_too_many():
    layout = Layout.of("abcde", levels=(8, 0, 8, 2, 70))
    assert within_combinations([0, 1, 2, 3, 4], layout) == [[0, 1, 2], [3], [4]]
    assert within_combinations([1, 3], layout) == [[1, 3]]


def test_many_levels_take_a_bounded_number_of_points():
    q = rough_conditionals(table=Layout.of("ab", levels=(0, 40)))
    x, missing, g = rows(3, Layout.of("ab", levels=(0, 40)))
    points = q.law(x, missing, torch.tensor([1, 0, 1])).quadrature(torch.randn(3, 1, dtype=torch.float64, generator=g))
    assert points.weight.shape == (EXACT_UP_TO, 3)
    torch.testing.assert_close(points.weight.sum(0), torch.ones(3, dtype=torch.float64))
    assert points.used.sum(0).tolist() == [EXACT_UP_TO, 1, EXACT_UP_TO]
