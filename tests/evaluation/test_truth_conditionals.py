"""Learnt conditionals against those of a known truth: formulas of normals, quadrature, enumeration of levels."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import scipy.integrate
import torch
from torch import Tensor

import vgi_cli
from tests.evaluation.test_truth import BENT, CENTRE, SD, factor_model, known, mixture_model, schema, stream
from tests.evaluation.test_truth_levels import LEVELS, table
from tests.oracles import GaussianConditionals
from vgi_cli.columns.scale import codec
from vgi_cli.commands.evaluate.conditionals import comparable_conditionals
from vgi_cli.evaluation.conditional_quality import compare_conditionals, conditional_quality
from vgi_cli.evaluation.truth.conditionals import takes_quadrature, truth_reference
from vgi_cli.evaluation.truth.distributions import FittedLaw, KnownLaw, Normals
from vgi_cli.fitting.fitted import load_run
from vgi_cli.layout import Layout
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.reporting import Silent
from vgi_cli.table.frames import from_frame


def rows(n: int) -> Tensor:
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def test_normals_by_their_formulas() -> None:
    """q is the truth's conditional, moved and stretched: KL = -log c + (c^2 + (shift / sd)^2 - 1) / 2 in every row."""
    model = factor_model(0)
    covariance = (model.F @ model.F.mT + torch.diag(model.log_psi.exp())).detach()
    shift, c, x = 0.3, 1.4, rows(8)
    q = GaussianConditionals(model.mean.detach(), covariance, shift=shift, scale=c)
    truth = known(model)
    got = compare_conditionals(truth_reference(truth, FittedLaw(factor_model(1), schema(), "abc"), x, stream()), q, x)
    sd = torch.linalg.inv(covariance).diagonal().rsqrt()
    kl = -math.log(c) + 0.5 * (c**2 + (shift / sd).square() - 1)
    assert got.closed_form and not takes_quadrature(truth)
    torch.testing.assert_close(got.kl, kl.expand(8, -1), rtol=0, atol=1e-9)
    torch.testing.assert_close(got.wasserstein, (shift**2 + ((c - 1) * sd).square()).sqrt().expand(8, -1))


def test_the_truth_is_not_the_fitted_model() -> None:
    """q is exact for the fitted model: no distance from it, and the distance of two normals from the truth."""
    model, truth, x = factor_model(1), factor_model(0), rows(6)
    parts = [(m.mean.detach(), (m.F @ m.F.mT + torch.diag(m.log_psi.exp())).detach()) for m in (model, truth)]
    q, other = (GaussianConditionals(*part) for part in parts)
    edge = torch.full((3,), 9.0, dtype=torch.float64)
    assert float(conditional_quality(model, q, x, -edge, edge).kl.max()) < 1e-9
    got = compare_conditionals(truth_reference(known(truth), FittedLaw(model, schema(), "abc"), x, stream()), q, x)
    for j in range(3):
        index, own = torch.full((6,), j), torch.arange(3) == torch.full((6, 1), j)
        laws = (p.law(x, own, index) for p in (q, other))
        one, two = (torch.distributions.Normal(law.mean, law.log_std.exp()) for law in laws)
        expected = torch.distributions.kl_divergence(one, two)
        torch.testing.assert_close(got.kl[:, j], expected.reshape(6), rtol=1e-9, atol=1e-12)


def test_a_bent_column_against_scipy_and_against_the_joint_density() -> None:
    model, x = mixture_model(2), rows(4)
    parts = model.gaussians.moments()
    normals = Normals(model.log_weights().exp().detach(), parts.mean.detach(), parts.covariance.detach())
    truth = KnownLaw(normals.moved(CENTRE, SD))
    fitted = FittedLaw(factor_model(1), schema(BENT), "abc")
    covariance = 0.5 * torch.eye(3, dtype=torch.float64) + 0.2
    q = GaussianConditionals(torch.zeros(3, dtype=torch.float64), covariance)
    got = compare_conditionals(truth_reference(truth, fitted, x, stream()), q, x)
    truth.normals = None  # known by its density only
    joint = compare_conditionals(truth_reference(truth, fitted, x, stream()), q, x)
    assert not got.closed_form and takes_quadrature(truth)
    torch.testing.assert_close(got.kl, joint.kl, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(got.wasserstein, joint.wasserstein, rtol=5e-3, atol=5e-3)
    bend, row = codec(BENT), x[1]
    data = CENTRE + SD * row

    def density(z: float) -> float:
        """p*(x_a, rest) dx_a / dz, up to the other columns' scales."""
        value = torch.tensor(float(bend.decode(torch.tensor([z]).numpy())[0]), dtype=torch.float64)
        volume = float(bend.log_det(torch.tensor([z]).double().numpy())[0])
        cells = torch.stack([value, data[1], data[2]])
        return math.exp(float(truth.log_prob(cells[None])) - volume)

    law = q.law(row[None], torch.tensor([[True, False, False]]), torch.tensor([0]))
    mean, sd = float(law.mean), float(law.log_std.exp())
    mass = scipy.integrate.quad(density, -12, 12, limit=200)[0]

    def integrand(z: float) -> float:
        log_q = -0.5 * ((z - mean) / sd) ** 2 - math.log(sd * math.sqrt(2 * math.pi))
        return math.exp(log_q) * (log_q - math.log(density(z)) + math.log(mass))

    expected = scipy.integrate.quad(integrand, mean - 6 * sd, mean + 6 * sd)[0]
    assert float(got.kl[1, 0]) == pytest.approx(expected, rel=2e-3, abs=1e-3)


def test_a_density_without_closed_conditionals_is_its_own_truth() -> None:
    """By the fitted model's own conditionals and, carried through data units and back, by those of the truth."""
    flow = Flow(FlowConfig(steps=1, hidden=4, bins=4), Layout.plain(3)).double().eval()
    flow.initialise(rows(50), stream())
    q, x = GaussianConditionals(torch.zeros(3).double(), torch.eye(3).double() + 0.3), rows(4)
    law, edge = FittedLaw(flow, schema(BENT), "abc"), torch.full((3,), 6.0, dtype=torch.float64)
    assert takes_quadrature(law)
    own = conditional_quality(flow, q, x, -edge, edge)
    got = compare_conditionals(truth_reference(law, law, x, stream()), q, x)
    torch.testing.assert_close(got.kl, own.kl, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(got.wasserstein, own.wasserstein, rtol=2e-3, atol=2e-3)


def test_a_mixture_of_gaussians_has_no_levels() -> None:
    truth, fitted = known(factor_model(0)), FittedLaw(factor_model(1), schema(), "abc")
    with pytest.raises(ValueError, match="dimension 1 of a mixture of Gaussians holds numbers"):
        truth_reference(truth, fitted, rows(2), stream()).levels(rows(2), 1, rows(2))


def test_levels_by_enumeration(tmp_path: Path) -> None:
    """Both runs' laws on all 12 rows that there can be give p*(level | rest) of each row; the truth lists its levels in
    another order."""
    quick = {"optim.warmup_conditionals": 1, "optim.warmup_model": 1}
    for name, seed, twist, step, more in (
        ("truth", 0, 0.3, -1, {}),
        ("run", 1, 0.6, 1, {"method": "vgi", "epochs": 1, "set": quick}),
    ):
        kinds = {column: "categorical:" + ",".join(levels[::step]) for column, levels in LEVELS.items()}
        settings = {"model.components": 2, "bootstrap": "none", **more.pop("set", {})}
        vgi_cli.fit(
            table(seed, twist), model="mixture", columns=kinds, set=settings, out=tmp_path / name, threads=1, **more
        )
    whole = pd.DataFrame(list(product(*LEVELS.values())), columns=list(LEVELS))
    report = vgi_cli.evaluate(tmp_path / "run", whole, truth_model=tmp_path / "truth", conditionals=True)
    truth, run = (load_run(tmp_path / name, Silent()) for name in ("truth", "run"))
    every = from_frame(whole)
    with torch.no_grad():
        log_p = truth.model.double().log_prob(truth.rows(every).table.x.double()).view(2, 3, 2)
    q, x = comparable_conditionals(run).double(), run.rows(every).table.x.double()
    part = report["conditionals"]
    assert part["rows"] == 12 and part["truth"]["estimator"] == "quadrature" and "wasserstein" not in part["truth"]
    for j, (name, levels) in enumerate(LEVELS.items()):
        p = log_p.movedim(j, -1).log_softmax(-1)
        cells = torch.stack([x.view(2, 3, 2, 3).movedim(j, 2)[..., level, :] for level in range(len(levels))], 2)
        flat = cells.reshape(-1, 3)
        with torch.no_grad():
            law = q.law(flat, (torch.arange(3) == j).expand(len(flat), -1), torch.full((len(flat),), j))
            log_q = law.log_prob(flat[:, j]).view(p.shape)
        kl = (log_q.exp() * (log_q - p)).sum(-1).flatten().repeat_interleave(len(levels)).sort().values
        assert part["truth"]["columns"][name]["kl"]["median"] == pytest.approx(float(kl.quantile(0.5)), rel=1e-4)
        assert part["truth"]["columns"][name]["kl"]["q90"] == pytest.approx(float(kl.quantile(0.9)), rel=1e-4)
