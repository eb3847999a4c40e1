"""Algorithm 1 on a model with latents: chains that keep the model, objectives that are the ELBO, exact resume. The
model is a linear autoencoder, whose law of x is a Gaussian in closed form."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch

from tests.contracts.test_families import conditionals
from tests.linear_vae import linear_vae
from tests.selection import covering, first, some
from vgi_cli.chains.moves import Moves, SweepNoise, WithLatents, along, scan_of, uniform
from vgi_cli.chains.scans import Scan
from vgi_cli.data import make_table
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.vgi import finetune, vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.latent_targets import BlockLatents, CarriedLatents, SingleCells
from vgi_cli.methods.vgi.objective import Estimate
from vgi_cli.methods.vgi.targets import Columns, Inference
from vgi_cli.methods.vgi.vgi import VBGI, VBGI_M
from vgi_cli.models.flows.coupling import Flow
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder

D, L, R = 4, 2, 12_000
OPTIM = {"warmup_conditionals": 0, "warmup_model": 1, "batch_size": 32}


LIKE = torch.zeros(0, D + L, dtype=torch.float64)


def inference(target, model, q, moves):
    """What a step of a target computes with."""
    target.bind(q, model)
    layout = Layout.plain(D).with_latents(L)
    return Inference(model, q, lambda x, missing: model.log_prob(x), 1, layout, moves, Estimate(1))


def block_conditionals(marginal, seed=1, kernel="standard"):
    """Rough q(x_mis | z, x_obs)."""
    config = VgiConfig(trunk=(6,), kernel=kernel)
    q = BlockLatents(marginal=marginal).conditionals(SimpleNamespace(latents=L), config, Layout.plain(D)).double()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return q


def rows_of_the_model(exact_encoder, seed=0):
    """The autoencoder, and R rows (x, z) of it with holes."""
    exact, law = linear_vae(D, L, torch.Generator().manual_seed(seed))
    model, _ = linear_vae(D, L, torch.Generator().manual_seed(seed), exact_encoder=exact_encoder)
    g = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        z = torch.randn(R, L, generator=g, dtype=torch.float64)
        x = exact.decode(z).draw(torch.randn(R, D, generator=g, dtype=torch.float64))
    missing = torch.rand(R, D, generator=g) < 0.6
    missing[~missing.any(1), 0] = True
    return model, law, torch.cat([x, z], 1), torch.cat([missing, torch.ones(R, L, dtype=torch.bool)], 1), g


def assert_distributed_as_the_model(xz, model, law):
    """Means and covariances of (x, z) within 4.5 standard errors of p(x | z) p(z)'s, entry by entry."""
    F = model.decoder.outlet.weight.detach()
    mean = torch.cat([law.mean, torch.zeros(L, dtype=torch.float64)])
    eye = torch.eye(L, dtype=torch.float64)
    covariance = torch.cat([torch.cat([law.covariance_matrix, F], 1), torch.cat([F.T, eye], 1)])
    variance = covariance.diagonal()
    centred = xz - mean
    assert bool((centred.mean(0).abs() < 4.5 * (variance / R).sqrt()).all()), centred.mean(0)
    spread = ((covariance**2 + variance.outer(variance)) / R).sqrt()
    assert bool(((centred.T @ centred / R - covariance).abs() < 4.5 * spread).all())


def swept(target, of, xz, missing, g, sweeps):
    moved = torch.zeros(R, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(sweeps):
            sweep = target.update(of, xz, missing, target.sweep_noise(of, R, LIKE, g))
            assert torch.equal(sweep.x[~missing], xz[~missing])
            xz, moved = sweep.x, moved | sweep.kept.flatten(1).any(1)
    return xz, moved


@pytest.mark.parametrize(
    ("exact_encoder", "moves"),
    first(
        2,
        [
            (True, Moves(True, False, 3)),
            (False, Moves(True, True, 3)),
            (False, Moves(True, False, 3)),
            (True, Moves(True, True, 3)),
            (True, Moves(True, False, 3, 2)),
            (False, Moves(True, False, 3, 2)),
        ],
    ),
)
def test_a_chain_that_carries_latents_keeps_the_model(exact_encoder, moves):
    carried_latents_keep_the_model(exact_encoder, moves, extended=False)


@pytest.mark.parametrize("moves", [Moves(True, False, 3), Moves(True, True, 3)])
def test_so_does_one_of_the_extended_kernel(moves):
    carried_latents_keep_the_model(False, moves, extended=True)


def carried_latents_keep_the_model(exact_encoder, moves, extended):
    model, law, xz, missing, g = rows_of_the_model(exact_encoder)
    target, q = CarriedLatents(), conditionals("gaussian", "shared", extended, seed=1)
    out, moved = swept(target, inference(target, model, q, moves), xz, missing, g, 6)
    assert moved.float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(out, model, law)
    assert bool((out[:, D:] != xz[:, D:])[moved].any(1).all())  # z moves with x


def test_with_the_exact_encoder_the_weight_is_the_density_at_every_draw():
    model, law, xz, _, g = rows_of_the_model(True)
    density, x, missing = WithLatents(model, xz[:, D:]), xz[:, :D], xz[:, :D] > 0
    noise = torch.randn(R, L, generator=g, dtype=torch.float64)
    with torch.no_grad():
        for at in (density.begin(x, missing), density.proposed(x, missing, noise)):
            torch.testing.assert_close(at.log_p, law.log_prob(x))


def test_carried_latents_are_those_of_the_last_accepted_step():
    """Proposals that change nothing: in each row some steps are accepted by the uniform."""
    model, _, xz, _, _ = rows_of_the_model(True)
    accepted = torch.tensor([[False, False, False], [True, False, False], [False, True, False], [True, True, True]])
    normal = torch.arange(3.0, dtype=torch.float64)[None, :, None].expand(4, 3, L)
    log_uniform = torch.where(accepted, -torch.inf, torch.inf).double()
    noise = SweepNoise(torch.empty(0), torch.zeros(4, 3, 2, dtype=torch.float64), log_uniform, normal)
    q, x = conditionals("gaussian"), xz[:4, :D]
    scan = Scan(torch.tensor([[0, 1, 2]] * 4), torch.ones(4, 3, dtype=torch.bool))
    with torch.no_grad():
        rows, z, kept = along(noise, q, x, x < torch.inf, WithLatents(model, xz[:4, D:]), Moves(True, False, 3), scan)
    assert torch.equal(kept, accepted) and z is not None and torch.equal(z[0], xz[0, D:])
    for row, step, after in ((1, 0, 1), (2, 1, 2), (3, 2, 3)):
        at = torch.where(torch.arange(D) < after, rows[row], x[row])  # the row when z was drawn
        with torch.no_grad():
            law = model.encode(at[None])
        torch.testing.assert_close(z[row], (law.mean + step * law.scale)[0])


@covering(
    pytest.mark.parametrize("scan", ["step", "path"]),
    pytest.mark.parametrize(("marginal", "kernel"), [(False, "standard"), (True, "standard"), (False, "extended")]),
)
def test_block_chains_keep_the_model(marginal, kernel, scan):
    model, law, xz, missing, g = rows_of_the_model(False)
    target, q = BlockLatents(marginal=marginal), block_conditionals(marginal, kernel=kernel)
    out, moved = swept(target, inference(target, model, q, Moves(True, scan == "path", 2)), xz, missing, g, 6)
    assert moved.float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(out, model, law)


def test_pseudo_gibbs_with_exact_networks_keeps_the_model():
    """Encoder and decoder are the model's own conditionals: nothing has to be corrected; z goes first."""
    model, law, xz, missing, g = rows_of_the_model(True)
    target, q = BlockLatents(marginal=True), block_conditionals(True)
    of = inference(target, model, q, Moves(False, False, 2))
    noise = target.sweep_noise(of, R, LIKE, g)
    first = target.update(of, xz, missing, noise)
    with torch.no_grad():
        z = model.encode(xz[:, :D]).draw(noise.latents)
        x = model.decode(z).draw(noise.normal)
    torch.testing.assert_close(first.x, torch.where(missing, torch.cat([x, z], 1), xz))
    out, _ = swept(target, of, xz, missing, g, 5)
    assert_distributed_as_the_model(out, model, law)


@pytest.mark.parametrize("marginal", [False, True])
def test_the_objective_of_a_complete_row_is_its_elbo(marginal):
    """With the same noise, and for VBGI-VAE-M the ELBO of the observed cells of any row."""
    model, _, xz, missing, g = rows_of_the_model(False)
    xz, missing = xz[:50], missing[:50]
    if not marginal:
        missing = torch.zeros_like(missing)
        xz[:, D:] = torch.nan  # what stands in the place of z is not read
    target, q = BlockLatents(marginal=marginal), block_conditionals(marginal)
    of = inference(target, model, q, Moves(False, False, 2))
    noise = target.draw_noise(of, 50 if marginal else 0, 50, LIKE, g)
    weight = uniform((50,), xz, g)
    got = target.objective(of, xz, missing, weight, noise)
    elbo = model.elbo(xz[:, :D], noise.latents, missing[:, :D])
    torch.testing.assert_close(got, (weight * elbo).sum())


def test_the_objective_of_an_incomplete_row_is_half_of_each_block():
    model, _, xz, missing, g = rows_of_the_model(False)
    xz, missing, weight = xz[:60], missing[:60], torch.ones(60, dtype=torch.float64)
    target, q = BlockLatents(marginal=False), block_conditionals(False)
    of = inference(target, model, q, Moves(False, False, 2))
    noise = target.draw_noise(of, 60, 60, LIKE, g)
    got = target.objective(of, xz, missing, weight, noise)
    x, z, holes = xz[:, :D], xz[:, D:], missing[:, :D]
    out = q.network(torch.cat([z, x.masked_fill(holes, 0.0)], 1))
    mean, log_std = out[:, :D], 7 * torch.tanh(out[:, D:] / 7)
    drawn = torch.where(holes, mean + log_std.exp() * noise.normal, x)
    entropy = ((log_std + 0.5 * torch.log(torch.tensor(2 * torch.pi * torch.e, dtype=torch.float64))) * holes).sum(1)
    of_cells = model.joint_log_prob(torch.cat([drawn, z], 1)) + entropy
    of_latents = model.elbo(x, noise.latents)
    torch.testing.assert_close(got, 0.5 * (of_cells + of_latents).sum())
    got.backward()
    assert all(bool((p.grad != 0).any()) for p in [*q.parameters(), *model.encoder.parameters()])


def test_only_the_extended_kernel_sees_the_previous_values_of_the_holes():
    """And neither one while they are hidden; every input has a gradient."""
    model, _, xz, missing, _ = rows_of_the_model(False)
    xz, missing = xz[:40], missing[:40]
    moved = torch.where(missing & (torch.arange(D + L) < D), xz + 1.0, xz)
    cells = torch.zeros(40, dtype=torch.int64)
    for kernel in ("standard", "extended"):
        q = block_conditionals(False, kernel=kernel)
        q.bind(model)
        assert q.extended == (kernel == "extended")
        for hidden in (False, True):
            one, two = (q.law(x, missing, cells, hidden=hidden).law.mean for x in (xz, moved))
            assert torch.equal(one, two) == (hidden or kernel == "standard")
        target = BlockLatents(marginal=False)
        of = inference(target, model, q, Moves(False, False, 2))
        noise = target.draw_noise(of, 40, 40, LIKE, torch.Generator().manual_seed(0))
        target.objective(of, xz, missing, torch.ones(40, dtype=torch.float64), noise).backward()
        first = next(q.network.parameters())
        assert first.shape[1] == L + D * (1 + q.extended) and bool((first.grad != 0).any(0).all())


def test_pseudo_gibbs_of_the_extended_kernel_draws_given_the_previous_values():
    """z first, by the encoder of the row as it was; the cells given that z and the row as it was."""
    model, _, xz, missing, g = rows_of_the_model(False)
    target, q = BlockLatents(marginal=False), block_conditionals(False, kernel="extended")
    of = inference(target, model, q, Moves(False, False, 2))
    noise = target.sweep_noise(of, R, LIKE, g)
    swept = target.update(of, xz, missing, noise)
    x, holes = xz[:, :D], missing[:, :D]
    with torch.no_grad():
        z = model.encode(x).draw(noise.latents)
        inputs = torch.cat([z, torch.where(holes, 0.0, x), torch.where(holes, x, 0.0)], 1)
        mean, raw = q.network(inputs).chunk(2, 1)
    drawn = mean + (7 * torch.tanh(raw / 7)).exp() * noise.normal
    torch.testing.assert_close(swept.x, torch.cat([torch.where(holes, drawn, x), z], 1))


def single_conditionals(kernel="standard", L=L):
    """Rough q(x_j | rest, z), one for each column."""
    config = VgiConfig(cells="single", trunk=(6,), hidden=(4,), kernel=kernel)
    q = SingleCells().conditionals(SimpleNamespace(latents=L), config, Layout.plain(D)).double()
    q.initialise(torch.Generator().manual_seed(1))
    g = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return q


@covering(
    pytest.mark.parametrize("scan", ["step", "path"]), pytest.mark.parametrize("kernel", ["standard", "extended"])
)
def test_chains_of_single_cells_and_latents_keep_the_model(kernel, scan):
    model, law, xz, missing, g = rows_of_the_model(False)
    target, q = SingleCells(), single_conditionals(kernel)
    out, moved = swept(target, inference(target, model, q, Moves(True, scan == "path", 3)), xz, missing, g, 6)
    assert moved.float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(out, model, law)


def test_each_hole_and_the_latents_are_as_likely_to_be_redrawn_and_are_by_their_own_law():
    """One kept step: what changed is one hole, by its conditional of the row and z, or all of z, by the encoder."""
    model, _, xz, missing, g = rows_of_the_model(False)
    target, q = SingleCells(), single_conditionals()
    of = inference(target, model, q, Moves(False, False, 1))
    noise = target.sweep_noise(of, R, LIKE, g)
    swept = target.update(of, xz, missing, noise)
    changed = swept.x != xz
    assert bool((changed[:, D:].all(1) | ~changed[:, D:].any(1)).all())
    count = missing[:, :D].sum(1)
    chance = torch.cat([missing[:, :D], torch.ones(R, 1)], 1) / (count + 1)[:, None]
    spread = (chance * (1 - chance)).sum(0).sqrt()
    times = torch.cat([changed[:, :D], changed[:, D:].any(1, keepdim=True)], 1).double().sum(0)
    assert bool(((times - chance.sum(0)).abs() < 4.5 * spread).all()), times
    with torch.no_grad():
        z = model.encode(xz[:, :D]).draw(noise.normal[:, 0, :L])
        torch.testing.assert_close(swept.x[changed[:, D], D:], z[changed[:, D]])
        for j in range(D):
            own = changed[:, j]
            assert not bool(changed[own].index_fill(1, torch.tensor(j), False).any())
            hidden = xz.index_fill(1, torch.tensor(j), 0.0)
            params = q.columns.network(hidden, torch.full((R, 1), j), True)[:, 0]
            drawn = q.columns.family.law(params).draw(noise.normal[:, 0, :1])
            torch.testing.assert_close(swept.x[own, j], drawn[own])


def test_the_objective_of_single_cells_weighs_every_hole_and_the_latents_alike():
    """Against the sum over h holes and z, each 1 / (h + 1), written out; complete rows have their ELBO."""
    model, _, xz, missing, g = rows_of_the_model(False)
    xz, missing, weight = xz[:60], missing[:60].clone(), uniform((60,), xz, g)
    missing[50:] = False
    target, q = SingleCells(), single_conditionals()
    of = inference(target, model, q, Moves(False, False, 1))._replace(estimate=Estimate(D))
    noise = target.draw_noise(of, 50, 60, LIKE, g)
    got = target.objective(of, xz, missing, weight, noise)
    holes = missing[:, :D]
    count = holes.sum(1)
    expected = weight / (count + 1) * model.elbo(xz[:, :D], noise.latents)
    drawn_at = scan_of(q.columns, holes[:50], 1, noise.order, D, 1)
    for m in range(D):
        j, active = drawn_at.j[:, m], drawn_at.active[:, m]
        assert bool(holes[:50].gather(1, j[:, None])[active].all())
        hidden = xz[:50].scatter(1, j[:, None], 0.0)
        law = q.columns.family.law(q.columns.network(hidden, j[:, None], True)[:, 0])
        rows = xz[:50].scatter(1, j[:, None], law.draw(noise.normal[:, m])[:, None])
        term = model.joint_log_prob(rows) + law.entropy()
        expected[:50] = expected[:50] + torch.where(active, weight[:50] / (count[:50] + 1) * term, 0.0)
    torch.testing.assert_close(got, expected.sum())
    got.backward()
    assert all(bool((p.grad != 0).any()) for p in [*q.parameters(), *model.encoder.parameters()])


@pytest.mark.parametrize(
    ("method", "family", "settings", "says"),
    [
        (vgi.METHOD, VariationalAutoencoder, {"accept": "gibbs"}, "method.cells=single is said of"),
        (VBGI, Flow, {}, "method.cells=single is said of"),
        (VBGI_M, VariationalAutoencoder, {}, "method.cells=single is said of"),
        (VBGI, VariationalAutoencoder, {"gradient": "accepted"}, "method.gradient=accepted means nothing"),
        (VBGI, VariationalAutoencoder, {"scan": "block"}, "method.scan=block moves single columns"),
        (VBGI, VariationalAutoencoder, {"optim": OPTIM | {"warmup_conditionals": 3}}, "has no warm-up of the cond"),
    ],
)
def test_single_cells_are_refused_where_they_mean_nothing(method, family, settings, says):
    with pytest.raises(UsageError, match=says):
        method.check(family, VgiConfig.model_validate({"cells": "single", "optim": OPTIM} | settings))


METHODS = {
    "vgi": (vgi.METHOD, {"accept": "metropolis", "hidden": (4,), "trunk": (6,)}),
    "vgi-path": (
        vgi.METHOD,
        {"scan": "path", "gradient": "accepted", "hidden": (4,), "trunk": ()},
    ),
    "vgi-block": (
        vgi.METHOD,
        {"accept": "metropolis", "scan": "block", "block_columns": 2},
    ),
    "vbgi": (VBGI, {"accept": "metropolis", "gibbs_steps": 2, "blocks_per_row": 2, "trunk": (6,)}),
    "vbgi-extended": (
        VBGI,
        {"accept": "metropolis", "gibbs_steps": 2, "blocks_per_row": 2, "trunk": (6,), "kernel": "extended"},
    ),
    "vbgi-single": (
        VBGI,
        {"accept": "metropolis", "cells": "single", "gibbs_steps": 3, "trunk": (6,), "hidden": (4,)},
    ),
    "vbgi-m": (VBGI_M, {"accept": "gibbs", "gibbs_steps": 2, "blocks_per_row": 2}),
}


def begin(name, seed=0, prior="normal", **more):
    method, settings = METHODS[name]
    g = torch.Generator().manual_seed(5)
    x = torch.randn(70, D, generator=g, dtype=torch.float64)
    missing = torch.rand(70, D, generator=g) < 0.4
    missing[2] = True
    model = VariationalAutoencoder.build(
        VaeConfig(latents=L, encoder=(5,), decoder=(5,), prior=prior), Layout.plain(D)
    ).double()
    config = VgiConfig.model_validate({"epochs": 2, "imputations": 2, "optim": OPTIM, **settings, **more})
    return method.init(model, make_table(x, missing), config, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("name", "prior"),
    some(
        [("vgi-block", "normal"), ("vbgi-single", "normal"), ("vbgi-m", "normal"), ("vgi", "mixture")],
        [*((name, "normal") for name in METHODS), ("vgi", "mixture"), ("vbgi", "mixture")],
    ),
)
def test_a_fit_resumes_exactly(name, prior):
    whole = begin(name, prior=prior)
    events, parts = [], []
    for event in vgi.run(whole):
        events.append(event)
        parts.append(copy.deepcopy(whole.parts()))
    for stop in (2, len(events) // 2):
        resumed = begin(name, seed=9, prior=prior)
        resumed.restore(parts[stop - 1])
        for _ in vgi.run(resumed):
            pass
        for stem, tensors in whole.parts().items():
            assert all(torch.equal(value, resumed.parts()[stem][key]) for key, value in tensors.items()), (stem, stop)
    metrics = [event.metrics for event in events if isinstance(event, EpochEnd)][-1]
    assert len(metrics["acceptance"]) == D
    assert ("acceptance_latents" in metrics) == name.startswith("vbgi")


@covering(
    pytest.mark.parametrize("initial", ["empirical", "em"]), pytest.mark.parametrize("prior", ["normal", "mixture"])
)
def test_the_first_imputations_are_of_the_columns_and_latents_are_of_the_prior(initial, prior):
    state = begin("vbgi", initial=initial, imputations=200, prior=prior)
    chains, L = state.chains, state.theta.latents
    assert chains.x.shape == (70, D + L) and torch.equal(chains.missing[:, D], chains.missing[:, :D].any(1))
    z = torch.stack([chains.completed(k)[:, D:] for k in range(200)])[:, chains.missing[:, D]]
    if prior == "normal":
        assert abs(float(z.mean())) < 0.05 and float(z.std()) == pytest.approx(1.0, abs=0.05)
    else:  # a category comes last, as numbers of which one is 1
        means = state.theta.code.means.detach()
        spread = z[..., :2] - (z[..., 2:, None] * means).sum(2)
        assert abs(float(spread.mean())) < 0.05 and float(spread.std()) == pytest.approx(1.0, abs=0.05)
        assert torch.equal(z[..., 2:].amax(2), torch.ones_like(z[..., 0])) and bool((z[..., 2:].sum(2) == 1).all())
        assert z[..., 2:].mean((0, 1)).tolist() == pytest.approx([0.2] * 5, abs=0.02)
    x = chains.completed(0)[:, :D]
    assert torch.equal(x[~chains.missing[:, :D]], chains.x[:, :D][~chains.missing[:, :D]])
    assert float(x.abs().max()) < 6


@pytest.mark.parametrize("name", first(2, ["vgi", "vbgi-extended", "vbgi", "vbgi-single"]))
def test_finetuning_changes_the_conditionals_and_the_encoder_alone(name):
    state = begin(name)
    for _ in vgi.run(state):
        pass
    g = torch.Generator().manual_seed(8)
    table = make_table(torch.randn(20, D, generator=g, dtype=torch.float64), torch.rand(20, D, generator=g) < 0.5)
    tuned = finetune.init(state.model, state.q, table, state.config, g, 2, target=state.target)
    before = copy.deepcopy(tuned.theta.state_dict())
    inside = torch.tensor([[-2.0] * D, [2.0] * D], dtype=torch.float64)
    objectives = [e.metrics["objective"] for e in finetune.run(tuned, inside) if isinstance(e, EpochEnd)]
    assert len(objectives) == 2 and all(o == o for o in objectives)
    changed = {key for key, value in tuned.theta.state_dict().items() if not torch.equal(value, before[key])}
    parameters = {name for name, _ in tuned.theta.named_parameters()}
    assert changed & parameters == {name for name in parameters if name.startswith(("encoder.", "code.classifier."))}
    assert any(not torch.equal(a, b) for a, b in zip(tuned.q.parameters(), state.q.parameters(), strict=True))


def test_targets_follow_the_type_of_the_model():
    config = VgiConfig()
    assert isinstance(vgi.target_of(VariationalAutoencoder, config), CarriedLatents)
    assert isinstance(vgi.target_of(VariationalAutoencoder, VgiConfig(accept="gibbs")), Columns)
    assert isinstance(vgi.target_of(Flow, config), Columns) and isinstance(VBGI.target(Flow, config), Columns)
    assert isinstance(VBGI.target(VariationalAutoencoder, config), BlockLatents)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gibbs_steps": 3}, "method.gibbs_steps=3 means nothing"),
        ({"gradient": "accepted"}, "method.gradient=accepted means nothing"),
        ({"optim": {"warmup_conditionals": 4}}, "got optim.warmup_conditionals=4"),
        ({"scan": "block"}, "method.scan=block moves single columns"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(UsageError) as caught:
        begin("vbgi", **settings)
    assert message in caught.value.message and caught.value.hint


def test_the_decoder_sees_no_previous_value():
    with pytest.raises(UsageError) as caught:
        begin("vbgi-m", kernel="extended")
    assert "method.kernel=extended means nothing for 'vbgi-m' on a model with latents" in caught.value.message
