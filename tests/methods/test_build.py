"""What the settings of a scan mean for a table, and the objective of several columns."""

import pytest
import torch

from tests.methods.test_vgi import SIGMA, ExactConditionals, log_p, rows
from vgi_cli.chains.store.packed import Chains
from vgi_cli.data import make_table
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.methods.vgi.build import BLOCKS_FROM, MOST, PARTS, build_conditionals, moves_of
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import Estimate, draw_noise, vgi_objective


def table(D, share):
    missing = torch.zeros(6, D, dtype=torch.bool)
    missing[:4, : int(share * D)] = True
    return Chains(make_table(torch.zeros(6, D), missing), 1)


def moved_columns(config, chains):
    return moves_of(config, ExactConditionals(SIGMA), chains)[0].B


def block_columns(config, chains):
    return moves_of(config, ExactConditionals(SIGMA), chains)[1].B


def test_auto_is_single_columns_up_to_many_holes_a_row_and_blocks_from_there():
    for D, share in ((4, 1.0), (60, 1.0), (2 * BLOCKS_FROM - 2, 0.5)):
        assert moved_columns(VgiConfig(), table(D, share)) == 1
        assert block_columns(VgiConfig(), table(D, share)) == 1
    for D, expected in ((2 * BLOCKS_FROM, BLOCKS_FROM // PARTS), (560, 280 // PARTS), (2000, MOST)):
        assert moved_columns(VgiConfig(), table(D, 0.5)) == expected
        assert block_columns(VgiConfig(), table(D, 0.5)) == expected
    assert moved_columns(VgiConfig(scan="step"), table(560, 0.5)) == 1


def test_columns_by_hand():
    config = VgiConfig(scan="block", block_columns=7)
    assert moved_columns(config, table(20, 0.5)) == 7
    assert moved_columns(config, table(5, 0.5)) == 5
    assert moved_columns(VgiConfig(scan="block"), table(20, 0.5)) == 1
    objective_only = VgiConfig(scan="step", block_columns=7)
    assert moved_columns(objective_only, table(20, 0.5)) == 1
    assert block_columns(objective_only, table(20, 0.5)) == 7


def test_the_block_objective_of_one_column_has_the_value_of_the_objective():
    """With exact q, one hole and any B, every draw gives log p(x_obs): B columns include observed ones, which stay."""
    x, missing, g = rows(40, 0)
    missing[:] = False
    missing[torch.arange(40), torch.arange(40) % 3] = True
    q, ones = ExactConditionals(SIGMA), x.new_ones(40)
    one = Estimate(1)
    single = vgi_objective(log_p, q, x, missing, ones, 1, draw_noise(q, 40, one, x, g), one)
    for estimate in (Estimate(1, 2), Estimate(2, 3)):
        block = vgi_objective(log_p, q, x, missing, ones, 1, draw_noise(q, 40, estimate, x, g), estimate)
        torch.testing.assert_close(block, single, rtol=1e-10, atol=1e-10)


def test_the_block_objective_sums_over_the_columns_of_a_block():
    """Independent columns with exact q: log p(x') - sum log q is log p of what was not redrawn, for every draw."""
    sigma = torch.diag(torch.tensor([1.0, 2.0, 0.5] * 6, dtype=torch.float64))
    normal = torch.distributions.Normal(0.0, sigma.diagonal().sqrt())
    x = torch.randn(30, 18, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    missing = torch.ones(30, 18, dtype=torch.bool)
    q, estimate = ExactConditionals(sigma), Estimate(1, 2)
    noise = draw_noise(q, 30, estimate, x, torch.Generator().manual_seed(1))
    whole = lambda x, missing: normal.log_prob(x).sum(1)  # noqa: E731
    value = vgi_objective(whole, q, x, missing, x.new_ones(30), 1, noise, estimate)
    redrawn = noise.order.topk(2, 1).indices  # 18 holes in parts of at most two columns
    kept = normal.log_prob(x).scatter(1, redrawn, 0.0).sum()
    torch.testing.assert_close(value, kept)


def test_columns_of_levels_are_redrawn_one_at_a_time():
    """`auto` takes no blocks beside them, however many holes there are, and blocks that are asked for are refused."""
    layout = Layout.of(map(str, range(200)), levels=(3, *(0,) * 199))
    missing = torch.ones(4, 200, dtype=torch.bool)
    chains = Chains(make_table(torch.zeros(4, 200), missing, layout), 1)
    q = build_conditionals(VgiConfig(), layout)
    moves, estimate = moves_of(VgiConfig(), q, chains)
    assert (moves.B, estimate.B) == (1, 1)
    for config in (VgiConfig(scan="block"), VgiConfig(scan="step", block_columns=7)):
        with pytest.raises(UsageError, match="those of levels are redrawn one at a time") as caught:
            moves_of(config, q, chains)
        assert caught.value.hint
