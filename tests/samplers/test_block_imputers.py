"""Imputing with conditionals of blocks of columns, and of latents and missing cells."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from tests.conditionals.test_blocks import block_conditionals, exact_conditionals
from tests.linear_vae import linear_vae
from tests.oracles import GaussianModel, gaussian_conditional
from tests.samplers.chains_setup import D, make_setup, noise_for, unbounded
from tests.samplers.test_metropolis import TruthStart
from tests.selection import first
from vgi_cli.layout import Blocks, Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.latent_targets import BlockLatents
from vgi_cli.samplers.augmented import AugmentedImputer, LatentStart
from vgi_cli.samplers.base import Box, Imputer, impute
from vgi_cli.samplers.gibbs import GibbsImputer
from vgi_cli.samplers.metropolis import BurnIn, MetropolisImputer
from vgi_cli.samplers.starts import EmpiricalStart

pytestmark = pytest.mark.full_fits("samplers.lengths.MOST_ROUNDS")

BLOCKS = Blocks.grouped(D, [(0, 1, 3)])


@pytest.mark.parametrize("extended", first(1, [False, True]))
def test_rows_of_the_model_stay_rows_of_the_model(extended: bool) -> None:
    """Rough block conditionals, rows that miss all of a block or part of it: the Metropolis sampler keeps the model."""
    N = 1024
    s = make_setup(N)
    q = block_conditionals("spline", extended, partition=BLOCKS)
    imputer = MetropolisImputer(s.model, q, TruthStart(s.full), BurnIn(minimum=8))
    out = impute(imputer, s.x, s.missing, KeyedNoise(0, tuple("abcd"), torch.arange(N), torch.arange(1)), s.box)[0]
    assert torch.equal(out[~s.missing], s.full[~s.missing])
    assert ((out != s.full) & s.missing).sum() > 0.5 * s.missing.sum()
    white = torch.linalg.solve_triangular(s.model.factor, (out - s.model.mean).mT, upper=False).mT
    assert (white.mean(0).abs() < 4.5 / math.sqrt(N)).all()
    second = white.mT @ white / N - torch.eye(D)
    assert (second.abs() < 4.5 * (1 + torch.eye(D) * (math.sqrt(2) - 1)) / math.sqrt(N)).all()
    summary = imputer.diagnostics()
    rates = summary["acceptance_by_column"]
    assert isinstance(rates, dict) and set(rates) == set("abcd") and 0 < float(str(summary["acceptance"])) < 1


@pytest.mark.parametrize("holes", [[True, True, False, True], [True, False, True, True]])
def test_gibbs_with_exact_blocks_reaches_the_conditional(holes: list[bool]) -> None:
    """Also where a part of the block is given."""
    s = make_setup(300, seed=1)
    centred = GaussianModel(torch.zeros(D, dtype=torch.float64), s.model.covariance)
    row, missing = s.full[5:6], torch.tensor([holes])
    mean, cov = gaussian_conditional(centred, row[0], missing[0])
    n = 2000
    q = exact_conditionals(s.model.covariance, BLOCKS)
    imputer = GibbsImputer(q, EmpiricalStart(s.x, s.missing), minimum=10)
    out = impute(imputer, row.masked_fill(missing, 0.0), missing, noise_for(1, n), s.box)[:, 0]
    got = out[:, missing[0]]
    assert ((got.mean(0) - mean).abs() < 4 * (cov.diagonal() / n).sqrt()).all()
    assert ((got.mT.cov() - cov).abs() < 6 * cov.diagonal().max() * math.sqrt(2 / n)).all()


def test_draws_do_not_depend_on_batch_rows_or_number_of_draws() -> None:
    s = make_setup(300, seed=2)
    model = GaussianModel(s.model.mean.float(), s.model.covariance.float())
    q = block_conditionals("spline", partition=BLOCKS).float()

    def run(rows: torch.Tensor, draws: int) -> torch.Tensor:
        start = EmpiricalStart(s.x.float(), s.missing)
        part = noise_for(300, 3).select(rows=rows, draws=torch.arange(draws))
        imputer = MetropolisImputer(model, q, start, BurnIn(minimum=4))
        return impute(imputer, s.x[rows].float(), s.missing[rows], part, s.box)

    pick = torch.tensor([280, 3])
    assert torch.equal(run(pick, 2), run(torch.arange(300), 3)[:2, pick])


def test_gibbs_on_latents_and_cells_reaches_the_conditional_of_the_autoencoder() -> None:
    """With the exact encoder and the decoder as conditionals, inside a box that is far away."""
    L, n = 2, 2000
    vae, law = linear_vae(D, L, torch.Generator().manual_seed(3))
    target = BlockLatents(marginal=True)
    q = target.conditionals(SimpleNamespace(latents=L), VgiConfig(), Layout.plain(D)).double()
    target.bind(q, vae)
    x = law.sample((1,))
    missing = torch.tensor([[True, False, True, False]])
    mean, cov = gaussian_conditional(GaussianModel(law.mean, law.covariance_matrix), x[0], missing[0])
    layout = Layout.plain(D).with_latents(L)
    start = LatentStart(EmpiricalStart(law.sample((50,)), torch.zeros(50, D, dtype=torch.bool)), layout)
    imputer = AugmentedImputer(GibbsImputer(q, start, minimum=60), layout)
    box = Box(*(50.0 * torch.ones_like(side) * sign for side, sign in zip(unbounded(D), (-1, 1), strict=True)))
    out = impute(imputer, x.masked_fill(missing, 0.0), missing, noise_for(1, n), box)[:, 0]
    assert out.shape == (n, D) and (out[:, ~missing[0]] == x[0, ~missing[0]]).all()
    got = out[:, missing[0]]
    assert ((got.mean(0) - mean).abs() < 4 * (cov.diagonal() / n).sqrt()).all()
    assert ((got.mT.cov() - cov).abs() < 6 * cov.diagonal().max() * math.sqrt(2 / n)).all()
    assert imputer.diagnostics() == {"draws": n * 2 * 60, "outside_range": 0}


def test_latents_of_a_table_with_a_column_of_their_name_have_noise_of_their_own() -> None:
    """Columns z0, z1 and latents 0, 1: one proposal each, and what the sampler within is given."""
    seen: list[KeyedNoise] = []

    class Inner(Imputer):
        def rows_at_once(self, draws: int, x: Tensor) -> int:
            return 1

        def sample(self, x: torch.Tensor, missing: torch.Tensor, noise: KeyedNoise, box: Box) -> torch.Tensor:
            seen.append(noise)
            return x[None]

        def diagnostics(self) -> dict[str, object]:
            return {}

    noise = KeyedNoise(0, ("z0", "z1"), torch.arange(3), torch.arange(1))
    x, missing = torch.zeros(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.bool)
    AugmentedImputer(Inner(), Layout.plain(2).with_latents(2)).sample(x, missing, noise, unbounded(2))
    normal = seen[0].normal()[0]
    assert torch.equal(normal[:, :2], noise.normal()[0]) and not bool((normal[:, :2] == normal[:, 2:]).any())


def test_latent_blocks_of_one_column_and_one_latent_keep_rows_apart() -> None:
    """Their values are [R, 1] as of wider blocks: the density of a move back is each row's own."""
    vae, _ = linear_vae(1, 1, torch.Generator().manual_seed(3))
    target = BlockLatents(marginal=False)
    q = target.conditionals(SimpleNamespace(latents=1), VgiConfig(), Layout.plain(1)).double()
    target.bind(q, vae)
    g = torch.Generator().manual_seed(4)
    xz = torch.randn(5, 2, generator=g, dtype=torch.float64)
    missing = torch.ones(5, 2, dtype=torch.bool)
    box = torch.tensor([[-9.0, -9.0], [0.0, 9.0]], dtype=torch.float64)
    for block in (0, 1):
        j = torch.full((5,), block)
        old = q.at(xz, j)
        assert torch.equal(old, xz[:, block : block + 1])
        log_q = q.law(xz, missing, j).log_prob(old)
        for i in range(5):
            alone = q.law(xz[i : i + 1], missing[:1], j[:1])
            torch.testing.assert_close(log_q[i : i + 1], alone.log_prob(old[i : i + 1]))
        inside = q.inside(old, missing, j, box)
        assert torch.equal(inside, (xz[:, block] <= 0) if block == 0 else torch.ones(5) > 0)
