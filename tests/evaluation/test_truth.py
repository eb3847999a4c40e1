"""The distance from a known truth: closed forms, Monte Carlo against them, what is left out and why."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from tests.oracles import random_covariance
from tests.selection import first
from vgi_cli.columns.lattice import Lattice
from vgi_cli.columns.number import Number
from vgi_cli.columns.scale import Scale, codec
from vgi_cli.columns.schema import Schema
from vgi_cli.evaluation.truth.distance import SAMPLES, compare
from vgi_cli.evaluation.truth.distributions import Factors, FittedLaw, KnownLaw, Law, Normals
from vgi_cli.layout import Layout
from vgi_cli.models.base import Model
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

NAMES = ("a", "b", "c")
SCALES = (Scale(1.0, 2.0), Scale(-5.0, 0.5), Scale(100.0, 30.0))
CENTRE = torch.tensor([s.mean for s in SCALES], dtype=torch.float64)
SD = torch.tensor([s.sd for s in SCALES], dtype=torch.float64)
BENT = Scale(1.0, 2.0, ((-2.0, -1.8, 0.8), (0.0, 0.1, 1.2), (2.0, 1.9, 0.7)))


def schema(first: Scale = SCALES[0], step: int = 0) -> Schema:
    """Three columns; `step`: of the first one's lattice, in tenths."""
    lattice = Lattice(1, step, 0) if step else None
    columns = [Number("a", "numeric", low=-9.0, high=9.0, scale=first, lattice=lattice, dequantise=bool(step))]
    columns += [
        Number(n, "numeric", low=-999.0, high=999.0, scale=s) for n, s in zip(NAMES[1:], SCALES[1:], strict=True)
    ]
    return Schema(tuple(columns))


def factor_model(seed: int, factors: int = 2) -> FactorAnalysis:
    g = torch.Generator().manual_seed(seed)
    model = FactorAnalysis.build(FaConfig(factors=factors), Layout.plain(3)).double()
    with torch.no_grad():
        model.gaussians.F.copy_(0.7 * torch.randn(1, 3, factors, generator=g))
        model.gaussians.mean.copy_(0.2 * torch.randn(1, 3, generator=g))
        model.gaussians.log_psi.copy_(0.3 * torch.randn(1, 3, generator=g) - 1)
    return model


def in_data_units(model: FactorAnalysis) -> Factors:
    """The truth as a user would write it down."""
    F, mean, psi = model.F.detach(), model.mean.detach(), model.log_psi.detach().exp()
    return Factors(CENTRE + SD * mean, SD[:, None] * F, SD.square() * psi)


def mixture_model(seed: int, K: int = 2) -> GaussianMixture:
    g = torch.Generator().manual_seed(seed)
    model = GaussianMixture.build(MixtureConfig(components=K, covariance="full"), Layout.plain(3)).double()
    means = torch.randn(K, 3, generator=g, dtype=torch.float64)
    model.gaussians.set_moments(means, torch.stack([0.3 * random_covariance(3, g) for _ in range(K)]))
    model.set_weights(torch.rand(K, generator=g, dtype=torch.float64) + 0.2)
    return model


def fitted(model: Model, **kinds: object) -> FittedLaw:
    return FittedLaw(model, schema(**kinds), NAMES)  # type: ignore[arg-type]


def known(model: FactorAnalysis) -> KnownLaw:
    factors = in_data_units(model)
    return KnownLaw(factors.normals(), factors)


def stream() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def torch_gaussian(factors: Factors) -> MultivariateNormal:
    return MultivariateNormal(factors.mean, factors.F @ factors.F.mT + torch.diag(factors.psi))


def test_two_gaussians_in_closed_form() -> None:
    truth, model = factor_model(0), factor_model(1)
    part, notes = compare(known(truth), fitted(model), stream())
    first, second = torch_gaussian(in_data_units(truth)), torch_gaussian(in_data_units(model))
    assert notes == [] and part["kl_estimator"] == "exact" and "kl_se" not in part
    assert part["kl"] == pytest.approx(float(kl_divergence(first, second)), rel=1e-9)
    one, two = first.covariance_matrix.numpy(), second.covariance_matrix.numpy()
    for unit, scale in (("data", np.ones(3)), ("standardised", SD.numpy())):
        shift = (first.mean - second.mean).numpy() / scale
        S, T = one / np.outer(scale, scale), two / np.outer(scale, scale)
        root = scipy.linalg.sqrtm(S)
        squared = shift @ shift + np.trace(S + T - 2 * np.real(scipy.linalg.sqrtm(root @ T @ root)))
        assert part["wasserstein2_squared"][unit] == pytest.approx(squared, rel=1e-8)
    mean = in_data_units(truth).mean - in_data_units(model).mean
    assert part["rmse"]["mean"]["data"] == pytest.approx(float(mean.square().mean().sqrt()))
    psi = truth.log_psi.exp() - model.log_psi.exp()
    assert part["rmse"]["psi"]["standardised"] == pytest.approx(float(psi.square().mean().sqrt().detach()))


def test_a_model_that_is_the_truth_up_to_a_rotation() -> None:
    truth, model = factor_model(0), factor_model(0)
    turn = torch.tensor([[0.6, 0.8], [0.8, -0.6]], dtype=torch.float64)  # a reflection
    with torch.no_grad():
        model.gaussians.F.copy_(truth.gaussians.F @ turn)
    part, _ = compare(known(truth), fitted(model), stream())
    assert abs(part["kl"]) < 1e-12 and part["wasserstein2_squared"]["standardised"] < 1e-12
    for name in ("mean", "F", "psi"):
        assert part["rmse"][name]["standardised"] < 1e-12 and part["rmse"][name]["data"] < 1e-10
    with torch.no_grad():
        model.gaussians.F.mul_(1.1)
    part, _ = compare(known(truth), fitted(model), stream())
    loadings = truth.F.detach()
    assert part["rmse"]["F"]["standardised"] == pytest.approx(0.1 * float(loadings.square().mean().sqrt()))


def test_columns_in_another_order() -> None:
    order = ("c", "a", "b")
    model = factor_model(3)
    law = FittedLaw(model, schema(), order)
    index = torch.tensor([2, 0, 1])
    expected = torch_gaussian(in_data_units(model).at(index))
    x = expected.sample((5,))
    assert torch.allclose(law.log_prob(x), expected.log_prob(x))
    sample = law.sample(20_000, stream())
    assert torch.allclose(sample.mean(0) / SD[index], expected.mean / SD[index], atol=0.05)
    part, _ = compare(KnownLaw(in_data_units(model).at(index).normals()), law, stream())
    assert abs(part["kl"]) < 1e-12


def test_monte_carlo_agrees_with_the_closed_form() -> None:
    """One component said twice is the same Gaussian, but no single one: Monte Carlo must meet the closed form."""
    truth, model = factor_model(0), factor_model(1)
    whole = in_data_units(truth).normals()
    twice = Normals(torch.tensor([0.3, 0.7]).double(), whole.means.repeat(2, 1), whole.covariances.repeat(2, 1, 1))
    exact, _ = compare(known(truth), fitted(model), stream())
    part, notes = compare(KnownLaw(twice), fitted(model), stream())
    assert part["kl_estimator"] == "monte carlo" and part["samples"] == SAMPLES
    assert 0 < part["kl_se"] < 0.1 * exact["kl"]
    assert abs(part["kl"] - exact["kl"]) < 4 * part["kl_se"]
    assert "wasserstein2_squared" not in part and "rmse" not in part
    assert part["sliced_wasserstein"]["standardised"] > 3 * part["sliced_wasserstein"]["noise"]
    assert notes == [
        "truth: wasserstein2_squared is left out: it has a closed form for single Gaussians only, and there is a "
        "mixture of several",
        "truth: rmse is left out: the run has 1 component, the truth 2 components",
    ]
    again, _ = compare(KnownLaw(twice), fitted(model), stream())
    assert json.dumps(again) == json.dumps(part)  # seeded


def test_a_mixture_that_is_the_truth() -> None:
    model = mixture_model(4)
    law = fitted(model)
    assert law.normals is not None
    part, notes = compare(KnownLaw(law.normals), law, stream())
    assert abs(part["kl"]) < 1e-9 and part["kl_se"] < 1e-9
    noise = part["sliced_wasserstein"]["noise"]
    assert 0.5 * noise < part["sliced_wasserstein"]["standardised"] < 2 * noise
    assert len(notes) == 1 and part["rmse"]["weights"] < 1e-12


def test_components_in_another_order() -> None:
    """Three known shifts, whichever component of the run they belong to."""
    model = mixture_model(6, K=3)
    law = fitted(model)
    assert law.normals is not None
    order = torch.tensor([2, 0, 1])
    truth = Normals(law.normals.weights[order], law.normals.means[order], law.normals.covariances[order])
    shift = 0.01 * SD * torch.tensor([[1.0], [-1.0], [2.0]])
    weights = torch.tensor([0.01, -0.03, 0.02])
    moved = Normals(truth.weights + weights, truth.means + shift, truth.covariances * 1.1)
    rmse = compare(KnownLaw(moved), law, stream())[0]["rmse"]
    assert rmse["weights"] == pytest.approx(float(weights.square().mean().sqrt()))
    assert rmse["means"]["standardised"] == pytest.approx(0.01 * math.sqrt(2))
    assert rmse["means"]["data"] == pytest.approx(float(shift.square().mean().sqrt()))
    relative = truth.covariances / (SD[:, None] * SD)
    assert rmse["covariances"]["standardised"] == pytest.approx(0.1 * float(relative.square().mean().sqrt()))
    assert rmse["covariances"]["data"] == pytest.approx(0.1 * float(truth.covariances.square().mean().sqrt()))


def test_factor_covariances_of_a_mixture() -> None:
    """A mixture with covariances F F' + diag(psi): in data units as its own density says; one component is a factor
    model."""
    g = torch.Generator().manual_seed(7)
    for K in (1, 2):
        model = GaussianMixture.build(
            MixtureConfig(components=K, covariance="factor", factors=1), Layout.plain(3)
        ).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
        law = fitted(model)
        assert law.normals is not None and (law.factors is None) == (K == 2)
        x = CENTRE + SD * torch.randn(5, 3, generator=g, dtype=torch.float64)
        assert torch.allclose(KnownLaw(law.normals).log_prob(x), law.log_prob(x))
        assert not any(part.requires_grad for part in law.normals)


def test_a_mixture_of_one_is_a_gaussian() -> None:
    law = fitted(mixture_model(5, K=1))
    truth = factor_model(0)
    part, notes = compare(known(truth), law, stream())
    assert part["kl_estimator"] == "exact" and "standardised" in part["wasserstein2_squared"] and notes == []
    assert law.normals is not None
    other = MultivariateNormal(law.normals.means[0], law.normals.covariances[0])
    expected = kl_divergence(torch_gaussian(in_data_units(truth)), other)
    assert part["kl"] == pytest.approx(float(expected), rel=1e-8)
    error = in_data_units(truth).mean - law.normals.means[0]
    assert set(part["rmse"]) == {"means", "covariances"}
    assert part["rmse"]["means"]["data"] == pytest.approx(float(error.square().mean().sqrt()))


@pytest.mark.parametrize("more", ["run", "truth"])
def test_other_numbers_of_factors(more: str) -> None:
    """The same law with a second factor that does nothing, and turned: no error; an error is one over all of F."""
    small, large = factor_model(0, 1), factor_model(0, 2)
    turn = torch.tensor([[0.6, 0.8], [0.8, -0.6]], dtype=torch.float64)
    with torch.no_grad():
        large.gaussians.F.copy_(torch.nn.functional.pad(small.gaussians.F, (0, 1)) @ turn)
        large.gaussians.mean.copy_(small.gaussians.mean)
        large.gaussians.log_psi.copy_(small.gaussians.log_psi)
    truth, model = (small, large) if more == "run" else (large, small)
    part, notes = compare(known(truth), fitted(model), stream())
    assert notes == [] and all(error["standardised"] < 1e-12 for error in part["rmse"].values())
    with torch.no_grad():
        model.gaussians.F.mul_(1.1)
    part, _ = compare(known(truth), fitted(model), stream())
    expected = 0.1 * float(truth.F.detach().square().sum().div(6).sqrt())
    assert part["rmse"]["F"]["standardised"] == pytest.approx(expected)


def test_no_factors() -> None:
    part, _ = compare(known(factor_model(0, 0)), fitted(factor_model(0, 0)), stream())
    assert set(part["rmse"]) == {"mean", "psi"}


def test_a_bent_column_is_estimated_and_not_compared_by_parameters() -> None:
    """Independent columns of which two are as in the truth: KL is that of the bent one, which quadrature gives."""
    model = factor_model(0, 0)
    law = fitted(model, first=BENT)
    part, notes = compare(known(model), law, stream())
    assert part["kl_estimator"] == "monte carlo" and "wasserstein2_squared" not in part and "rmse" not in part
    for what in ("wasserstein2_squared", "rmse"):
        assert (
            f"truth: {what} is left out: column 'a' is bent towards a normal distribution, so the density is not "
            "Gaussian in data units (the run)" in notes
        )
    bent = codec(BENT)
    mean, sd = float(model.mean[0].detach()), math.exp(0.5 * float(model.log_psi[0].detach()))
    grid = np.linspace(1 - 2 * 8, 1 + 2 * 8, 200_001)
    z = bent.encode(grid)
    log_p = scipy.stats.norm.logpdf(z, mean, sd) + bent.log_det(z)
    log_true = scipy.stats.norm.logpdf(grid, 1 + 2 * mean, 2 * sd)
    expected = np.trapezoid(np.exp(log_true) * (log_true - log_p), grid)
    assert expected > 5 * part["kl_se"] and abs(part["kl"] - expected) < 4 * part["kl_se"]
    back, _ = compare(law, law, stream())
    assert back["kl"] == pytest.approx(0.0, abs=1e-12)


def test_the_density_of_a_bent_column_is_normalised_in_data_units() -> None:
    model = FactorAnalysis.build(FaConfig(factors=0), Layout.plain(1)).double()
    column = Number("a", "numeric", low=-9.0, high=9.0, scale=BENT)
    law = FittedLaw(model, Schema((column,)), ("a",))
    grid = torch.linspace(-30, 30, 60_001, dtype=torch.float64)
    density = law.log_prob(grid[:, None]).exp()
    assert float(torch.trapezoid(density, grid)) == pytest.approx(1.0, abs=1e-6)
    sample = law.sample(20_000, stream())[:, 0]
    expected = float(torch.trapezoid(torch.where(grid < 2.0, density, 0.0), grid))
    assert float((sample < 2.0).double().mean()) == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(20_000))


def test_rounded_columns_are_compared_by_probabilities() -> None:
    """One independent column rounded to whole steps: KL is that of the two discrete laws (plus the other columns')."""
    truth, model = factor_model(0, 0), factor_model(1, 0)
    part, notes = compare(known(truth), fitted(model, step=20), stream())
    assert part["kl_estimator"] == "monte carlo" and "rmse" not in part and "wasserstein2_squared" not in part
    assert any("column 'a' is rounded to 2 and modelled as spread over that" in note for note in notes)
    assert "truth: rounded columns are compared after rounding, by the probabilities of their values" in notes
    p, q = in_data_units(truth), in_data_units(model)
    values = np.arange(-60, 62, 2.0)

    def probabilities(f: Factors) -> np.ndarray:
        law = scipy.stats.norm(float(f.mean[0]), math.sqrt(float(f.psi[0])))
        return np.asarray(law.cdf(values + 1) - law.cdf(values - 1))

    one, two = probabilities(p), probabilities(q)
    seen = one > 1e-300
    expected = float((one[seen] * np.log(one[seen] / two[seen])).sum())
    for i in (1, 2):
        ratio = float(p.psi[i] / q.psi[i])
        expected += 0.5 * (ratio - 1 - math.log(ratio) + float((p.mean[i] - q.mean[i]) ** 2 / q.psi[i]))
    assert abs(part["kl"] - expected) < 4 * part["kl_se"] + 0.02 * expected  # 16 draws a cell: a little biased
    own, _ = compare(fitted(model, step=20), fitted(model, step=20), stream())
    assert own["kl"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("swapped", first(1, [True, False]))
def test_a_flow_has_a_density_too(swapped: bool) -> None:
    flow = Flow(FlowConfig(steps=1, hidden=4, bins=2), Layout.plain(3))
    standard = FactorAnalysis.build(FaConfig(factors=0), Layout.plain(3))  # both are N(0, I) as built
    first: Law = fitted(standard)
    second = fitted(flow)
    pair = (second, fitted(standard)) if swapped else (first, second)
    part, notes = compare(*pair, stream())
    assert part["kl_estimator"] == "monte carlo" and abs(part["kl"]) < 1e-9
    side = "the truth" if swapped else "the run"
    assert f"truth: rmse is left out: the model is no mixture of Gaussians ({side})" in notes


def test_a_density_that_is_not_finite_is_left_out_later() -> None:
    class Broken(Model):
        Config = FaConfig

        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(3))

        @classmethod
        def build(cls, config: FaConfig, D: int) -> Broken:
            return cls()

        def initialise(self, x: Tensor, generator: torch.Generator) -> None:
            """Nothing is fitted."""

        def log_prob(self, x: Tensor) -> Tensor:
            return x.new_full(x.shape[:-1], -math.inf)

        def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
            return torch.zeros(n, 3)

    from vgi_cli.evaluation.report import make_report

    part, _ = compare(known(factor_model(0)), fitted(Broken()), stream())
    report = make_report(1, truth=part)
    assert "kl" not in report["truth"] and "kl_se" not in report["truth"]
    assert any("truth.kl is not finite and is left out" in note for note in report["notes"])
    json.dumps(report, allow_nan=False)
