"""Methods of an autoencoder over numbers and levels: what `vbgi` climbs against sums over levels, chains that keep the
model, fits that climb and resume exactly."""

from __future__ import annotations

import copy
import itertools
import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from tests.mixed_vae import LAYOUT, D, level_law, mixed_vae, observed_by_quadrature, random_rows
from tests.selection import some
from vgi_cli.chains.moves import Moves
from vgi_cli.conditionals.latent_blocks import LatentBlocks
from vgi_cli.data import TensorTable, make_table
from vgi_cli.maths.cells import MixedCells
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.bounds import MiwaeConfig, importance_bound
from vgi_cli.methods.vgi.build import build_conditionals
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.latent_targets import BlockLatents, CarriedLatents
from vgi_cli.methods.vgi.objective import Estimate
from vgi_cli.methods.vgi.targets import Inference, Target
from vgi_cli.models.base import Model
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder
from vgi_cli.registry import names as registry
from vgi_cli.settings.components import merged

LIKE = torch.zeros(0, D + 1, dtype=torch.float64)
R = 6000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def spoilt(q: Any, seed: int = 1) -> Any:
    """Conditionals with random parameters: rough ones."""
    g = generator(seed)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return q


def inference(target: Target, vae: Model, q: Any, moves: Moves) -> Inference:
    target.bind(q, vae)
    log_p = lambda x, missing: vae.log_prob(x)  # noqa: E731
    return Inference(vae, q, log_p, 1, LAYOUT.with_latents(1), moves, Estimate(1))


def block_conditionals(target: BlockLatents, kernel: str = "standard") -> LatentBlocks:
    config = VgiConfig.model_validate({"trunk": (6,), "kernel": kernel})
    q = target.conditionals(cast(Model, SimpleNamespace(latents=1)), config, LAYOUT)
    return cast(LatentBlocks, spoilt(q.double()))


def augmented(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows (x, z) with holes, every one incomplete."""
    g = generator(seed)
    missing = torch.rand(n, D, generator=g) < 0.5
    missing[~missing.any(1), 1] = True
    xz = torch.cat([random_rows(n, g), torch.randn(n, 1, generator=g, dtype=torch.float64)], 1)
    return xz, torch.cat([missing, torch.ones(n, 1, dtype=torch.bool)], 1)


def test_the_objective_of_the_missing_cells_sums_over_their_levels() -> None:
    """Value and gradient against E_q [ log p(x, z) - log q ] written out: a sum over all levels of all missing discrete
    cells, the number being at its draw."""
    vae, target = mixed_vae(), BlockLatents(marginal=False)
    q = block_conditionals(target)
    of = inference(target, vae, q, Moves(False, False, 2))
    xz, missing = augmented(9)
    noise = target.draw_noise(of, 9, 9, LIKE, generator(3))
    weight = torch.rand(9, generator=generator(4), dtype=torch.float64)
    got = target.objective(of, xz, missing, weight, noise)
    rows, z, holes = xz[:, :D], xz[:, D:], missing[:, :D]
    law = cast(MixedCells, q.cells(rows, z, holes))
    expected = torch.zeros((), dtype=torch.float64)
    entropy = torch.distributions.Normal(law.normal.mean, law.normal.scale).entropy()
    numbers = torch.where(holes[:, :1], law.normal.draw(noise.normal[:, :1]), rows[:, :1])
    for n in range(9):
        summed = [i for i in (1, 2, 3) if holes[n, i]]
        total = entropy[n, 0] * holes[n, 0]
        for combo in itertools.product(*[range(LAYOUT.levels[i]) for i in summed]):
            levels = rows[n, 1:].clone()
            levels[[i - 1 for i in summed]] = torch.tensor(combo, dtype=torch.float64)
            log_q = sum((law.levels.log_probs[n, i - 1, int(levels[i - 1])] for i in summed), torch.zeros(()).double())
            row = torch.cat([numbers[n], levels, z[n]])
            total = total + log_q.exp() * (vae.joint_log_prob(row) - log_q)
        elbo = vae.elbo(rows[n : n + 1], noise.latents[n : n + 1])[0]
        expected = expected + weight[n] * 0.5 * (total + elbo)
    torch.testing.assert_close(got, expected)
    parameters = [*q.parameters(), *vae.parameters()]
    for a, b in zip(torch.autograd.grad(got, parameters), torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(a, b)


CHAINS: dict[str, tuple[Target, Moves]] = {
    "blocks": (BlockLatents(marginal=False), Moves(True, False, 2)),
    "blocks, path": (BlockLatents(marginal=False), Moves(True, True, 2)),
    "blocks, extended": (BlockLatents(marginal=False), Moves(True, False, 2)),
    "blocks of the decoder": (BlockLatents(marginal=True), Moves(True, False, 2)),
    "columns": (CarriedLatents(), Moves(True, False, 3)),
    "columns, path": (CarriedLatents(), Moves(True, True, 3)),
}


@pytest.mark.parametrize("name", some(["blocks, path", "blocks, extended", "columns"], CHAINS))
def test_corrected_chains_keep_the_model_whatever_q_is(name: str) -> None:
    """Rows (x, z) of the model, their holes and z moved: frequencies of levels, moments of numbers and z, and of their
    products with levels, as in fresh rows of the model."""
    (target, moves), vae = CHAINS[name], mixed_vae()
    if isinstance(target, BlockLatents):
        q = block_conditionals(target, "extended" if "extended" in name else "standard")
    else:
        q = spoilt(build_conditionals(VgiConfig(hidden=(6,), trunk=(6,)), LAYOUT).double())
    of = inference(target, vae, q, moves)
    g = generator(7)

    def fresh(n: int) -> Tensor:
        z = torch.randn(n, 1, generator=g, dtype=torch.float64)
        return torch.cat([vae.decode(z).draw(torch.randn(n, D, generator=g, dtype=torch.float64)), z], 1)

    with torch.no_grad():
        xz, reference = fresh(R), fresh(10 * R)
        missing = torch.rand(R, D, generator=g) < 0.6
        missing[~missing.any(1), 0] = True
        missing = torch.cat([missing, torch.ones(R, 1, dtype=torch.bool)], 1)
        out, moved = xz, torch.zeros(R, dtype=torch.bool)
        for _ in range(5):
            swept = target.update(of, out, missing, target.sweep_noise(of, R, LIKE, g))
            assert torch.equal(swept.x[~missing], xz[~missing])
            out, moved = swept.x, moved | swept.kept.flatten(1).any(1)
    assert moved.double().mean() > 0.05 and bool((out[:, 1:4] != xz[:, 1:4]).any(0).all())

    def features(x: Tensor) -> Tensor:
        numbers = torch.stack([x[:, 0], x[:, 4], x[:, 0].square(), x[:, 4].square(), x[:, 0] * x[:, 4]], 1)
        levels = torch.cat([(x[:, i : i + 1] == torch.arange(LAYOUT.levels[i])) * 1.0 for i in (1, 2, 3)], 1)
        pairs = (levels[:, :, None] * levels[:, None]).flatten(1)
        return torch.cat([numbers, pairs, levels * x[:, :1], levels * x[:, 4:]], 1)

    a, b = features(out), features(reference)
    used = b.var(0) > 0
    z = (a.mean(0) - b.mean(0))[used] / (a.var(0) / R + b.var(0) / (10 * R)).sqrt()[used]
    assert float(z.abs().max()) < 4.5


def test_many_draws_of_the_importance_weighted_bound_reach_the_marginal() -> None:
    vae, n = mixed_vae(), 8
    x = vae.sample(n, generator(1))
    missing = torch.rand(n, D, generator=generator(2)) < 0.4
    missing[:, 0] &= ~missing.all(1)
    exact = observed_by_quadrature(vae, x, missing)
    state: Any = SimpleNamespace(theta=vae, config=MiwaeConfig(samples=10_000))
    for row in range(n):
        one = slice(row, row + 1)
        weight = torch.ones(1, dtype=torch.float64)
        batch: Any = SimpleNamespace(x=x[one], missing=missing[one], weight=weight, whole=None)
        with torch.no_grad():
            assert float(importance_bound(state, batch, generator(3)) - exact[row]) == pytest.approx(0.0, abs=0.1)


def table(N: int = 90) -> TensorTable:
    """Cells that depend on one level, 30 % missing; a fully missing row, and complete ones."""
    g = generator(5)
    x = random_rows(N, g)
    same = torch.rand(N, generator=g) < 0.8
    x[:, 2], x[:, 3] = torch.where(same, x[:, 1] % 2, x[:, 2]), torch.where(same, x[:, 1], x[:, 3])
    x[:, 0] += 1.5 * x[:, 1]
    missing = torch.rand(N, D, generator=g) < 0.3
    missing[2], missing[10:30] = True, False
    return make_table(torch.where(missing, 0.0, x), missing, LAYOUT)


METHODS: dict[str, dict[str, Any]] = {
    "vgi": {"hidden": (4,), "trunk": (6,), "imputations": 2},
    "vbgi": {"trunk": (6,), "imputations": 2},
    "vbgi, single cells": {"cells": "single", "trunk": (6,), "hidden": (4,), "gibbs_steps": 3, "imputations": 2},
    "vbgi-m": {"imputations": 2},
    "mvae": {},
    "miwae": {"samples": 5},
    "hivae": {},
    "partial-vae": {},
    "complete": {},
    "impute-then-fit": {"imputer": "empirical", "imputations": 2},
}


def started(method: str, seed: int = 0, **settings: Any) -> tuple[Any, Any]:
    name, _, _ = method.partition(",")
    made = registry.METHODS.load(name)
    small = {
        "latents": 2,
        "activation": "tanh",
        "encoder": (8,),
        "decoder": (8,),
        "cell": (6, 6),
        "embedding": 4,
        "components": 3,
    }
    vae = VariationalAutoencoder.build(VaeConfig(**{**small, **made.fixed}), LAYOUT).double()
    own = {"epochs": 2, "optim": {"batch_size": 32}, **METHODS[method], **settings}
    defaults = merged(VariationalAutoencoder.method_defaults.get(name, {}), own)
    if "warmup_model" in defaults["optim"]:
        defaults["optim"]["warmup_model"] = 1
    data = table()
    if method == "complete":
        data = data.rows(torch.arange(10, 30))
    return made, made.init(vae, data, made.Config.model_validate(defaults), generator(seed))


@pytest.mark.parametrize("method", some(["vbgi, single cells", "vbgi-m", "miwae", "hivae"], METHODS))
def test_a_fit_resumes_exactly(method: str) -> None:
    made, whole = started(method)
    parts = [copy.deepcopy(whole.parts()) for _ in made.run(whole)]
    for stop in (1, len(parts) // 2):
        _, resumed = started(method, seed=9)
        resumed.restore(parts[stop - 1])
        for _ in made.run(resumed):
            pass
        for stem, tensors in whole.parts().items():
            assert all(torch.equal(value, resumed.parts()[stem][key]) for key, value in tensors.items()), (stem, stop)
    values = whole.parts().get("imputations", {}).get("values")
    if values is not None:  # what the chains hold of levels are levels
        chains = whole.chains
        for k in range(chains.K):
            levels = chains.completed(k)[:, 1:D]
            assert bool((levels % 1 == 0).all()) and bool((levels < torch.tensor([3, 2, 4])).all())


@pytest.mark.parametrize(
    "method",
    some(
        ["vbgi", "miwae", "hivae", "partial-vae"],
        [name for name in METHODS if name not in ("complete", "impute-then-fit", "vgi")],
    ),
)
def test_a_fit_climbs_and_every_parameter_learns(method: str) -> None:
    epochs = 50 if method == "mvae" else 20  # whose objective scatters most
    made, state = started(method, epochs=epochs, optim={"batch_size": 32, "lr": 0.02, "average": 0.0})
    before = {name: p.detach().clone() for name, p in state.theta.named_parameters()}
    objectives = [event.metrics["objective"] for event in made.run(state) if isinstance(event, EpochEnd)]
    assert sum(objectives[-5:]) / 5 > objectives[0] + 0.1 and math.isfinite(objectives[-1])
    assert all(not torch.equal(p, before[name]) for name, p in state.theta.named_parameters())


@pytest.mark.slow
def test_a_fit_learns_how_levels_depend_on_each_other() -> None:
    """miwae on 1,500 rows of two levels that agree in nine of ten, 30 % missing: p(second | first) within 0.05."""
    g = generator(2)
    x = random_rows(1500, g)
    x[:, 2] = torch.where(torch.rand(1500, generator=g) < 0.9, (x[:, 1] > 0) * 1.0, (x[:, 1] == 0) * 1.0)
    missing = torch.rand(1500, D, generator=g) < 0.3
    data = make_table(torch.where(missing, 0.0, x), missing, LAYOUT)
    made = registry.METHODS.load("miwae")
    vae = VariationalAutoencoder.build(VaeConfig(latents=1, encoder=(20,), decoder=(20,)), LAYOUT).double()
    config = made.Config.model_validate({"epochs": 40, "samples": 10, "optim": {"batch_size": 100, "lr": 0.02}})
    state = made.init(vae, data, config, g)
    for _ in made.run(state):
        pass
    hidden = torch.tensor([True, False, True, True])
    for level in range(3):
        row = torch.tensor([0.0, level, 0.0, 0.0], dtype=torch.float64)
        law = level_law(state.model, row, hidden, (2,))
        assert float(law[1]) == pytest.approx(0.9 if level else 0.1, abs=0.05)
