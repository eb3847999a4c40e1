"""mvae, miwae, hivae and partial-vae: their bounds against the exact log p(x_obs) and closed-form gradients, what never
enters, and fits against EM."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from tests.linear_vae import linear_vae
from tests.oracles import GaussianModel, gaussian_marginal_log_prob
from vgi_cli.chains.store.packed import Batch
from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.methods import bounds, reweighted
from vgi_cli.methods.bounds import HivaeConfig, MiwaeConfig, evidence_bound, importance_bound, relaxed_bound
from vgi_cli.methods.em import em
from vgi_cli.methods.gradient import GradientState
from vgi_cli.models.gaussian.fa import FactorAnalysis
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder
from vgi_cli.registry import names as registry

D, L = 5, 2
METHODS = ["mvae", "miwae", "hivae", "partial-vae"]
every = pytest.mark.parametrize("method", METHODS)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def masked_rows(n: int = 6) -> tuple[VariationalAutoencoder, Tensor, Tensor, Tensor]:
    """A linear autoencoder with a poor encoder, rows of its law (the last one complete), holes, exact log p(x_obs)."""
    vae, law = linear_vae(D, L, generator(), exact_encoder=False)
    x = law.loc + torch.randn(n, D, generator=generator(1), dtype=torch.float64) @ law.scale_tril.mT
    missing = torch.rand(n, D, generator=generator(2)) < 0.5
    missing[:, 0], missing[-1] = False, False
    exact = gaussian_marginal_log_prob(GaussianModel(law.loc, law.covariance_matrix), x, missing)
    return vae, x, missing, exact


def mean_of(objective: Any, vae: VariationalAutoencoder, config: Any, x: Tensor, missing: Tensor, n: int) -> Tensor:
    """Mean objective [R] over n copies of each row."""
    state = cast(GradientState, SimpleNamespace(theta=vae, config=config))
    out = []
    for row, holes in zip(x, missing, strict=True):
        weight = torch.full((n,), 1.0 / n, dtype=torch.float64)
        batch = Batch(row.expand(n, -1), holes.expand(n, -1), weight, torch.zeros(0))
        with torch.no_grad():
            out.append(objective(state, batch, generator(7)))
    return torch.stack(out)


def test_bounds_are_ordered_and_the_importance_weighted_one_becomes_exact() -> None:
    """ELBO < bound of 5 draws < of 50 < log p(x_obs) in every row; the gap falls about as 1/k, and to 0."""
    vae, x, missing, exact = masked_rows()
    elbo = mean_of(evidence_bound, vae, None, x, missing, 5000)
    five, fifty = (mean_of(importance_bound, vae, MiwaeConfig(samples=k), x, missing, 1500) for k in (5, 50))
    many = mean_of(importance_bound, vae, MiwaeConfig(samples=5000), x, missing, 20)
    assert bool((elbo < five - 0.02).all()) and bool((five < fifty).all()) and bool((fifty < exact + 0.02).all())
    assert float((exact - elbo).min()) > 0.2
    assert 4 < float((exact - five).sum() / (exact - fifty).sum()) < 20
    assert float((exact - many).abs().max()) < 0.05 and abs(float((exact - many).mean())) < 0.02


def test_one_draw_of_the_importance_weighted_bound_is_the_evidence_bound() -> None:
    vae, x, missing, _ = masked_rows()
    one = mean_of(importance_bound, vae, MiwaeConfig(samples=1), x, missing, 40_000)
    torch.testing.assert_close(one, mean_of(evidence_bound, vae, None, x, missing, 40_000), rtol=0, atol=0.08)


def test_the_divergence_of_a_warmed_bound_counts_little_at_first() -> None:
    """Nothing in the first step, then in proportion to the steps or the share of them, whichever is more."""
    vae, x, missing, _ = masked_rows()
    batch = Batch(x, missing, torch.full((len(x),), 0.5, dtype=torch.float64), torch.zeros(0))
    kl = 0.5 * vae.encode(x, missing).kl(vae.prior).sum()

    def at(epoch: int, position: int, share: float, objective: Any = bounds.warmed_bound) -> Tensor:
        names = {"theta": vae, "epoch": epoch, "batches": 10, "position": position, "progress": lambda: share}
        return objective(cast(GradientState, SimpleNamespace(**names)), batch, generator(7))

    whole = at(0, 0, 0.0, evidence_bound)
    torch.testing.assert_close(at(0, 0, 0.0) - whole, kl)
    torch.testing.assert_close(at(3, 0, 0.05) - whole, 0.5 * kl)  # of a tenth of all steps
    torch.testing.assert_close(at(14, 10, 0.01) - whole, 0.5 * kl)  # of 300 steps
    for late in (at(5, 0, 0.1), at(30, 0, 0.01), at(90, 3, 1.0)):
        assert torch.equal(late, whole)


def test_only_a_fit_from_the_start_climbs_a_warmed_bound() -> None:
    """What begins at a fit has learnt what the divergence is to count for: tuning and refits climb the bound itself."""
    _, x, missing, _ = masked_rows(40)
    method = registry.METHODS["partial-vae"].load()
    settings = VaeConfig(latents=2, encoding="set", encoder=[8], decoder=[8])
    layout = Layout.plain(D)
    vae = VariationalAutoencoder.build(settings.settled(layout), layout).double()
    table = make_table(x, missing)
    state = method.init(vae, table, method.Config(epochs=3), generator())
    assert state.objective is bounds.warmed_bound
    tuned, _ = method.tune(state, table, missing, generator(), 2)
    assert tuned.objective is evidence_bound
    size = reweighted.Size(1, len(x), 20, 1, 1.0)
    fitted = {name: value.detach() for name, value in vae.state_dict().items()}
    asked = reweighted.Reweighted(fitted, {}, table.used, torch.ones(len(table.used)).double(), size, 0)
    assert method.refit is not None
    again, _ = method.refit(state, asked)
    assert isinstance(again, GradientState) and again.objective is evidence_bound


def test_weights_of_a_batch_multiply_the_rows() -> None:
    vae, x, missing, _ = masked_rows()
    weight = torch.rand(len(x), generator=generator(3), dtype=torch.float64)
    for objective, config in ((evidence_bound, None), (importance_bound, MiwaeConfig(samples=3))):
        state = cast(GradientState, SimpleNamespace(theta=vae, config=config))
        rows = []
        for n in range(len(x)):
            alone = torch.zeros(len(x), dtype=torch.float64)
            alone[n] = 1.0
            rows.append(objective(state, Batch(x, missing, alone, torch.zeros(0)), generator(5)))
        whole = objective(state, Batch(x, missing, weight, torch.zeros(0)), generator(5))
        torch.testing.assert_close(whole, (weight * torch.stack(rows)).sum())


def closed_form(vae: VariationalAutoencoder, x: Tensor, missing: Tensor) -> Tensor:
    """The ELBO [R] of the observed cells of a linear autoencoder, its expectation over z written out:

    -1/2 sum_obs [log 2 pi psi_j + ((x_j - b_j - F_j mu)² + F_j Sigma F_j') / psi_j] - KL(N(mu, Sigma) ‖ N(0, I)).
    """
    inputs = torch.where(missing, 0.0, x)
    out = inputs @ vae.encoder.outlet.weight.mT + vae.encoder.outlet.bias
    mu, variance = out[:, :L], out[:, L:].exp()
    F, b = vae.decoder.outlet.weight, vae.decoder.outlet.bias
    assert vae.log_variance is not None
    psi = vae.log_variance.exp()
    square = (inputs - b - mu @ F.mT).square() + variance @ F.square().mT
    terms = -0.5 * ((2 * math.pi * psi).log() + square / psi)
    kl = 0.5 * (mu.square() + variance - 1 - variance.log()).sum(1)
    return terms.masked_fill(missing, 0.0).sum(1) - kl


def test_value_and_gradient_of_the_evidence_bound_are_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a linear decoder the bound is quadratic in the noise: the mean over the 2^L points (±1, ±1) is exact."""
    vae, x, missing, _ = masked_rows()
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=L)), dtype=torch.float64)
    R, n = len(x), len(signs)
    monkeypatch.setattr(bounds, "normals", lambda theta, batch, generator: signs.repeat_interleave(R, 0))
    weight = torch.full((R * n,), 1.0 / n, dtype=torch.float64)
    batch = Batch(x.repeat(n, 1), missing.repeat(n, 1), weight, torch.zeros(0))
    value = evidence_bound(cast(GradientState, SimpleNamespace(theta=vae, config=None)), batch, generator())
    expected = closed_form(vae, x, missing).sum()
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)
    parameters = list(vae.parameters())
    for got, right in zip(
        torch.autograd.grad(value, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(got, right, rtol=1e-9, atol=1e-10)


def table(N: int = 80) -> Any:
    x = torch.randn(N, 2, generator=generator(), dtype=torch.float64) @ torch.randn(
        2, D, generator=generator(1), dtype=torch.float64
    )
    x = x + 0.5 * torch.randn(N, D, generator=generator(2), dtype=torch.float64)
    missing = torch.rand(N, D, generator=generator(3)) < 0.4
    missing[3], missing[5:20] = True, False
    return make_table(x, missing)


def started(method: str, holes: float | None = None, data: Any = None, model: Any = None, **settings: Any) -> Any:
    """A state of the method; `holes`: what the missing cells of its chains hold."""
    made = registry.METHODS.load(method)
    config = made.Config.model_validate({"epochs": 2, "optim": {"batch_size": 32}, **settings})
    values = {"latents": 2, "encoder": (8,), "decoder": (8,), "cell": (6, 6), "embedding": 4, "components": 3}
    fresh = VariationalAutoencoder.build(
        VaeConfig(**{**values, **made.fixed, **(model or {})}), Layout.plain(D)
    ).double()
    state = made.init(fresh, table() if data is None else data, config, generator(4))
    if holes is not None:
        state.chains.tensors()["values"].fill_(holes)
    return made, state


@every
def test_the_fill_never_enters(method: str) -> None:
    """Chains that hold NaN instead of draws: the same fit, bit for bit."""
    ends = []
    for holes in (None, math.nan):
        made, state = started(method, holes)
        objectives = [event.metrics["objective"] for event in made.run(state) if hasattr(event, "epoch")]
        ends.append((objectives, state.model.state_dict()))
    assert ends[0][0] == ends[1][0] and all(math.isfinite(value) for value in ends[0][0])
    assert all(torch.equal(value, ends[1][1][key]) for key, value in ends[0][1].items())


@every
def test_a_fit_climbs_and_every_parameter_learns(method: str) -> None:
    made, state = started(method, epochs=40, optim={"batch_size": 32, "lr": 0.01, "average": 0.0})
    before = {name: p.detach().clone() for name, p in state.theta.named_parameters()}
    objectives = [event.metrics["objective"] for event in made.run(state) if hasattr(event, "epoch")]
    assert sum(objectives[-5:]) / 5 > objectives[0] + 0.15
    assert all(not torch.equal(p, before[name]) for name, p in state.theta.named_parameters())


@every
def test_the_model_starts_at_the_mean_and_variance_of_the_observed_cells(method: str) -> None:
    """Not at those of a table with zeros in its holes."""
    N = 4000
    x = 3.0 + 2.0 * torch.randn(N, D, generator=generator(), dtype=torch.float64)
    missing = torch.rand(N, D, generator=generator(1)) < 0.6
    _, state = started(method, data=make_table(torch.where(missing, 0.0, x), missing))
    theta = state.theta
    torch.testing.assert_close(theta.decoder.outlet.bias, torch.full((D,), 3.0).double(), rtol=0, atol=0.2)
    torch.testing.assert_close(theta.log_variance, torch.full((D,), math.log(4.0)).double(), rtol=0, atol=0.2)


def test_temperature_is_used() -> None:
    values = []
    for temperature in (0.5, 0.1):
        _, state = started("hivae", temperature=temperature)
        assert isinstance(state.config, HivaeConfig)
        values.append(relaxed_bound(state, state.batch(), generator(2)))
    assert values[0] != values[1]


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("miwae", {"samples": 0}),
        ("hivae", {"temperature": 0.0}),
        ("mvae", {"samples": 3}),
        ("mvae", {"chains": "disk"}),
    ],
)
def test_settings_that_cannot_be(method: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        registry.METHODS.load(method).Config.model_validate(settings)


def linear_log_prob(vae: VariationalAutoencoder, x: Tensor) -> Tensor:
    """log p(x) [R] of an autoencoder without hidden layers in the decoder: a mixture of Gaussians with a common
    covariance, one for each category, and a Gaussian for a normal prior."""
    S = vae.code.categories
    weight, b = vae.decoder.outlet.weight, vae.decoder.outlet.bias
    F, A = (weight[:, :-S], weight[:, -S:]) if S else (weight, weight.new_zeros(len(b), 1))
    means = vae.prior.normal.mean if S else weight.new_zeros(1, weight.shape[1])  # type: ignore[union-attr]
    assert vae.log_variance is not None
    covariance = F @ F.mT + torch.diag(vae.log_variance.exp())
    parts = torch.stack([GaussianModel(b + F @ m + A[:, s], covariance).log_prob(x) for s, m in enumerate(means)])
    return parts.logsumexp(0) - math.log(len(parts))


def em_fit(data: TensorTable) -> FactorAnalysis:
    """Factor analysis with one factor by exact EM."""
    model = FactorAnalysis.build(FactorAnalysis.Config(factors=1), data.layout).double()
    state = em.METHOD.init(model, data, em.METHOD.Config(epochs=200), generator(1))
    for _ in em.METHOD.run(state):
        pass
    return cast(FactorAnalysis, state.model)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "prior", "share", "most"),
    [
        ("mvae", "normal", 0.0, 0.01),
        ("mvae", "normal", 0.3, 0.12),
        ("miwae", "normal", 0.3, 0.01),
        ("partial-vae", "normal", 0.3, 0.01),
        ("mvae", "mixture", 0.0, 0.02),
        ("hivae", "mixture", 0.0, 0.08),
    ],
)
def test_a_linear_decoder_comes_close_to_em(method: str, prior: str, share: float, most: float) -> None:
    """Data of one factor, a share of them missing: test log-likelihood, by the closed form of a linear decoder, within
    `most` nats a row of EM's, and nearer than EM on the table with column means in its holes.

    A diagonal normal holds the posterior of one factor exactly. What is left is what the encoder cannot tell: one that
    sees zeros in the holes does not know how many there are, which biases mvae and not partial-vae; miwae corrects it.
    The relaxed category biases hivae.
    """
    N, width = 1500, 6
    g = generator(11)
    F = torch.randn(width, 1, generator=g, dtype=torch.float64)
    truth = GaussianModel(torch.zeros(width).double(), F @ F.mT + 0.4 * torch.eye(width).double())
    x, test = truth.sample(N, g), truth.sample(4000, g)
    x, test = x / x.std(0), test / x.std(0)
    missing = torch.rand(N, width, generator=g) < share
    data = make_table(torch.where(missing, 0.0, x), missing)
    made = registry.METHODS.load(method)
    values = {"latents": 1, "encoder": (32,), "activation": "tanh", "cell": (20, 20), "decoder": (), "floor": 0.0}
    vae = VariationalAutoencoder.build(
        VaeConfig(components=2, **{**values, "prior": prior, **made.fixed}), Layout.plain(width)
    ).double()
    settings: dict[str, Any] = {"epochs": 80, "optim": {"batch_size": 50, "lr": 0.01}}
    settings |= {"samples": 20} if method == "miwae" else {}
    state = made.init(vae, data, made.Config.model_validate(settings), generator(2))
    for _ in made.run(state):
        pass
    with torch.no_grad():
        best = float(em_fit(data).log_prob(test).mean())
        filled = float(em_fit(make_table(data.x, torch.zeros_like(missing))).log_prob(test).mean())
        got = float(linear_log_prob(state.model, test).mean())
    print(f"{method}, {prior}, at {share}: {got:.4f}; EM {best:.4f}, on means {filled:.4f}")
    assert best - most < got < best + 0.02
    assert share == 0.0 or got > filled + 0.05
