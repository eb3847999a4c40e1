"""What every registered model promises, found through the registry."""

import math

import pytest
import torch

from vgi_cli.models.base import Bijective, Marginal, Model
from vgi_cli.run import registry

CAPABILITY = {"bound": Model, "density": Model, "marginal": Marginal, "bijective": Bijective}
every = pytest.mark.parametrize("name", list(registry.MODELS))


def built(name, D, seed=0, rows=400):
    """A model started from rows, then shaken: no parameter keeps a special value."""
    cls = registry.load_model(name)
    model = cls.build(cls.Config(), D).double()
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, D, generator=g, dtype=torch.float64) * 1.5 + 0.3
    model.initialise(x, g)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return model.eval(), x


@every
def test_capabilities_are_those_of_the_class(name):
    cls = registry.load_model(name)
    assert issubclass(cls, Model)
    given = {word for word, kind in CAPABILITY.items() if issubclass(cls, kind)}
    if not cls.exact:
        given.remove("density")
    assert given == set(registry.MODELS[name].provides)


@every
@pytest.mark.parametrize("D", [1, 2, 5])
def test_shapes_determinism_and_gradients(name, D):
    model, x = built(name, D)
    log_p = model.log_prob(x.view(20, 20, D))
    assert log_p.shape == (20, 20)
    torch.testing.assert_close(log_p.reshape(-1), model.log_prob(x), rtol=1e-9, atol=1e-9)
    log_p.sum().backward()
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in model.parameters())
    assert any(p.grad is not None and bool((p.grad != 0).any()) for p in model.parameters())
    one, two = (model.sample(7, torch.Generator().manual_seed(3)) for _ in range(2))
    assert one.shape == (7, D) and torch.equal(one, two)


@every
def test_density_integrates_to_one_in_one_and_two_dimensions(name):
    model, _ = built(name, 1)
    grid = torch.linspace(-12, 12, 6001, dtype=torch.float64)
    with torch.no_grad():
        assert torch.trapezoid(model.log_prob(grid[:, None]).exp(), grid).item() == pytest.approx(1, abs=2e-3)
    model, _ = built(name, 2)
    grid = torch.linspace(-12, 12, 401, dtype=torch.float64)
    cells = torch.cartesian_prod(grid, grid)
    with torch.no_grad():
        mass = model.log_prob(cells).exp().sum().item() * 0.06**2
    assert mass == pytest.approx(1, abs=2e-3)


@every
def test_samples_have_the_density(name):
    """The mean of log p over samples is minus the entropy, which importance weights from a wide normal give too."""
    model, _ = built(name, 2)
    g = torch.Generator().manual_seed(5)
    with torch.no_grad():
        own = model.log_prob(model.sample(20_000, g))
        z = 3.0 * torch.randn(60_000, 2, generator=g, dtype=torch.float64)
        log_proposal = -0.5 * (z / 3.0).square().sum(1) - math.log(2 * math.pi * 9.0)
        log_p = model.log_prob(z)
        weighted = ((log_p - log_proposal).exp() * log_p).mean()
    assert own.mean().item() == pytest.approx(weighted.item(), abs=0.06)


@every
def test_initialise_is_decided_by_rows_and_generator_alone(name):
    cls = registry.load_model(name)
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    states = []
    for noise in (1, 2):
        torch.manual_seed(noise)  # the global stream must not matter
        model = cls.build(cls.Config(), 3).double()
        model.initialise(x, torch.Generator().manual_seed(0))
        states.append(model.state_dict())
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    assert all(value.is_floating_point() is False or value.dtype == torch.float64 for value in states[0].values())


@every
def test_state_round_trip(name):
    model, x = built(name, 3)
    cls = registry.load_model(name)
    other = cls.build(cls.Config(), 3).double()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.eval().log_prob(x), model.log_prob(x))


@every
def test_unknown_setting_is_refused(name):
    with pytest.raises(ValueError, match="extra"):
        registry.load_model(name).Config(no_such_setting=1)
