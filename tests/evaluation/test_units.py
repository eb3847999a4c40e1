"""Densities in data units: volumes over observed cells, dequantisation averages, summaries."""

from __future__ import annotations

import math

import pytest
import torch

from tests.evaluation.models import exact_holes
from tests.oracles import GaussianModel, gaussian_marginal_log_prob, random_covariance
from vgi_cli.evaluation.likelihood.estimate import prepared
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.evaluation.likelihood.loglik import LogLik, effective, log_mean, variance_of_log_mean
from vgi_cli.evaluation.likelihood.units import Encoded, _pooled, data_log_prob, joined, summarise
from vgi_cli.evaluation.report import loglik_part

G = torch.Generator()


def test_standardising_codec_gives_the_density_of_the_data() -> None:
    """Data = 10 encoded + 3: the density of the observed cells is that of the scaled Gaussian."""
    G.manual_seed(0)
    model = GaussianModel(torch.zeros(3, dtype=torch.float64), random_covariance(3, G))
    scaled = GaussianModel(10 * model.mean + 3, 100 * model.covariance)
    x, missing = model.sample(12, G), exact_holes(12, 3, 1, G)
    volume = -(~missing).sum(1) * math.log(10)
    got = data_log_prob(model, None, [Encoded(x, volume)], missing, budget=Budget(particles=256, samples=4000))
    expected = gaussian_marginal_log_prob(scaled, 10 * x + 3, missing)
    assert got.estimator == "annealed"
    torch.testing.assert_close(got.values, expected, rtol=0, atol=0.1)
    assert abs(float((got.values - expected).mean())) < 0.03
    assert (got.values - got.half_budget).abs().max() < 0.1


def test_dequantised_density_is_the_probability_of_the_cell() -> None:
    """A column rounded to 0.5, one dimension: mean over draws of density × resolution tends to P(cell)."""
    model = GaussianModel(torch.zeros(1, dtype=torch.float64), torch.eye(1, dtype=torch.float64))
    cells = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    missing = torch.zeros(3, 1, dtype=torch.bool)
    draws = [
        Encoded(
            (cells + 0.5 * (torch.rand(3, generator=G, dtype=torch.float64) - 0.5))[:, None],
            torch.full((3,), math.log(0.5), dtype=torch.float64),
        )
        for _ in range(2000)
    ]
    got = data_log_prob(model, None, draws, missing)
    expected = (torch.special.ndtr(cells + 0.25) - torch.special.ndtr(cells - 0.25)).log()
    assert got.estimator == "exact" and got.ess is None
    torch.testing.assert_close(got.values, expected, rtol=0, atol=0.02)


def test_particles_are_shared_out_among_dequantisation_draws() -> None:
    model = GaussianModel(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    x, missing = model.sample(5, G.manual_seed(0)), exact_holes(5, 2, 1, G)
    draws = [Encoded(x, torch.zeros(5)), Encoded(x + 0.01, torch.zeros(5))]
    got = data_log_prob(model, None, draws, missing, budget=Budget(particles=64, samples=2000))
    assert got.particles == 64 and got.bracket is not None
    assert (got.ess > 32).all() and (got.ess <= 64 + 1e-6).all()
    torch.testing.assert_close(got.values, gaussian_marginal_log_prob(model, x, missing), rtol=0, atol=0.1)
    few = data_log_prob(model, None, draws, missing, budget=Budget(particles=8, samples=2000, simulated=0))
    assert few.particles == 32


def test_progress_grows_over_all_dequantisation_draws() -> None:
    model = GaussianModel(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    x, missing = model.sample(40, G.manual_seed(0)), exact_holes(40, 2, 1, G)
    seen: list[float] = []
    budget = Budget(particles=16, samples=1000, simulated=0, batch=128)
    data_log_prob(model, None, [Encoded(x, torch.zeros(40))] * 2, missing, budget=budget, progress=seen.append)
    assert seen == sorted(seen) and len(set(seen)) >= 8 and 0 == seen[0] < 0.5 in seen and seen[-1] < 1


def _part(weights: torch.Tensor) -> LogLik:
    P = len(weights)
    half = 0.5 * (log_mean(weights[: P // 2]) + log_mean(weights[P // 2 :]))
    return LogLik(log_mean(weights), "iwae", effective(weights), half, None, P, "of one draw alone")


def test_dequantisation_draws_are_judged_together() -> None:
    """The effective size is that of all weights; one draw with few particles may not be trusted, the whole may."""
    weights = torch.randn(8, 16, 40, generator=G.manual_seed(0), dtype=torch.float64)
    volumes = 0.1 * torch.randn(8, 40, generator=G, dtype=torch.float64)
    missing = torch.tensor([[True, False]]).expand(40, 2)
    whole = _pooled([_part(w) for w in weights], volumes, missing)
    flat = (weights + volumes[:, None]).flatten(0, 1)
    torch.testing.assert_close(whole.values, log_mean(flat))
    torch.testing.assert_close(whole.ess, effective(flat))
    assert whole.particles == 128
    halves = 0.5 * (log_mean(flat[:64]) + log_mean(flat[64:]))
    torch.testing.assert_close(whole.half_budget, halves)
    assert whole.warning is None
    lost = [_part(w) for w in weights]
    lost[3] = lost[3]._replace(values=torch.full((40,), -torch.inf), ess=torch.zeros(40))
    torch.testing.assert_close(
        _pooled(lost, volumes, missing).ess, effective(flat.view(8, 16, 40)[[0, 1, 2, 4, 5, 6, 7]].flatten(0, 1))
    )
    uneven = _pooled([_part(6 * w) for w in weights], volumes, missing)
    assert (
        uneven.warning is not None
        and "effective sample size" in uneven.warning
        and "8 dequantisation draws" in uneven.warning
    )


def test_summary() -> None:
    values = torch.tensor([-1.0, -3.0, 0.0], dtype=torch.float64)
    missing = torch.tensor([[False, False], [True, False], [True, True]])
    log_scale = torch.tensor([math.log(2.0), math.log(8.0)])
    s = summarise(values, missing, log_scale)
    assert s.rows == 2 and s.mean == -2.0 and s.se == pytest.approx(1.0) and s.per_cell == pytest.approx(-4 / 3)
    assert s.standardised == pytest.approx(-2.0 + (math.log(16.0) + math.log(8.0)) / 2)
    assert summarise(values[:1], missing[:1], log_scale).se is None  # one row does not tell it
    assert summarise(values[:1], missing[:1], log_scale, torch.ones(1)).se is None
    assert summarise(values[2:], missing[2:], log_scale) is None


def test_standardised_value_does_not_depend_on_the_units() -> None:
    """Data in metres or in centimetres: the mean differs, the standardised mean does not."""
    missing = torch.tensor([[False, True], [False, False]])
    cells = (~missing).sum(1)
    metres = torch.tensor([0.3, -0.2], dtype=torch.float64)
    centimetres = metres - cells * math.log(100)
    a = summarise(metres, missing, torch.tensor([0.1, 0.4]))
    b = summarise(centimetres, missing, torch.tensor([0.1, 0.4]) + math.log(100))
    assert a.mean != b.mean and a.standardised == pytest.approx(b.standardised, abs=1e-5)


def test_exact_pieces_join_to_the_whole() -> None:
    """Rows without a hole, several draws of a rounded column: what half of the draws say is of every row."""
    model = GaussianModel(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    x, missing = model.sample(7, G.manual_seed(0)), torch.zeros(7, 2, dtype=torch.bool)
    draws = [Encoded(x + 0.01 * i, torch.zeros(7)) for i in range(4)]
    for count in (4, 1):
        whole = data_log_prob(model, None, draws[:count], missing)
        pieces = [
            data_log_prob(
                model, None, [Encoded(one.x[some], one.log_volume[some]) for one in draws[:count]], missing[some]
            )
            for some in (slice(0, 4), slice(4, 7))
        ]
        got = joined(pieces, missing, count, None)
        assert whole.ess is None and got.estimator == "exact"
        torch.testing.assert_close(got.values, whole.values, rtol=0, atol=0)
        if whole.half_budget is None:
            assert got.half_budget is None
        else:
            torch.testing.assert_close(got.half_budget, whole.half_budget, rtol=0, atol=0)


def test_the_error_of_probabilities_from_several_draws_is_told() -> None:
    """Of the mean over many tables of draws, and of one table: the same relative standard error."""
    model = GaussianModel(torch.zeros(1, dtype=torch.float64), torch.eye(1, dtype=torch.float64))
    cells, missing = torch.tensor([0.0, 1.5], dtype=torch.float64), torch.zeros(2, 1, dtype=torch.bool)
    G.manual_seed(4)

    def scored(S: int) -> LogLik:
        u = torch.rand(S, 2, generator=G, dtype=torch.float64) - 0.5
        return data_log_prob(model, None, [Encoded((cells + one)[:, None], torch.zeros(2)) for one in u], missing)

    tables = [scored(16) for _ in range(800)]
    p = torch.stack([one.values for one in tables]).exp()
    told = torch.stack([one.variance for one in tables if one.variance is not None])
    torch.testing.assert_close(told.mean(0), p.var(0) / p.mean(0).square(), rtol=0.15, atol=0)
    assert scored(1).variance is None
    pieces = joined([tables[0], tables[1]], torch.zeros(4, 1, dtype=torch.bool), 16, None)
    assert pieces.variance is not None and len(pieces.variance) == 4


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
def test_the_error_of_a_log_mean_is_that_of_its_logarithm(spread: float) -> None:
    """Of eight log-normal weights: within a tenth of what the log means of 20,000 such samples vary by. The relative
    variance of the weights says a third of it for the widest."""
    values = spread * torch.randn(8, 20_000, generator=G.manual_seed(1), dtype=torch.float64)
    told = float(variance_of_log_mean(values).mean())
    assert told == pytest.approx(float(log_mean(values).var()), rel=0.1)


def test_the_error_of_a_log_mean_in_closed_form() -> None:
    """Two values: half their difference, squared. One weight that is not 0 says nothing of how far it may be off."""
    values = torch.tensor([[0.2, -1.0, 3.0, -torch.inf], [0.8, -1.0, -torch.inf, -torch.inf]], dtype=torch.float64)
    torch.testing.assert_close(
        variance_of_log_mean(values), torch.tensor([0.09, 0.0, torch.inf, torch.inf], dtype=torch.float64)
    )


def test_particles_of_one_dequantisation_draw_are_not_independent() -> None:
    """A black box of correlated columns, rounded to half a standard deviation, each third row complete, the others with
    one hole: over 40 times eight fresh draws the mean of the rows varies by as much as is told each time, of rows of
    both kinds (0.2, where 40 tables tell the true number of 60 rows within 0.04). As independent particles it was a
    third for rows with holes, and nothing for complete ones."""
    G.manual_seed(7)
    model = GaussianModel(torch.zeros(3, dtype=torch.float64), 0.9 + 0.1 * torch.eye(3, dtype=torch.float64))
    cells = (2 * model.sample(60, G)).round() / 2
    missing = exact_holes(60, 3, 1, G) & (torch.arange(60) % 3 > 0)[:, None]
    budget = Budget(particles=128, samples=2000, simulated=0)
    annealer = prepared(model, None, cells, budget, 0)
    values, told = [], []
    for seed in range(40):
        u = torch.rand(8, 60, 3, generator=G, dtype=torch.float64) - 0.5
        draws = [Encoded(cells + 0.5 * one, torch.zeros(60)) for one in u]
        got = data_log_prob(model, annealer, draws, missing, budget=budget, seed=seed)
        assert got.variance is not None
        values.append(got.values)
        told.append(got.variance)
        part = loglik_part(got, missing, torch.zeros(3), 8)
        assert part["monte_carlo_se"] == pytest.approx(float(got.variance.sum().sqrt()) / 60)
    for kind in (missing.any(1), ~missing.any(1)):
        true = float(torch.stack(values)[:, kind].var(0).mean())
        assert float(torch.stack(told)[:, kind].mean()) == pytest.approx(true, rel=0.2)


def test_pooled_bounds_have_the_error_of_their_draws() -> None:
    """Dequantisation draws whose particles all agree, but not with those of the next draw."""
    values = 0.5 * torch.randn(8, 2000, generator=G.manual_seed(2), dtype=torch.float64)
    missing = torch.zeros(2000, 1, dtype=torch.bool)
    whole = _pooled([_part(one.expand(16, -1)) for one in values], torch.zeros(8, 2000), missing)
    true = float(log_mean(values).var()) ** 0.5 / math.sqrt(2000)
    assert loglik_part(whole, missing, torch.zeros(1), 8)["monte_carlo_se"] == pytest.approx(true, rel=0.1)
    weight = torch.arange(2000) % 2 * 1.0  # half of the rows count
    half = loglik_part(whole, missing, torch.zeros(1), 8, weight)["monte_carlo_se"]
    assert half == pytest.approx(true * math.sqrt(2), rel=0.1)


def test_pieces_with_and_without_holes_have_the_error_of_the_whole() -> None:
    model = GaussianModel(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    x, missing = model.sample(6, G.manual_seed(0)), exact_holes(6, 2, 1, G) & (torch.arange(6) > 2)[:, None]
    budget, keys = Budget(particles=32, samples=1000, simulated=0), torch.arange(6)
    annealer = prepared(model, None, x, budget, 0)
    for count in (4, 1):
        draws = [Encoded(x + 0.1 * i, torch.zeros(6)) for i in range(count)]
        whole = data_log_prob(model, annealer, draws, missing, budget=budget, rows=keys)
        pieces = []
        for some in (slice(0, 3), slice(3, 6)):
            own = [Encoded(one.x[some], one.log_volume[some]) for one in draws]
            pieces.append(data_log_prob(model, annealer, own, missing[some], budget=budget, rows=keys[some]))
        assert [one.estimator for one in pieces] == ["exact", "annealed"]
        got = joined(pieces, missing, count, None)
        if count == 1:
            assert got.variance is None and whole.variance is None
        else:
            assert got.variance is not None and (got.variance > 0).all()
            torch.testing.assert_close(got.variance, whole.variance)
        reports = [loglik_part(one, missing, torch.zeros(2), count)["monte_carlo_se"] for one in (got, whole)]
        assert reports[0] == pytest.approx(reports[1])
