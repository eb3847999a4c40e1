"""Moves of whole rows leave the model's conditional as it is, whatever mixture proposes them, and how long chains run
is measured where the answer is known."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from tests.mixed import LAYOUT, rough_conditionals
from tests.oracles import GaussianConditionals, GaussianModel
from tests.samplers.chains_setup import D, Fixed, make_setup, noise_for, unbounded
from tests.samplers.test_metropolis import TruthStart
from tests.samplers.test_mixed_chains import MODEL, assert_drawn_from_the_conditional, drawn, row, start
from vgi_cli.evaluation.report import remarks
from vgi_cli.maths.joint import JointMixture
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.base import Model, ModelConfig
from vgi_cli.samplers import lengths as rules
from vgi_cli.samplers.base import impute
from vgi_cli.samplers.lengths import FEWEST_ROUNDS, MOST_ROUNDS, Lengths, grades, measured, rest_of
from vgi_cli.samplers.metropolis import MetropolisImputer
from vgi_cli.samplers.starts import EmpiricalStart, Start
from vgi_cli.samplers.together import Together
from vgi_cli.samplers.whole import Given, WholeRows, whole_noise

pytestmark = pytest.mark.full_fits("samplers.lengths.MOST_ROUNDS")


def together(model: Model, q: GaussianConditionals, start: Start) -> MetropolisImputer:
    """As `build` makes it."""
    shared = Together(model, q)
    imputer = MetropolisImputer(model, q, start, together=shared)
    shared.shares = imputer.shares_apart
    return imputer


def wrong_mixture(model: GaussianModel) -> JointMixture:
    """Two components, neither of which is the model: one is shifted, the other too wide and without correlation."""
    means = torch.stack([model.mean + 0.7, model.mean - 0.3])
    covariances = torch.stack([model.covariance, torch.diag(1.7 * model.covariance.diagonal())])
    return JointMixture(torch.tensor([0.4, 0.6], dtype=torch.float64).log(), means, covariances)


@pytest.mark.parametrize("cells", [0, 1])
def test_rows_of_the_model_stay_rows_of_the_model(cells: int) -> None:
    """From hidden values, which are exact draws: after eight rounds still distributed as p (4.5 standard errors)."""
    N = 2048
    s = make_setup(N)
    q = GaussianConditionals(s.model.mean, s.model.covariance, 0.4, 0.7)
    shared = Fixed(s.model, wrong_mixture(s.model), 8, cells)
    imputer = MetropolisImputer(s.model, q, TruthStart(s.full), together=shared)
    noise = KeyedNoise(0, tuple("abcd"), torch.arange(N), torch.arange(1))
    out = impute(imputer, s.x, s.missing, noise, s.box)[0]
    assert ((out != s.full) & s.missing).sum() > 0.9 * s.missing.sum()
    assert torch.equal(out[~s.missing], s.full[~s.missing])
    white = torch.linalg.solve_triangular(s.model.factor, (out - s.model.mean).mT, upper=False).mT
    assert (white.mean(0).abs() < 4.5 / math.sqrt(N)).all()
    second = white.mT @ white / N - torch.eye(D)
    assert (second.abs() < 4.5 * (1 + torch.eye(D) * (math.sqrt(2) - 1)) / math.sqrt(N)).all()


@pytest.mark.parametrize("name", ["accept", "choice"])
def test_a_column_may_have_any_name(name: str) -> None:
    """Exact draws of two normals far apart, of which all cells are missing: after ten rounds with a mixture that is too
    wide they still have the moments of p, where a column's name is that of something else that is drawn (4.5 standard
    errors). A column called accept had a mean 50 of them too low."""
    N, two = 16_384, torch.tensor([-2.0, 2.0], dtype=torch.float64)
    at = torch.stack([two, torch.zeros_like(two)], 1)
    wide = JointMixture(two.new_full((2,), 0.5).log(), at, 1.21 * torch.eye(2, dtype=torch.float64).expand(2, 2, 2))
    holes, box = torch.ones(N, 2, dtype=torch.bool), torch.stack(unbounded(2))

    def log_density(x: Tensor, missing: Tensor) -> Tensor:
        each = -0.5 * (x[:, None] - at).square().sum(2)
        return each.logsumexp(1) - math.log(4 * math.pi)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 2, dtype=torch.float64, generator=generator)
    x[:, 0] += two.repeat(N // 2)
    log_p, moves = log_density(x, holes), WholeRows(wide)
    given = moves.given(x, holes, torch.zeros(N, dtype=torch.int64))
    noise = KeyedNoise(0, ("a", name), torch.arange(N), torch.arange(1))
    for number in range(10):
        for own in whole_noise(noise.at(number), x):
            x, log_p, _ = moves.move(log_density, (x, log_p), holes, box, given, holes[:, 0], own)
    bound = 4.5 / math.sqrt(N)
    assert x.mean(0).abs()[0] < bound * math.sqrt(5.0) and x.mean(0).abs()[1] < bound
    assert (x[:, 1].square().mean() - 1).abs() < bound * math.sqrt(2.0)
    assert (x[:, 0] * x[:, 1]).mean().abs() < bound * math.sqrt(5.0)
    assert (x[:, 0] * x[:, 1].square()).mean().abs() < bound * math.sqrt(15.0)


@pytest.mark.parametrize("name", ["accept", "choice", "size"])
def test_no_column_shares_its_noise_with_a_choice(name: str) -> None:
    """The uniform by which a move is chosen or accepted is not the one behind the proposal of a column of that name."""
    noise = KeyedNoise(0, (name,), torch.arange(1000), torch.arange(1))
    for own in whole_noise(noise, torch.zeros(1, dtype=torch.float64)):
        behind = 0.5 * (1 + torch.erf(own.normal[:, 0] / math.sqrt(2.0)))
        for other in (own.choice, own.size, own.log_accept.exp()):
            assert torch.corrcoef(torch.stack([behind, other]))[0, 1].abs() < 4.5 / math.sqrt(1000)


def test_levels_and_numbers_from_their_exact_conditional() -> None:
    """From f0, with rough conditionals and the mixture and the length that are made for the model."""
    q = rough_conditionals(1, LAYOUT, 0.1)
    draws = drawn(together(MODEL, q, start()), row())
    assert_drawn_from_the_conditional(draws, row())


def test_the_box_holds() -> None:
    s = make_setup(100)
    box = unbounded(D)
    box.low[:] = s.model.mean - 0.5 * s.model.covariance.diagonal().sqrt()
    q = GaussianConditionals(s.model.mean, s.model.covariance)
    imputer = MetropolisImputer(
        s.model, q, EmpiricalStart(s.x, s.missing), together=Fixed(s.model, wrong_mixture(s.model), 6)
    )
    out = impute(imputer, s.x, s.missing, noise_for(100, 2), box)
    assert box.contains(out)[:, s.missing].all()


def test_draws_do_not_depend_on_batch_rows_or_number_of_draws() -> None:
    s = make_setup(300, seed=2)
    q = GaussianConditionals(s.model.mean.float(), s.model.covariance.float(), 0.2)
    model = GaussianModel(s.model.mean.float(), s.model.covariance.float())
    x, noise = s.x.float(), noise_for(300, 7)

    def imputer() -> MetropolisImputer:
        return together(model, q, EmpiricalStart(x, s.missing))

    every = impute(imputer(), x, s.missing, noise, s.box)
    fewer = impute(imputer(), x, s.missing, noise.select(draws=torch.arange(2)), s.box)
    assert torch.equal(fewer, every[:2])
    pick = torch.tensor([299, 4, 17])
    some = impute(imputer(), x[pick], s.missing[pick], noise.select(rows=pick), s.box)
    assert torch.equal(some, every[:, pick])


def test_a_mixture_that_is_the_model_needs_the_fewest_rounds() -> None:
    s = make_setup(100)
    q = GaussianConditionals(s.model.mean, s.model.covariance)
    imputer = together(s.model, q, EmpiricalStart(s.x, s.missing))
    impute(imputer, s.x, s.missing, noise_for(100, 2), s.box)
    found = imputer.diagnostics()
    assert set(found["rounds_by_holes"].values()) == {float(FEWEST_ROUNDS)}  # type: ignore[attr-defined]
    assert found["whole_rows"] > 0.7 and found["rounds"] == FEWEST_ROUNDS  # type: ignore[operator]
    assert not remarks(found)


class TwoRidges(Model):
    """Two narrow Gaussians far apart, equally likely, that give as draws only rows of the first; so the mixture knows
    nothing of the second."""

    Config = ModelConfig

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0
        one = torch.full((2, 2), 0.99, dtype=torch.float64) + 0.01 * torch.eye(2, dtype=torch.float64)
        self.parts = [GaussianModel(torch.full((2,), m, dtype=torch.float64), 0.01 * one) for m in (-3.0, 3.0)]

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Nothing to set."""

    def log_prob(self, x: Tensor) -> Tensor:
        return torch.logaddexp(*(part.log_prob(x) for part in self.parts)) - math.log(2.0)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        self.drawn += 1
        parts = [part.sample(n, generator) for part in self.parts]
        if self.drawn <= 2:  # what the mixture is fitted to
            return parts[0]
        return torch.where((torch.arange(n) % 2 == 0)[:, None], *parts)


def test_chains_that_do_not_mix_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rows of the second ridge are never proposed and single cells cannot leave a ridge."""
    monkeypatch.setattr(rules, "MOST_ROUNDS", 20)
    model = TwoRidges()
    q = GaussianConditionals(model.parts[0].mean, model.parts[0].covariance)
    table = model.parts[0].sample(200, torch.Generator().manual_seed(0))
    imputer = together(model, q, EmpiricalStart(table, torch.zeros_like(table, dtype=torch.bool)))
    holes = torch.ones(3, 2, dtype=torch.bool)
    impute(imputer, torch.zeros(3, 2, dtype=torch.float64), holes, noise_for(3, 2, columns=2), unbounded(2))
    found = imputer.diagnostics()
    assert found["rounds_by_holes"] == {"2": 20.0}
    assert found["apart_by_holes"]["2"] == pytest.approx(0.5, abs=0.15)  # type: ignore[index]
    assert any("2 or more holes do not forget where they start" in line for line in remarks(found))


def test_what_observed_cells_say_is_computed_once_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once a round: it takes longer than the round."""
    calls: list[int] = []
    given = WholeRows.given

    def counted(self: WholeRows, x: Tensor, missing: Tensor, row: Tensor) -> Given:
        calls.append(len(x))
        return given(self, x, missing, row)

    monkeypatch.setattr(WholeRows, "given", counted)
    s = make_setup(200)
    q = GaussianConditionals(s.model.mean, s.model.covariance)
    shares = together(s.model, q, EmpiricalStart(s.x, s.missing)).shares_apart(
        s.full[:50], torch.ones(50, D, dtype=torch.bool), unbounded(D)
    )
    assert sum(1 for _ in itertools.islice(shares, 5)) == 5 and calls == [100]


def test_the_rule() -> None:
    falling = [0.9, 0.5, 0.3, 0.2, 0.15, 0.12, 0.11, 0.1, 0.05]
    assert measured(8, falling)[1:] == (8, 1, 0.1)
    assert measured(8, [0.0] * 10).rounds == FEWEST_ROUNDS
    assert measured(4, itertools.repeat(0.4)) == (4, MOST_ROUNDS, 1, 0.4)
    assert measured(64, itertools.repeat(0.4)) == (64, MOST_ROUNDS, 21, 0.4)  # 64 sweeps of 64 cells
    assert [grades(n, 43) for n in (1, 2, 3, 21, 32, 40, 43)] == [(1, 1), (2, 2), (2, 4), (16, 32), (32, 32)] + [
        (32, 43)
    ] * 2
    asked: list[int] = []

    def shares(holes: int) -> list[float]:
        asked.append(holes)
        return [1.0] * (2 * holes - 1) + [0.0]

    lengths = Lengths(shares, 43)
    rounds, cells = lengths.of(torch.tensor([4, 6, 8, 5]))
    assert rounds.tolist() == [8, 12, 16, 10] and cells.tolist() == [1, 1, 1, 1]
    assert sorted(asked) == [4, 8]
    assert rest_of(torch.tensor([10, 10, 10]), torch.tensor([0.5, 0.01, 0.0])).tolist() == [10, 20, 40]
