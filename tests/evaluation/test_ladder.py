"""How much work a row gets: what the pilots say of it, and estimates that stay unbiased under the choice."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.evaluation.models import exact_holes, random_mixture
from tests.oracles import GaussianConditionals, GaussianModel
from vgi_cli.evaluation.likelihood.annealing import Annealer
from vgi_cli.evaluation.likelihood.estimate import Cells, annealed
from vgi_cli.evaluation.likelihood.ladder import Budget, Effort, bundle, climb, relative_variance
from vgi_cli.evaluation.likelihood.units import Encoded, data_log_prob, joined
from vgi_cli.maths.joint import JointMixture
from vgi_cli.maths.noise import mix64


def test_relative_variance_is_that_within_draws() -> None:
    """Draws of different height, and of no height at all; weights of any size."""
    weights = torch.tensor([[1.0, 10.0], [3.0, 30.0]], dtype=torch.float64)[:, :, None]  # [2, S = 2, R = 1]
    expected = (2.0 + 200.0) / 2 / 11.0**2  # variances 2 and 200, overall mean 11
    for shift in (0.0, 900.0, -900.0):
        assert float(relative_variance(weights.log() + shift)) == pytest.approx(expected)
    even = torch.tensor([[1.0, 10.0]], dtype=torch.float64).expand(4, 2)[:, :, None]
    assert float(relative_variance(even.log())) == pytest.approx(0.0, abs=1e-12)
    assert float(relative_variance(torch.full((4, 2, 1), -torch.inf))) == torch.inf


def test_bundle_is_the_least_power_of_two() -> None:
    r = torch.tensor([0.0, 0.5, 0.51, 1.0, 3.0, torch.inf], dtype=torch.float64)
    assert bundle(r, 0.5).tolist() == [1, 1, 2, 2, 8, torch.inf]


def pilot_of(table: dict[int, list[float]], met: list[tuple[int, int, int]]) -> object:
    """A pilot whose weights, half of them 1 + s and half 1 - s, have these relative variances after T steps."""

    def pilot(index: Tensor, T: int, n: int) -> Tensor:
        met.append((T, n, len(index)))
        r = torch.tensor(table[T], dtype=torch.float64)[index]
        s = (r * (n - 1) / n).sqrt()
        sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(n // 2)
        return (1 + sign[:, None, None] * s).clamp(min=1e-300).log()

    return pilot


def test_rows_stop_on_the_rung_that_is_enough() -> None:
    budget = Budget(pilot=16, bundle=4, spread=0.25, moves=256)  # up to 4 draws: relative variances up to 1
    met: list[tuple[int, int, int]] = []
    table = {1: [0.0, 0.2, 0.9, 1.06, 1.06, 1.06], 16: [9.0, 9.0, 9.0, 0.5, 1.01, 1.06], 64: [9.0] * 4 + [0.2, 1.01]}
    effort = climb(pilot_of(table, met), torch.zeros(6), 1, budget)
    assert effort.T.tolist() == [1, 1, 1, 16, 64, 256]
    assert effort.B.tolist() == [1, 1, 4, 2, 1, 1]
    assert effort.limited.tolist() == [False] * 5 + [True]
    assert effort.cost.tolist() == [1, 1, 4, 32, 64, 256]
    assert met == [(1, 16, 6), (16, 16, 3), (64, 16, 2)]  # only rows that go on are tried again
    groups = {(T, B): index.tolist() for T, B, index in effort.groups()}
    assert groups == {(1, 1): [0, 1], (1, 4): [2], (16, 2): [3], (64, 1): [4], (256, 1): [5]}


def test_no_path_may_be_allowed() -> None:
    budget = Budget(pilot=16, bundle=4, spread=0.25, moves=1)
    effort = climb(pilot_of({1: [0.0, 1.06]}, []), torch.zeros(2), 1, budget)
    assert (effort.T.tolist(), effort.B.tolist(), effort.limited.tolist()) == ([1, 1], [1, 4], [False, True])


@pytest.mark.parametrize(("moves", "wider", "ends"), [(256, 1.0, {1}), (256, 0.6, {1, 16}), (16, 0.35, {1, 16})])
def test_the_choice_leaves_the_estimate_unbiased(moves: int, wider: float, ends: set[int]) -> None:
    """A row over and over, each time with other random numbers: the mean of the estimates of p(x_obs), not of its
    logarithm, is the closed form, though the pilots choose their work anew each time. g is a shifted, too narrow or too
    wide Gaussian, so that rows do end on different rungs."""
    g = torch.Generator().manual_seed(0)
    mean, covariance = torch.zeros(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    model = GaussianModel(mean, covariance)
    missing = torch.tensor([[True, True, False]])
    x = torch.tensor([[0.0, 0.0, 0.3]], dtype=torch.float64)
    exact = -0.5 * (0.09 + math.log(2 * math.pi))
    mixture = JointMixture(torch.zeros(1, dtype=torch.float64), mean[None] + 0.9, covariance[None] * wider**2)
    annealer = Annealer(model.log_prob, mixture, GaussianConditionals(mean, covariance))
    R = 1500
    cells = Cells.plain(x.expand(R, -1), missing.expand(R, -1), mix64(torch.randint(2**40, (R,), generator=g)))
    budget = Budget(particles=4, pilot=8, bundle=2, spread=0.5, moves=moves, simulated=0)
    found = annealed(model, annealer, cells, budget, 0)
    assert found.work is not None
    costs = set((found.work.evaluations // 4).tolist())
    assert len(costs) > 1, "every row stopped at the same budget"
    ratio = (found.values - exact).exp()
    assert abs(float(ratio.mean()) - 1) < 4 * float(ratio.std()) / math.sqrt(R)


def test_dequantisation_draws_and_pieces_of_rows() -> None:
    """Rows by themselves, in another order, and in pieces give the same, and so do small batches; the budgets and what
    reached the limit are joined with them."""
    model = random_mixture(4, [0.5, 0.5], torch.Generator().manual_seed(0))
    g = torch.Generator().manual_seed(1)
    x, missing = model.sample(12, g), exact_holes(12, 4, 2, g)
    missing[5] = False
    keys = mix64(torch.arange(12))
    volumes = torch.randn(3, 12, generator=g, dtype=torch.float64)
    shifted = [x, x + 0.01, x - 0.01]

    def run(pick: Tensor, batch: int = 16_384) -> object:
        draws = [Encoded(each[pick], volume[pick]) for each, volume in zip(shifted, volumes, strict=True)]
        budget = Budget(pilot=48, samples=2000, simulated=0, batch=batch)
        return data_log_prob(model, None, draws, missing[pick], budget=budget, rows=keys[pick])

    whole = run(torch.arange(12))
    exact = torch.stack([model.marginal(each, missing) + v for each, v in zip(shifted, volumes, strict=True)])
    torch.testing.assert_close(whole.values, exact.logsumexp(0) - math.log(3), rtol=0, atol=0.4)
    torch.testing.assert_close(whole.values[5], (exact.logsumexp(0) - math.log(3))[5])
    assert whole.particles == 3 * 42 and whole.work.evaluations[5] == 3
    torch.testing.assert_close(run(torch.arange(12), batch=70).values, whole.values, rtol=0, atol=1e-9)
    order = torch.tensor([7, 5, 0, 11, 3])
    parts = joined([run(order[:1]), run(order[1:2]), run(order[2:])], missing[order], 3, None)
    torch.testing.assert_close(parts.values, whole.values[order], rtol=0, atol=1e-9)
    torch.testing.assert_close(parts.half_budget, whole.half_budget[order], rtol=0, atol=1e-9)
    assert parts.work.evaluations.tolist() == whole.work.evaluations[order].tolist()
    assert parts.work.limited.tolist() == whole.work.limited[order].tolist()


def test_pilots_of_draws_are_shared_out() -> None:
    met: list[tuple[int, int, int]] = []

    def pilot(index: Tensor, T: int, n: int) -> Tensor:
        met.append((T, n, len(index)))
        return torch.randn(n, 8, len(index), generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 9

    effort: Effort = climb(pilot, torch.zeros(3), 8, Budget(pilot=256, moves=64, batch=512))
    assert met == [(1, 32, 2), (1, 32, 1), (16, 4, 3)] and effort.limited.all()
