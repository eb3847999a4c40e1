"""Targets of Algorithm 1 on models with latents: `vgi` with a corrected chain, VBGI-VAE and VBGI-VAE-M (paper, section
6.3). Rows of the chains are augmented by the latents; the ELBO never enters an acceptance ratio.
"""

from __future__ import annotations

from typing import cast, final

import torch
from torch import Tensor

from vgi_cli.chains.sweeps import SweepNoise
from vgi_cli.conditionals.base import Conditionals, OfColumns
from vgi_cli.conditionals.vae_blocks import HALF_LOG_2PIE, LatentBlocks
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.methods.vgi.conditionals import build_conditionals
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import (
    DrawNoise,
    Sweep,
    draw_noise,
    normal,
    sweep_noise,
    update_imputations,
    vgi_objective,
)
from vgi_cli.methods.vgi.scans import check_scan
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.methods.vgi.targets import Target
from vgi_cli.models.base import Latent, Model


class Carried:
    """log w(x, z) = log p(x, z) - log q(z | x) along a sweep: at the row's own z where the sweep begins, then at a new
    z' ~ q(z | x') for each proposal x'. As log density of `chains/sweeps.py` it accepts x' and z' together by

        p(x', z') / p(x, z) · q_j(x_j | x') q(z | x) / (q_j(x'_j | x) q(z' | x')),

    because a sweep keeps the value of the state it is in and never evaluates it again.
    """

    def __init__(self, model: Latent, z: Tensor, noise: Tensor) -> None:
        """z [R, L]; noise [R, G, L] standard normal."""
        self._model, self._z, self._noise = model, z, noise
        self._drawn: list[Tensor] = []
        self._begun = False

    def __call__(self, x: Tensor, missing: Tensor) -> Tensor:
        """[R] at the state, then at each proposal; [2 R] where both come in one call."""
        if not self._begun and len(x) == len(self._z):
            self._begun = True
            return self._weight(x, self._z)
        old = x[: len(x) - len(self._z)]
        new = x[len(old) :]
        z = self._model.encode(new).draw(self._noise[:, len(self._drawn)])
        self._drawn.append(z)
        return torch.cat([self._weight(old, self._z), self._weight(new, z)]) if len(old) else self._weight(new, z)

    def latents(self, accepted: Tensor) -> Tensor:
        """[R, L] the z of the state that the sweep ended in; accepted [R, G] or [R, G, B] as the sweep reports it."""
        accepted = accepted.flatten(2).any(2) if accepted.ndim == 3 else accepted
        if len(self._drawn) < accepted.shape[1]:  # a path: all steps, or none
            accepted = accepted.any(1, keepdim=True)
        z = self._z
        for g, drawn in enumerate(self._drawn):
            z = torch.where(accepted[:, g, None], drawn, z)
        return z

    def _weight(self, x: Tensor, z: Tensor) -> Tensor:
        return self._model.joint_log_prob(torch.cat([x, z], 1)) - self._model.latent_log_q(x, z)


@final
class CarriedLatents(Target):
    """`vgi` on a model with latents with a Metropolis chain: univariate conditionals, the ELBO as objective; the chain
    carries z."""

    def latents(self, model: Model) -> int:
        """See Target."""
        return cast(Latent, model).latents

    def conditionals(self, model: Model, config: VgiConfig, layout: Layout) -> Conditionals:
        """See Target."""
        return build_conditionals(config, layout)

    def bind(self, q: Conditionals, model: Model) -> None:
        """Nothing is shared."""

    def sweep_noise(self, state: VgiState, n: int, G: int, g: torch.Generator) -> SweepNoise:
        """See Target: each proposal has a z of its own."""
        plain = sweep_noise(state.q, n, G, "metropolis", state.chains.x, g, state.moved)
        return plain._replace(latents=normal((n, plain.normal.shape[1], state.chains.layout.L), state.chains.x, g))

    def draw_noise(self, state: VgiState, n: int, R: int, g: torch.Generator) -> DrawNoise:
        """See Target."""
        return draw_noise(state.q, n, state.config.blocks_per_row, state.chains.x, g, state.columns)

    def update(
        self, state: VgiState, x: Tensor, missing: Tensor, noise: SweepNoise, scan: str, inside: Tensor | None = None
    ) -> Sweep:
        """See Target."""
        model = cast(Latent, state.theta)
        layout = state.chains.layout
        rows, z = layout.split(x)
        holes = layout.data(missing)
        carried = Carried(model, z, noise.latents)
        sweep = update_imputations(
            carried,
            state.q,
            rows,
            holes,
            state.chains.K,
            noise,
            accept="metropolis",
            scan=scan,
            inside=inside,
        )
        return sweep._replace(x=torch.cat([sweep.x, carried.latents(sweep.steps)], 1))

    def objective(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """See Target: on the data columns, with the ELBO."""
        rows, holes = state.chains.layout.data(x), state.chains.layout.data(missing)
        return vgi_objective(state.log_p, cast(OfColumns, state.q), rows, holes, weight, state.chains.K, noise)

    def likelihood(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        """See Target."""
        rows, holes = state.chains.layout.data(x), state.chains.layout.data(missing)
        return (weight * state.log_p(rows, holes)).sum()


@final
class BlockLatents(Target):
    """VBGI-VAE: the latents and the missing cells are redrawn in turn, and each has its term of the objective; a
    complete row has the term of z alone, its ELBO.

    marginal  VBGI-VAE-M: the missing cells are integrated out of the decoder, p(x_obs | z) p(z) / q(z | x) is what
              climbs, and imputations are drawn from the decoder
    """

    together = True

    def __init__(self, *, marginal: bool) -> None:
        self.marginal = marginal

    def latents(self, model: Model) -> int:
        """See Target."""
        return cast(Latent, model).latents

    def conditionals(self, model: Model, config: VgiConfig, layout: Layout) -> Conditionals:
        """See Target. The partition is that of the method: all missing cells, all latents."""
        return LatentBlocks(layout.d, self.latents(model), None if self.marginal else config.trunk)

    def bind(self, q: Conditionals, model: Model) -> None:
        """See Target."""
        cast(LatentBlocks, q).bind(cast(Latent, model))

    def sweep_noise(self, state: VgiState, n: int, G: int, g: torch.Generator) -> SweepNoise:
        """See Target. z first, then the missing cells; a path needs an order that is as likely backwards."""
        x = state.chains.x
        if state.config.accept == "gibbs":
            nothing, layout = x.new_empty(0), state.chains.layout
            return SweepNoise(nothing, normal((n, layout.d), x, g), nothing, normal((n, layout.L), x, g))
        noise = sweep_noise(state.q, n, G, state.config.accept, x, g)
        return noise if state.config.scan == "path" else noise._replace(order=torch.ones_like(noise.order))

    def draw_noise(self, state: VgiState, n: int, R: int, g: torch.Generator) -> DrawNoise:
        """See Target: for the latents of all rows and the cells of incomplete ones."""
        x, layout = state.chains.x, state.chains.layout
        cells = 0 if self.marginal else layout.d
        return DrawNoise(x.new_empty(0), normal((n, cells), x, g), normal((R, layout.L), x, g))

    def update(
        self, state: VgiState, x: Tensor, missing: Tensor, noise: SweepNoise, scan: str, inside: Tensor | None = None
    ) -> Sweep:
        """See Target. A cell whose draw leaves the box keeps its value (without a correction), or both blocks do."""
        model = cast(Latent, state.theta)
        if state.config.accept == "gibbs":
            return self._redraw(state, x, missing, noise, inside)
        if inside is not None:
            wide = inside.new_full((1, model.latents), torch.inf)
            inside = torch.cat([inside, torch.cat([-wide, wide])], 1)
        return update_imputations(
            lambda x, missing: model.joint_log_prob(x),
            state.q,
            x,
            missing,
            state.chains.K,
            noise,
            accept=state.config.accept,
            scan=scan,
            inside=inside,
        )

    @torch.no_grad()
    def _redraw(self, state: VgiState, x: Tensor, missing: Tensor, noise: SweepNoise, inside: Tensor | None) -> Sweep:
        """z ~ q(z | x), then x_mis ~ q(x_mis | z, x_obs)."""
        model, q, layout = cast(Latent, state.theta), cast(LatentBlocks, state.q), state.chains.layout
        rows, holes = layout.data(x), layout.data(missing)
        z = model.encode(rows).draw(noise.latents)
        cells = q.cells(rows, z, holes).draw(noise.normal)
        kept = holes
        if inside is not None:
            kept = holes & (cells >= inside[0]) & (cells <= inside[1])
        rows = rows.lerp(cells, kept.to(x.dtype))
        moved = kept.any(1)
        tried = x.new_full((2,), len(x))
        return Sweep(torch.cat([rows, z], 1), tried, torch.stack([moved.sum().to(x.dtype), tried[1]]), moved[:, None])

    def objective(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """See Target. J of a row is the mean of its two blocks' terms, or its ELBO where no cell is missing."""
        model, q = cast(Latent, state.theta), cast(LatentBlocks, state.q)
        rows, z = state.chains.layout.split(x)
        holes = state.chains.layout.data(missing)
        if self.marginal:
            return (weight * model.elbo(rows, noise.latents, holes, model.encode(rows))).sum()
        elbo = weight * model.elbo(rows, noise.latents)
        n = len(noise.normal)
        if n == 0:
            return elbo.sum()
        law, wanted = q.cells(rows[:n], z[:n], holes[:n]), holes[:n].to(x.dtype)
        completed = rows[:n].lerp(law.draw(noise.normal), wanted)
        entropy = ((law.log_scale + HALF_LOG_2PIE) * wanted).sum(1)
        cells = weight[:n] * (model.joint_log_prob(torch.cat([completed, z[:n]], 1)) + entropy)
        return 0.5 * (elbo[:n].sum() + cells.sum()) + elbo[n:].sum()

    def likelihood(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        """UsageError: see `check_blocks`."""
        raise UsageError("method.gradient=accepted needs the log density of a row", "leave it out")


def check_blocks(config: VgiConfig, method: str, marginal: bool) -> None:
    """UsageError for settings of `vgi` that mean nothing where the blocks are z and the missing cells; `marginal`: the
    latter are integrated out of the decoder."""
    check_scan(config)
    needed = {
        "gibbs_steps": (config.gibbs_steps, 2, "a sweep redraws the latents and the missing cells once"),
        "blocks_per_row": (config.blocks_per_row, 2, "the objective has a term for each of these two"),
        "kernel": (config.kernel, "standard", "the encoder and the decoder see no previous value"),
        "layout": (config.layout, "auto", "the conditionals are the encoder and one network of the missing cells"),
        "conditional": (config.conditional, "gaussian", "the conditionals are diagonal normals"),
        "gradient": (config.gradient, "objective", "the log density of a row has no closed form"),
    }
    for key, (value, only, why) in needed.items():
        if value != only:
            message = f"method.{key}={value} means nothing for '{method}' on a model with latents: {why}"
            raise UsageError(message, f"leave it out, or say --set method.{key}={only}")
    networks = ["hidden", "spline_steps", "spline_bins"] + (["trunk"] if marginal else [])
    for key in networks:
        value = getattr(config, key)
        if value != VgiConfig.model_fields[key].default:
            network = "the encoder" if marginal else "the encoder and a network of layers method.trunk"
            shown = list(value) if isinstance(value, tuple) else value
            message = f"method.{key}={shown} means nothing for '{method}' on a model with latents"
            raise UsageError(f"{message}: the conditionals are {network}", "leave it out")
    if config.optim.warmup_conditionals:
        raise UsageError(
            f"'{method}' on a model with latents has no warm-up of the conditionals: all networks learn in that of the "
            f"model, got optim.warmup_conditionals={config.optim.warmup_conditionals}",
            "say --set optim.warmup_conditionals=0",
        )
