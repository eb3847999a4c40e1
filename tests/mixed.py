"""A small density over levels and numbers of which everything is known by enumeration, and conditionals of its rows."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from tests.oracles import PlainNormal
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.conditionals.families.levels import MixedLaw
from vgi_cli.layout import Layout
from vgi_cli.maths.laws import CategoricalLaw, Law
from vgi_cli.methods.vgi.build import build_conditionals
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.base import Model, ModelConfig

LAYOUT = Layout.of(("u", "a", "v", "b"), levels=(0, 3, 0, 2))
"""Two numbers, three levels and two."""
A, B = 1, 3
NUMBERS = (0, 2)
COMBINATIONS = torch.tensor(list(itertools.product(range(3), range(2))))


class LevelsAndNumbers(Model):
    """p(a, b) N((u, v); mean_ab, covariance): a table of probabilities times normals given the levels."""

    Config = ModelConfig
    learning_rate = 0.05
    level_counts = LAYOUT.level_counts

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.logits = nn.Parameter(0.8 * torch.randn(6, generator=g, dtype=torch.float64))
        self.mean = nn.Parameter(torch.randn(6, 2, generator=g, dtype=torch.float64))
        self.register_buffer("factor", torch.tensor([[0.8, 0.0], [0.5, 0.6]], dtype=torch.float64))

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """It stays as it is."""

    @property
    def covariance(self) -> Tensor:
        return self.factor @ self.factor.mT

    def log_prob(self, x: Tensor) -> Tensor:
        which = (2 * x[..., A] + x[..., B]).long()
        numbers = torch.distributions.MultivariateNormal(self.mean[which], scale_tril=self.factor, validate_args=False)
        return self.logits.log_softmax(0)[which] + numbers.log_prob(x[..., list(NUMBERS)])

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        which = torch.multinomial(self.logits.softmax(0), n, replacement=True, generator=generator)
        noise = torch.randn(n, 2, generator=generator, dtype=torch.float64)
        numbers = self.mean[which] + noise @ self.factor.mT
        levels = COMBINATIONS[which].double()
        return torch.stack([numbers[:, 0], levels[:, 0], numbers[:, 1], levels[:, 1]], 1).detach()

    def observed_log_prob(self, x: Tensor, missing: Tensor) -> Tensor:
        """log p(x_obs) of rows [R, 4], one by one: a sum over the combinations that agree with what is observed."""
        out = []
        for row, holes in zip(x, missing, strict=True):
            seen = [k for k, i in enumerate(NUMBERS) if not holes[i]]
            agrees = torch.ones(6, dtype=torch.bool)
            for i, levels in ((A, COMBINATIONS[:, 0]), (B, COMBINATIONS[:, 1])):
                agrees &= bool(holes[i]) | (levels == row[i])
            terms = self.logits.log_softmax(0)
            if seen:
                part = self.covariance[seen][:, seen]
                normal = torch.distributions.MultivariateNormal(self.mean[:, seen], part)
                terms = terms + normal.log_prob(row[[NUMBERS[k] for k in seen]])
            out.append(terms[agrees].logsumexp(0))
        return torch.stack(out)


def rough_conditionals(
    seed: int = 0, table: Layout = LAYOUT, size: float = 0.3, **settings: object
) -> AmortisedConditionals:
    """Conditionals with random parameters everywhere, in float64."""
    config = VgiConfig.model_validate({"trunk": (8, 8), "hidden": (6,), "spline_bins": 5, **settings})
    q = build_conditionals(config, table).double()
    g = torch.Generator().manual_seed(seed)
    q.initialise(g)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return q


class ExactMixedConditionals(Conditionals):
    """p(x_j | rest) of a LevelsAndNumbers, in closed form."""

    fresh_width, noise_width, extended = 1, 2, False

    def __init__(self, model: LevelsAndNumbers) -> None:
        super().__init__(LAYOUT.partition, levels=LAYOUT.level_counts)
        self.model = model

    def law(self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False) -> Law:
        if block.ndim == 2:
            x = x[:, None].expand(*block.shape, -1)
        log_probs = x.new_full((*block.shape, 3), -torch.inf)
        for dimension, count in ((A, 3), (B, 2)):
            for level in range(count):
                other = x.clone()
                other[..., dimension] = level
                value = self.model.log_prob(other)
                log_probs[..., level] = torch.where(block == dimension, value, log_probs[..., level])
        log_probs = torch.where(self.discrete[block][..., None], log_probs, 0.0)
        mean = self.model.mean[(2 * x[..., A] + x[..., B]).long()]
        own, rest = (block == NUMBERS[1]).long(), (block != NUMBERS[1]).long()
        covariance = self.model.covariance
        other = torch.where(own == 1, x[..., NUMBERS[0]], x[..., NUMBERS[1]])
        slope = covariance[own, rest] / covariance[rest, rest]
        centre = mean.gather(-1, own[..., None])[..., 0] + slope * (other - mean.gather(-1, rest[..., None])[..., 0])
        log_std = 0.5 * (covariance[own, own] - slope * covariance[own, rest]).log()
        return MixedLaw(self.discrete[block], CategoricalLaw.of_logits(log_probs), PlainNormal(centre, log_std))


class OnlyLevels(Model):
    """A table of probabilities of three levels and two: no number at all."""

    Config = ModelConfig
    level_counts = (3, 2)

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.tensor([0.5, -1.0, 0.0, 1.2, -0.3, 0.8], dtype=torch.float64))

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """It stays as it is."""

    def log_prob(self, x: Tensor) -> Tensor:
        return self.table.log_softmax(0)[(2 * x[..., 0] + x[..., 1]).long()]

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return COMBINATIONS[torch.multinomial(self.table.softmax(0), n, True, generator=generator)].double()
