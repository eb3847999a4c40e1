"""What every family of conditionals gives: laws that are normalised, that draw what they score, in both kernels and all
layouts; a discrete one beside the named ones, to hold the contract to what it says of enumeration."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from tests.selection import covering
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.families.base import Family, FamilySettings
from vgi_cli.conditionals.networks.heads import HeadNetwork
from vgi_cli.conditionals.networks.modulated import ModulatedNetwork
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.maths.laws import WIDE_SCALE, WIDE_SHARE, Law, Points
from vgi_cli.methods.vgi.build import build_conditionals
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import Estimate, draw_noise, vgi_objective
from vgi_cli.registry.entries import Entry, Plugin, active_with
from vgi_cli.registry.names import FAMILIES

D = 4
SETTINGS = FamilySettings(steps=2, bins=5)


@dataclass(frozen=True)
class LevelsLaw(Law):
    """One of a few values; log_weight [.., n]."""

    values: Tensor
    log_weight: Tensor

    def draw(self, noise):
        ends = self.log_weight.exp().cumsum(-1)[..., :-1]
        return self.values[(torch.special.ndtr(noise) > ends).sum(-1)]

    def log_prob(self, value):
        hit = self.values == value[..., None]
        return torch.where(hit, self.log_weight, -torch.inf).amax(-1)

    def enumerate(self):
        log_prob = self.log_weight.movedim(-1, 0)
        return Points(self.values.view(-1, *[1] * (log_prob.ndim - 1)).expand_as(log_prob), log_prob)


class LevelsFamily(Family):
    """-1, 0 or 2: the smallest discrete family."""

    width, fresh_width, noise_width = 3, 1, 1

    @classmethod
    def build(cls, settings):
        return cls()

    def law(self, params):
        return LevelsLaw(params.new_tensor([-1.0, 0.0, 2.0]), params.log_softmax(-1))


@pytest.fixture
def levels():
    """Within a test `levels` is a name like those of the package."""
    entries = {FAMILIES.word: {"levels": Entry("", "", None, given=LevelsFamily)}}
    with active_with([Plugin(Path("levels.py"), "", entries)]):
        yield


KINDS = {name: entry.load() for name, entry in FAMILIES.items()} | {"levels": LevelsFamily}
LAYOUTS = ("independent", "shared", "modulated")
every = pytest.mark.parametrize("family", KINDS)
cases = pytest.mark.parametrize(
    ("family", "layout", "extended"), list(itertools.product(KINDS, LAYOUTS, (False, True)))
)
few_cases = covering(
    pytest.mark.parametrize("family", KINDS),
    pytest.mark.parametrize("layout", LAYOUTS),
    pytest.mark.parametrize("extended", [False, True]),
)


def conditionals(family, layout="shared", extended=False, seed=0):
    """Conditionals with random parameters everywhere, also in the layers that start at zero."""
    made = KINDS[family].build(SETTINGS)
    if layout == "modulated":
        network = ModulatedNetwork(D, made.width, (8, 8), (6, 6))
    else:
        network = HeadNetwork(D, made.width, (8, 8) if layout == "shared" else (), (6,))
    q = AmortisedConditionals(made, network, extended=extended).double()
    g = torch.Generator().manual_seed(seed)
    q.initialise(g)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return q


def rows(n, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, D, generator=g, dtype=torch.float64), torch.ones(n, D, dtype=torch.bool), g


def total(law, row):
    """The mass of the law of one row: summed where it is discrete, else by the trapezoidal rule on its own draws, which
    are fine where the density is high."""
    points = law.enumerate()
    if points is not None:
        torch.testing.assert_close(law.log_prob(points.value), points.log_prob)
        return points.log_prob.exp().sum().item()
    grid = row.draw(torch.linspace(-24, 24, 24_001, dtype=torch.float64)[:, None])
    return torch.trapezoid(law.log_prob(grid).exp(), grid).item()


@few_cases
def test_laws_are_normalised_and_so_are_widened_and_hidden_ones(family, layout, extended):
    q = conditionals(family, layout, extended)
    x, missing, _ = rows(1)
    for j in range(D):
        block = torch.full((1,), j)
        for hidden in (False, True):
            law = q.law(x, missing, block, hidden=hidden)
            for one in (law, law.widened(), law.widened(0.3)):
                assert total(one, law) == pytest.approx(1, abs=6e-4)


@cases
def test_draws_carry_their_density_and_have_that_law(family, layout, extended):
    """Scored at the draw; the draws of many rows, of which a share is wide, have the mean and spread of the law."""
    q = conditionals(family, layout, extended)
    x, missing, g = rows(1)
    n = 20_000
    block = torch.tensor([[2]])
    law = q.law(x, missing, block)
    for share in (0.0, WIDE_SHARE, 0.4):
        one = law if share == 0.0 else law.widened(share)
        width = q.fresh_width if share == 0.0 else q.noise_width
        value, log_q = one.draw_scored(torch.randn(1, n, width, generator=g, dtype=torch.float64))
        torch.testing.assert_close(one.log_prob(value), log_q, rtol=1e-6, atol=1e-6)
        points = one.enumerate()
        if points is not None:
            expected = points.log_prob.exp().flatten()
            got = torch.stack([(value == v).double().mean() for v in points.value.flatten()])
            assert bool(((got - expected).abs() < 4.5 * (expected * (1 - expected) / n).sqrt() + 1e-9).all())
        else:
            u = law.to_base(value)[0]
            spread = 1 + share * (WIDE_SCALE**2 - 1)
            assert abs(u.mean().item()) < 4.5 * (spread / n) ** 0.5
            assert u.var().item() == pytest.approx(spread, rel=0.06)


@every
def test_an_entropy_is_the_mean_of_minus_the_log_density(family):
    x, missing, g = rows(1)
    law = conditionals(family).law(x, missing, torch.tensor([[1]]))
    entropy = law.entropy()
    if entropy is None:
        pytest.skip("no closed form")
    _, log_q = law.draw_scored(torch.randn(1, 20_000, 1, generator=g, dtype=torch.float64))
    assert -log_q.mean().item() == pytest.approx(entropy.item(), abs=4.5 * log_q.std().item() / 20_000**0.5)
    assert law.widened().entropy() is None


@cases
def test_blocks_together_are_blocks_one_by_one(family, layout, extended):
    """[R, M] apart, each column of them from one pass, and along a sweep that keeps what it has computed."""
    q = conditionals(family, layout, extended)
    x, missing, g = rows(20)
    j = torch.randint(D, (20, 3), generator=g)
    value = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)[j % 3]
    apart = q.law(x, missing, j).log_prob(value)
    sweep = q.sweep(x.clone(), missing)
    for m, law in enumerate(q.laws(x, missing, j)):
        for one in (law, q.law(x, missing, j[:, m]), sweep.law(j[:, m])):
            torch.testing.assert_close(one.log_prob(value[:, m]), apart[:, m])
    sweep.set_(j[:, 0], value[:, 0])
    torch.testing.assert_close(sweep.x, q.put(x, j[:, 0], value[:, 0]))
    torch.testing.assert_close(
        sweep.law(j[:, 1]).log_prob(value[:, 1]), q.law(sweep.x, missing, j[:, 1]).log_prob(value[:, 1])
    )


@cases
def test_only_the_extended_kernel_sees_its_own_value(family, layout, extended):
    q = conditionals(family, layout, extended)
    x, missing, _ = rows(1)
    j = torch.tensor([2])
    moved = q.put(x, j, torch.tensor([1.5], dtype=torch.float64))
    at = torch.zeros(1, dtype=torch.float64)
    for hidden in (False, True):
        one, two = (q.law(row, missing, j, hidden=hidden).log_prob(at) for row in (x, moved))
        assert torch.equal(one, two) == (hidden or not extended)


@cases
def test_every_parameter_gets_a_gradient_from_the_objective(family, layout, extended):
    """Continuous laws through their draws, discrete ones through the sum over their values."""
    q = conditionals(family, layout, extended)
    x, missing, g = rows(200)
    noise = draw_noise(q, 200, Estimate(D), x, g)
    log_p = lambda x, missing: -(x - 0.3).square().sum(1)  # noqa: E731
    vgi_objective(log_p, q, x, missing, x.new_ones(200), 1, noise, Estimate(D)).backward()
    dead = [name for name, p in q.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert dead == []


def test_the_objective_of_a_discrete_law_is_a_sum_without_noise():
    """With p's own conditional and one hole: log of p summed over the values of the missing cell; its gradient is 0."""
    q = conditionals("levels")
    x, missing, g = rows(30)
    missing[:] = torch.arange(D) == torch.arange(30)[:, None] % D
    own = missing.int().argmax(1)
    points = q.law(x, missing, own).enumerate()
    frozen = points.log_prob.detach()

    def log_p(rows, missing):
        """The value's log weight as it was, in the row that it is in."""
        value = rows.view(3, 30, D).gather(2, own.expand(3, -1)[..., None])[..., 0]
        return (frozen + torch.where(value == points.value, 0.0, -torch.inf)).flatten() + 0.7

    got = vgi_objective(log_p, q, x, missing, x.new_ones(30), 1, draw_noise(q, 30, Estimate(1), x, g), Estimate(1))
    torch.testing.assert_close(got, x.new_tensor(0.7 * 30))
    got.backward()
    assert all(float(p.grad.abs().max()) < 1e-10 for p in q.parameters() if p.grad is not None)


@every
def test_a_family_has_joint_laws_or_refuses_blocks(family, levels):
    layout = Layout.plain(D).grouped([("0", "2")])
    config = VgiConfig(conditional=family)
    if KINDS[family].of_blocks.__func__ is Family.of_blocks.__func__:
        with pytest.raises(UsageError, match=f"{KINDS[family].__name__} has no joint law") as caught:
            build_conditionals(config, layout)
        assert caught.value.hint
    else:
        assert build_conditionals(config, layout).members.shape == (3, 2)
    assert build_conditionals(config, Layout.plain(D)).flat


def test_a_family_that_does_not_exist_is_refused():
    with pytest.raises(ValidationError, match="should be 'gaussian' or 'spline'"):
        VgiConfig(conditional="levels")
