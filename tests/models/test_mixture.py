"""Gaussian mixtures against sums over dense Gaussians."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from vgi_cli.data import make_table
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.methods.em.em import METHOD, EmConfig
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.gaussian.family import column_law, em_table, sorted_chunks
from vgi_cli.models.gaussian.full import FullGaussians
from vgi_cli.models.gaussian.gaussians import within
from vgi_cli.models.gaussian.mixed import Mixed
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.widened import ROWS, SCALES, SHRINKAGE, UNLIKE, Widened
from vgi_cli.samplers.base import Box, SamplerInput
from vgi_cli.samplers.exact import build as build_exact

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance", "models.gaussian.mixture.GaussianMixture.tolerance"
)

K, D, R = 3, 4, 25
COVARIANCES = ["full", "factor", "full with outliers", "factor with outliers"]


def build(covariance: str, D: int) -> GaussianMixture:
    kind, _, outliers = covariance.partition(" with ")
    settings = {"components": K, "covariance": kind, "factors": 2, "outliers": bool(outliers)}
    return GaussianMixture.build(MixtureConfig.model_validate(settings), Layout.plain(D))


def model_and_rows(covariance: str) -> tuple[GaussianMixture, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    model = build(covariance, D).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
    x = torch.randn(R, D, dtype=torch.float64, generator=generator)
    missing = torch.rand(R, D, generator=generator) < 0.4
    missing[0], missing[1] = True, False
    return model, x, missing


def dense(model: GaussianMixture) -> tuple[Tensor, Tensor, Tensor]:
    precision, _ = model.gaussians.precision()
    return model.log_weights().exp(), model.gaussians.means(), torch.linalg.inv(precision)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_log_prob_and_gradients(covariance: str) -> None:
    model, x, _ = model_and_rows(covariance)
    weights, mean, S = dense(model)
    each = torch.stack([MultivariateNormal(mean[k], S[k]).log_prob(x) for k in range(len(weights))], -1)
    expected = torch.logsumexp(each + weights.log(), -1)
    torch.testing.assert_close(model.log_prob(x), expected, rtol=1e-9, atol=1e-9)
    parameters = [p for p in model.parameters() if p.requires_grad]
    ours = torch.autograd.grad(model.log_prob(x).sum(), parameters)
    theirs = torch.autograd.grad(expected.sum(), parameters)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_mask_without_holes_gives_the_complete_density(covariance: str) -> None:
    model, x, missing = model_and_rows(covariance)
    torch.testing.assert_close(model.marginal_log_prob(x, torch.zeros_like(missing)), model.log_prob(x))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_marginals_and_conditional_means(covariance: str) -> None:
    model, x, missing = model_and_rows(covariance)
    weights, mean, S = (part.detach() for part in dense(model))
    log_prob, filled = model.marginal_log_prob(x, missing), model.conditional(x, missing).mean()
    for r in range(R):
        o, m = (~missing[r]).nonzero()[:, 0], missing[r].nonzero()[:, 0]
        joint, means = weights.log().clone(), []
        for k in range(len(weights)):
            if len(o):
                joint[k] += MultivariateNormal(mean[k, o], S[k][o][:, o]).log_prob(x[r, o])
            means.append(mean[k, m] + S[k][m][:, o] @ torch.linalg.solve(S[k][o][:, o], x[r, o] - mean[k, o]))
        assert log_prob[r].item() == pytest.approx(torch.logsumexp(joint, 0).item(), abs=1e-9)
        torch.testing.assert_close(filled[r, m], torch.softmax(joint, 0) @ torch.stack(means), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["c2", "component", "factor0"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_draws_have_the_conditional_law(covariance: str, name: str) -> None:
    """With one cell missing the law is `column_law`, and its distribution function is known, whatever the column is
    called: its noise is not that which picks components or factors."""
    model, x, _ = model_and_rows(covariance)
    missing = torch.zeros(1, D, dtype=torch.bool)
    missing[0, 2] = True
    law = column_law(model.components(), x[:1], torch.tensor([2]))
    n = 20_000
    names = tuple(name if i == 2 else f"c{i}" for i in range(D))
    noise = KeyedNoise(1, names, torch.arange(n), torch.arange(1))
    draws = model.conditional(x[:1].expand(n, D), missing.expand(n, D)).sample(noise)[0, :, 2].detach()
    cuts = torch.linspace(-3, 3, 13, dtype=torch.float64)
    normal = torch.distributions.Normal(law.mean[0], law.sd[0])
    expected = (normal.cdf(cuts[:, None]) * law.log_weights[0].exp()).sum(-1).detach()
    reached = (draws[:, None] <= cuts).double().mean(0)
    assert (reached - expected).abs().max() < 4 * 0.5 / n**0.5


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_column_law_is_the_ratio_of_the_joint_to_the_marginal(covariance: str) -> None:
    model, x, _ = model_and_rows(covariance)
    j = torch.arange(R) % D
    law = column_law(model.components(), x, j)
    value = x.gather(1, j[:, None])
    log_density = torch.logsumexp(law.log_weights + torch.distributions.Normal(law.mean, law.sd).log_prob(value), -1)
    hidden = torch.nn.functional.one_hot(j, D).bool()
    expected = model.log_prob(x) - model.marginal_log_prob(x, hidden)
    torch.testing.assert_close(log_density, expected, rtol=1e-9, atol=1e-9)
    moved = x.scatter(1, j[:, None], 100.0)
    torch.testing.assert_close(column_law(model.components(), moved, j).mean, law.mean)


def outlying(N: int = 300) -> tuple[GaussianMixture, Tensor]:
    """A mixture with broad components started from correlated rows, and those rows."""
    generator = torch.Generator().manual_seed(3)
    z = torch.randn(N, 1, dtype=torch.float64, generator=generator)
    x = z + 0.05 * torch.randn(N, D, dtype=torch.float64, generator=generator)
    model = build("full with outliers", D).double()
    model.initialise(x, generator)
    return model, x


def test_broad_components_surround_the_rows_and_keep_their_shape() -> None:
    model, x = outlying()
    assert isinstance(model.gaussians, Widened) and model.gaussians.K == K
    S = torch.cov(x.mT, correction=0)
    shrunk = (1 - SHRINKAGE) * S + SHRINKAGE * torch.diag(S.diagonal())
    table, penalty = em_table(x, torch.zeros_like(x, dtype=torch.bool)), model.penalty(None, 1e-3)
    for _ in range(20):
        model.em_step(table, penalty)
    broad = model.gaussians.broad.moments()
    for mean, covariance, scale in zip(broad.mean, broad.covariance, SCALES, strict=True):
        torch.testing.assert_close(mean, x.mean(0))
        torch.testing.assert_close(covariance, scale**2 * shrunk, rtol=1e-4, atol=1e-5)
    assert model.log_weights()[K:].exp().min() >= ROWS / (len(x) + len(SCALES) * ROWS + 1)
    assert model.log_weights()[K:].exp().sum() < 0.02


def test_a_row_outside_of_what_was_seen_costs_a_bounded_number_of_nats() -> None:
    """Off the line on which all rows lie: hundreds of nats without the broad components."""
    model, x = outlying()
    plain = build("full", D).double()
    plain.initialise(x, torch.Generator().manual_seed(3))
    row = torch.tensor([[1.5, -1.5, 1.5, -1.5]], dtype=torch.float64)
    table = em_table(x, torch.zeros_like(x, dtype=torch.bool))
    for fitted in (model, plain):
        climb(fitted, table, fitted.penalty(0.0, 1e-3), epochs=50, tolerance=1e-5)
    assert plain.log_prob(row).item() < -200
    assert model.log_prob(row).item() > -30
    assert (model.log_prob(x).mean() - plain.log_prob(x).mean()).item() > -0.05


def test_every_fit_has_broad_components_unless_told_otherwise() -> None:
    def outliers(config: MixtureConfig) -> set[bool | None]:
        return {c.outliers for path in GaussianMixture.sizes(config, 500, D) for c in path}

    assert outliers(MixtureConfig()) == outliers(MixtureConfig(components=2, covariance="factor")) == {True}
    assert outliers(MixtureConfig(outliers=False)) == {False}


def test_both_covariances_agree_on_a_factor_covariance() -> None:
    factor, x, missing = model_and_rows("factor")
    full = GaussianMixture.build(MixtureConfig(components=K), Layout.plain(D)).double()
    weights, mean, S = dense(factor)
    full.gaussians.set_moments(mean.detach(), S.detach())
    full.set_weights(weights.detach())
    torch.testing.assert_close(full.marginal_log_prob(x, missing), factor.marginal_log_prob(x, missing))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_initialise_finds_clusters_and_keeps_the_precision(covariance: str) -> None:
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[8.0, 0, 0, 0], [0, 8, 0, 0], [0, 0, 8, 0]])
    x = centres.repeat_interleave(100, 0) + torch.randn(300, D, generator=generator)
    model = build(covariance, D)
    model.initialise(x, generator)
    assert model.gaussians.means().dtype == torch.float32
    distance = torch.cdist(model.gaussians.means()[:K].detach(), centres)
    assert sorted(distance.argmin(0).tolist()) == [0, 1, 2] and distance.min(0).values.max() < 1


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_samples_have_the_mixture_moments(covariance: str) -> None:
    model, _, _ = model_and_rows(covariance)
    weights, mean, S = (part.detach() for part in dense(model))
    rows = model.sample(100_000, torch.Generator().manual_seed(0)).detach()
    expected = weights @ mean
    centred = mean - expected
    covariance_all = torch.einsum("k,kij->ij", weights, S + centred[:, :, None] * centred[:, None, :])
    assert (rows.mean(0) - expected).abs().max() < 5 * (covariance_all.diagonal().max() / 1e5) ** 0.5
    assert (torch.cov(rows.mT) - covariance_all).abs().max() < 0.05 * covariance_all.diagonal().max()


def test_chunks_of_patterns_change_nothing() -> None:
    model, x, missing = model_and_rows("full")
    whole = model.marginal_log_prob(x, missing)
    with within(2 * K * D * D):
        torch.testing.assert_close(model.marginal_log_prob(x, missing), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_rows_of_few_patterns_are_taken_in_pieces_too(covariance: str) -> None:
    """Their number is bounded by what a row holds, and an EM step over pieces is that over all."""
    model, x, missing = model_and_rows(covariance)
    x, missing = x.repeat(20, 1), missing[2:3].expand(20 * len(missing), -1)
    table = em_table(x, missing)
    row = model.gaussians.footprint().row
    with within(50 * row):
        pieces = list(sorted_chunks(table.patterns, model.gaussians.footprint()))
    assert len(pieces) == -(-len(x) // 50) and max(len(patterns.of_row) for _, patterns in pieces) == 50
    values = []
    for memory in (50 * row, 2**24):
        stepped = copy.deepcopy(model)
        with within(memory):
            values.append((stepped.em_step(table, stepped.penalty(None, 1e-3)).objective, *stepped.parameters()))
    for a, b in zip(*values, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_free_parameters() -> None:
    assert model_and_rows("full")[0].free_parameters() == K - 1 + K * (D + D * (D + 1) // 2)
    assert model_and_rows("factor")[0].free_parameters() == K - 1 + K * (2 * D + 2 * D - 1)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_broad_components_of_fills(covariance: str) -> None:
    """The widest is as wide as all rows and rare; the other is held near the learnt ones where covariances are full.
    The model itself keeps its density."""
    model, x, _ = model_and_rows(covariance)
    before, fills = model.log_prob(x).detach(), model.for_fills()
    weights, mean, S = (part.detach() for part in dense(model))
    if isinstance(model.gaussians, Widened):
        weights[-1] = UNLIKE * weights[:-1].sum()
        S[-1] /= SCALES[-1] ** 2
        if isinstance(model.learnt, FullGaussians):
            common = torch.einsum("k,kij->ij", weights[:K] / weights[:K].sum(), S[:K])
            S[K] = torch.linalg.inv(torch.linalg.inv(S[K]) + torch.linalg.inv(common) / 100)
        else:
            found = fills.gaussians.moments().covariance.detach()  # as near as its factors are
            torch.testing.assert_close(found[K:], S[K:], rtol=0.05, atol=0.05)
            S[K:] = found[K:]
    each = torch.stack([MultivariateNormal(mean[k], S[k]).log_prob(x) for k in range(len(S))], -1)
    torch.testing.assert_close(fills.log_prob(x).detach(), torch.logsumexp(each + (weights / weights.sum()).log(), -1))
    torch.testing.assert_close(model.log_prob(x).detach(), before, rtol=0, atol=0)
    assert (fills is model) == (not isinstance(model.gaussians, Widened))
    law, u = fills.cell_laws().number(x, 1), torch.linspace(0.01, 0.99, R, dtype=torch.float64)
    torch.testing.assert_close(law.cdf(law.quantile(u)), u)


@pytest.mark.parametrize("levels", [0, 2])
@pytest.mark.parametrize("covariance", ["full", "factor"])
def test_rows_that_contradict_what_is_all_but_sure_have_ordinary_fills(covariance: str, levels: int) -> None:
    """Two columns that differ by a thousandth of their spread and a third that depends on them: where the two differ by
    four standard deviations, the third lies where it does in others; one in a hundred ordinary fills at most differs.
    """
    generator = torch.Generator().manual_seed(0)
    common, noise = torch.randn(400, generator=generator), torch.randn(400, 2, generator=generator)
    third = 0.6 * common + 0.8 * noise[:, 1]
    x = torch.stack([common, common + 0.001 * noise[:, 0], third], 1).double()
    if levels:
        x = torch.cat([x, (torch.arange(400) % levels).double()[:, None]], 1)
    layout = Layout.of(tuple("abcd"[: x.shape[1]]), levels=(0, 0, 0, levels)[: x.shape[1]])
    config = MixtureConfig(components=1, covariance=covariance, factors=1, outliers=True)  # type: ignore[arg-type]
    model = GaussianMixture.build(config, layout).double()
    model.initialise(x, generator)
    table = em_table(x, torch.zeros_like(x, dtype=torch.bool))
    climb(model, table, model.penalty(None, 1e-7), epochs=20, tolerance=1e-9)
    rows = x[:50].clone()
    rows[:, 1] -= 4 * torch.sign(rows[:, 0])
    missing = torch.zeros_like(rows, dtype=torch.bool)
    missing[:, 2] = True
    noise_of = KeyedNoise(0, numbered("column", x.shape[1]), torch.arange(50), torch.arange(20), "test")
    drawn = model.for_fills().conditional(rows, missing).sample(noise_of)[..., 2]
    assert float(drawn.abs().amax()) < 6 and 0.7 < float(drawn.std()) < 2.5
    if covariance == "full":
        missing[:, 1] = True
        close = model.for_fills().conditional(rows, missing).sample(noise_of)[..., 1] - rows[:, 0]
        assert float((close.abs() > 0.1).double().mean()) < 0.01


def test_fills_leave_out_levels_that_a_cluster_has_from_its_prior_alone() -> None:
    """Two groups 100 standard deviations apart: a row of one is never filled as one of the other; a level of which few
    rows are to be expected in a cluster may be there, and so may one that some row has."""
    generator = torch.Generator().manual_seed(0)
    level = torch.arange(300) % 2
    number = 100.0 * level + torch.randn(300, generator=generator)
    rare = (torch.arange(300) < 3).double() * level  # one or two rows, of the second group alone
    x = torch.stack([number.double(), level.double(), rare], 1)
    layout = Layout.of(("x", "group", "rare"), levels=(0, 2, 2))
    model = GaussianMixture.build(MixtureConfig(components=2, covariance="full", levels="independent"), layout).double()
    model.initialise(x, generator)
    table = em_table(x, torch.zeros_like(x, dtype=torch.bool))
    climb(model, table, model.penalty(None, 1e-3), epochs=5, tolerance=1e-9)
    assert isinstance(model.gaussians, Mixed)

    def probabilities(of: GaussianMixture, column: int) -> Tensor:
        assert isinstance(of.gaussians, Mixed)
        categories = of.gaussians.categories
        return categories.forest.tables(categories.log_tables().exp())[column][:2, 0].detach()

    group, kept = probabilities(model, 0), probabilities(model.for_fills(), 0)
    torch.testing.assert_close(group.amin(1), torch.full((2,), 0.25 / 150.5).double(), rtol=1e-3, atol=0)
    assert float(kept.amin(1).amax()) < 1e-20
    torch.testing.assert_close(probabilities(model.for_fills(), 1), probabilities(model, 1))
    older = {name: value for name, value in model.state_dict().items() if not name.endswith("categories.rows")}
    again = GaussianMixture.build(MixtureConfig(components=2, covariance="full", levels="independent"), layout).double()
    again.load_state_dict(older)  # of a run before they were left out
    torch.testing.assert_close(probabilities(again.for_fills(), 0), group)


def test_no_fill_is_absurd() -> None:
    """Two columns that all but determine each other, and a widest component that holds half of the rows."""
    model = build("full with outliers", 2).double()
    with torch.no_grad():
        model.logits[K:] = torch.tensor([-20.0, 1.0])
    tight = torch.tensor([[1.0, 0.999], [0.999, 1.0]], dtype=torch.float64)
    model.gaussians.set_moments(torch.zeros(K, 2, dtype=torch.float64), tight.expand(K, 2, 2))
    assert isinstance(model.gaussians, Widened)
    model.gaussians.set_broad(torch.zeros(2, dtype=torch.float64), tight)
    x = torch.linspace(-2, 2, R, dtype=torch.float64)[:, None].expand(R, 2).clone()
    missing = torch.tensor([[False, True]]).expand(R, 2)
    imputer = build_exact(SamplerInput([model], Layout.plain(2)))
    noise = KeyedNoise(0, numbered("column", 2), torch.arange(R), torch.arange(200), "test")
    wide = torch.full((2,), torch.inf, dtype=torch.float64)
    drawn = imputer.sample(x, missing, noise, Box(-wide, wide))
    assert float((drawn[..., 1] - x[:, 1]).abs().max()) < 6 * (1 - 0.999**2) ** 0.5
    loose = model.conditional(x, missing).sample(noise)
    assert float((loose[..., 1] - x[:, 1]).abs().max()) > 2.0


def test_columns_that_hardly_differ_are_filled_so() -> None:
    """Two columns that differ by a thousandth of their spread: filled cells do as well, and no draw of the broad
    component lies far from the other cell."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(400, 1, generator=generator, dtype=torch.float64)
    x = torch.cat([a, a + 1e-3 * torch.randn(400, 1, generator=generator, dtype=torch.float64)], 1)
    missing = torch.zeros_like(x, dtype=torch.bool)
    missing[:200, 1] = True
    model = GaussianMixture.build(MixtureConfig(components=1, covariance="full", outliers=True), Layout.plain(2))
    state = METHOD.init(model, make_table(x.masked_fill(missing, 0), missing), EmConfig(), generator)
    for _ in METHOD.run(state):
        pass
    noise = KeyedNoise(0, ("a", "b"), torch.arange(200), torch.arange(100))
    drawn = state.model.for_fills().conditional(x[:200], missing[:200]).sample(noise)
    apart = (drawn[..., 1] - drawn[..., 0]) / 1e-3
    assert 0.9 < apart.std() < 1.42  # sqrt(1 + 99 * 1 %); 53 with the law of the density
    assert apart.abs().max() < 60
