"""What every registered model promises, found through the registry."""

import math
from functools import cache
from itertools import product

import pytest
import torch

from tests.capabilities import CAPABILITY
from tests.selection import some
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.models.base import Model
from vgi_cli.models.base import built as built_for
from vgi_cli.registry import names as registry

every = pytest.mark.parametrize("name", list(registry.MODELS))
marginal = pytest.mark.parametrize("name", [n for n, entry in registry.MODELS.items() if "marginal" in entry.provides])
with_density = pytest.mark.parametrize("name", [n for n, e in registry.MODELS.items() if "density" in e.provides])
with_one_density = pytest.mark.parametrize(
    "name", some(["fa", "mixture", "flow-ar"], [n for n, e in registry.MODELS.items() if "density" in e.provides])
)
SHIFTED, IN_PAIRS = "mixture, dependence linear", "mixture, dependence linear, of rows whose levels interact"
"""A model whose settings matter where there are levels."""
with_levels = pytest.mark.parametrize(
    "name", [*(n for n, e in registry.MODELS.items() if {"discrete", "density"} <= e.provides), SHIFTED, IN_PAIRS]
)
marginal_with_levels = pytest.mark.parametrize(
    "name", [*(n for n, e in registry.MODELS.items() if {"discrete", "marginal"} <= e.provides), SHIFTED, IN_PAIRS]
)
LEVELS = {"mixed": (0, 3, 0, 2), "one number": (3, 0, 2), "levels": (3, 2, 4)}
"""Of each dimension its number of levels, 0 where it is continuous; the last one that has some is ordered."""
with_layouts = pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
with_levels_in_turn = pytest.mark.parametrize(
    ("name", "levels"),
    [
        pytest.param(
            name,
            levels,
            id=f"{layout}-{name}",
            marks=[pytest.mark.slow] * ((layout, name) in {("mixed", "flow-ar"), ("one number", "flow")}),
        )
        for layout, levels in LEVELS.items()
        for name in with_levels.mark.args[1]
    ],
)
with_latents = pytest.mark.parametrize("name", [n for n, e in registry.MODELS.items() if "latent" in e.provides])


def built(name, D, seed=0, rows=400):
    """A model started from rows, then shaken: no parameter keeps a special value."""
    cls = registry.MODELS.load(name)
    model = cls.build(cls.Config(), Layout.plain(D)).double()
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, D, generator=g, dtype=torch.float64) * 1.5 + 0.3
    model.initialise(x, g)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return model.eval(), x


@every
def test_capabilities_are_those_of_the_class(name):
    cls = registry.MODELS.load(name)
    assert issubclass(cls, Model)
    given = {word for word, kind in CAPABILITY.items() if issubclass(cls, kind)}
    if not cls.exact:
        given.remove("density")
    if cls.discrete:
        given.add("discrete")
    assert given == set(registry.MODELS[name].provides)


@every
@pytest.mark.parametrize("D", [1, 2, 5])
def test_shapes_determinism_and_gradients(name, D):
    model, x = built(name, D)
    log_p = model.log_prob(x.view(20, 20, D))
    assert log_p.shape == (20, 20)
    torch.testing.assert_close(log_p.reshape(-1), model.log_prob(x), rtol=1e-9, atol=1e-9)
    log_p.sum().backward()
    gradients = {key: p.grad for key, p in model.named_parameters() if p.requires_grad and p.numel()}
    assert all(grad is None or bool(torch.isfinite(grad).all()) for grad in gradients.values())
    dead = [key for key, grad in gradients.items() if grad is None or not bool((grad != 0).any())]
    # of one column there is no other that a network could look at: some of its parameters may have no use
    assert dead == [] or (D == 1 and len(dead) < len(gradients))
    one, two = (model.sample(7, torch.Generator().manual_seed(3)) for _ in range(2))
    assert one.shape == (7, D) and torch.equal(one, two)


@with_one_density
def test_density_integrates_to_one_in_one_and_two_dimensions(name):
    """Over a square it integrates to the share of samples inside, which heavy tails leave below one."""
    for D, edge, points in ((1, 12.0, 2001), (2, 6.0, 201)):
        model, _ = built(name, D)
        grid = torch.linspace(-edge, edge, points, dtype=torch.float64)
        cells = torch.cartesian_prod(*[grid] * D).view(-1, D)
        with torch.no_grad():
            mass = model.log_prob(cells).exp().sum().item() * (2 * edge / (points - 1)) ** D
            inside = (model.sample(20_000, torch.Generator().manual_seed(1)).abs() < edge).all(1).double().mean().item()
        assert mass == pytest.approx(inside, abs=2e-3 + 4 * (inside * (1 - inside) / 20_000) ** 0.5)


@with_one_density
def test_samples_have_the_density(name):
    """The mean of log p over samples is minus the entropy, which importance weights from a wide normal give too."""
    model, _ = built(name, 2)
    g = torch.Generator().manual_seed(5)
    with torch.no_grad():
        own = model.log_prob(model.sample(10_000, g))
        z = 3.0 * torch.randn(60_000, 2, generator=g, dtype=torch.float64)
        log_proposal = -0.5 * (z / 3.0).square().sum(1) - math.log(2 * math.pi * 9.0)
        log_p = model.log_prob(z)
        weighted = ((log_p - log_proposal).exp() * log_p).mean()
    assert own.mean().item() == pytest.approx(weighted.item(), abs=0.06)


def mixed_layout(levels):
    return Layout.of((f"c{i}" for i in range(len(levels))), None, levels, [max(i for i, n in enumerate(levels) if n)])


def mixed_rows(levels, rows, generator):
    """Rows in which everything depends on the first level."""
    x = torch.randn(rows, len(levels), generator=generator, dtype=torch.float64)
    for i, n in enumerate(levels):
        if n:
            x[:, i] = torch.randint(n, (rows,), generator=generator).double()
    first = next(i for i, n in enumerate(levels) if n)
    for i, n in enumerate(levels):
        x[:, i] = (
            torch.where(torch.rand(rows, generator=generator) < 0.5, x[:, first] % n, x[:, i])
            if n
            else (1.3 * x[:, i] + x[:, first])
        )
    return x


def family_of(name):
    """The class of a model of levels and its settings."""
    if name in (SHIFTED, IN_PAIRS):
        cls = registry.MODELS.load("mixture")
        return cls, cls.Config(dependence="linear", components=2 if name == IN_PAIRS else None)
    cls = registry.MODELS.load(name)
    return cls, cls.Config()


def built_mixed(name, levels, seed=0, rows=400):
    """A model of rows that hold levels, started from some and shaken."""
    cls, config = family_of(name)
    model = cls.build(config, mixed_layout(levels)).double()
    g = torch.Generator().manual_seed(seed)
    x = mixed_rows(levels, rows, g)
    if name == IN_PAIRS and 0 in levels:
        first, *_, last = (i for i, n in enumerate(levels) if n)
        x[:, levels.index(0)] += 1.5 * x[:, first] * x[:, last]
    model.initialise(x, g)
    assert name != IN_PAIRS or 0 not in levels or len(model.gaussians.pairs) == 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return model.eval(), x


def all_rows(levels, edge=8.0, points=81):
    """Every row of a grid over the numbers and all levels, and the volume of a cell."""
    axis = torch.linspace(-edge, edge, points, dtype=torch.float64)
    axes = [torch.arange(n, dtype=torch.float64) if n else axis for n in levels]
    return torch.cartesian_prod(*axes), (2 * edge / (points - 1)) ** sum(n == 0 for n in levels)


@cache
def integrated(name, levels):
    """A model of rows that hold levels, every row, the log density there, and the volume of a cell."""
    model, _ = built_mixed(name, levels)
    rows, volume = all_rows(levels)
    with torch.no_grad():
        return model, rows, model.log_prob(rows), volume


@with_levels
@with_layouts
def test_a_model_of_a_table_knows_its_levels(name, levels):
    """By these an annealed likelihood tells levels from numbers, whatever a family remembers of its layout."""
    cls, config = family_of(name)
    assert built_for(cls, config, mixed_layout(levels)).level_counts == tuple(levels)
    assert built_for(cls, config, Layout.plain(3)).level_counts == ()


@with_levels_in_turn
def test_probabilities_of_levels_and_densities_of_numbers_sum_to_one(name, levels):
    """And every combination of levels has the share that it has of the draws."""
    model, rows, log_p, volume = integrated(name, levels)
    discrete = [i for i, n in enumerate(levels) if n]
    numbers = [i for i, n in enumerate(levels) if not n]
    with torch.no_grad():
        mass = log_p.exp() * volume
        draws = model.sample(20_000, torch.Generator().manual_seed(1))
    inside = (draws[:, numbers].abs() < 8).all(1)
    share = inside.double().mean().item()
    assert mass.sum().item() == pytest.approx(share, abs=2e-3 + 4 * (share * (1 - share) / 20_000) ** 0.5)
    assert bool((draws[:, discrete] == draws[:, discrete].round()).all())
    chi = 0.0
    combinations = list(product(*(range(levels[i]) for i in discrete)))
    for combination in combinations:
        held = torch.tensor(combination, dtype=torch.float64)
        expected = 20_000 * mass[(rows[:, discrete] == held).all(1)].sum().item()
        count = int(((draws[:, discrete] == held).all(1) & inside).sum())
        assert expected > 5
        chi += (count - expected) ** 2 / expected
    assert chi < len(combinations) + 4 * (2 * len(combinations)) ** 0.5


@with_levels
@with_layouts
def test_draws_with_levels_have_the_density(name, levels):
    """The mean of log p over draws is minus the entropy, which enumeration and quadrature give too; numbers have the
    means that they should have beside each level."""
    model, rows, log_p, volume = integrated(name, levels)
    with torch.no_grad():
        weight = log_p.exp() * volume
        draws = model.sample(10_000, torch.Generator().manual_seed(2))
        own = model.log_prob(draws)
    assert own.mean().item() == pytest.approx((weight * log_p).sum().item(), abs=0.05)
    for i, n in enumerate(levels):
        for level in range(n):
            weights, those = weight * (rows[:, i] == level), draws[draws[:, i] == level]
            mean = (weights[:, None] * rows).sum(0) / weights.sum()
            error = those.std(0) / len(those) ** 0.5
            assert bool(((those.mean(0) - mean).abs() < 4.5 * error + 1e-6).all())


@with_levels
@with_layouts
def test_rows_with_levels_keep_their_shape_and_give_gradients(name, levels):
    model, x = built_mixed(name, levels)
    log_p = model.log_prob(x.view(20, 20, -1))
    torch.testing.assert_close(log_p.reshape(-1), model.log_prob(x), rtol=1e-9, atol=1e-9)
    log_p.sum().backward()
    gradients = {key: p.grad for key, p in model.named_parameters() if p.requires_grad and p.numel()}
    dead = [key for key, grad in gradients.items() if grad is None or not bool((grad != 0).any())]
    assert dead == [] and all(bool(torch.isfinite(grad).all()) for grad in gradients.values())
    at, direction = torch.Generator().manual_seed(4), {}
    for key, parameter in model.named_parameters():
        direction[key] = torch.randn(parameter.shape, generator=at, dtype=torch.float64)
    slope = sum((gradients[key] * direction[key]).sum() for key in gradients)
    values = []
    with torch.no_grad():
        for step in (1e-7, -2e-7):
            for key, parameter in model.named_parameters():
                parameter.add_(step * direction[key])
            values.append(model.log_prob(x).sum())
    assert slope.item() == pytest.approx(((values[0] - values[1]) / 2e-7).item(), rel=1e-4, abs=1e-3)


@with_levels
@with_layouts
def test_state_with_levels_round_trip(name, levels):
    model, x = built_mixed(name, levels)
    cls, config = family_of(name)
    other = cls.build(config, mixed_layout(levels)).double()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.eval().log_prob(x), model.log_prob(x))
    drawn = [each.sample(7, torch.Generator().manual_seed(3)) for each in (model, other)]
    assert drawn[0].shape == (7, len(levels)) and torch.equal(*drawn)


@with_levels
def test_a_level_that_no_row_holds_starts_possible(name):
    cls, config = family_of(name)
    levels = (0, 3, 2)
    model = cls.build(config, mixed_layout(levels)).double()
    x = mixed_rows(levels, 200, torch.Generator().manual_seed(0))
    x[:, 1] = x[:, 1].clamp(max=1.0)
    model.initialise(x, torch.Generator().manual_seed(0))
    x[:, 1] = 2.0
    assert bool(torch.isfinite(model.log_prob(x)).all())


@marginal_with_levels
@with_layouts
def test_marginals_of_rows_with_levels_are_sums_and_integrals(name, levels):
    model, x = built_mixed(name, levels)
    x = x[:12].detach()
    with torch.no_grad():
        for i, n in enumerate(levels):
            missing = torch.zeros_like(x, dtype=torch.bool)
            missing[:, i] = True
            values = torch.arange(n, dtype=torch.float64) if n else torch.linspace(-60, 60, 24_001, dtype=torch.float64)
            rows = x[:, None].repeat(1, len(values), 1)
            rows[..., i] = values
            log_p = model.log_prob(rows)
            integral = log_p.logsumexp(1) + (0.0 if n else math.log(120 / 24_000))
            found = model.marginal_log_prob(torch.where(missing, 1.0, x), missing)
            torch.testing.assert_close(found, integral, rtol=0, atol=1e-3)


@every
def test_initialise_is_decided_by_rows_and_generator_alone(name):
    cls = registry.MODELS.load(name)
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    states = []
    for noise in (1, 2):
        torch.manual_seed(noise)  # the global stream must not matter
        model = cls.build(cls.Config(), Layout.plain(3)).double()
        model.initialise(x, torch.Generator().manual_seed(0))
        states.append(model.state_dict())
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    assert all(value.is_floating_point() is False or value.dtype == torch.float64 for value in states[0].values())


@marginal
def test_marginals_are_integrals_of_the_density(name):
    model, x = built(name, 2)
    x = x[:20].detach()
    none, all_ = torch.zeros_like(x, dtype=torch.bool), torch.ones_like(x, dtype=torch.bool)
    first = none.clone()
    first[:, 0] = True
    grid = torch.linspace(-40, 40, 8001, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(model.marginal_log_prob(x, none), model.log_prob(x), rtol=1e-9, atol=1e-9)
        assert bool((model.marginal_log_prob(x, all_) == 0).all())
        cells = torch.stack([grid.expand(20, -1), x[:, 1:].expand(-1, len(grid))], -1)
        integral = torch.trapezoid(model.log_prob(cells).exp(), grid).log()
        torch.testing.assert_close(model.marginal_log_prob(x, first), integral, rtol=0, atol=1e-3)
        other = torch.where(first, 7.0, x)  # what stands in a missing cell does not matter
        torch.testing.assert_close(model.marginal_log_prob(other, first), integral, rtol=0, atol=1e-3)


@marginal
def test_conditional_draws_have_the_conditional_law(name):
    """Draws of x_1 given x_2 against the distribution function by quadrature (Kolmogorov-Smirnov), and their mean."""
    model, x = built(name, 2)
    R, n = 2000, 2
    rows = x[:1].detach().expand(R, -1)
    missing = torch.tensor([True, False]).expand(R, -1)
    noise = KeyedNoise(3, numbered("c", 2), torch.arange(R), torch.arange(n))
    grid = torch.linspace(-60, 60, 24001, dtype=torch.float64)
    with torch.no_grad():
        conditional = model.conditional(rows, missing)
        draws, mean = conditional.sample(noise), conditional.mean()
        density = model.log_prob(torch.stack([grid, rows[0, 1].expand(len(grid))], -1)).exp()
        again = model.conditional(rows, missing).sample(noise.select(draws=torch.tensor([1])))
    assert (
        draws.shape == (n, R, 2)
        and bool((draws[..., 1] == rows[:, 1]).all())
        and bool((mean[:, 1] == rows[:, 1]).all())
    )
    assert torch.equal(again[0], draws[1])
    mass = torch.cumulative_trapezoid(density, grid)
    drawn = draws[..., 0].flatten().sort().values
    reached = (mass / mass[-1])[(torch.searchsorted(grid, drawn) - 1).clamp(0, len(mass) - 1)]
    steps = (torch.arange(n * R, dtype=torch.float64) + 0.5) / (n * R)
    assert (reached - steps).abs().max().item() < 1.95 / (n * R) ** 0.5 + 5e-3
    expected = torch.trapezoid(density * grid, grid) / mass[-1]
    torch.testing.assert_close(mean[:, 0], expected.expand(R), rtol=0, atol=2e-3)


@every
def test_state_round_trip(name):
    model, x = built(name, 3)
    cls = registry.MODELS.load(name)
    other = cls.build(cls.Config(), Layout.plain(3)).double()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.eval().log_prob(x), model.log_prob(x))


@every
def test_unknown_setting_is_refused(name):
    with pytest.raises(ValueError, match="extra"):
        registry.MODELS.load(name).Config(no_such_setting=1)


def latent_grid(model, points=61):
    """A grid over the latents z [Q, L] from -6 to 6 (the prior is N(0, I)), and the log volume of a cell."""
    axis = torch.linspace(-6, 6, points, dtype=torch.float64)
    z = torch.stack(torch.meshgrid(*[axis] * model.latents, indexing="ij"), -1).reshape(-1, model.latents)
    return z, model.latents * math.log(12 / (points - 1))


def marginal_by_quadrature(model, x, missing=None):
    """log p(x_obs) [R], the latents summed out on the grid."""
    z, volume = latent_grid(model)
    if missing is None:
        xz = torch.cat([x[:, None].expand(-1, len(z), -1), z.expand(len(x), -1, -1)], -1)
        log_p = model.joint_log_prob(xz)
    else:
        log_p = model.observed_log_prob(x[:, None], z, missing[:, None])
    return log_p.logsumexp(1) + volume


@with_latents
def test_joint_integrates_to_one(name):
    model, _ = built(name, 1)
    grid = torch.linspace(-15, 15, 1501, dtype=torch.float64)
    with torch.no_grad():
        mass = torch.trapezoid(marginal_by_quadrature(model, grid[:, None]).exp(), grid)
    assert mass.item() == pytest.approx(1, abs=2e-3)


@with_latents
@pytest.mark.parametrize("D", [1, 3])
def test_bound_lies_below_the_marginal(name, D):
    """The mean of the ELBO over draws is at most log p(x), and apart from it by KL(q || p(z | x))."""
    model, x = built(name, D, rows=20)
    z, volume = latent_grid(model)
    draws = torch.randn(2000, len(x), model.latents, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        elbo = model.elbo(x.expand(2000, -1, -1), draws)
        log_p = marginal_by_quadrature(model, x)
        rows = x[:, None].expand(-1, len(z), -1)
        log_q = model.encode(rows).log_prob(z.expand(len(x), -1, -1))
        posterior = model.joint_log_prob(torch.cat([rows, z.expand(len(x), -1, -1)], -1)) - log_p[:, None]
        gap = (log_q.exp() * (log_q - posterior)).sum(1) * math.exp(volume)
    error = elbo.std(0) / 2000**0.5
    assert bool((log_p - elbo.mean(0) > -4 * error).all())
    assert bool(((log_p - elbo.mean(0) - gap).abs() < 4 * error + 1e-3).all())


@with_latents
def test_bound_is_a_new_draw_in_training_and_a_function_of_the_row_in_evaluation(name):
    model, x = built(name, 3)
    with torch.no_grad():
        assert torch.equal(model.log_prob(x)[5:9], model.log_prob(x[5:9]))
        model.train()
        once, again = model.log_prob(x), model.log_prob(x)
    assert not torch.equal(once, again)


@with_latents
def test_missing_cells_never_enter(name):
    model, x = built(name, 4, rows=50)
    g = torch.Generator().manual_seed(2)
    missing = torch.rand(50, 4, generator=g) < 0.5
    z = torch.randn(50, model.latents, generator=g, dtype=torch.float64)
    whole = model.observed_log_prob(x, z, torch.zeros_like(missing))
    torch.testing.assert_close(whole, model.joint_log_prob(torch.cat([x, z], 1)))
    observed = model.observed_log_prob(torch.where(missing, math.nan, x), z, missing)
    assert torch.equal(observed, model.observed_log_prob(x, z, missing))
    observed.sum().backward()
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in model.parameters())
    law = model.decode(z)
    terms = torch.distributions.Normal(law.mean, law.scale).log_prob(x).masked_fill(missing, 0).sum(1)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)
    torch.testing.assert_close(observed, terms + prior)


@with_latents
def test_samples_have_the_joint(name):
    """The mean over samples of log p(x), by quadrature, is minus the entropy, which importance weights give too."""
    model, _ = built(name, 2)
    g = torch.Generator().manual_seed(5)
    z, volume = latent_grid(model, points=25)  # half a standard deviation apart
    with torch.no_grad():
        law, log_prior = model.decode(z), torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)

        def log_prob(x):
            return (law.log_prob(x[:, None]) + log_prior).logsumexp(1) + volume

        own = log_prob(model.sample(4_000, g))
        x = 3.0 * torch.randn(12_000, 2, generator=g, dtype=torch.float64)
        log_proposal = -0.5 * (x / 3.0).square().sum(1) - math.log(2 * math.pi * 9.0)
        log_p = log_prob(x)
        weighted = ((log_p - log_proposal).exp() * log_p).mean()
    assert own.mean().item() == pytest.approx(weighted.item(), abs=0.06)
